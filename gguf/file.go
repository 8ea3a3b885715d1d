package gguf

import (
	"errors"
	"fmt"
	"io"
	"sync"
)

// A File is an open GGUF model: one file, or all files of a split model together. Its methods may be called from
// several goroutines, but none while or after Close runs.
type File struct {
	shards      []*shard
	kv          []KV
	keyIndex    map[string]int
	tensors     []TensorInfo
	tensorIndex map[string]int
	closed      bool

	fingerprint func() (string, error)
}

// Open opens the file at path, mapped into memory where the system can. Of a split model
// (NAME-00001-of-00003.gguf) any part may be given; all are opened, and a missing one is named.
func Open(path string) (*File, error) {
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return f, nil
}

func open(path string) (*File, error) {
	first, err := openShard(path)
	if err != nil {
		return nil, err
	}
	shards, err := withSiblings(first)
	if err != nil {
		return nil, err
	}
	return newFile(shards)
}

// openShard opens one file. Errors carry its path.
func openShard(path string) (*shard, error) {
	src, err := openSource(path)
	if err != nil {
		return nil, err // It names the path.
	}
	s, err := parseHeader(src)
	if err != nil {
		src.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.path = path
	return s, nil
}

// OpenBytes reads a GGUF file that lies in b, which must not change while the File is in use. b may start at any
// address.
func OpenBytes(b []byte) (*File, error) { return openSingle(&memory{b: b}) }

// OpenReaderAt reads a GGUF file of size bytes behind r. The header is read at once, tensor data when asked for.
// Close doesn't close r.
func OpenReaderAt(r io.ReaderAt, size int64) (*File, error) {
	if size < 0 {
		return nil, fmt.Errorf("gguf: a negative size: %d", size)
	}
	return openSingle(&reader{ReaderAt: r, n: size})
}

func openSingle(src source) (*File, error) {
	s, err := parseHeader(src)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	sp, err := s.split()
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	if sp.count > 1 {
		return nil, fmt.Errorf("gguf: this is part %d of a model split into %d files: open it by its path, beside the others: %w",
			sp.no+1, sp.count, ErrUnsupported)
	}
	f, err := newFile([]*shard{s})
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return f, nil
}

// newFile joins the parts of a model, in order. It closes them where it fails.
func newFile(shards []*shard) (*File, error) {
	f := &File{shards: shards, kv: shards[0].kv}
	f.keyIndex = make(map[string]int, len(f.kv))
	for i, kv := range f.kv {
		f.keyIndex[kv.Key] = i
	}
	n := 0
	for _, s := range shards {
		n += len(s.tensors)
	}
	f.tensors = make([]TensorInfo, 0, n)
	f.tensorIndex = make(map[string]int, n)
	for i, s := range shards {
		for _, t := range s.tensors {
			if j, dup := f.tensorIndex[t.Name]; dup {
				f.Close()
				return nil, corrupt("%s: tensor %q is also in %s", s.path, t.Name, shards[f.tensors[j].Shard].path)
			}
			t.Shard = i
			f.tensorIndex[t.Name] = len(f.tensors)
			f.tensors = append(f.tensors, t)
		}
	}
	f.fingerprint = sync.OnceValues(f.computeFingerprint)
	return f, nil
}

// Close gives the mapping or the file back. Bytes got from TensorBytes and values got from Metadata must not be used
// afterwards: a mapping that is gone faults. What Get, GetOr and Need returned stays valid. A second Close does nothing.
func (f *File) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	f.kv = nil
	var errs []error
	for _, s := range f.shards {
		s.kv, s.header = nil, nil
		errs = append(errs, s.src.Close())
	}
	return errors.Join(errs...)
}

// Version is the format's version: 2 or 3.
func (f *File) Version() int { return int(f.shards[0].version) }

// Alignment is what tensor offsets are multiples of, in bytes.
func (f *File) Alignment() int { return int(f.shards[0].alignment) }

// Size is the number of bytes of all the model's files together.
func (f *File) Size() int64 {
	var n int64
	for _, s := range f.shards {
		n += s.src.size()
	}
	return n
}

// Paths lists the model's files in order. It is empty for a model that wasn't opened by a path.
func (f *File) Paths() []string {
	var paths []string
	for _, s := range f.shards {
		if s.path != "" {
			paths = append(paths, s.path)
		}
	}
	return paths
}

package gguf

import (
	"fmt"
	"io"
	"strings"
)

// WriteTo writes the model to w as one file: keys, tensors and data in their order, as a [Writer] lays them out. A file
// that was laid out so comes back byte for byte; parts of a split model are merged and its split.* keys dropped.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	if f.closed {
		return 0, fmt.Errorf("gguf: write: %w", ErrClosed)
	}
	out, err := NewWriter(w, WriterOptions{Version: f.Version()})
	if err != nil {
		return 0, err
	}
	for _, kv := range f.kv {
		if len(f.shards) > 1 && strings.HasPrefix(kv.Key, "split.") {
			continue
		}
		if err := out.Set(kv.Key, kv.Value); err != nil {
			return 0, err
		}
	}
	for _, t := range f.tensors {
		if err := out.AddTensor(t.Name, t.Type, t.Shape...); err != nil {
			return 0, err
		}
	}
	for _, t := range f.tensors {
		r, err := f.TensorReader(t)
		if err != nil {
			return out.pos, err
		}
		if err := out.WriteTensorFrom(t.Name, r); err != nil {
			return out.pos, err
		}
	}
	err = out.Close()
	return out.pos, err
}

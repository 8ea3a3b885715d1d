package gguf

import (
	"fmt"
	"io"
)

// source is where a file's bytes come from.
type source interface {
	io.ReaderAt
	io.Closer
	size() int64
	// bytes gives n bytes at off, which the caller has checked against size. It copies only where it must.
	bytes(off, n int64) ([]byte, error)
}

// memory is a file that lies in memory: mapped, or handed over as bytes.
type memory struct {
	b     []byte
	unmap func() error
}

func (m *memory) size() int64 { return int64(len(m.b)) }

func (m *memory) bytes(off, n int64) ([]byte, error) { return m.b[off : off+n : off+n], nil }

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > int64(len(m.b)) {
		return 0, io.EOF
	}
	n := copy(p, m.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) Close() error {
	m.b = nil
	if m.unmap == nil {
		return nil
	}
	unmap := m.unmap
	m.unmap = nil
	return unmap()
}

// reader is a file behind an io.ReaderAt; every access reads anew.
type reader struct {
	io.ReaderAt
	n     int64
	close func() error
}

func (r *reader) size() int64 { return r.n }

func (r *reader) bytes(off, n int64) ([]byte, error) {
	b := make([]byte, n)
	if err := readFullAt(r, b, off); err != nil {
		return nil, err
	}
	return b, nil
}

func (r *reader) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// readFullAt fills b from off. An io.ReaderAt may return io.EOF together with the last bytes.
func readFullAt(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("offset %d: read %d of %d bytes: %w", off, n, len(b), err)
}

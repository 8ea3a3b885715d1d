package gguf

import (
	"fmt"
	"io"

	"github.com/minfer-go/minfer/quant"
)

// TensorInfo describes a tensor.
type TensorInfo struct {
	Name string
	Type quant.Type
	// Shape is in the file's order: Shape[0] (ggml's ne0) counts the elements of a row, which lie side by side. A
	// matrix that maps d inputs to n outputs is [d, n]: n rows of d elements.
	Shape  []int
	Offset int64 // of the data in its file (not relative to the data section)
	Size   int64 // of the data in bytes
	Shard  int   // index of its file, 0 where the model isn't split
}

// Cols is the number of elements of a row.
func (t TensorInfo) Cols() int { return t.Shape[0] }

// Rows is the number of rows: the product of all dimensions but the first.
func (t TensorInfo) Rows() int { return t.Elems() / t.Shape[0] }

// Elems is the number of elements.
func (t TensorInfo) Elems() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Tensors lists the tensors in the files' order. The caller must not change the slice.
func (f *File) Tensors() []TensorInfo { return f.tensors }

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (TensorInfo, bool) {
	i, ok := f.tensorIndex[name]
	if !ok {
		return TensorInfo{}, false
	}
	return f.tensors[i], true
}

// shardOf finds the file that holds t, and checks that t lies inside it: the caller may have made t up.
func (f *File) shardOf(t TensorInfo) (*shard, error) {
	if f.closed {
		return nil, fmt.Errorf("gguf: tensor %q: %w", t.Name, ErrClosed)
	}
	if t.Shard < 0 || t.Shard >= len(f.shards) {
		return nil, fmt.Errorf("gguf: tensor %q: no shard %d", t.Name, t.Shard)
	}
	s := f.shards[t.Shard]
	if size := s.src.size(); t.Offset < 0 || t.Size < 0 || t.Size > size || t.Offset > size-t.Size {
		return nil, fmt.Errorf("gguf: tensor %q: %d bytes at %d lie outside the file of %d bytes", t.Name, t.Size, t.Offset, size)
	}
	return s, nil
}

// TensorBytes gives a tensor's bytes as the file holds them. A file that is mapped or in memory is not copied: the
// slice is read-only (writing to a mapping faults) and dies with [File.Close]. Behind an io.ReaderAt each call reads anew.
//
// The data is as aligned as the file says, relative to the file's start; a file given as bytes may start at an odd
// address. Check before viewing the bytes as a wider type.
func (f *File) TensorBytes(t TensorInfo) ([]byte, error) {
	s, err := f.shardOf(t)
	if err != nil {
		return nil, err
	}
	b, err := s.src.bytes(t.Offset, t.Size)
	if err != nil {
		return nil, fmt.Errorf("gguf: tensor %q: %w", t.Name, err)
	}
	return b, nil
}

// TensorReader gives a reader over a tensor's bytes, to stream them without holding them all.
func (f *File) TensorReader(t TensorInfo) (*io.SectionReader, error) {
	s, err := f.shardOf(t)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(s.src, t.Offset, t.Size), nil
}

// TensorFloats decodes a whole tensor into float32, in the file's order.
func (f *File) TensorFloats(t TensorInfo) ([]float32, error) {
	b, err := f.TensorBytes(t)
	if err != nil {
		return nil, err
	}
	out := make([]float32, t.Elems())
	if err := quant.Dequantize(t.Type, out, b); err != nil {
		return nil, fmt.Errorf("gguf: tensor %q: %w", t.Name, err)
	}
	return out, nil
}

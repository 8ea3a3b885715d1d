package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"

	"github.com/minfer-go/minfer/quant"
)

// WriterOptions are a Writer's settings; the zero value is fine.
type WriterOptions struct {
	Version int // of the format: 2 or 3; 0 stands for 3
}

// Validate checks the options.
func (o WriterOptions) Validate() error {
	if o.Version != 0 && o.Version != 2 && o.Version != 3 {
		return fmt.Errorf("gguf: writing version %d: only 2 and 3 can be written: %w", o.Version, ErrUnsupported)
	}
	return nil
}

// A Writer writes a GGUF file from front to back: first all keys ([Writer.Set]) and tensor descriptions
// ([Writer.AddTensor]) in the order they shall have, then each tensor's bytes in the same order, then [Writer.Close].
// Tensor data streams through; only the header is held in memory. Alignment is 32 bytes unless the key
// general.alignment is set. After an error the Writer is of no more use. Not for use by several goroutines.
type Writer struct {
	out       *bufio.Writer
	version   uint32
	alignment int64
	kv        []KV
	keys      map[string]struct{}
	tensors   []TensorInfo // Offset counts from the data section's start.
	names     map[string]struct{}
	data      int64 // bytes described so far
	pos       int64 // bytes written
	next      int   // tensor whose data comes next
	started   bool
	closed    bool
}

// NewWriter makes a Writer to out, which it buffers and doesn't close.
func NewWriter(out io.Writer, opts WriterOptions) (*Writer, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	w := &Writer{out: bufio.NewWriterSize(out, 1<<20), version: 3, alignment: defaultAlignment,
		keys: map[string]struct{}{}, names: map[string]struct{}{}}
	if opts.Version != 0 {
		w.version = uint32(opts.Version)
	}
	return w, nil
}

// Set adds a metadata key with a value that [NewValue] takes.
func (w *Writer) Set(key string, value any) error {
	v, err := NewValue(value)
	if err == nil {
		err = w.set(key, v)
	}
	if err != nil {
		return fmt.Errorf("gguf: write key %q: %w", key, err)
	}
	return nil
}

func (w *Writer) set(key string, v Value) error {
	if w.started {
		return fmt.Errorf("the header is already written")
	}
	if err := checkText([]byte(key), maxKey); err != nil {
		return err
	}
	if !v.kind.known() || v.kind != Array && len(v.raw) == 0 {
		return fmt.Errorf("an empty value")
	}
	if _, dup := w.keys[key]; dup {
		return fmt.Errorf("the key is already there")
	}
	if key == keyAlignment {
		a, err := checkAlignment(v)
		if err != nil {
			return err
		}
		if len(w.tensors) > 0 {
			return fmt.Errorf("the alignment must be set before tensors are added")
		}
		w.alignment = a
	}
	w.keys[key] = struct{}{}
	w.kv = append(w.kv, KV{key, v})
	return nil
}

// AddTensor describes the next tensor; shape is in the file's order (see [TensorInfo]).
func (w *Writer) AddTensor(name string, t quant.Type, shape ...int) error {
	if err := w.addTensor(name, t, shape); err != nil {
		return fmt.Errorf("gguf: write tensor %q: %w", name, err)
	}
	return nil
}

func (w *Writer) addTensor(name string, t quant.Type, shape []int) error {
	if w.started {
		return fmt.Errorf("the header is already written")
	}
	if err := checkText([]byte(name), maxName); err != nil {
		return err
	}
	if _, dup := w.names[name]; dup {
		return fmt.Errorf("the name is already there")
	}
	if !t.Known() {
		return fmt.Errorf("unknown type %s", t)
	}
	if len(shape) == 0 || len(shape) > maxDims {
		return fmt.Errorf("%d dimensions, want 1 to %d", len(shape), maxDims)
	}
	elems := uint64(1)
	for _, n := range shape {
		hi, product := bits.Mul64(elems, uint64(max(n, 0)))
		if hi != 0 || product == 0 || product > math.MaxInt {
			return fmt.Errorf("shape %v: dimensions must be positive, their product below %d", shape, uint64(math.MaxInt))
		}
		elems = product
	}
	size, err := tensorSize(t, shape)
	if err != nil {
		return err
	}
	if size > math.MaxInt64-w.alignment-w.data {
		return fmt.Errorf("its %d bytes are too many", size)
	}
	w.names[name] = struct{}{}
	w.tensors = append(w.tensors, TensorInfo{Name: name, Type: t, Shape: slices.Clone(shape), Offset: w.data, Size: size})
	w.data = alignUp(w.data+size, w.alignment)
	return nil
}

// WriteTensor writes the data of the next tensor, which must be the one of that name. The first call writes the header.
func (w *Writer) WriteTensor(name string, data []byte) error {
	t, err := w.begin(name)
	if err == nil && int64(len(data)) != t.Size {
		err = fmt.Errorf("got %d bytes, want %d", len(data), t.Size)
	}
	if err == nil {
		err = w.write(data)
	}
	return w.end(name, err)
}

// WriteTensorFrom is WriteTensor with data that is read from r: exactly the tensor's size.
func (w *Writer) WriteTensorFrom(name string, r io.Reader) error {
	t, err := w.begin(name)
	if err == nil {
		var n int64
		n, err = io.CopyN(w.out, r, t.Size)
		w.pos += n
		if err == io.EOF {
			err = fmt.Errorf("got %d bytes, want %d: %w", n, t.Size, io.ErrUnexpectedEOF)
		}
	}
	return w.end(name, err)
}

// begin checks that the tensor is the next one.
func (w *Writer) begin(name string) (TensorInfo, error) {
	if w.next >= len(w.tensors) {
		return TensorInfo{}, fmt.Errorf("all %d tensors are written", len(w.tensors))
	}
	t := w.tensors[w.next]
	if t.Name != name {
		return t, fmt.Errorf("tensor %q comes next", t.Name)
	}
	return t, w.start()
}

// end pads the data written, as every tensor is padded, the last one too.
func (w *Writer) end(name string, err error) error {
	if err == nil {
		err = w.pad()
	}
	if err != nil {
		return fmt.Errorf("gguf: write tensor %q: %w", name, err)
	}
	w.next++
	return nil
}

// Close writes what is buffered, and the header where there are no tensors. It is an error if a tensor's data is missing.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if w.next < len(w.tensors) {
		return fmt.Errorf("gguf: write: %d of %d tensors are missing, the next is %q",
			len(w.tensors)-w.next, len(w.tensors), w.tensors[w.next].Name)
	}
	if err := w.start(); err != nil {
		return fmt.Errorf("gguf: write: %w", err)
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("gguf: write: %w", err)
	}
	return nil
}

// start writes the header once, padded, as ggml does even where no data follows.
func (w *Writer) start() error {
	if w.started {
		return nil
	}
	w.started = true
	b := append([]byte(nil), magic...)
	b = binary.LittleEndian.AppendUint32(b, w.version)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(w.kv)))
	for _, kv := range w.kv {
		b = appendString(b, kv.Key)
		b = binary.LittleEndian.AppendUint32(b, uint32(kv.Value.kind))
		b = kv.Value.appendPayload(b)
	}
	for _, t := range w.tensors {
		b = appendString(b, t.Name)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Shape)))
		for _, n := range t.Shape {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(t.Type))
		b = binary.LittleEndian.AppendUint64(b, uint64(t.Offset))
	}
	if err := w.write(b); err != nil {
		return err
	}
	return w.pad()
}

func (w *Writer) write(b []byte) error {
	n, err := w.out.Write(b)
	w.pos += int64(n)
	return err
}

// pad writes zeros up to the next multiple of the alignment.
func (w *Writer) pad() error {
	var zeros [4096]byte
	for n := alignUp(w.pos, w.alignment) - w.pos; n > 0; {
		k := min(n, int64(len(zeros)))
		if err := w.write(zeros[:k]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

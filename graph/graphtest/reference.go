// Package graphtest holds what every backend is tested with: a slow, plain reference backend, a table of operations
// with odd shapes (Run), and the same operations at real sizes for speed (Speed).
package graphtest

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/minfer-go/minfer/graph"
)

// Reference is a backend that computes every operation by its documented loop, with sums in float64. It is an oracle:
// nothing in it is fast. Its zero options run everything, in memory that the host sees, without fused operations.
type Reference struct {
	opts    ReferenceOptions
	weights graph.Weights[[]byte]
	live    int // buffers
	bytes   int64
}

// ReferenceOptions bend a Reference for tests.
type ReferenceOptions struct {
	Name   string                   // "reference" if empty
	Ops    func(n *graph.Node) bool // nodes that it supports; nil: all
	Fused  func(n *graph.Node) bool // fused nodes that it wants; nil: none
	Device bool                     // hide its memory from the host, as a GPU does
	// Exact keeps activations in full before products with quantised weights. Otherwise they are rounded to 8 bits in
	// blocks of 32, as docs/adr/0001 says.
	Exact bool
	// Fail, if not nil, is asked before each call ("Alloc", "Write", "Read", "Compile", "Run", "Sync", "CopyCells"); an error is the call's.
	Fail func(call string) error
}

// NewReference makes a reference backend.
func NewReference(o ReferenceOptions) *Reference {
	if o.Name == "" {
		o.Name = "reference"
	}
	return &Reference{opts: o}
}

func (r *Reference) fail(call string) error {
	if r.opts.Fail == nil {
		return nil
	}
	return r.opts.Fail(call)
}

// Live is the number of buffers that were allocated and not freed, and their bytes.
func (r *Reference) Live() (buffers int, bytes int64) { return r.live, r.bytes }

// Name implements graph.Backend, as do the methods below.
func (r *Reference) Name() string { return r.opts.Name }

func (r *Reference) SupportsOp(n *graph.Node) error {
	if r.opts.Ops != nil && !r.opts.Ops(n) {
		return fmt.Errorf("%s is switched off", n.Op)
	}
	for _, w := range n.Weights {
		if w != nil && !w.Type.Supported() {
			return fmt.Errorf("weight %q has type %s", w.Name, w.Type)
		}
	}
	return nil
}

func (r *Reference) SupportsFused(n *graph.Node) bool { return r.opts.Fused != nil && r.opts.Fused(n) }

func (r *Reference) RegisterWeight(w *graph.Weight, data []byte) error {
	if int64(len(data)) != w.Bytes() {
		return fmt.Errorf("graphtest: weight %q: %d bytes, want %d", w.Name, len(data), w.Bytes())
	}
	if !r.weights.Has(w) {
		r.weights.Add(w, data)
	}
	return nil
}

func (r *Reference) ReleaseModel(model string) { r.weights.Release(model) }

// memory is a buffer; hostMemory one that the host sees.
type memory struct{ mem []byte }

func (m *memory) Bytes() int64 { return int64(len(m.mem)) }

type hostMemory struct{ memory }

func (m *hostMemory) HostBytes() []byte { return m.mem }

func (r *Reference) Alloc(n int64) (graph.Buffer, error) {
	if err := r.fail("Alloc"); err != nil {
		return nil, err
	}
	r.live++
	r.bytes += n
	words := make([]float32, (n+3)/4) // aligned for float32
	m := memory{unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)}
	if r.opts.Device {
		return &m, nil
	}
	return &hostMemory{m}, nil
}

func (r *Reference) Free(b graph.Buffer) {
	mem := bytesOf(b)
	for i := range mem {
		mem[i] = 0xff // NaN for whoever still reads it
	}
	r.live--
	r.bytes -= b.Bytes()
}

func bytesOf(b graph.Buffer) []byte {
	switch m := b.(type) {
	case *memory:
		return m.mem
	case *hostMemory:
		return m.mem
	}
	panic(fmt.Sprintf("graphtest: %T is a buffer of another backend", b))
}

func (r *Reference) Write(dst graph.Buffer, offset int64, src []byte) error {
	if err := r.fail("Write"); err != nil {
		return err
	}
	copy(bytesOf(dst)[offset:offset+int64(len(src))], src)
	return nil
}

func (r *Reference) Read(dst []byte, src graph.Buffer, offset int64) error {
	if err := r.fail("Read"); err != nil {
		return err
	}
	copy(dst, bytesOf(src)[offset:offset+int64(len(dst))])
	return nil
}

func (r *Reference) CopyCells(k graph.KVRegion, dst, src, n int) error {
	if err := r.fail("CopyCells"); err != nil {
		return err
	}
	mem := bytesOf(k.Buffer)
	copy(mem[int64(dst)*k.RowBytes:], mem[int64(src)*k.RowBytes:int64(src+n)*k.RowBytes])
	return nil
}

func (r *Reference) Compile(u *graph.Unit) (graph.Program, error) {
	if err := r.fail("Compile"); err != nil {
		return nil, err
	}
	p := &program{r: r}
	last := map[*graph.Node]int{} // by owner of memory: the last node here that reads it
	for i, n := range u.Nodes {
		for _, in := range n.In {
			root, _, _ := in.Layout()
			last[root] = i
		}
	}
	for i, n := range u.Nodes {
		run, err := r.compileNode(u, n)
		if err != nil {
			return nil, n.Errorf("%w", err)
		}
		p.ops = append(p.ops, run)
		for root, at := range last { // nobody may miss what Unit.Wanted says isn't
			if at == i && !u.Wanted[root.ID] && slices.Contains(u.Nodes, root) && !root.Op.InRegion() {
				p.ops = append(p.ops, place(u.Tensors[root.ID]).spoil)
			}
		}
	}
	return p, nil
}

func (r *Reference) Sync() error  { return r.fail("Sync") }
func (r *Reference) Close() error { return nil }

type program struct {
	r   *Reference
	ops []func()
}

func (p *program) Run() error {
	if err := p.r.fail("Run"); err != nil {
		return err
	}
	for _, op := range p.ops {
		op()
	}
	return nil
}

func (p *program) Close() error { return nil }

// tensor gives access to a placed tensor row by row.
type tensor struct {
	mem            []byte
	offset, stride int64
	rows, width    int
	shape          graph.Shape
}

func place(t graph.Tensor) tensor {
	return tensor{mem: bytesOf(t.Buffer), offset: t.Offset, stride: t.RowStride, rows: t.Shape[0], width: t.Shape[1:].Elems(), shape: t.Shape}
}

// spoil makes every element NaN.
func (t tensor) spoil() {
	for r := range t.rows {
		row := t.row(r)
		for i := range row {
			row[i] = float32(math.NaN())
		}
	}
}

func (t tensor) row(r int) []float32 { return cast[float32](t, r) }
func (t tensor) ints(r int) []int32  { return cast[int32](t, r) }

func cast[T float32 | int32](t tensor, r int) []T {
	at := t.offset + int64(r)*t.stride
	b := t.mem[at : at+int64(t.width)*4]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), t.width)
}

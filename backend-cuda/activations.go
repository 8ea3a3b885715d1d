package backendcuda

import (
	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/quant"
)

// form is how a product's kernel wants its input.
type form uint8

const (
	formF32  form = iota // as it is
	formQ8               // rounded to 8 bits: decode with quantised weights
	formBF16             // rounded to bf16: tensor cores, with quantised and bf16 weights
	formF16              // rounded to f16 with a scale a row: tensor cores, with f16 weights
)

// decodeRows is the most rows that the decode kernels take; floatRows is the same for products with weights that aren't quantised, which the
// tensor cores read as they are. The decode kernels' results are the same bits however many rows there are; steps of more rows are
// of the class that the kernels for tensor cores name.
const (
	decodeRows = 64
	floatRows  = 16
)

// decodes reports whether a step of so many rows is for the decode kernels: attention, and products with weights of type t.
func (b *Backend) decodes(rows int) bool { return rows <= decodeRows || b.opts.NoPrefillGEMM }

func (b *Backend) decodesWith(rows int, t quant.Type) bool {
	return b.decodes(rows) && (quantised(t) || rows <= floatRows || b.opts.NoPrefillGEMM)
}

// form of the input of a product of rows rows with a weight of type t.
func (b *Backend) form(rows int, t quant.Type) form {
	decode := b.decodesWith(rows, t)
	switch {
	case t == quant.F32 || decode && !quantised(t):
		return formF32
	case decode:
		return formQ8
	case t == quant.F16:
		return formF16
	}
	return formBF16
}

func quantised(t quant.Type) bool { return t.BlockElems() > 1 }

// rounding is a node's rows in a form.
type rounding struct {
	node int
	form form
}

// activations are rows in a form that isn't f32: 8-bit quants [rows][k] with a record of scale and sums a block of 32, or 16-bit
// values [rows][k rounded up to 8] with a scale a row.
type activations struct {
	vals, extra scratchRange // quants and records; values and scales
	stride      int32        // of 16-bit values, in elements
}

func (a *activations) give(c *compiler) {
	c.give(a.vals)
	if a.extra.length > 0 {
		c.give(a.extra)
	}
}

// productWeights are the weights that a node multiplies its first operand by.
func productWeights(n *graph.Node) []*graph.Weight {
	switch n.Op {
	case graph.OpMatMul:
		return n.Weights[:1]
	case graph.OpFusedQKV:
		return n.Weights[:3]
	case graph.OpFusedFFN:
		return n.Weights
	}
	return nil
}

// source is the node whose rows n's are: n, or what it only reshapes.
func source(n *graph.Node) *graph.Node {
	for n.Op == graph.OpReshape && n.In[0].Shape[0] == n.Shape[0] {
		n = n.In[0]
	}
	return n
}

// provide gives scratch for n's rows in a form, to be filled by the kernel that computes them; nil if nobody wants it.
func (c *compiler) provide(n *graph.Node, f form) *activations {
	key := rounding{n.ID, f}
	if _, wanted := c.last[key]; !wanted {
		return nil
	}
	rows, k := int64(n.Shape[0]), int64(n.Shape[1:].Elems())
	a := &activations{}
	switch f {
	case formQ8:
		if k%32 != 0 {
			return nil
		}
		a.vals, a.extra = c.take(rows*k), c.take(rows*k/32*8)
	default:
		a.stride = int32((k + 7) &^ 7)
		a.vals = c.take(rows * int64(a.stride) * 2)
		if f == formF16 {
			a.extra = c.take(rows * 4)
		}
	}
	c.acts[key] = a
	return a
}

// q8 gives the addresses for a kernel that writes n's rows in 8 bits beside its result; zeros if nobody wants them.
func (c *compiler) q8(n *graph.Node) (quants, records cudart.Ptr) {
	a := c.provide(n, formQ8)
	if a == nil {
		return 0, 0
	}
	return a.vals.ptr, a.extra.ptr
}

// input gives n's first operand in a form, rounded by a kernel of its own if its producer didn't; nil for f32.
func (c *compiler) input(n *graph.Node, x mat, f form) *activations {
	if f == formF32 || c.err != nil {
		return nil
	}
	from := source(n.In[0])
	if a := c.acts[rounding{from.ID, f}]; a != nil {
		return a
	}
	a := c.provide(from, f)
	if a == nil {
		c.fail(n.Errorf("cuda: rows of %d have no 8-bit form: %w", x.width, graph.ErrUnsupported))
		return nil
	}
	k := c.b.dev.kernels
	p := kernelscuda.QuantizeParams{X: x.ptr, Rows: x.rows, K: x.width, XStride: x.stride}
	if f == formQ8 {
		p.Q8, p.Records = a.vals.ptr, a.extra.ptr
		c.queue(k.QuantizeQ8(c, &p))
		return a
	}
	p.Y16, p.YStride, p.Scales = a.vals.ptr, a.stride, a.extra.ptr
	if f == formF16 {
		c.queue(k.ConvertF16(c, &p))
	} else {
		p.Scales = 0
		c.queue(k.ConvertBf16(c, &p))
	}
	return a
}

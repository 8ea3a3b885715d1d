package backendcuda

import (
	"slices"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// product queues dst = w*x + bias + residual, x being n's first operand.
func (c *compiler) product(n *graph.Node, w, bias *graph.Weight, x, dst, residual mat) {
	r := c.weight(n, w)
	f := c.b.form(int(x.rows), w.Type)
	in := c.input(n, x, f)
	if r == nil || c.err != nil {
		return
	}
	rows, k, kernels := int32(w.Shape[0]), int32(w.Shape[1]), c.b.dev.kernels
	b := c.vector(n, bias)
	switch {
	case f == formQ8 && r.plane.key.layout == LayoutTile16:
		c.tiles(r, in, b, x.rows, dst, residual)
	case f == formQ8:
		c.queue(kernels.Matvec(c, int32(w.Type), &kernelscuda.MatvecParams{W: r.plane.ptr(), Q8: in.vals.ptr, Records: in.extra.ptr, Bias: b,
			Residual: residual.ptr, Y: dst.ptr, Rows: rows, K: k, Columns: x.rows, ResidualStride: residual.stride, YStride: dst.stride}))
	case f == formF32 && c.b.decodesWith(int(x.rows), w.Type):
		c.queue(kernels.MatvecFloat(c, int32(w.Type), &kernelscuda.MatvecFloatParams{W: r.plane.ptr(), X: x.ptr, Bias: b,
			Residual: residual.ptr, Y: dst.ptr, Rows: rows, K: k, Columns: x.rows, XStride: x.stride, ResidualStride: residual.stride, YStride: dst.stride}))
	case f == formF32:
		c.queue(kernels.GemmF32(c, &kernelscuda.GemmF32Params{A: x.ptr, B: r.plane.ptr(), Bias: b, Residual: residual.ptr, Y: dst.ptr,
			M: x.rows, N: rows, K: k, AStride: x.stride, BStride: int32(rawRowBytes(w.Type, int(k)) / 4), ResidualStride: residual.stride, YStride: dst.stride}))
	default:
		c.gemm(r, in, f, b, x.rows, dst, residual)
	}
}

// gemm is a product on tensor cores. Quantised weights are expanded to bf16 first, into scratch that the next product uses again.
func (c *compiler) gemm(w *weight, in *activations, f form, bias cudart.Ptr, rows int32, dst, residual mat) {
	t, out, k := w.meta.Type, int32(w.meta.Shape[0]), int32(w.meta.Shape[1])
	p := kernelscuda.GemmParams{A: in.vals.ptr, AStride: in.stride, B: w.plane.ptr(), BStride: int32(rawRowBytes(t, int(k)) / 2), Bias: bias,
		Residual: residual.ptr, Y: dst.ptr, M: rows, N: out, K: in.stride, ResidualStride: residual.stride, YStride: dst.stride}
	if f == formF16 {
		p.Scales = in.extra.ptr
	}
	if !quantised(t) {
		c.queue(c.b.dev.kernels.Gemm(c, f == formBF16, &p))
		return
	}
	stride := (k + 7) &^ 7
	scratch := c.take(2 * int64(out) * int64(stride))
	e := kernelscuda.ExpandParams{Y: scratch.ptr, Rows: out, K: k, YStride: stride}
	e.W, e.Head, e.Tail = w.plane.parts()
	c.queue(c.b.dev.kernels.Expand(c, int32(t), &e))
	p.B, p.BStride = scratch.ptr, stride
	c.queue(c.b.dev.kernels.Gemm(c, true, &p))
	c.give(scratch)
}

// matMul is one product, with the Add after it if that only adds the residual stream.
func (c *compiler) matMul(n, next *graph.Node) (joined bool) {
	x, dst, residual := c.mat(n.In[0]), c.mat(n), mat{}
	if other := c.addend(n, next); other != nil {
		dst, residual, joined = c.mat(next), c.mat(other), true
	}
	c.product(n, n.Weights[0], n.Weights[1], x, dst, residual)
	return joined
}

// addend is the other operand of an Add that follows n at once, if the sum may be all that n's kernel stores; nil if not. The
// sum may lie where n's input was, so that must have been copied into another form.
func (c *compiler) addend(n, next *graph.Node) *graph.Node {
	if next == nil || next.Op != graph.OpAdd || next.In[0] == next.In[1] || c.u.Wanted[n.ID] || c.readers[n.ID] != 1 ||
		c.b.form(n.Shape[0], n.Weights[0].Type) == formF32 || c.rounded(next) {
		return nil
	}
	switch n {
	case next.In[0]:
		return next.In[1]
	case next.In[1]:
		return next.In[0]
	}
	return nil
}

// rounded reports whether some product wants n's rows in a form of their own.
func (c *compiler) rounded(n *graph.Node) bool {
	for _, f := range []form{formQ8, formBF16, formF16} {
		if _, ok := c.last[rounding{n.ID, f}]; ok {
			return true
		}
	}
	return false
}

// qkv is three products into one row.
func (c *compiler) qkv(n *graph.Node) {
	x, y := c.mat(n.In[0]), c.mat(n)
	if c.stack(n, n.Weights[:3], n.Weights[3:], x, y) {
		return
	}
	at := 0
	for i, w := range n.Weights[:3] {
		dst := y
		dst.ptr += cudart.Ptr(4 * at)
		c.product(n, w, n.Weights[3+i], x, dst, mat{})
		at += w.Shape[0]
	}
}

// ffn is silu(x*gate') * (x*up').
func (c *compiler) ffn(n *graph.Node) {
	x, y := c.mat(n.In[0]), c.mat(n)
	if c.swiglu(n, x, y) {
		return
	}
	both := c.take(int64(y.rows) * int64(y.width) * 8) // a row of gate, then up
	g := mat{ptr: both.ptr, rows: y.rows, width: y.width, stride: 2 * y.width}
	u := g
	u.ptr += cudart.Ptr(4 * y.width)
	c.product(n, n.Weights[0], nil, x, g, mat{})
	c.product(n, n.Weights[1], nil, x, u, mat{})
	defer c.give(both)
	if _, wanted := c.last[rounding{n.ID, formBF16}]; wanted && c.only(n, formBF16) {
		a := c.provide(n, formBF16)
		c.queue(c.b.dev.kernels.SwigluConvertBf16(c, &kernelscuda.QuantizeParams{X: g.ptr, XStride: g.stride, Y16: a.vals.ptr, YStride: a.stride, Rows: y.rows, K: y.width}))
		return
	}
	p := kernelscuda.ElementwiseParams{A: g.ptr, AStride: g.stride, B: u.ptr, BStride: u.stride, Y: y.ptr, YStride: y.stride, Rows: y.rows, Width: y.width}
	p.Q8, p.Records = c.q8(n)
	if p.Q8 != 0 && c.only(n, formQ8) {
		p.Y = 0
	}
	c.queue(c.b.dev.kernels.SwigluF32(c, &p))
}

// only reports whether everything that reads n reads it in one form, so that it need not be stored as f32.
func (c *compiler) only(n *graph.Node, f form) bool {
	if c.u.Wanted[n.ID] || c.u.Traced {
		return false
	}
	for _, m := range c.u.Nodes {
		if !slices.ContainsFunc(m.In, func(in *graph.Node) bool { root, _, _ := in.Layout(); return root == n }) {
			continue
		}
		weights := productWeights(m)
		if weights == nil || source(m.In[0]) != n || slices.ContainsFunc(weights, func(w *graph.Weight) bool { return c.b.form(m.Shape[0], w.Type) != f }) {
			return false
		}
	}
	return true
}

package backendcuda

import (
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// elementwise queues an op of one or two operands of equal shape.
func (c *compiler) elementwise(n *graph.Node) {
	k := c.b.dev.kernels
	y, a := c.mat(n), c.mat(n.In[0])
	p := kernelscuda.ElementwiseParams{A: a.ptr, AStride: a.stride, Y: y.ptr, YStride: y.stride, Rows: y.rows, Width: y.width}
	if len(n.In) > 1 {
		b := c.mat(n.In[1])
		p.B, p.BStride = b.ptr, b.stride
	}
	p.Q8, p.Records = c.q8(n)
	switch n.Op {
	case graph.OpAdd:
		c.queue(k.AddF32(c, &p))
	case graph.OpMul:
		c.queue(k.MulF32(c, &p))
	case graph.OpSilu:
		c.queue(k.SiluF32(c, &p))
	case graph.OpSwiGLU:
		c.queue(k.SwigluF32(c, &p))
	case graph.OpScale:
		p.Factor = n.Attr.(graph.ScaleAttr).Factor
		c.queue(k.ScaleF32(c, &p))
	}
}

// rmsNorm normalises rows over the last dimension; a tensor of heads is done head by head.
func (c *compiler) rmsNorm(n *graph.Node) {
	k := c.b.dev.kernels
	y, x := c.mat(n), c.mat(n.In[0])
	w, eps := c.vector(n, n.Weights[0]), n.Attr.(graph.NormAttr).Eps
	width := int32(n.Shape[len(n.Shape)-1])
	if width == y.width {
		p := kernelscuda.RmsNormParams{X: x.ptr, W: w, Y: y.ptr, Rows: x.rows, Width: width, XStride: x.stride, YStride: y.stride, Eps: eps}
		p.Q8, p.Records = c.q8(n)
		c.queue(k.RmsnormF32(c, &p))
		return
	}
	c.queue(k.HeadnormF32(c, &kernelscuda.HeadNormParams{X: x.ptr, W: w, Y: y.ptr, Rows: x.rows, Heads: y.width / width, Width: width,
		XStride: x.stride, YStride: y.stride, Eps: eps}))
}

func (c *compiler) softmax(n *graph.Node) {
	y, x := c.mat(n), c.mat(n.In[0])
	width := int32(n.Shape[len(n.Shape)-1])
	c.queue(c.b.dev.kernels.SoftmaxF32(c, &kernelscuda.SoftmaxParams{X: x.ptr, Y: y.ptr, Rows: x.rows, Inner: y.width / width, Width: width,
		XStride: x.stride, YStride: y.stride}))
}

func (c *compiler) permute(n *graph.Node) {
	x, in := c.mat(n.In[0]), n.In[0].Shape
	strides := make([]int64, len(in)) // of the operand, in elements
	at := int64(1)
	for i := len(in) - 1; i > 0; i-- {
		strides[i] = at
		at *= int64(in[i])
	}
	strides[0] = int64(x.stride)
	p := kernelscuda.PermuteParams{X: x.ptr, Y: c.mat(n).ptr, Shape: [4]int32{1, 1, 1, 1}}
	a, pad := n.Attr.(graph.PermuteAttr), 4-len(n.Shape)
	for i, d := range n.Shape {
		p.Shape[pad+i], p.Stride[pad+i] = int32(d), strides[a.Dims[i]]
	}
	c.queue(c.b.dev.kernels.PermuteF32(c, &p))
}

// batchMatMul multiplies two activations.
func (c *compiler) batchMatMul(n *graph.Node) {
	y, a, b := c.mat(n), c.mat(n.In[0]), c.mat(n.In[1])
	c.queue(c.b.dev.kernels.BatchMatmulF32(c, &kernelscuda.BatchMatmulParams{A: a.ptr, B: b.ptr, Y: y.ptr, AStride: int64(a.stride), BStride: int64(b.stride),
		Batch: y.rows, M: int32(n.Shape[1]), N: int32(n.Shape[2]), K: int32(n.In[0].Shape[2])}))
}

package backendcuda

import (
	"unsafe"

	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// sample draws a token a row. A row of graph.InSampling is a kernelscuda.SampleRow.
func (c *compiler) sample(n *graph.Node) {
	logits := c.mat(n.In[0])
	c.queue(c.b.dev.kernels.SampleF32(c, &kernelscuda.SampleParams{Logits: logits.ptr, Choices: c.ints(n.In[1]), Tokens: c.ints(n), Rows: logits.rows,
		Vocab: int32(n.Attr.(graph.SampleAttr).Vocab), Stride: logits.stride}))
}

var _ = [1]struct{}{}[unsafe.Sizeof(kernelscuda.SampleRow{})-4*graph.SamplingWords]

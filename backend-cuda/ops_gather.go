package backendcuda

import (
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// getRows looks rows of a weight or of an activation up.
func (c *compiler) getRows(n *graph.Node) {
	y, ids := c.mat(n), c.ints(n.In[len(n.In)-1])
	p := kernelscuda.GetrowsParams{Ids: ids, Y: y.ptr, Rows: y.rows, Width: y.width, YStride: y.stride}
	if len(n.Weights) == 0 {
		x := c.mat(n.In[0])
		c.queue(c.b.dev.kernels.GatherRowsF32(c, &kernelscuda.GatherRowsParams{X: x.ptr, Ids: ids, Y: y.ptr, Rows: y.rows, Width: y.width, XStride: x.stride, YStride: y.stride}))
		return
	}
	w := c.weight(n, n.Weights[0])
	if w == nil {
		return
	}
	p.Entries = int32(w.meta.Shape[0])
	p.Table, p.Head, p.Tail = w.plane.parts()
	c.queue(c.b.dev.kernels.Getrows(c, int32(w.meta.Type), &p))
}

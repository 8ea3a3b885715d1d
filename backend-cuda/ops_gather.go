package backendcuda

import (
	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// getRows looks rows of a weight or of an activation up.
func (c *compiler) getRows(n *graph.Node) {
	y, ids := c.mat(n), c.ints(n.In[len(n.In)-1])
	p := kernelscuda.GetrowsParams{Ids: ids, Y: y.ptr, Rows: y.rows, Width: y.width, YStride: y.stride}
	if len(n.Weights) == 0 {
		x := c.mat(n.In[0])
		p.Table, p.TableStride, p.Entries = x.ptr, 4*int64(x.stride), x.rows
		c.queue(c.b.dev.kernels.GetrowsF32(c, &p))
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

// parts are the addresses of a plane's three areas; the raw layout has one.
func (p *plane) parts() (data, head, tail cudart.Ptr) {
	data = p.ptr()
	if p.key.layout == LayoutRaw {
		return data, 0, 0
	}
	d, h := tileParts(p.typ, p.shape[0], p.shape[1])
	return data, data + cudart.Ptr(d), data + cudart.Ptr(d+h)
}

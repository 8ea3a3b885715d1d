package backendcpu

import (
	"errors"
	"unsafe"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
	"github.com/minfer-go/minfer/quant"
)

// mat places a float32 tensor.
func (c *compiler) mat(n *graph.Node) mat {
	t := &c.u.Tensors[n.ID]
	m := mat{rows: n.Shape[0], width: n.Shape[1:].Elems(), stride: int(t.RowStride / 4)}
	bytes := int64(m.rows-1)*t.RowStride + int64(m.width)*4
	mem, err := span(t.Buffer, t.Offset, bytes)
	if err != nil || n.Type != quant.F32 || t.RowStride%4 != 0 {
		c.fail(n.Errorf("cpu: place of the %s tensor: %w", n.Type, errors.Join(err, graph.ErrUnsupported)))
		return m
	}
	m.p = floatsOf(mem)
	return m
}

// ints places a step input.
func (c *compiler) ints(n *graph.Node) []int32 {
	t := &c.u.Tensors[n.ID]
	mem, err := span(t.Buffer, t.Offset, int64(n.Shape.Elems())*4)
	if err != nil || len(mem) == 0 {
		c.fail(n.Errorf("cpu: place of the step input: %w", errors.Join(err, graph.ErrUnsupported)))
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&mem[0])), len(mem)/4)
}

func (c *compiler) weight(n *graph.Node, w *graph.Weight) *weight {
	r, err := c.b.weights.Find("cpu", n, w)
	if err != nil {
		c.fail(err)
	}
	return r
}

func (c *compiler) vector(n *graph.Node, w *graph.Weight) []float32 {
	if w == nil {
		return nil
	}
	r := c.weight(n, w)
	if r == nil {
		return nil
	}
	c.p.weightBytes += uint64(len(r.data))
	return r.vector
}

func (c *compiler) region(n *graph.Node, a graph.KVAttr) region {
	list := c.u.Keys
	if a.Value {
		list = c.u.Values
	}
	if a.Layer < 0 || a.Layer >= len(list) || list[a.Layer].Buffer == nil {
		c.fail(n.Errorf("cpu: no KV region for layer %d, value %v", a.Layer, a.Value))
		return region{}
	}
	k := &list[a.Layer]
	format, err := kvformat.FromType(k.Type)
	mem, err2 := span(k.Buffer, 0, k.RowBytes*int64(k.Cells))
	if err := errors.Join(err, err2); err != nil {
		c.fail(n.Errorf("cpu: KV region of layer %d: %w", a.Layer, err))
	}
	return region{mem, int(k.RowBytes), format}
}

package backendcuda

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/quant"
)

// ropeFrequencies is a device's table of angles a position, and the magnitude of rotated pairs.
type ropeFrequencies struct {
	mem   *cudart.Memory
	scale float32
}

// frequencies gives the table of a set of attributes, made once.
func (b *Backend) frequencies(bd *cudart.Bound, a graph.RopeAttr) (ropeFrequencies, error) {
	if f, ok := b.tables[a]; ok {
		return f, nil
	}
	list, scale := kernelscuda.RopeFrequencies(kernelscuda.RopeScaling{Dims: a.Dims, Base: float64(a.Base), FreqScale: float64(a.FreqScale),
		ExtFactor: float64(a.ExtFactor), AttnFactor: float64(a.AttnFactor), BetaFast: float64(a.BetaFast), BetaSlow: float64(a.BetaSlow), OrigCtx: a.OrigCtx})
	mem, err := bd.Alloc(int64(8 * max(len(list), 1)))
	if err != nil {
		return ropeFrequencies{}, err
	}
	var raw []byte
	for _, f := range list {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(f))
	}
	if err := b.staging.toDevice(bd, b.stream, mem.Ptr(), raw); err != nil {
		return ropeFrequencies{}, errors.Join(err, mem.Free(bd)) // else the next graph would take it as it is
	}
	f := ropeFrequencies{mem, scale}
	b.tables[a] = f
	return f, nil
}

// ropeTable queues the kernel that makes the cosines and sines of a step's rows, once a program, and gives their address.
func (c *compiler) ropeTable(bd *cudart.Bound, n *graph.Node, a graph.RopeAttr, positions *graph.Node) cudart.Ptr {
	if t, ok := c.ropes[a]; ok {
		return t
	}
	f, err := c.b.frequencies(bd, a)
	if err != nil {
		c.fail(n.Errorf("cuda: table of frequencies: %w", err))
		return 0
	}
	rows, pairs := positions.Shape.Elems(), a.Dims/2
	t := c.take(int64(rows) * int64(pairs) * 8) // kept for the whole program
	c.queue(c.b.dev.kernels.RopeTableF32(c, &kernelscuda.RopeTableParams{Positions: c.ints(positions), Frequencies: f.mem.Ptr(), Table: t.ptr,
		Rows: int32(rows), Pairs: int32(pairs), Scale: f.scale}))
	c.ropes[a] = t.ptr
	return t.ptr
}

func interleaved(a graph.RopeAttr) int32 {
	if a.Style == graph.RopeInterleaved {
		return 1
	}
	return 0
}

func (c *compiler) rope(bd *cudart.Bound, n *graph.Node) {
	a := n.Attr.(graph.RopeAttr)
	y, x := c.mat(n), c.mat(n.In[0])
	c.queue(c.b.dev.kernels.RopeF32(c, &kernelscuda.RopeParams{X: x.ptr, Y: y.ptr, Table: c.ropeTable(bd, n, a, n.In[1]), Rows: y.rows,
		Heads: int32(n.Shape[1]), HeadDim: int32(n.Shape[2]), Pairs: int32(a.Dims / 2), Interleaved: interleaved(a), XStride: x.stride, YStride: y.stride}))
}

// kvFormat is a region's format as kernels name it.
func kvFormat(t quant.Type) int32 {
	switch t {
	case quant.F32:
		return kernelscuda.KVF32
	case quant.F16:
		return kernelscuda.KVF16
	}
	return kernelscuda.KVQ8
}

func (c *compiler) store(n *graph.Node) {
	x, r := c.mat(n.In[0]), c.region(n, n.Attr.(graph.KVAttr))
	c.queue(c.b.dev.kernels.KvStoreF32(c, &kernelscuda.KvStoreParams{X: x.ptr, Cells: c.ints(n.In[1]), Region: r.ptr, Row: r.rowBytes,
		Rows: x.rows, KvHeads: int32(n.In[0].Shape[1]), HeadDim: int32(n.In[0].Shape[2]), XStride: x.stride, Type: kvFormat(r.typ)}))
}

// qkvStore is what stands between the products and attention: biases or norms, rotation, both stores.
func (c *compiler) qkvStore(bd *cudart.Bound, n *graph.Node) {
	a := n.Attr.(graph.QkvAttr)
	q, k, v, y := c.mat(n.In[0]), c.mat(n.In[1]), c.mat(n.In[2]), c.mat(n)
	keys, values := c.region(n, graph.KVAttr{Layer: a.Layer}), c.region(n, graph.KVAttr{Layer: a.Layer, Value: true})
	p := kernelscuda.QkvRopeStoreParams{Q: q.ptr, K: k.ptr, V: v.ptr, Table: c.ropeTable(bd, n, a.Rope, n.In[3]), Cells: c.ints(n.In[4]), Y: y.ptr,
		Keys: keys.ptr, Values: values.ptr, KeyRow: keys.rowBytes, ValueRow: values.rowBytes, KeyType: kvFormat(keys.typ), ValueType: kvFormat(values.typ),
		Rows: y.rows, Heads: int32(a.Heads), KvHeads: int32(a.KVHeads), HeadDim: int32(a.HeadDim), Pairs: int32(a.Rope.Dims / 2), Interleaved: interleaved(a.Rope),
		QStride: q.stride, KStride: k.stride, VStride: v.stride, YStride: y.stride, Eps: a.Eps}
	if n.Op == graph.OpFusedQkvNorm {
		p.QNorm, p.KNorm = c.vector(n, n.Weights[0]), c.vector(n, n.Weights[1])
	} else {
		p.QBias, p.KBias, p.VBias = c.vector(n, n.Weights[0]), c.vector(n, n.Weights[1]), c.vector(n, n.Weights[2])
	}
	c.queue(c.b.dev.kernels.QkvRopeStoreF32(c, &p))
}

package backendcpu

import (
	"github.com/minfer-go/minfer/backend-cpu/internal/attn"
	"github.com/minfer-go/minfer/backend-cpu/internal/vec"
	"github.com/minfer-go/minfer/graph"
)

func (c *compiler) table(a graph.RopeAttr, positions *graph.Node) *ropeTable {
	t := c.tables[a]
	if t == nil {
		t = newRopeTable(a, c.ints(positions))
		c.tables[a] = t
		c.prep.tables = append(c.prep.tables, t)
	}
	return t
}

func (c *compiler) qkvStore(n *graph.Node) {
	a := n.Attr.(graph.QkvAttr)
	s := &qkvStore{b: c.b, y: c.mat(n), q: c.mat(n.In[0]), k: c.mat(n.In[1]), v: c.mat(n.In[2]), attr: a,
		table: c.table(a.Rope, n.In[3]), cells: c.ints(n.In[4]),
		keys: c.region(n, graph.KVAttr{Layer: a.Layer}), values: c.region(n, graph.KVAttr{Layer: a.Layer, Value: true})}
	for i, w := range n.Weights {
		k := kindAdd
		if n.Op == graph.OpFusedQkvNorm {
			s.norm[i], k = c.vector(n, w), kindNorm
		} else {
			s.bias[i] = c.vector(n, w)
		}
		if w != nil {
			c.count(k)
		}
	}
	c.count(kindRope)
	c.count(kindStore)
	c.floats = max(c.floats, a.HeadDim)
	c.step(kindElse, s)
}

// maxPartBytes bounds the memory for results of single chunks. Beyond it a row's chunks stay with one worker.
const maxPartBytes = 32 << 20

func (c *compiler) attention(n *graph.Node) {
	b, a := c.b, n.Attr.(graph.AttnAttr)
	keys, values := c.region(n, graph.KVAttr{Layer: a.Layer}), c.region(n, graph.KVAttr{Layer: a.Layer, Value: true})
	q, y := c.mat(n.In[0]), c.mat(n)
	in := attn.Inputs{Lengths: c.ints(n.In[3]), Seqs: c.ints(n.In[4]), SeqRuns: c.ints(n.In[5]), Runs: c.ints(n.In[6])}
	if c.err != nil {
		return
	}
	group := a.Heads / a.KVHeads
	at, ok := c.plans[group]
	if !ok {
		at = len(c.p.plans)
		c.plans[group] = at
		c.p.plans = append(c.p.plans, planned{plan: attn.NewPlan(in, group)})
		c.prep.plans = append(c.prep.plans, c.p.plans[at].plan)
	}
	c.p.plans[at].rowBytes += int64(keys.rowBytes + values.rowBytes)

	j := &attn.Job{Kernels: b.vec, Plan: c.p.plans[at].plan, Q: q.p, QStride: q.stride, Y: y.p, YStride: y.stride,
		Keys: keys.mem, Values: values.mem, Path: b.kernel.Path()}
	j.Shape = attn.Shape{Heads: a.Heads, KVHeads: a.KVHeads, HeadDim: a.HeadDim, Scale: a.Scale,
		KeyFormat: keys.format, ValueFormat: values.format, KeyRow: keys.rowBytes, ValueRow: values.rowBytes}
	j.Workers = b.attnWorkers(j.Shape)
	chunks := (c.u.Params.Cells + vec.Chunk - 1) / vec.Chunk
	j.Parts = b.attnParts(min(c.u.Params.Rows, 16)*a.Heads*chunks, a.HeadDim)
	if a.HeadDim%32 == 0 {
		j.Acts = c.provide(n)
	}
	c.op(kindAttention, chunksStep{j})
	if b.pool.Workers() > 1 {
		c.step(kindAttention, combine{j})
	}
}

func (b *Backend) attnWorkers(s attn.Shape) []*attn.Worker {
	key := [2]int{s.Heads / s.KVHeads, s.HeadDim}
	if b.scratch.attn[key] == nil {
		for range b.pool.Workers() {
			b.scratch.attn[key] = append(b.scratch.attn[key], attn.NewWorker(s))
		}
	}
	return b.scratch.attn[key]
}

func (b *Backend) attnParts(n, headDim int) *attn.Parts {
	n = min(n, maxPartBytes/(4*vec.PadDim(headDim)))
	p := b.scratch.parts[headDim]
	if p == nil || p.Len() < n {
		p = attn.NewParts(n, headDim)
		b.scratch.parts[headDim] = p
	}
	return p
}

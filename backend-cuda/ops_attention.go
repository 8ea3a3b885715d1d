package backendcuda

import (
	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// attnRows is the most rows of one launch of split attention: it bounds the scratch for partial results.
const attnRows = 64

// attention attends through the run tables. Partial results of chunks are counted from a sequence's start and combined in
// their order, so a row's bits depend neither on the other rows nor on how many blocks share its chunks.
func (c *compiler) attention(n *graph.Node) {
	a := n.Attr.(graph.AttnAttr)
	q, y := c.mat(n.In[0]), c.mat(n)
	keys, values := c.region(n, graph.KVAttr{Layer: a.Layer}), c.region(n, graph.KVAttr{Layer: a.Layer, Value: true})
	p := kernelscuda.AttnParams{Q: q.ptr, Keys: keys.ptr, Values: values.ptr, Lengths: c.ints(n.In[3]), Seqs: c.ints(n.In[4]), SeqRuns: c.ints(n.In[5]), Runs: c.ints(n.In[6]),
		Y: y.ptr, KeyRow: keys.rowBytes, ValueRow: values.rowBytes, Rows: q.rows, Heads: int32(a.Heads), KvHeads: int32(a.KVHeads), HeadDim: int32(a.HeadDim),
		Cells: int32(c.u.Params.Cells), Early: 1, QStride: q.stride, YStride: y.stride, KeyType: kvFormat(keys.typ), ValueType: kvFormat(values.typ), Scale: a.Scale}
	// Early: lengths and run tables are copied before a program's first kernel, which no other overlaps.
	if a.HeadDim%8 != 0 || a.HeadDim > maxSplitHeadDim {
		c.attend(kernelscuda.KernelAttnReferenceF32, &p)
		return
	}
	if a.HeadDim%32 == 0 {
		p.Q8, p.Records = c.q8(n)
	}
	if p.Q8 != 0 && c.only(n, formQ8) {
		p.Y = 0
	}
	if id, ok := kernelscuda.AttnPrefill(p.KeyType, p.ValueType, p.HeadDim); ok && p.Q8 == 0 && !c.b.decodes(int(p.Rows)) {
		c.attend(id, &p)
		return
	}
	id := kernelscuda.AttnDecode(p.KeyType, p.ValueType, p.HeadDim)
	part := p
	part.Rows = min(p.Rows, attnRows)
	parts, states, counters := part.Scratch()
	room, sums := c.take(parts), c.take(states)
	c.counterBytes = max(c.counterBytes, counters)
	for first := int32(0); first < p.Rows; first += attnRows {
		part := p
		part.Rows = min(p.Rows-first, attnRows)
		part.Q += cudart.Ptr(4 * int64(first) * int64(p.QStride))
		part.Lengths += cudart.Ptr(4 * first)
		part.Seqs += cudart.Ptr(4 * first)
		if p.Y != 0 {
			part.Y += cudart.Ptr(4 * int64(first) * int64(p.YStride))
		}
		if p.Q8 != 0 {
			width := int64(p.Heads) * int64(p.HeadDim)
			part.Q8 += cudart.Ptr(int64(first) * width)
			part.Records += cudart.Ptr(int64(first) * width / 32 * 8)
		}
		part.Parts, part.States = room.ptr, sums.ptr
		if p.Cells <= combineCells {
			part.Counters = c.counters
		}
		c.attend(id, &part)
		if p.Cells > combineCells {
			c.attend(kernelscuda.KernelAttnCombineF32, &part)
		}
	}
	c.give(room)
	c.give(sums)
}

// attend queues an attention kernel.
func (c *compiler) attend(id kernelscuda.ID, p *kernelscuda.AttnParams) {
	c.queue(c.b.dev.kernels.Attn(id, c, p))
	if c.recording && c.err == nil {
		params := *p
		c.p.launches[len(c.p.launches)-1].attn = &params
	}
}

// combineCells is the largest cache whose chunks the last block of split attention combines; beyond it there are so many that a
// kernel of its own, with a block a head, is faster. Both give the same bits.
const combineCells = 8192

// maxSplitHeadDim is the largest head of split attention; larger ones take the plain kernel, which gives float32 only.
const maxSplitHeadDim = 256

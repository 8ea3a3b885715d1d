package kernelscuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
)

// kvRegion is an encoded region, and what it decodes to.
type kvRegion struct {
	ptr    cudart.Ptr
	row    int64
	values []float32 // [cells][heads*dim]
}

// encodeF16 and decodeF16 by the definition of the format; what is below its normal range becomes 0.
func encodeF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff < 113<<23 {
		return uint16(b >> 16 & 0x8000)
	}
	m := b&0x7fffffff - 112<<23
	return uint16(b>>16&0x8000) | uint16((m+0xfff+(m>>13&1))>>13)
}

func decodeF16(h uint16) float32 {
	if h&0x7fff == 0 {
		return math.Float32frombits(uint32(h) << 16)
	}
	return math.Float32frombits(uint32(h&0x8000)<<16 | (uint32(h&0x7fff)<<13 + 112<<23))
}

func newRegion(e *emulated, r *rand.Rand, format int32, cells, n int) kvRegion {
	g := kvRegion{row: kvBytes(format, n), values: random(r, cells*n, 1)}
	var data []byte
	switch format {
	case KVF32:
		for _, v := range g.values {
			b := math.Float32bits(v)
			data = append(data, byte(b), byte(b>>8), byte(b>>16), byte(b>>24))
		}
	case KVF16:
		for i, v := range g.values {
			h := encodeF16(v)
			g.values[i] = decodeF16(h)
			data = append(data, byte(h), byte(h>>8))
		}
	case KVQ8:
		for b := 0; b < len(g.values); b += 32 {
			h := encodeF16(float32(r.Float64()+0.1) / 64)
			data = append(data, byte(h), byte(h>>8))
			for i := range 32 {
				q := int8(r.IntN(255) - 127)
				g.values[b+i] = decodeF16(h) * float32(q)
				data = append(data, byte(q))
			}
		}
	}
	g.ptr = e.bytes(data)
	return g
}

// attnCase is a step: rows of some sequences, whose cells lie in runs of one pool.
type attnCase struct {
	heads, kvHeads, dim int
	key, value          int32
	lengths, seqs       []int32
	seqRuns, runs       []int32
	cells               int
}

func (c *attnCase) cell(seq, j int) int {
	for i := range c.seqRuns[2*seq+1] {
		run := c.seqRuns[2*seq] + i
		if n := int(c.runs[2*run+1]); j >= n {
			j -= n
		} else {
			return int(c.runs[2*run]) + j
		}
	}
	panic("position beyond the runs")
}

// want computes one head of one row in float64.
func (c *attnCase) want(q []float32, keys, values []float32, scale float64, row, head int) []float64 {
	n := c.kvHeads * c.dim
	at := head / (c.heads / c.kvHeads) * c.dim
	out := make([]float64, c.dim)
	length := int(c.lengths[row])
	scores := make([]float64, length)
	top := math.Inf(-1)
	for j := range scores {
		k := keys[c.cell(int(c.seqs[row]), j)*n+at:]
		for e := range c.dim {
			scores[j] += float64(q[e]) * float64(k[e])
		}
		scores[j] *= scale
		top = math.Max(top, scores[j])
	}
	sum := 0.0
	for j := range scores {
		w := math.Exp(scores[j] - top)
		sum += w
		v := values[c.cell(int(c.seqs[row]), j)*n+at:]
		for e := range c.dim {
			out[e] += w * float64(v[e])
		}
	}
	for e := range out {
		if length > 0 {
			out[e] /= sum
		}
	}
	return out
}

type attnData struct {
	attnCase
	q            []float32
	qStride      int
	keys, values kvRegion
	params       AttnParams
	y            cudart.Ptr
}

const attnScale = 0.09

// prepare puts a step on the device. Queries are larger in some heads than in others.
func (c attnCase) prepare(e *emulated, r *rand.Rand) *attnData {
	n, rows := c.kvHeads*c.dim, len(c.lengths)
	d := &attnData{attnCase: c, qStride: c.heads*c.dim + 4}
	d.q = random(r, rows*d.qStride, 2)
	for i := range d.q {
		d.q[i] *= float32(i%c.heads) + 0.01
	}
	d.keys, d.values = newRegion(e, r, c.key, c.cells, n), newRegion(e, r, c.value, c.cells, n)
	d.y = e.alloc(4 * rows * c.heads * c.dim)
	d.params = AttnParams{
		Q: put(e, d.q), Keys: d.keys.ptr, Values: d.values.ptr, Lengths: put(e, c.lengths), Seqs: put(e, c.seqs),
		SeqRuns: put(e, c.seqRuns), Runs: put(e, c.runs), Y: d.y, KeyRow: d.keys.row, ValueRow: d.values.row, Rows: int32(rows),
		Heads: int32(c.heads), KvHeads: int32(c.kvHeads), HeadDim: int32(c.dim), Cells: int32(c.cells), QStride: int32(d.qStride),
		YStride: int32(c.heads * c.dim), KeyType: c.key, ValueType: c.value, Scale: attnScale,
	}
	parts, states, counters := d.params.Scratch()
	d.params.Parts, d.params.States = e.alloc(int(parts)), e.alloc(int(states))
	d.params.Counters = e.bytes(make([]byte, counters))
	return d
}

// result reads y, and checks it against the reference.
func (d *attnData) result(t *testing.T, e *emulated, tolerance float64, msg ...any) []float32 {
	t.Helper()
	got := get[float32](e, d.y, len(d.lengths)*d.heads*d.dim)
	for row := range d.lengths {
		for h := range d.heads {
			want := d.want(d.q[row*d.qStride+h*d.dim:], d.keys.values, d.values.values, float64(d.params.Scale), row, h)
			at := (row*d.heads + h) * d.dim
			near(t, want, got[at:][:d.dim], tolerance, append([]any{"row", row, "head", h, fmt.Sprintf("%+v", d.attnCase)}, msg...)...)
		}
	}
	return got
}

func decodeCase(heads, kvHeads, dim int, key, value int32) attnCase {
	return attnCase{
		heads: heads, kvHeads: kvHeads, dim: dim, key: key, value: value,
		lengths: []int32{1, 0, 129, 300, 128, 17}, seqs: []int32{0, 0, 1, 1, 0, 1},
		seqRuns: []int32{3, 1, 0, 3}, runs: []int32{200, 130, 0, 7, 330, 200, 7, 150}, cells: 530,
	}
}

func TestAttnDecode(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []attnCase{
		decodeCase(7, 1, 64, KVF16, KVF16), decodeCase(4, 2, 64, KVQ8, KVQ8), decodeCase(4, 2, 64, KVF16, KVQ8), decodeCase(2, 2, 64, KVQ8, KVF16),
		decodeCase(10, 2, 128, KVF16, KVF16), decodeCase(8, 1, 128, KVQ8, KVQ8), decodeCase(9, 1, 128, KVF16, KVQ8), decodeCase(2, 1, 128, KVQ8, KVF16),
		decodeCase(7, 1, 64, KVF32, KVF16), decodeCase(9, 1, 80, KVF16, KVF32), decodeCase(4, 2, 96, KVQ8, KVF32), decodeCase(3, 1, 8, KVF32, KVF32),
		decodeCase(2, 1, 256, KVQ8, KVQ8), decodeCase(2, 2, 16, KVF16, KVF16), decodeCase(4, 2, 64, KVF32, KVQ8),
	} {
		d := c.prepare(e, r)
		id := AttnDecode(c.key, c.value, int32(c.dim))
		require.NoError(t, e.Attn(id, e, &d.params))
		fused := d.result(t, e, 3e-6, id)
		require.NotContains(t, get[int32](e, d.params.Counters, d.params.groups()*len(c.lengths)), int32(1), "counters are zeros again")

		// Combined by a kernel of its own, by one block a row and by many: the same bits.
		with := d.params
		for i, sms := range []int{1, 100} {
			e.device.Multiprocessors = sms
			with.Early = int32(i)
			d.y = e.alloc(4 * len(fused))
			with.Y, with.Counters = d.y, 0
			require.NoError(t, e.Attn(id, e, &with))
			require.NoError(t, e.AttnCombineF32(e, &with))
			require.Equal(t, fused, get[float32](e, d.y, len(fused)), "%s with %d multiprocessors", id, sms)
		}
		e.device.Multiprocessors = 3

		// A row alone: the same bits.
		const alone = 3
		one := c
		one.lengths, one.seqs = c.lengths[alone:alone+1], c.seqs[alone:alone+1]
		with = d.params
		y := e.alloc(4 * c.heads * c.dim)
		with.Q, with.Lengths, with.Seqs, with.Rows, with.Y = put(e, d.q[alone*d.qStride:][:d.qStride]), put(e, one.lengths), put(e, one.seqs), 1, y
		require.NoError(t, e.Attn(id, e, &with))
		require.Equal(t, fused[alone*c.heads*c.dim:][:c.heads*c.dim], get[float32](e, y, c.heads*c.dim))

		if c.dim%32 == 0 {
			n := c.heads * c.dim
			q8, records := e.alloc(len(fused)), e.alloc(len(fused)/4)
			with = d.params
			with.Y, with.Q8, with.Records = 0, q8, records
			require.NoError(t, e.Attn(id, e, &with))
			for row := range c.lengths {
				checkQ8(t, fused[row*n:][:n], get[int8](e, q8, len(fused))[row*n:], get[record](e, records, len(fused)/32)[row*n/32:][:n/32])
			}
		}
	}
}

func TestAttnReference(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(7, 8))
	c := decodeCase(6, 2, 40, KVF32, KVF16)
	c.lengths = []int32{3, 0, 33}
	c.seqs = c.seqs[:3]
	d := c.prepare(e, r)
	require.NoError(t, e.AttnReferenceF32(e, &d.params))
	d.result(t, e, 2e-6)
}

func TestAttnPrefill(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(15, 16))
	// A prompt of 22 rows after 60 cells, one row of another sequence, padding, and a prompt that begins.
	c := attnCase{seqRuns: []int32{1, 2, 0, 1, 3, 1}, runs: []int32{10, 70, 200, 30, 100, 100, 300, 25}, cells: 330}
	for i := range 22 {
		c.lengths, c.seqs = append(c.lengths, int32(61+i)), append(c.seqs, 0)
	}
	c.lengths, c.seqs = append(c.lengths, 70, 0, 0), append(c.seqs, 1, 1, 0)
	for i := range 5 {
		c.lengths, c.seqs = append(c.lengths, int32(1+i)), append(c.seqs, 2)
	}
	for _, s := range []struct {
		heads, kvHeads, dim int
		key, value          int32
	}{
		{14, 2, 64, KVF16, KVF16}, {4, 2, 128, KVQ8, KVQ8}, {3, 1, 80, KVF16, KVF16}, {2, 1, 96, KVF16, KVF16}, {2, 2, 64, KVQ8, KVF16},
		{5, 1, 128, KVF16, KVQ8}, {6, 2, 128, KVF16, KVF16}, {4, 1, 64, KVF16, KVQ8}, {1, 1, 64, KVQ8, KVQ8}, {2, 1, 128, KVQ8, KVF16},
	} {
		c.heads, c.kvHeads, c.dim, c.key, c.value = s.heads, s.kvHeads, s.dim, s.key, s.value
		d := c.prepare(e, r)
		id, ok := AttnPrefill(c.key, c.value, int32(c.dim))
		require.True(t, ok)
		require.NoError(t, e.Attn(id, e, &d.params))
		all := d.result(t, e, 1e-3, id)

		// A row alone: the same bits.
		const alone = 20
		with, n := d.params, c.heads*c.dim
		y := e.alloc(4 * n)
		with.Q, with.Lengths, with.Seqs, with.Rows, with.Y = put(e, d.q[alone*d.qStride:][:d.qStride]), put(e, c.lengths[alone:]), put(e, c.seqs[alone:]), 1, y
		require.NoError(t, e.Attn(id, e, &with))
		require.Equal(t, all[alone*n:][:n], get[float32](e, y, n))
	}
	_, ok := AttnPrefill(KVF32, KVF16, 64)
	require.False(t, ok)
}

// Bytes by lengths: a sequence's cells once, up to the longest of its rows.
func TestAttnMoved(t *testing.T) {
	p := AttnParams{Y: 1, Rows: 4, Heads: 4, KvHeads: 2, HeadDim: 64, Cells: 1000, KeyType: KVF16, ValueType: KVQ8}
	const cell, row = 2*64*2 + 2*2*34, 4 * 4 * 64 // a key in f16 and a value in q8_0; a query or a result
	lengths, seqs := []int32{3, 300, 299, 0}, []int32{1, 0, 0, 2}
	const parts = (1 + 3 + 3) * 4 * (4*64 + 8) // chunks of 128, all heads, their sums
	for name, c := range map[string]struct {
		id       ID
		counters cudart.Ptr
		want     int64
	}{
		"prefill":            {KernelAttnPrefillF16Q8D64, 0, 4*row + 303*cell + 4*row},
		"reference":          {KernelAttnReferenceF32, 0, 4*row + 303*cell + 4*row},
		"decode":             {KernelAttnDecodeF16Q8D64, 0, 4*row + 303*cell + parts},
		"decode and combine": {KernelAttnDecodeF16Q8D64, 1, 4*row + 303*cell + 4*row},
		"combine":            {KernelAttnCombineF32, 0, parts + 4*row},
	} {
		p.Counters = c.counters
		assert.Equal(t, c.want, p.Moved(c.id, lengths, seqs), name)
	}
	full := []int32{1000, 1000, 1000, 1000}
	assert.Equal(t, p.Bytes(), p.Moved(KernelAttnPrefillF16Q8D64, full, []int32{0, 1, 2, 3}), "what is counted without lengths")
}

package backendcpu

import (
	"math"

	"github.com/minfer-go/minfer/backend-cpu/internal/plain"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
)

// chunkLen cells are attended together (ADR 0001).
const chunkLen = 128

// queryBlock rows share a chunk's widened keys and values.
const queryBlock = 64

// attention is causal grouped-query attention. Workers share (KV head, block of rows) pairs; each walks its rows' chunks in order and keeps
// the running maximum, sum and output of each row and head.
type attention struct {
	q, y                   mat
	keys, values           []byte
	keyRow, valueRow       int // bytes of a cell
	keyFormat, valueFormat kvformat.Format
	lengths, seqs          []int32
	seqRuns, runs          []int32
	a                      graph.AttnAttr
	work                   []attnWork // by worker
}

type attnWork struct {
	k, v   []float32 // a chunk widened: [chunkLen][headDim]
	scores []float32
	o, oc  []float32 // running outputs [queryBlock][group][headDim], a chunk's
	m, l   []float32
}

func (c *compiler) attn(n *graph.Node) error {
	a := n.Attr.(graph.AttnAttr)
	kf, err := format(c.u.Keys[a.Layer].Type)
	if err != nil {
		return err
	}
	vf, err := format(c.u.Values[a.Layer].Type)
	if err != nil {
		return err
	}
	s := &attention{q: c.mat(n.In[0]), y: c.mat(n), keys: c.u.Keys[a.Layer].Buffer.(*buffer).mem, values: c.u.Values[a.Layer].Buffer.(*buffer).mem,
		keyRow: int(c.u.Keys[a.Layer].RowBytes), valueRow: int(c.u.Values[a.Layer].RowBytes), keyFormat: kf, valueFormat: vf,
		lengths: c.ints(n.In[3]), seqs: c.ints(n.In[4]), seqRuns: c.ints(n.In[5]), runs: c.ints(n.In[6]), a: a, work: make([]attnWork, c.b.Threads())}
	group, block := a.Heads/a.KVHeads, min(queryBlock, s.q.rows)
	for i := range s.work {
		s.work[i] = attnWork{k: make([]float32, chunkLen*a.HeadDim), v: make([]float32, chunkLen*a.HeadDim), scores: make([]float32, chunkLen),
			o: make([]float32, block*group*a.HeadDim), oc: make([]float32, a.HeadDim), m: make([]float32, block*group), l: make([]float32, block*group)}
	}
	c.add(s)
	return nil
}

func (s *attention) Run(worker, n int) error {
	block := queryBlock
	if s.q.rows*s.a.KVHeads < 2*queryBlock*n {
		block = max(1, s.q.rows*s.a.KVHeads/(4*n))
	}
	block = min(block, queryBlock)
	blocks := (s.q.rows + block - 1) / block
	for i := worker; i < blocks*s.a.KVHeads; i += n {
		head, b := i%s.a.KVHeads, blocks-1-i/s.a.KVHeads // the last blocks have most to do: first
		s.rows(&s.work[worker], head, b*block, min((b+1)*block, s.q.rows))
	}
	return nil
}

// rows attends rows [r0,r1) with the heads of one KV head, sequence by sequence.
func (s *attention) rows(w *attnWork, kvHead, r0, r1 int) {
	for r0 < r1 {
		end := r0 + 1
		for end < r1 && s.seqs[end] == s.seqs[r0] {
			end++
		}
		s.sequence(w, kvHead, r0, end)
		r0 = end
	}
}

func (s *attention) sequence(w *attnWork, kvHead, r0, r1 int) {
	hd, group := s.a.HeadDim, s.a.Heads/s.a.KVHeads
	longest := 0
	for r := r0; r < r1; r++ {
		longest = max(longest, int(s.lengths[r]))
	}
	for from := 0; from < longest; from += chunkLen {
		n := min(chunkLen, longest-from)
		s.widen(w, int(s.seqs[r0]), kvHead, from, n)
		for r := r0; r < r1; r++ {
			own := min(int(s.lengths[r])-from, n)
			if own <= 0 {
				continue
			}
			for g := range group {
				at := (r-r0)*group + g
				h := (kvHead*group + g) * hd
				q := s.q.row(r)[h : h+hd]
				scores := w.scores[:own]
				for j := range scores {
					scores[j] = plain.Dot(q, w.k[j*hd:(j+1)*hd]) * s.a.Scale
				}
				m := plain.Max(scores)
				if m == float32(math.Inf(-1)) {
					m = 0 // nothing but -Inf: weights of 0, not NaN
				}
				l := plain.ExpSum(scores, m)
				o := w.oc[:hd]
				clear(o)
				for j, p := range scores {
					plain.Axpy(o, p, w.v[j*hd:(j+1)*hd])
				}
				s.merge(w, at, from == 0, m, l, o)
			}
		}
	}
	for r := r0; r < r1; r++ {
		for g := range group {
			at := (r-r0)*group + g
			h := (kvHead*group + g) * hd
			y := s.y.row(r)[h : h+hd]
			if s.lengths[r] == 0 {
				clear(y)
				continue
			}
			inv := 1 / w.l[at]
			for e, x := range w.o[at*hd : (at+1)*hd] {
				y[e] = x * inv
			}
		}
	}
}

func (s *attention) merge(w *attnWork, at int, first bool, m, l float32, o []float32) {
	acc := w.o[at*len(o) : (at+1)*len(o)]
	if first {
		copy(acc, o)
		w.m[at], w.l[at] = m, l
		return
	}
	top := max(w.m[at], m)
	a, b := plain.Exp(w.m[at]-top), plain.Exp(m-top)
	one := [1]float32{w.l[at]}
	plain.Blend(one[:], a, []float32{l}, b)
	w.m[at], w.l[at] = top, one[0]
	plain.Blend(acc, a, o, b)
}

// widen decodes the keys and values of cells [from, from+n) of a sequence, mapped through its runs, for one KV head.
func (s *attention) widen(w *attnWork, seq, kvHead, from, n int) {
	hd := s.a.HeadDim
	keyBytes, valueBytes := s.keyRow/s.a.KVHeads, s.valueRow/s.a.KVHeads
	run, left := s.seqRuns[2*seq], s.seqRuns[2*seq+1]
	skip, j := from, 0
	for ; left > 0 && j < n; left, run = left-1, run+1 {
		cell, length := int(s.runs[2*run]), int(s.runs[2*run+1])
		if skip >= length {
			skip -= length
			continue
		}
		for i := skip; i < length && j < n; i, j = i+1, j+1 {
			k := s.keys[(cell+i)*s.keyRow+kvHead*keyBytes:][:keyBytes]
			v := s.values[(cell+i)*s.valueRow+kvHead*valueBytes:][:valueBytes]
			decode(s.keyFormat, w.k[j*hd:(j+1)*hd], k)
			decode(s.valueFormat, w.v[j*hd:(j+1)*hd], v)
		}
		skip = 0
	}
}

func decode(f kvformat.Format, dst []float32, src []byte) {
	if f == kvformat.F16 {
		plain.Halves(dst, src)
		return
	}
	f.Decode(dst, src)
}

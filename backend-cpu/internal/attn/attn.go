package attn

import (
	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/backend-cpu/internal/vec"
	"github.com/minfer-go/minfer/kvformat"
)

// Shape is what all layers of a model's attention have in common.
type Shape struct {
	Heads, KVHeads, HeadDim int
	KeyFormat, ValueFormat  kvformat.Format
	KeyRow, ValueRow        int // bytes of a cell, all KV heads
	Scale                   float32
}

func (s *Shape) group() int { return s.Heads / s.KVHeads }

// Worker is one worker's memory: a chunk's keys and values in float32, and the state of a block's queries.
type Worker struct {
	keys, values []float32
	q, s         []float32
	o, oc        []float32
	state        []vec.State // of the chunk at hand, by query
	running      []vec.State // of the chunks merged so far
	offs         []int
}

// NewWorker makes memory for shapes up to this one.
func NewWorker(s Shape) *Worker {
	// One row more than fits may be there, and one query to make them even.
	queries := max(blockQueries, s.group()) + 1
	padded := vec.PadDim(s.HeadDim)
	return &Worker{
		keys: floats(vec.Chunk * s.HeadDim), values: floats(vec.Chunk * padded),
		q: floats(queries * s.HeadDim), s: floats(queries * vec.Chunk),
		o: floats(queries * padded), oc: floats(queries * padded),
		state: make([]vec.State, queries), running: make([]vec.State, queries), offs: make([]int, vec.Chunk),
	}
}

// Parts holds the results of single chunks until they are merged in order.
type Parts struct {
	state []vec.State
	o     []float32
}

// NewParts makes room for n chunk results of heads of headDim.
func NewParts(n, headDim int) *Parts {
	return &Parts{state: make([]vec.State, n), o: floats(n * vec.PadDim(headDim))}
}

// Len is the number of chunk results that there is room for.
func (p *Parts) Len() int { return len(p.state) }

func floats(n int) []float32 { return make([]float32, n) }

// Job is one layer's attention in a step: y[r, h] for rows [rows, Heads*HeadDim] with strides in elements.
type Job struct {
	Shape
	Kernels      vec.Kernels
	Plan         *Plan
	Q, Y         []float32
	QStride      int
	YStride      int
	Keys, Values []byte
	Workers      []*Worker
	Parts        *Parts
	Acts         *matmul.Acts // filled with the rounded output if not nil: HeadDim is a multiple of 32 then
	Path         matmul.Path
}

// whole reports whether each block and KV head is done by one worker from its first chunk to its last. Else chunks are
// spread over the workers and merged after a barrier. Either way the arithmetic is the same.
func (j *Job) whole(workers int) bool {
	p := j.Plan
	if workers == 1 || p.chunks <= 1 || len(p.blocks)*j.KVHeads >= 4*workers {
		return true
	}
	return len(p.in.Lengths)*j.Heads*p.chunks > len(j.Parts.state)
}

// Chunks is the first step: all work in whole mode, the chunks' own results else.
func (j *Job) Chunks(worker, workers int) {
	p, w := j.Plan, j.Workers[worker]
	if worker == 0 {
		j.padding()
	}
	if !j.whole(workers) {
		units, u := 0, 0
		for _, b := range p.blocks {
			units += chunksOf(b.length) * j.KVHeads
		}
		lo, hi := units*worker/workers, units*(worker+1)/workers
		for i := range p.blocks {
			b := &p.blocks[i]
			for h := range j.KVHeads {
				loaded := false
				for c := range chunksOf(b.length) {
					if u >= lo && u < hi {
						if !loaded {
							j.load(w, b, h)
							loaded = true
						}
						j.chunk(w, b, h, c)
						j.keep(w, b, h, c)
					}
					u++
				}
			}
		}
		return
	}
	total := 0
	for i := range p.blocks {
		total += p.blocks[i].cost() * j.KVHeads
	}
	lo, hi := total*worker/workers, total*(worker+1)/workers
	at := 0
	for i := range p.blocks {
		b := &p.blocks[i]
		for h := range j.KVHeads {
			if at >= lo && at < hi {
				j.load(w, b, h)
				for c := range chunksOf(b.length) {
					j.chunk(w, b, h, c)
					j.merge(w, b, c)
				}
				j.finish(w, b, h)
			}
			at += b.cost()
		}
	}
}

// cost is in units of the work of a query and cell; converting a chunk costs about as much as four queries.
func (b *block) cost() int { return b.length * (b.rows + 4) }

// Combine is the second step: merges what Chunks has kept.
func (j *Job) Combine(worker, workers int) {
	if j.whole(workers) {
		return
	}
	p := j.Plan
	total := len(p.in.Lengths) * j.Heads
	padded := vec.PadDim(j.HeadDim)
	for i := total * worker / workers; i < total*(worker+1)/workers; i++ {
		row, head := i/j.Heads, i%j.Heads
		n := chunksOf(int(p.in.Lengths[row]))
		if n == 0 {
			continue
		}
		at := i * p.chunks
		o := j.Parts.o[at*padded:][:padded]
		state := j.Parts.state[at]
		for c := 1; c < n; c++ {
			j.Kernels.Merge(&state, o, j.Parts.state[at+c], j.Parts.o[(at+c)*padded:][:padded])
		}
		j.write(row, head, o, state.L)
	}
}

// load copies a block's queries together: head after head, row after row, and a zero one if their number is odd.
func (j *Job) load(w *Worker, b *block, kvHead int) {
	g := j.group()
	n := g * j.HeadDim
	for r := range b.rows {
		copy(w.q[r*n:][:n], j.Q[(b.row+r)*j.QStride+kvHead*n:])
	}
	if g*b.rows%2 == 1 {
		clear(w.q[b.rows*n:][:j.HeadDim])
	}
}

// chunk computes the state and output of each query for chunk c alone.
func (j *Job) chunk(w *Worker, b *block, kvHead, c int) {
	k, p, g := j.Kernels, j.Plan, j.group()
	first := c * vec.Chunk
	n := min(vec.Chunk, b.length-first)
	padded := vec.PadDim(j.HeadDim)

	p.offsets(w.offs, b.seq, first, n, j.KeyRow, j.KeyRow/j.KVHeads*kvHead)
	k.Keys(w.keys, j.Keys, w.offs, n, j.HeadDim, j.KeyFormat)
	queries := g * b.rows
	k.Scores(w.s, w.q, w.keys, (queries+1)&^1, n, j.HeadDim)
	for r := range b.rows {
		valid := j.valid(b.row+r, first)
		for i := r * g; valid > 0 && i < (r+1)*g; i++ {
			m, l := k.SoftChunk(w.s[i*vec.Chunk : (i+1)*vec.Chunk][:valid], j.Scale)
			w.state[i] = vec.State{M: m, L: l}
		}
	}

	p.offsets(w.offs, b.seq, first, n, j.ValueRow, j.ValueRow/j.KVHeads*kvHead)
	k.Values(w.values, j.Values, w.offs, n, j.HeadDim, j.ValueFormat)
	clear(w.oc[:queries*padded])
	for e := 0; e < padded; e += vec.Slice {
		values := w.values[e*vec.Chunk:][:vec.Chunk*vec.Slice]
		for r := range b.rows {
			valid := j.valid(b.row+r, first)
			i, end := r*g, (r+1)*g
			for ; i+1 < end; i += 2 {
				k.Weigh2(w.oc[i*padded+e:], w.oc[(i+1)*padded+e:], w.s[i*vec.Chunk:], w.s[(i+1)*vec.Chunk:], values, valid)
			}
			if i < end {
				k.Weigh(w.oc[i*padded+e:], w.s[i*vec.Chunk:], values, 0, valid)
			}
		}
	}
}

// valid is the number of a chunk's positions that a row attends to.
func (j *Job) valid(row, first int) int {
	return max(0, min(vec.Chunk, int(j.Plan.in.Lengths[row])-first))
}

// merge adds chunk c to the block's running state.
func (j *Job) merge(w *Worker, b *block, c int) {
	g, padded := j.group(), vec.PadDim(j.HeadDim)
	for r := range b.rows {
		if c >= chunksOf(int(j.Plan.in.Lengths[b.row+r])) {
			continue
		}
		for i := r * g; i < (r+1)*g; i++ {
			o, oc := w.o[i*padded:][:padded], w.oc[i*padded:][:padded]
			if c == 0 {
				copy(o, oc)
				w.running[i] = w.state[i]
				continue
			}
			j.Kernels.Merge(&w.running[i], o, w.state[i], oc)
		}
	}
}

// keep stores the results of a block's queries for chunk c until Combine.
func (j *Job) keep(w *Worker, b *block, kvHead, c int) {
	g, padded := j.group(), vec.PadDim(j.HeadDim)
	for r := range b.rows {
		row := b.row + r
		if c >= chunksOf(int(j.Plan.in.Lengths[row])) {
			continue
		}
		for i := range g {
			at := (row*j.Heads+kvHead*g+i)*j.Plan.chunks + c
			j.Parts.state[at] = w.state[r*g+i]
			copy(j.Parts.o[at*padded:][:padded], w.oc[(r*g+i)*padded:])
		}
	}
}

func (j *Job) finish(w *Worker, b *block, kvHead int) {
	g, padded := j.group(), vec.PadDim(j.HeadDim)
	for r := range b.rows {
		for i := range g {
			j.write(b.row+r, kvHead*g+i, w.o[(r*g+i)*padded:], w.running[r*g+i].L)
		}
	}
}

// write gives one head's result, and rounds it for the product that follows.
func (j *Job) write(row, head int, o []float32, l float32) {
	at := head * j.HeadDim
	j.Kernels.Scale(j.Y[row*j.YStride+at:][:j.HeadDim], o, 1/l)
	if j.Acts != nil {
		j.Acts.Quantize(j.Path, j.Y, j.YStride, row, row+1, at, at+j.HeadDim)
	}
}

// padding rows give zeros.
func (j *Job) padding() {
	for row, n := range j.Plan.in.Lengths {
		if n > 0 {
			continue
		}
		clear(j.Y[row*j.YStride:][:j.Heads*j.HeadDim])
		if j.Acts != nil {
			j.Acts.Quantize(j.Path, j.Y, j.YStride, row, row+1, 0, j.Heads*j.HeadDim)
		}
	}
}

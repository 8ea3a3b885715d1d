package attn

import (
	"sync/atomic"

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

// Worker is one worker's memory: a chunk's keys or values in float32, and the state of a block's queries.
type Worker struct {
	wide    *vec.Wide
	packed  *vec.Packed
	q, s    []float32
	o, oc   []float32
	state   []vec.State // of the chunk at hand, by query
	running []vec.State // of the chunks merged so far
	valid   []int       // positions of the chunk at hand, by query
	offs    []int
}

// NewWorker makes memory for shapes up to this one.
func NewWorker(s Shape) *Worker {
	queries := max(blockQueries, s.group())
	padded := vec.PadDim(s.HeadDim)
	return &Worker{
		wide: vec.NewWide(s.HeadDim), packed: vec.NewPacked(s.HeadDim),
		q: floats((queries + vec.PackQueries) * padded), s: floats((queries + vec.PackQueries) * vec.Chunk),
		o: floats(queries * padded), oc: floats(queries * padded),
		state: make([]vec.State, queries), running: make([]vec.State, queries), valid: make([]int, queries),
		offs: make([]int, vec.Chunk),
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

	taken atomic.Uint64 // the plan's build and how much of it workers have taken, 32 bits each
}

// whole reports whether each block and KV head is done by one worker from its first chunk to its last. Else chunks are
// spread over the workers and merged after a barrier. Either way the arithmetic is the same.
func (j *Job) whole(workers int) bool {
	p := j.Plan
	if workers == 1 || p.chunks <= 1 || len(p.blocks) > 1 && len(p.blocks)*j.KVHeads >= 4*workers {
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
		for i := range p.blocks {
			units += chunksOf(p.blocks[i].length) * j.KVHeads
		}
		lo, hi := units*worker/workers, units*(worker+1)/workers
		for i := range p.blocks {
			b := &p.blocks[i]
			for c := range chunksOf(b.length) {
				from, to := max(0, lo-u), min(j.KVHeads, hi-u)
				for h0 := from; h0 < to; h0 += j.heads(w, b) {
					h1 := min(to, h0+j.heads(w, b))
					j.load(w, b, h0, h1)
					if b.rows == 1 {
						at := j.part(b.row, c, h0*j.group())
						j.chunk(w, b, h0, h1, c, j.Parts.state[at:], j.Parts.o[at*vec.PadDim(j.HeadDim):])
						continue
					}
					j.chunk(w, b, h0, h1, c, w.state, w.oc)
					j.keep(w, b, h0, h1, c)
				}
				u += j.KVHeads
			}
		}
		return
	}
	if p.prompt() {
		for {
			b, h0, h1, ok := j.take()
			if !ok {
				return
			}
			j.unit(w, b, h0, h1)
		}
	}
	total := 0
	for i := range p.blocks {
		total += p.blocks[i].cost() * j.KVHeads
	}
	lo, hi := total*worker/workers, total*(worker+1)/workers
	at := 0
	for i := range p.blocks {
		b := &p.blocks[i]
		for h := 0; h < j.KVHeads; {
			if at < lo || at >= hi {
				at += b.cost()
				h++
				continue
			}
			h1 := h
			for h1 < j.KVHeads && h1 < h+j.heads(w, b) && at < hi {
				h1++
				at += b.cost()
			}
			j.unit(w, b, h, h1)
			h = h1
		}
	}
}

// unit does all of a block and KV heads [h0,h1).
func (j *Job) unit(w *Worker, b *block, h0, h1 int) {
	j.load(w, b, h0, h1)
	j.chunk(w, b, h0, h1, 0, w.running, w.o)
	for c := 1; c < chunksOf(b.length); c++ {
		j.chunk(w, b, h0, h1, c, w.state, w.oc)
		j.merge(w, b, h1-h0, c)
	}
	j.finish(w, b, h0, h1)
}

// take hands a block and KV head out to whichever worker is free, the last blocks, which are the longest, first: so all workers end together, though
// one be slower. What is taken counts for the plan's present build: a step that was given up leaves nothing behind.
func (j *Job) take() (b *block, h0, h1 int, ok bool) {
	p := j.Plan
	for {
		at := j.taken.Load()
		n := int(uint32(at))
		if at>>32 != p.builds {
			n = 0
		}
		if n >= len(p.blocks)*j.KVHeads {
			return nil, 0, 0, false
		}
		if j.taken.CompareAndSwap(at, p.builds<<32|uint64(n+1)) {
			h := n % j.KVHeads
			return &p.blocks[len(p.blocks)-1-n/j.KVHeads], h, h + 1, true
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
		at := j.part(row, 0, head)
		o := j.Parts.o[at*padded:][:padded]
		state := j.Parts.state[at:][:1]
		for c := 1; c < n; c++ {
			at := j.part(row, c, head)
			j.Kernels.Merge(state, o, j.Parts.state[at:][:1], j.Parts.o[at*padded:][:padded])
		}
		j.write(row, head, o, state[0].L)
	}
}

// merge adds chunk c to the running state of a block's queries for so many KV heads.
func (j *Job) merge(w *Worker, b *block, heads, c int) {
	g, padded := j.group(), vec.PadDim(j.HeadDim)
	for h := range heads {
		for r := 0; r < b.rows; {
			if !j.reaches(b.row+r, c) {
				r++
				continue
			}
			from := r
			for r < b.rows && j.reaches(b.row+r, c) {
				r++
			}
			lo, hi := (h*b.rows+from)*g, (h*b.rows+r)*g
			j.Kernels.Merge(w.running[lo:hi], w.o[lo*padded:hi*padded], w.state[lo:hi], w.oc[lo*padded:hi*padded])
		}
	}
}

// reaches reports whether a row attends to a position of chunk c.
func (j *Job) reaches(row, c int) bool { return int(j.Plan.in.Lengths[row]) > c*vec.Chunk }

// part is where a row's result for chunk c and a query head stands in Parts. One row's heads stand together.
func (j *Job) part(row, c, head int) int { return (row*j.Plan.chunks+c)*j.Heads + head }

// keep stores the results of a block's queries of KV heads [h0,h1) for chunk c until Combine.
func (j *Job) keep(w *Worker, b *block, h0, h1, c int) {
	g, padded := j.group(), vec.PadDim(j.HeadDim)
	for r := range b.rows {
		row := b.row + r
		if c >= chunksOf(int(j.Plan.in.Lengths[row])) {
			continue
		}
		for h := h0; h < h1; h++ {
			for i := range g {
				from := ((h-h0)*b.rows+r)*g + i
				at := j.part(row, c, h*g+i)
				j.Parts.state[at] = w.state[from]
				copy(j.Parts.o[at*padded:][:padded], w.oc[from*padded:])
			}
		}
	}
}

func (j *Job) finish(w *Worker, b *block, h0, h1 int) {
	g, padded := j.group(), vec.PadDim(j.HeadDim)
	at := 0
	for h := h0; h < h1; h++ {
		for r := range b.rows {
			for i := range g {
				j.write(b.row+r, h*g+i, w.o[at*padded:], w.running[at].L)
				at++
			}
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

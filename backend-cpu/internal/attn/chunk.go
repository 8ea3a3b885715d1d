package attn

import (
	"github.com/minfer-go/minfer/backend-cpu/internal/vec"
	"github.com/minfer-go/minfer/kvformat"
)

// heads is how many KV heads a worker has room for at once.
func (j *Job) heads(w *Worker, b *block) int { return max(1, len(w.state)/(j.group()*b.rows)) }

// load copies the queries of a block and KV heads [h0,h1) together, each padded to whole blocks of elements: KV head after KV head, row after
// row, query head after query head.
func (j *Job) load(w *Worker, b *block, h0, h1 int) {
	g, padded := j.group(), vec.PadDim(j.HeadDim)
	at := 0
	for h := h0; h < h1; h++ {
		for r := range b.rows {
			from := j.Q[(b.row+r)*j.QStride+h*g*j.HeadDim:]
			for i := range g {
				q := w.q[at:][:padded]
				clear(q[copy(q, from[i*j.HeadDim:][:j.HeadDim]):])
				at += padded
			}
		}
	}
}

// chunk computes the state and output of each query of KV heads [h0,h1) for chunk c alone, in the order of load.
func (j *Job) chunk(w *Worker, b *block, h0, h1, c int, state []vec.State, o []float32) {
	k, g := j.Kernels, j.group()
	first := c * vec.Chunk
	n := min(vec.Chunk, b.length-first)
	padded, queries := vec.PadDim(j.HeadDim), g*b.rows
	valid := w.valid[:queries]
	for i := range valid {
		valid[i] = j.valid(b.row+i/g, first)
	}

	keys := j.rows(w, b, j.Keys, first, j.KeyRow, j.KeyFormat)
	if k.Packs(queries) {
		for h := h0; h < h1; h++ {
			i := (h - h0) * queries
			k.Pack(w.packed, keys.Head(h), n)
			k.ScoresPacked(w.s[i*vec.Chunk:], w.q[i*padded:], w.packed, j.HeadDim, valid)
		}
	} else {
		j.scores(w, keys, valid, n, h0, h1)
	}
	for i := 0; i < queries*(h1-h0); i += queries {
		k.Soft(w.s[i*vec.Chunk:], valid, j.Scale, state[i:])
	}

	values := j.rows(w, b, j.Values, first, j.ValueRow, j.ValueFormat)
	clear(o[:queries*(h1-h0)*padded])
	direct, step := k.Direct(queries, j.HeadDim, j.ValueFormat), piece(j.ValueRow)
	switch {
	case !direct && queries >= manyQueries:
		step = vec.Chunk
	case !direct:
		step = piece(4 * padded)
	}
	for from := 0; from < n; from += step {
		to := min(n, from+step)
		for h := h0; h < h1; h++ {
			r, next := values.Head(h), w.next(from, step, h-h0, h1-h0, j.ValueRow)
			if !direct {
				k.Widen(w.wide, r, from, to, next)
				r = w.wide.Rows(j.HeadDim)
			}
			i := (h - h0) * queries
			k.Weigh(o[i*padded:], w.s[i*vec.Chunk:], r, valid, from, to, next)
		}
	}
}

// scores multiplies the queries of KV heads [h0,h1) with the first n keys of a chunk.
func (j *Job) scores(w *Worker, keys vec.Rows, valid []int, n, h0, h1 int) {
	k, padded, queries := j.Kernels, vec.PadDim(j.HeadDim), len(valid)
	direct, step := k.Direct(queries, j.HeadDim, j.KeyFormat), piece(j.KeyRow)
	if !direct {
		step = piece(4 * padded)
	}
	for from := 0; from < n; from += step {
		to := min(n, from+step)
		for h := h0; h < h1; h++ {
			r, next := keys.Head(h), w.next(from, step, h-h0, h1-h0, j.KeyRow)
			if !direct {
				k.Widen(w.wide, r, from, to, next)
				r = w.wide.Rows(j.HeadDim)
			}
			i := (h - h0) * queries
			k.Scores(w.s[i*vec.Chunk:], w.q[i*padded:], r, valid, from, to, next)
		}
	}
}

// manyQueries is from how many queries on a whole chunk of values is widened at once: more passes over the outputs would cost more then.
const manyQueries = 12

// piece is how many rows all heads read before the next ones: their bytes lie together, and stay in the first cache while heads pass.
func piece(rowBytes int) int { return min(max(8, pieceBytes/rowBytes&^7), vec.Chunk) }

const pieceBytes = 16 << 10

// next gives the share of head i of n in what is read after the piece at from, if cells follow each other.
func (w *Worker) next(from, piece, i, n, rowBytes int) int {
	return w.offs[from] + piece*rowBytes*(n+i)/n
}

// rows finds the keys or values of a chunk.
func (j *Job) rows(w *Worker, b *block, mem []byte, first, rowBytes int, f kvformat.Format) vec.Rows {
	have := min(vec.Chunk, b.length-first)
	j.Plan.offsets(w.offs, b.seq, first, have, rowBytes, 0)
	for i := have; i < len(w.offs); i++ {
		w.offs[i] = w.offs[have-1]
	}
	return vec.NewRows(mem, w.offs, rowBytes, j.HeadDim, f)
}

// valid is the number of a chunk's positions that a row attends to.
func (j *Job) valid(row, first int) int {
	return max(0, min(vec.Chunk, int(j.Plan.in.Lengths[row])-first))
}

package backendcpu

import (
	"math"

	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/backend-cpu/internal/plain"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
	"github.com/minfer-go/minfer/quant"
)

func format(t quant.Type) (kvformat.Format, error) { return kvformat.FromType(t) }

// rounding rounds activations to 8 bits. Few rows are split by columns.
type rounding struct {
	b    *Backend
	acts *matmul.Acts
	x    mat
}

func (s *rounding) Run(worker, n int) error {
	if s.x.rows < n {
		lo, hi := pool.Split(s.x.width, 32, worker, n)
		s.acts.Quantize(s.b.kernel.Path(), s.x.data, s.x.stride, 0, s.x.rows, lo, hi)
		return nil
	}
	lo, hi := pool.Split(s.x.rows, 1, worker, n)
	s.acts.Quantize(s.b.kernel.Path(), s.x.data, s.x.stride, lo, hi, 0, s.x.width)
	return nil
}

// product is y = x w^T + bias; workers share the outputs.
type product struct {
	b       *Backend
	y, x    mat
	w       matmul.Weight
	bias    []float32
	acts    *matmul.Acts
	scratch []matmul.Scratch
}

func (s *product) Run(worker, n int) error {
	lo, hi := pool.Split(s.w.Rows, matmul.SplitRows, worker, n)
	if lo >= hi {
		return nil
	}
	if s.acts != nil {
		s.b.kernel.Mul(s.y.data, s.y.stride, s.w, s.acts, lo, hi, &s.scratch[worker])
	} else {
		s.b.kernel.MulFloat(s.y.data, s.y.stride, s.w, s.x.data, s.x.stride, s.x.rows, lo, hi, &s.scratch[worker])
	}
	if s.bias != nil {
		for r := range s.y.rows {
			y := s.y.row(r)
			for o := lo; o < hi; o++ {
				y[o] += s.bias[o]
			}
		}
	}
	return nil
}

// norm is RmsNorm over the last dimension, or over each head.
type norm struct {
	y, x mat
	w    []float32
	eps  float32
}

func (s *norm) Run(worker, n int) error {
	per := s.x.width / len(s.w)
	lo, hi := pool.Split(s.x.rows*per, 1, worker, n)
	for i := lo; i < hi; i++ {
		r, at := i/per, i%per*len(s.w)
		plain.RMSNorm(s.y.row(r)[at:at+len(s.w)], s.x.row(r)[at:at+len(s.w)], s.w, s.eps)
	}
	return nil
}

// binary is an element by element op of two operands.
type binary struct {
	op   graph.Op
	y    mat
	a, b mat
}

func (s *binary) Run(worker, n int) error {
	return eachPart(s.y, worker, n, func(r, lo, hi int) {
		y, a, b := s.y.row(r)[lo:hi], s.a.row(r)[lo:hi], s.b.row(r)[lo:hi]
		switch s.op {
		case graph.OpAdd:
			for i := range y {
				y[i] = a[i] + b[i]
			}
		case graph.OpMul:
			for i := range y {
				y[i] = a[i] * b[i]
			}
		default:
			plain.SwiGLU(y, a, b)
		}
	})
}

// eachPart gives each worker its part of a tensor: whole rows, or columns of every row when rows are few.
func eachPart(m mat, worker, n int, f func(r, lo, hi int)) error {
	if m.rows < n {
		lo, hi := pool.Split(m.width, 16, worker, n)
		for r := 0; r < m.rows && lo < hi; r++ {
			f(r, lo, hi)
		}
		return nil
	}
	from, to := pool.Split(m.rows, 1, worker, n)
	for r := from; r < to; r++ {
		f(r, 0, m.width)
	}
	return nil
}

type unary struct {
	op     graph.Op
	factor float32
	y, x   mat
}

func (s *unary) Run(worker, n int) error {
	return eachPart(s.y, worker, n, func(r, lo, hi int) {
		y, x := s.y.row(r)[lo:hi], s.x.row(r)[lo:hi]
		for i, v := range x {
			if s.op == graph.OpScale {
				y[i] = v * s.factor
			} else {
				y[i] = plain.Silu(v)
			}
		}
	})
}

// softmax is over the last dimension, of width n.
type softmax struct {
	y, x mat
	n    int
}

func (s *softmax) Run(worker, workers int) error {
	lo, hi := pool.Split(s.x.rows, 1, worker, workers)
	for r := lo; r < hi; r++ {
		for at := 0; at < s.x.width; at += s.n {
			y := s.y.row(r)[at : at+s.n]
			copy(y, s.x.row(r)[at:at+s.n])
			inv := 1 / plain.ExpSum(y, plain.Max(y))
			for i := range y {
				y[i] *= inv
			}
		}
	}
	return nil
}

type permute struct {
	y, x  mat
	shape graph.Shape
	attr  graph.PermuteAttr
}

func (s *permute) Run(worker, _ int) error {
	if worker != 0 {
		return nil
	}
	rank := len(s.shape)
	var strides [4]int // of x, by dimension; dimension 0 has the row stride
	w := 1
	for i := rank - 1; i > 0; i-- {
		strides[i] = w
		w *= s.shape[i]
	}
	strides[0] = s.x.stride
	var at [4]int
	for i := 0; i < s.y.rows*s.y.width; i++ {
		from := 0
		for d := range rank {
			from += at[d] * strides[s.attr.Dims[d]]
		}
		s.y.data[i] = s.x.data[from]
		for d := rank - 1; d >= 0; d-- {
			if at[d]++; at[d] < s.shape[s.attr.Dims[d]] {
				break
			}
			at[d] = 0
		}
	}
	return nil
}

// getRows gathers rows of a weight, widened, or of an activation.
type getRows struct {
	y, x  mat
	ids   []int32
	typ   quant.Type
	table []byte
}

func (s *getRows) Run(worker, n int) error {
	lo, hi := pool.Split(s.y.rows, 1, worker, n)
	for r := lo; r < hi; r++ {
		id := int(s.ids[r])
		if s.table == nil {
			copy(s.y.row(r), s.x.row(id))
			continue
		}
		size := s.typ.RowBytes(s.y.width)
		if err := quant.Dequantize(s.typ, s.y.row(r), s.table[id*size:(id+1)*size]); err != nil {
			return err
		}
	}
	return nil
}

// store encodes rows into their KV cells.
type store struct {
	x        mat
	cells    []int32
	region   []byte
	rowBytes int
	f        kvformat.Format
}

func (s *store) Run(worker, n int) error {
	lo, hi := pool.Split(s.x.rows, 1, worker, n)
	for r := lo; r < hi; r++ {
		if c := int(s.cells[r]); c >= 0 {
			s.f.Encode(s.region[c*s.rowBytes:(c+1)*s.rowBytes], s.x.row(r))
		}
	}
	return nil
}

// ropeTable holds cosines and sines of a step's positions, [rows][pairs].
type ropeTable struct {
	attr      graph.RopeAttr
	positions []int32
	freq      []float64 // angle of a pair at position 1
	m         float64   // magnitude
	cos, sin  []float32
}

// table makes the step that fills the cosines and sines, once a program.
func (c *compiler) table(a graph.RopeAttr, positions *graph.Node) *ropeTable {
	t := c.tables[a]
	if t != nil {
		return t
	}
	pairs := a.Dims / 2
	t = &ropeTable{attr: a, positions: c.ints(positions), m: float64(a.AttnFactor), freq: make([]float64, pairs)}
	t.cos, t.sin = make([]float32, len(t.positions)*pairs), make([]float32, len(t.positions)*pairs)
	if a.ExtFactor != 0 {
		t.m *= 1 + 0.1*math.Log(1/float64(a.FreqScale))
	}
	corr := func(beta float64) float64 {
		return float64(a.Dims) * math.Log(float64(a.OrigCtx)/(beta*2*math.Pi)) / (2 * math.Log(float64(a.Base)))
	}
	for i := range t.freq {
		extrap := math.Pow(float64(a.Base), -2*float64(i)/float64(a.Dims))
		t.freq[i] = float64(a.FreqScale) * extrap
		if a.ExtFactor != 0 {
			low, high := max(0, math.Floor(corr(float64(a.BetaFast)))), min(float64(a.Dims-1), math.Ceil(corr(float64(a.BetaSlow))))
			mix := (1 - min(max((float64(i)-low)/max(0.001, high-low), 0), 1)) * float64(a.ExtFactor)
			t.freq[i] = t.freq[i]*(1-mix) + extrap*mix
		}
	}
	c.tables[a] = t
	c.add(t)
	return t
}

func (t *ropeTable) Run(worker, n int) error {
	lo, hi := pool.Split(len(t.positions), 1, worker, n)
	for r := lo; r < hi; r++ {
		for i, f := range t.freq {
			sin, cos := math.Sincos(float64(t.positions[r]) * f)
			t.cos[r*len(t.freq)+i], t.sin[r*len(t.freq)+i] = float32(cos*t.m), float32(sin*t.m)
		}
	}
	return nil
}

type rope struct {
	y, x    mat
	t       *ropeTable
	headDim int
}

func (s *rope) Run(worker, n int) error {
	pairs := len(s.t.freq)
	step, apart := 1, pairs
	if s.t.attr.Style == graph.RopeInterleaved {
		step, apart = 2, 1
	}
	heads := s.x.width / s.headDim
	lo, hi := pool.Split(s.x.rows*heads, 1, worker, n)
	for i := lo; i < hi; i++ {
		r, h := i/heads, i%heads*s.headDim
		y, x := s.y.row(r)[h:h+s.headDim], s.x.row(r)[h:h+s.headDim]
		plain.Rope(y, x, s.t.cos[r*pairs:(r+1)*pairs], s.t.sin[r*pairs:(r+1)*pairs], step, apart)
		copy(y[2*pairs:], x[2*pairs:])
	}
	return nil
}

package backendcpu

import (
	"github.com/minfer-go/minfer/backend-cpu/internal/attn"
	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/backend-cpu/internal/vec"
	"github.com/minfer-go/minfer/quant"
)

// mat is a float32 tensor as rows: row r is p[r*stride:][:width].
type mat struct {
	p                   []float32
	rows, width, stride int
}

func (m *mat) row(r int) []float32 { return m.p[r*m.stride:][:m.width] }

// grid splits rows*width elements: whole rows where there are enough of them, else ranges of columns that are
// multiples of unit.
func grid(rows, width, unit, worker, n int) (r0, r1, c0, c1 int) {
	if rows >= n {
		r0, r1 = pool.Split(rows, 1, worker, n)
		return r0, r1, 0, width
	}
	c0, c1 = pool.Split(width, unit, worker, n)
	return 0, rows, c0, c1
}

// prepare computes what all layers use: the plans of attention and the tables of angles.
type prepare struct {
	prof   *profiler
	plans  []*attn.Plan
	tables []*ropeTable
}

func (s *prepare) Run(worker, n int) error {
	if worker == 0 {
		for _, p := range s.plans {
			p.Build()
		}
		s.prof.lap(worker, kindAttention)
	}
	for _, t := range s.tables {
		t.fill(pool.Split(len(t.cos), 1, worker, n))
	}
	return nil
}

// elementwise is y = f(a, b) over columns of rows.
type elementwise struct {
	y, a, b mat
	f       func(y, a, b []float32)
}

func (s *elementwise) Run(worker, n int) error {
	r0, r1, c0, c1 := grid(s.y.rows, s.y.width, 16, worker, n)
	for r := r0; r < r1; r++ {
		s.f(s.y.row(r)[c0:c1], s.a.row(r)[c0:c1], s.b.row(r)[c0:c1])
	}
	return nil
}

// rowwise is y = f(x) for each vector of n elements in each row.
type rowwise struct {
	y, x mat
	n    int
	f    func(y, x []float32)
	acts *matmul.Acts // filled with the rounded rows if not nil: of a norm
	path matmul.Path
	prof *profiler
}

func (s *rowwise) Run(worker, n int) error {
	r0, r1 := pool.Split(s.y.rows, 1, worker, n)
	for r := r0; r < r1; r++ {
		y, x := s.y.row(r), s.x.row(r)
		for i := 0; i < len(y); i += s.n {
			s.f(y[i:i+s.n], x[i:i+s.n])
		}
		if s.acts != nil {
			s.prof.lap(worker, kindNorm)
			s.acts.Quantize(s.path, s.y.p, s.y.stride, r, r+1, 0, s.y.width)
			s.prof.lap(worker, kindRounding)
		}
	}
	return nil
}

// round fills acts from x where no step before could.
type round struct {
	x    mat
	acts *matmul.Acts
	path matmul.Path
}

func (s *round) Run(worker, n int) error {
	r0, r1, c0, c1 := grid(s.x.rows, s.x.width, 32, worker, n)
	if r0 < r1 && c0 < c1 {
		s.acts.Quantize(s.path, s.x.p, s.x.stride, r0, r1, c0, c1)
	}
	return nil
}

// operand is the input of products: rounded for quantised weights, as it is for float ones.
type operand struct {
	x    mat
	acts *matmul.Acts
}

// product is one weight matrix of a step and where its columns go.
type product struct {
	w    matmul.Weight
	dst  mat // its width is the weight's rows
	bias []float32
	kind kind
}

// mul computes outputs [o0,o1) of w for all rows of in, output o of row r to dst[r*stride+o].
func (b *Backend) mul(dst []float32, stride int, w *matmul.Weight, in *operand, o0, o1, worker int) {
	if matmul.IsFloat(w.Type) {
		b.kernel.MulFloat(dst, stride, *w, in.x.p, in.x.stride, in.x.rows, o0, o1, b.scratch.matmul[worker])
	} else {
		b.kernel.Mul(dst, stride, *w, in.acts, o0, o1, b.scratch.matmul[worker])
	}
}

// blockOuts is how many outputs are computed at a time before the next thing is done with them: few for many rows, so that they stay in
// cache, and all for few rows, whose products read long streams of weights.
func blockOuts(rows, width int) int {
	if rows <= matmul.FewRows {
		return width
	}
	return 128
}

// blockFloats is the memory that a block takes.
func blockFloats(rows, width int) int { return rows * max(matmul.SplitRows, blockOuts(rows, width)) }

// block computes outputs [o,o+n) of a product, rows side by side in mem. Where results go in the end, rows may lie whole pages apart, in
// few sets of a cache: sums that stand there between two parts of the columns get lost to memory.
func (b *Backend) block(p *product, in *operand, o, n int, mem []float32, worker int) mat {
	from := max(0, min(o, p.w.Rows-matmul.SplitRows)) // kernels want so many weight rows
	width := o + n - from
	rowBytes := p.w.Type.RowBytes(p.w.Cols)
	w := p.w
	w.Rows, w.Data = width, w.Data[from*rowBytes:(o+n)*rowBytes]
	b.mul(mem, width, &w, in, 0, width, worker)
	b.prof.lap(worker, p.kind)
	return mat{p: mem[o-from:], rows: in.x.rows, width: n, stride: width}
}

// productsStep multiplies one input by one or more matrices, and may add a residual to the (only) result.
type productsStep struct {
	claim
	b     *Backend
	in    operand
	parts []product
	total int // outputs of all parts
	// sum = dst + other, if other has rows
	sum, other mat
}

func (s *productsStep) Run(worker, n int) error {
	for {
		lo, hi, ok := s.claim.take(s.total, n)
		if !ok {
			return nil
		}
		s.outputs(worker, lo, hi)
	}
}

// outputs computes those in [lo,hi), counted through all parts.
func (s *productsStep) outputs(worker, lo, hi int) {
	at := 0
	for i := range s.parts {
		p := &s.parts[i]
		o0, o1 := max(lo-at, 0), min(hi-at, p.w.Rows)
		at += p.w.Rows
		if o0 >= o1 {
			continue
		}
		if s.in.x.rows <= matmul.FewRows {
			s.b.mul(p.dst.p, p.dst.stride, &p.w, &s.in, o0, o1, worker)
			s.b.prof.lap(worker, p.kind)
			y := p.dst
			y.p, y.width = y.p[o0:], o1-o0
			s.finish(p, y, o0, worker)
			continue
		}
		n := blockOuts(p.dst.rows, p.dst.width)
		for o := o0; o < o1; o += n {
			y := s.b.block(p, &s.in, o, min(n, o1-o), s.b.scratch.floats[worker], worker)
			s.finish(p, y, o, worker)
		}
	}
}

// finish brings products that stand in y to their places, outputs from o on; y may be their place.
func (s *productsStep) finish(p *product, y mat, o, worker int) {
	spent := p.kind
	if p.bias != nil || s.other.rows > 0 {
		spent = kindAdd
	}
	for r := range y.rows {
		x := y.row(r)
		if p.bias != nil {
			s.b.vec.Add(x, x, p.bias[o:o+y.width])
		}
		if s.other.rows > 0 {
			s.b.vec.Add(s.sum.row(r)[o:o+y.width], x, s.other.row(r)[o:])
		} else if dst := p.dst.row(r)[o:]; &dst[0] != &x[0] {
			copy(dst, x)
		}
	}
	s.b.prof.lap(worker, spent)
}

// ffn is silu(x*gate')*(x*up'), a block of outputs after the other, rounded for the next product on the way.
type ffn struct {
	claim
	b        *Backend
	in       operand
	gate, up product // without a place for results
	y        mat     // without memory if nobody reads them but rounded
	acts     *matmul.Acts
}

func (s *ffn) Run(worker, n int) error {
	for {
		lo, hi, ok := s.claim.take(s.gate.w.Rows, n)
		if !ok {
			return nil
		}
		s.outputs(worker, lo, hi)
	}
}

// outputs computes those in [lo,hi).
func (s *ffn) outputs(worker, lo, hi int) {
	b, rows := s.b, s.in.x.rows
	most := blockOuts(rows, s.gate.w.Rows)
	half := blockFloats(rows, s.gate.w.Rows)
	mem := b.scratch.floats[worker]
	for o := lo; o < hi; o += most {
		n := min(most, hi-o)
		gate := b.block(&s.gate, &s.in, o, n, mem[:half], worker)
		up := b.block(&s.up, &s.in, o, n, mem[half:], worker)
		for r := range rows {
			h := gate.row(r)
			b.vec.SwiGLU(h, h, up.row(r))
			b.prof.lap(worker, kindSwiGLU)
			if s.acts != nil {
				s.acts.Round(b.kernel.Path(), h, r, o)
				b.prof.lap(worker, kindRounding)
			}
			if s.y.rows > 0 {
				copy(s.y.row(r)[o:], h)
			}
		}
	}
}

// gather looks rows of a weight table up.
type gather struct {
	y    mat
	ids  []int32
	typ  quant.Type
	data []byte
}

func (s *gather) Run(worker, n int) error {
	rowBytes := s.typ.RowBytes(s.y.width)
	r0, r1 := pool.Split(s.y.rows, 1, worker, n)
	for r := r0; r < r1; r++ {
		if err := quant.Dequantize(s.typ, s.y.row(r), s.data[int(s.ids[r])*rowBytes:][:rowBytes]); err != nil {
			return err
		}
	}
	return nil
}

// selectRows copies rows of an activation.
type selectRows struct {
	y, x mat
	ids  []int32
}

func (s *selectRows) Run(worker, n int) error {
	r0, r1 := pool.Split(s.y.rows, 1, worker, n)
	for r := r0; r < r1; r++ {
		copy(s.y.row(r), s.x.row(int(s.ids[r])))
	}
	return nil
}

// permute copies x with its dimensions reordered; dims and strides are y's, 4 of them.
type permute struct {
	y, x    []float32
	dims    [4]int
	strides [4]int // of x, by y's dimension
}

func (s *permute) Run(worker, n int) error {
	inner := s.dims[1] * s.dims[2] * s.dims[3]
	i0, i1 := pool.Split(s.dims[0], 1, worker, n)
	at := i0 * inner
	for i := i0; i < i1; i++ {
		for j := range s.dims[1] {
			for k := range s.dims[2] {
				from := i*s.strides[0] + j*s.strides[1] + k*s.strides[2]
				for l := range s.dims[3] {
					s.y[at] = s.x[from+l*s.strides[3]]
					at++
				}
			}
		}
	}
	return nil
}

// batch is y[i] = a[i] * b[i]' for each i.
type batch struct {
	y, a, b mat // rows: the batch
	m, n, k int
	vec     vec.Kernels
}

func (s *batch) Run(worker, workers int) error {
	lo, hi := pool.Split(s.y.rows*s.m, 1, worker, workers)
	for i := lo; i < hi; i++ {
		r, m := i/s.m, i%s.m
		x, y := s.a.row(r)[m*s.k:][:s.k], s.y.row(r)[m*s.n:][:s.n]
		for o := range y {
			y[o] = s.vec.Dot(x, s.b.row(r)[o*s.k:][:s.k])
		}
	}
	return nil
}

package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/minfer-go/minfer/cudart"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/quant"
)

// columns is the most that cases multiply by: more than what a block takes, several times.
var columns = 65

// roundingError is how far a product may be from float64's: float32 rounding of sums of up to some hundred terms, in
// parts of the terms' magnitudes.
const roundingError = 1e-5

// shapes of weights: one row, ragged tiles, one group and parts of one, several rounds, many rows (half the parts).
func shapes(t quant.Type) [][2]int {
	list := [][2]int{{1, 256}, {16, 512}, {17, 768}, {40, 3584}, {33, 5120}, {70, 9728}, {8207, 1280}}
	if t.BlockElems() <= 32 {
		list = append(list, [2]int{5, 32}, [2]int{31, 96}, [2]int{48, 288}, [2]int{50, 896}, [2]int{20, 4864})
	}
	return list
}

// setup is a quantised weight and rounded activations on the device.
type setup struct {
	t                     quant.Type
	rows, k               int
	file                  []byte
	wide                  []float32
	raw, planes           buffer
	sizes                 kernelscuda.Planes
	x                     []float32
	q                     []int8
	records               []record
	dx, dq, drecords      buffer
	reference, magnitudes []float64
}

func newSetup(r *rig, t quant.Type, rows, k int, seed uint64) (s *setup, err error) {
	rng := rand.New(rand.NewPCG(seed, uint64(rows*k)))
	s = &setup{t: t, rows: rows, k: k, file: randomWeight(rng, t, rows, k), x: randomRows(rng, columns*k)}
	s.wide = decode(t, s.file, rows*k)
	s.q, s.records = roundQ8(s.x)
	if s.raw, err = r.up(padRows(s.file, rows)); err != nil {
		return nil, err
	}
	if s.dx, err = r.up(bytesOf(s.x)); err != nil {
		return nil, err
	}
	if s.dq, err = r.up(bytesOf(s.q)); err != nil {
		return nil, err
	}
	if s.drecords, err = r.up(bytesOf(s.records)); err != nil {
		return nil, err
	}
	return s, s.repack(r)
}

// repack makes the planes and compares them with the rule in Go.
func (s *setup) repack(r *rig) (err error) {
	if s.sizes, err = kernelscuda.Tile16Planes(int32(s.t), s.rows, s.k); err != nil {
		return err
	}
	if s.planes, err = r.alloc(s.sizes.Bytes()); err != nil {
		return err
	}
	p := kernelscuda.RepackParams{W: s.raw.ptr, Data: s.planes.ptr, Rows: int32(s.rows), K: int32(s.k)}
	if err := r.k.Repack(r, int32(s.t), &p); err != nil {
		return err
	}
	got, err := r.down(s.planes, "repack")
	if err != nil {
		return err
	}
	want, err := kernelscuda.Tile16(int32(s.t), s.rows, s.k, s.file)
	if err != nil {
		return err
	}
	return same("planes", got, want)
}

func (s *setup) parts() (data, head, tail cudart.Ptr) {
	head = s.planes.ptr + cudart.Ptr(s.sizes.Data)
	return s.planes.ptr, head, head + cudart.Ptr(s.sizes.Head)
}

// refer computes the reference once.
func (s *setup) refer() {
	s.reference, s.magnitudes = product(s.wide, rounded(s.q, s.records), s.rows, s.k, columns)
}

// extras are a product's optional operands.
type extras struct {
	bias, residual cudart.Ptr
	inPlace        bool
	stride         int
}

func (e extras) residualOf(y buffer) (cudart.Ptr, int32) {
	if e.inPlace {
		return y.ptr, int32(e.stride)
	}
	return e.residual, int32(e.stride)
}

// multiply runs the raw or the tiled form on n columns and gives y with its stride.
func (s *setup) multiply(r *rig, tile bool, n int, e extras, y buffer) ([]float32, error) {
	residual, rs := e.residualOf(y)
	if !tile {
		p := kernelscuda.MatvecParams{W: s.raw.ptr, Q8: s.dq.ptr, Records: s.drecords.ptr, Bias: e.bias, Residual: residual, Y: y.ptr,
			Rows: int32(s.rows), K: int32(s.k), Columns: int32(n), ResidualStride: rs, YStride: int32(e.stride)}
		if err := r.k.Matvec(r, int32(s.t), &p); err != nil {
			return nil, err
		}
		return values[float32](r, y, fmt.Sprintf("matvec_raw %s, %d columns", s.t, n))
	}
	p := kernelscuda.MatvecTileParams{Q8: s.dq.ptr, Records: s.drecords.ptr, Segments: 1, K: int32(s.k), Columns: int32(n)}
	p.Data[0], p.Head[0], p.Tail[0] = s.parts()
	p.Bias[0], p.Residual[0], p.Y[0] = e.bias, residual, y.ptr
	p.Type[0], p.Rows[0], p.ResidualStride[0], p.YStride[0] = int32(s.t), int32(s.rows), rs, int32(e.stride)
	if err := r.k.MatvecTile(r, &p); err != nil {
		return nil, err
	}
	return values[float32](r, y, fmt.Sprintf("matvec_tile %s, %d columns", s.t, n))
}

// productCase compares all forms and numbers of columns of one shape.
func productCase(t quant.Type, rows, k int) testCase {
	return testCase{fmt.Sprintf("product/%s/%dx%d", t, rows, k), func(r *rig) error {
		s, err := newSetup(r, t, rows, k, 1)
		if err != nil {
			return err
		}
		s.refer()
		stride := rows + 3
		y, err := r.alloc(int64(4 * columns * stride))
		if err != nil {
			return err
		}
		all, err := s.multiply(r, false, columns, extras{stride: stride}, y)
		if err != nil {
			return err
		}
		if err := near(all, stride, s.reference, s.magnitudes, rows, columns, roundingError); err != nil {
			return err
		}
		base, err := dense(all, stride, rows, columns)
		if err != nil {
			return err
		}
		for _, tile := range []bool{false, true} {
			for _, n := range counts() {
				y, err := r.alloc(int64(4 * n * stride))
				if err != nil {
					return err
				}
				got, err := s.multiply(r, tile, n, extras{stride: stride}, y)
				if err != nil {
					return err
				}
				if got, err = dense(got, stride, rows, n); err == nil {
					err = same(fmt.Sprintf("tile %v, %d columns against raw of all", tile, n), bits(got), bits(base[:n*rows]))
				}
				if err != nil {
					return err
				}
			}
		}
		return s.additions(r, base)
	}}
}

// additions checks bias and residual, apart and in place, against float32 sums of the plain result.
func (s *setup) additions(r *rig, base []float32) error {
	rng := rand.New(rand.NewPCG(7, uint64(s.rows)))
	bias, residual := randomRows(rng, s.rows), randomRows(rng, columns*s.rows)
	want := make([]float32, len(base))
	for i, v := range base {
		want[i] = float32(v+bias[i%s.rows]) + residual[i]
	}
	db, err := r.up(bytesOf(bias))
	if err != nil {
		return err
	}
	for _, n := range []int{1, 3, columns} {
		for _, tile := range []bool{false, true} {
			for _, inPlace := range []bool{false, true} {
				y, err := r.up(bytesOf(residual[:n*s.rows]))
				if err != nil {
					return err
				}
				e := extras{bias: db.ptr, residual: y.ptr, inPlace: inPlace, stride: s.rows}
				if !inPlace {
					if y, err = r.alloc(y.n); err != nil {
						return err
					}
				}
				got, err := s.multiply(r, tile, n, e, y)
				if err != nil {
					return err
				}
				if err := same(fmt.Sprintf("bias and residual, tile %v, in place %v, %d columns", tile, inPlace, n), bits(got), bits(want[:n*s.rows])); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// stackCase compares one launch over three weights with one each.
func stackCase(types [3]quant.Type, rows [3]int, k int) testCase {
	return testCase{fmt.Sprintf("stack/%v/%v/%d", types, rows, k), func(r *rig) error {
		var list [3]*setup
		for i := range list {
			var err error
			if list[i], err = newSetup(r, types[i], rows[i], k, uint64(10+i)); err != nil {
				return err
			}
			list[i].dq, list[i].drecords = list[0].dq, list[0].drecords
		}
		for _, n := range counts() {
			p := kernelscuda.MatvecTileParams{Q8: list[0].dq.ptr, Records: list[0].drecords.ptr, Segments: 3, K: int32(k), Columns: int32(n)}
			var y [3]buffer
			for i, s := range list {
				var err error
				if y[i], err = r.alloc(int64(4 * n * s.rows)); err != nil {
					return err
				}
				p.Data[i], p.Head[i], p.Tail[i] = s.parts()
				p.Y[i], p.Type[i], p.Rows[i], p.YStride[i] = y[i].ptr, int32(s.t), int32(s.rows), int32(s.rows)
			}
			if err := r.k.MatvecTile(r, &p); err != nil {
				return err
			}
			for i, s := range list {
				got, err := values[float32](r, y[i], fmt.Sprintf("matvec_tile of %v, %d columns", types, n))
				if err != nil {
					return err
				}
				alone, err := r.alloc(y[i].n)
				if err != nil {
					return err
				}
				want, err := s.multiply(r, true, n, extras{stride: s.rows}, alone)
				if err != nil {
					return err
				}
				if err := same(fmt.Sprintf("weight %d, %d columns", i, n), bits(got), bits(want)); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// swigluCase compares the fused form with separate products.
func swigluCase(t quant.Type, rows, k int) testCase {
	return testCase{fmt.Sprintf("swiglu/%s/%dx%d", t, rows, k), func(r *rig) error {
		gate, err := newSetup(r, t, rows, k, 20)
		if err != nil {
			return err
		}
		up, err := newSetup(r, t, rows, k, 21)
		if err != nil {
			return err
		}
		up.dq, up.drecords = gate.dq, gate.drecords
		var ys [2][]float32
		for i, s := range []*setup{gate, up} {
			y, err := r.alloc(int64(4 * columns * rows))
			if err != nil {
				return err
			}
			if ys[i], err = s.multiply(r, true, columns, extras{stride: rows}, y); err != nil {
				return err
			}
		}
		want, magnitude := make([]float64, columns*rows), make([]float64, columns*rows)
		for i, g := range ys[0] {
			g := float64(g)
			want[i] = g / (1 + math.Exp(-g)) * float64(ys[1][i])
			magnitude[i] = math.Abs(want[i]) + 1e-20 // exp(-gate) may overflow
		}
		var before []float32 // of fewer columns
		for _, n := range counts() {
			var bufs [3]buffer
			for i, size := range []int{4 * n * rows, n * rows, n * rows / 32 * 8} {
				if bufs[i], err = r.alloc(int64(size)); err != nil {
					return err
				}
			}
			p := kernelscuda.MatvecSwigluParams{Q8: gate.dq.ptr, Records: gate.drecords.ptr, Y: bufs[0].ptr, YStride: int32(rows), Rows: int32(rows), K: int32(k), Columns: int32(n)}
			if rows%32 == 0 {
				p.Y8, p.YRecords = bufs[1].ptr, bufs[2].ptr
			}
			p.Data[0], p.Head[0], p.Tail[0] = gate.parts()
			p.Data[1], p.Head[1], p.Tail[1] = up.parts()
			if err := r.k.MatvecSwiglu(r, int32(t), &p); err != nil {
				return err
			}
			what := fmt.Sprintf("matvec_swiglu %s, %d columns", t, n)
			got, err := values[float32](r, bufs[0], what)
			if err != nil {
				return err
			}
			if err := near(got, rows, want, magnitude, rows, n, 1e-6); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			if err := same(what+" against fewer", bits(got[:len(before)]), bits(before)); err != nil {
				return err
			}
			before = got
			if rows%32 != 0 {
				continue
			}
			q, records := roundQ8(got)
			gotQ, err := values[int8](r, bufs[1], what)
			if err != nil {
				return err
			}
			gotRecords, err := values[record](r, bufs[2], what)
			if err != nil {
				return err
			}
			if err := same(what+", quants", gotQ, q); err != nil {
				return err
			}
			if err := same(what+", records", gotRecords, records); err != nil {
				return err
			}
		}
		return nil
	}}
}

// floatCase compares products of F32, F16, BF16 with float64 and over numbers of columns.
func floatCase(t quant.Type, rows, k int) testCase {
	return testCase{fmt.Sprintf("product/%s/%dx%d", t, rows, k), func(r *rig) error {
		rng := rand.New(rand.NewPCG(3, uint64(rows*k)))
		file, x := randomWeight(rng, t, rows, k), randomRows(rng, columns*k)
		w, err := r.up(padRows(file, rows))
		if err != nil {
			return err
		}
		dx, err := r.up(bytesOf(x))
		if err != nil {
			return err
		}
		residual := randomRows(rng, columns*rows)
		run := func(n int, add bool) ([]float32, error) {
			y, err := r.up(bytesOf(residual[:n*rows]))
			if err != nil {
				return nil, err
			}
			p := kernelscuda.MatvecFloatParams{W: w.ptr, X: dx.ptr, Y: y.ptr, Rows: int32(rows), K: int32(k), Columns: int32(n), XStride: int32(k), ResidualStride: int32(rows), YStride: int32(rows)}
			if add {
				p.Residual = y.ptr
			}
			if err := r.k.MatvecFloat(r, int32(t), &p); err != nil {
				return nil, err
			}
			return values[float32](r, y, fmt.Sprintf("matvec %s, %d columns", t, n))
		}
		base, err := run(columns, false)
		if err != nil {
			return err
		}
		want, magnitude := product(decode(t, file, rows*k), wide(x), rows, k, columns)
		if err := near(base, rows, want, magnitude, rows, columns, 1e-6); err != nil {
			return err
		}
		for _, n := range counts() {
			got, err := run(n, false)
			if err != nil {
				return err
			}
			if err := same(fmt.Sprintf("%d columns", n), bits(got), bits(base[:n*rows])); err != nil {
				return err
			}
		}
		got, err := run(columns, true)
		if err != nil {
			return err
		}
		for i := range base {
			base[i] += residual[i]
		}
		return same("residual in place", bits(got), bits(base))
	}}
}

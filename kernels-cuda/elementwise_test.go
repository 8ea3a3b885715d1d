package kernelscuda

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

func TestElementwise(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(1, 2))
	ops := []struct {
		launch func(Queue, *ElementwiseParams) error
		want   func(a, b float64) float64
	}{
		{e.AddF32, func(a, b float64) float64 { return a + b }},
		{e.MulF32, func(a, b float64) float64 { return a * b }},
		{e.SiluF32, func(a, _ float64) float64 { return silu(a) }},
		{e.SwigluF32, func(a, b float64) float64 { return silu(a) * b }},
		{e.ScaleF32, func(a, _ float64) float64 { return a * float64(float32(0.3)) }},
	}
	for _, s := range []struct{ rows, width, aStride, bStride, yStride int }{
		{1, 1, 1, 1, 1}, {3, 7, 9, 7, 11}, {2, 1056, 1060, 1056, 1056}, {2, 1030, 1031, 1032, 1030}, {1, 32, 32, 33, 32}, {4, 96, 100, 96, 97},
	} {
		a, b := random(r, s.rows*s.aStride, 3), random(r, s.rows*s.bStride, 3)
		pa, pb := put(e, a), put(e, b)
		for i, op := range ops {
			y, q8, records := e.alloc(s.rows*s.yStride*4), e.alloc(s.rows*s.width), e.alloc(s.rows*s.width/32*8+1)
			p := &ElementwiseParams{A: pa, B: pb, Y: y, Rows: int32(s.rows), Width: int32(s.width), AStride: int32(s.aStride),
				BStride: int32(s.bStride), YStride: int32(s.yStride), Factor: 0.3}
			if s.width%32 == 0 {
				p.Q8, p.Records = q8, records
			}
			require.NoError(t, op.launch(e, p))
			got := get[float32](e, y, s.rows*s.yStride)
			for row := range s.rows {
				want := make([]float64, s.width)
				for c := range want {
					want[c] = op.want(float64(a[row*s.aStride+c]), float64(b[row*s.bStride+c]))
				}
				out := got[row*s.yStride:]
				near(t, want, out[:s.width], 2e-7, "op", i, "shape", s)
				for _, v := range out[s.width:s.yStride] {
					require.True(t, math.IsNaN(float64(v)), "between rows nothing is written")
				}
				if p.Q8 != 0 {
					checkQ8(t, out[:s.width], get[int8](e, q8, s.rows*s.width)[row*s.width:], get[record](e, records, s.rows*s.width/32)[row*s.width/32:][:s.width/32])
				}
			}
		}
	}
}

func TestElementwiseQ8Alone(t *testing.T) {
	e := emulate(t)
	a := make([]float32, 64)
	a[3], a[40], a[41] = float32(math.Inf(1)), float32(math.NaN()), 2
	q8, records := e.alloc(64), e.alloc(16)
	require.NoError(t, e.ScaleF32(e, &ElementwiseParams{A: put(e, a), Q8: q8, Records: records, Rows: 1, Width: 64, AStride: 64, Factor: 1}))
	require.Equal(t, make([]int8, 64), get[int8](e, q8, 64), "what isn't finite counts as 0")
	rec := get[record](e, records, 2)
	require.True(t, math.IsInf(float64(rec[0].D), 1))
	require.True(t, math.IsNaN(float64(rec[1].D)))
}

func TestPermute(t *testing.T) {
	e := emulate(t)
	x := random(rand.New(rand.NewPCG(3, 4)), 3*4*5, 1)
	y := e.alloc(4 * len(x))
	// [3 4 5] with its first two dimensions swapped
	require.NoError(t, e.PermuteF32(e, &PermuteParams{X: put(e, x), Y: y, Shape: [4]int32{1, 4, 3, 5}, Stride: [4]int64{0, 5, 20, 1}}))
	got := get[float32](e, y, len(x))
	for i := range 4 {
		for j := range 3 {
			for k := range 5 {
				require.Equal(t, x[j*20+i*5+k], got[(i*3+j)*5+k])
			}
		}
	}
}

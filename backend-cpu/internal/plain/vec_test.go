package plain

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// both runs f with assembly off and on and gives the results; skips where there is no assembly.
func both(t *testing.T, f func() []float32) {
	t.Helper()
	if !Vector {
		t.Skip("this machine or build has no AVX2: only the pure Go path exists")
	}
	defer setVector(true)
	setVector(false)
	want := f()
	setVector(true)
	got := f()
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) && !(want[i] != want[i] && got[i] != got[i]) {
			t.Fatalf("element %d: %g in pure Go, %g in assembly", i, want[i], got[i])
		}
	}
}

func random(n int, sigma float64) []float32 {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64() * sigma)
	}
	return v
}

func TestPathsAgree(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 15, 16, 17, 64, 80, 128, 200, 896} {
		a, b := random(n+1, 1)[1:], random(2*n+3, 2)[3:3+n]
		both(t, func() []float32 { return []float32{Dot(a, b)} })
		both(t, func() []float32 { y := append([]float32(nil), b...); Axpy(y, 1.37, a); return y })
		both(t, func() []float32 { y := make([]float32, n); SwiGLU(y, a, b); return y })
		both(t, func() []float32 { y := append([]float32(nil), a...); return append(y, ExpSum(y, 1.5)) })
		both(t, func() []float32 { y := make([]float32, n); RMSNorm(y, a, b, 1e-6); return y })
		both(t, func() []float32 {
			y := make([]float32, n)
			src := make([]byte, 2*n)
			for i := range src {
				src[i] = byte(i*37 + 11)
			}
			Halves(y, src)
			return y
		})
	}
}

func TestExp(t *testing.T) {
	inf := float32(math.Inf(1))
	special := []float32{0, 1, -1, 88.7, 88.73, 100, inf, -inf, -87.3, -87.34, -100, -1e30, 1e30, float32(math.NaN()), 1e-8, -1e-8, float32(math.Copysign(0, -1))}
	for len(special)%8 != 0 {
		special = append(special, 0.5)
	}
	for _, in := range [][]float32{special, random(100000, 20)} {
		both(t, func() []float32 { y := append([]float32(nil), in...); ExpSum(y, 0); return y })
		for _, x := range in {
			want := math.Exp(float64(x))
			got := float64(Exp(x))
			switch {
			case x != x:
				require.True(t, math.IsNaN(got))
			case x > expHi:
				require.Equal(t, math.Inf(1), got)
			case x < expLo:
				require.Zero(t, got)
			default:
				require.InEpsilon(t, want, got, 2.5e-7, "exp(%g)", x)
			}
		}
	}
	require.Equal(t, float32(1), Exp(0))
}

func TestRope(t *testing.T) {
	x := []float32{1, 2, 3, 4}
	y := make([]float32, 4)
	Rope(y, x, []float32{0, 1}, []float32{1, 0}, 1, 2)
	require.Equal(t, []float32{-3, 2, 1, 4}, y)
	Rope(y, x, []float32{0, 1}, []float32{1, 0}, 2, 1)
	require.Equal(t, []float32{-2, 1, 3, 4}, y)
}

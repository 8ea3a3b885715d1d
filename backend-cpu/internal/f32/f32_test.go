package f32

import (
	"math"
	"math/big"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

// exactFMA computes a*b+c without rounding and rounds once. Finite arguments only.
func exactFMA(a, b, c float32) float32 {
	wide := func(x float32) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(float64(x)) }
	sum := new(big.Float).SetPrec(2000).Mul(wide(a), wide(b))
	sum.Add(sum, wide(c))
	if sum.Sign() == 0 {
		return a*b + c // only the sign of zero is left to decide: the same rule as for the two-step sum
	}
	f, _ := sum.Float32()
	return f
}

func TestFMAIsExact(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	finite := func(bits uint32) float32 {
		f := math.Float32frombits(bits)
		if f != f || math.IsInf(float64(f), 0) {
			return 1
		}
		return f
	}
	check := func(a, b, c float32) {
		t.Helper()
		want, got := exactFMA(a, b, c), FMA(a, b, c)
		require.Equal(t, math.Float32bits(want), math.Float32bits(got), "fma(%g, %g, %g) = %g, exact %g", a, b, c, got, want)
	}
	for range 200_000 {
		check(finite(rng.Uint32()), finite(rng.Uint32()), finite(rng.Uint32()))
	}
	// Sparse mantissas at close exponents: ties, and ties broken by a far smaller term.
	for range 400_000 {
		sparse := func(exp int) float32 {
			m := uint32(1)<<rng.Intn(24) | uint32(1)<<rng.Intn(24) | uint32(rng.Intn(2))
			f := float32(math.Ldexp(float64(m), exp))
			if rng.Intn(2) == 0 {
				f = -f
			}
			return finite(math.Float32bits(f))
		}
		base := rng.Intn(200) - 149
		check(sparse(base/2-rng.Intn(12)), sparse(base-base/2-rng.Intn(12)), sparse(base+rng.Intn(60)-30))
	}
	// A product far below the last place of a tie in c decides it.
	tiny := float32(math.Ldexp(1, -60))
	one := float32(1 + 1.0/(1<<23))
	for _, sign := range []float32{-1, 1} {
		check(one, float32(math.Ldexp(1, -24)), 1)
		check(sign*tiny, tiny, 1)
		check(4097, 4097, sign*tiny) // 4097² = 2^24 + 2^13 + 1: halfway
	}
}

func TestFMANonFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	require.Equal(t, inf, FMA(inf, 2, -3))
	require.Equal(t, -inf, FMA(3, 4, -inf))
	require.Equal(t, inf, FMA(math.MaxFloat32, 2, 1))
	require.True(t, math.IsNaN(float64(FMA(inf, 0, 1))))
	require.True(t, math.IsNaN(float64(FMA(inf, 1, -inf))))
	require.True(t, math.IsNaN(float64(FMA(1, 1, nan))))
}

func TestReduce16Order(t *testing.T) {
	var acc [16]float32
	for i := range acc {
		acc[i] = float32(math.Ldexp(1.2345678, i*2%23)) * float32(1-2*(i%3%2))
	}
	r := acc
	for n := 8; n > 0; n /= 2 {
		for l := range n {
			r[l] += r[l+n]
		}
	}
	require.Equal(t, math.Float32bits(r[0]), math.Float32bits(Reduce16(&acc)))
}

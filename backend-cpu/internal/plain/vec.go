// Package plain holds the float32 vector kernels of the CPU backend other than matrix products. Every path gives the same bits
// (docs/adr/0001-one-arithmetic.md): the pure Go code is the definition, assembly must equal it.
package plain

import (
	"math"

	"github.com/minfer-go/minfer/backend-cpu/internal/f32"
)

// Dot is the sum over i of a[i]*b[i] in 16 lanes by i mod 16, fused, then reduced by halving. b must be as long as a.
func Dot(a, b []float32) float32 {
	b = b[:len(a)]
	if n := len(a) &^ 15; useAVX2 && n > 0 && n == len(a) {
		return dotAVX2(&a[0], &b[0], n)
	}
	return dotGeneric(a, b)
}

func dotGeneric(a, b []float32) float32 {
	var acc [16]float32
	for i, x := range a {
		l := i & 15
		acc[l] = f32.FMA(x, b[i], acc[l])
	}
	return f32.Reduce16(&acc)
}

// Axpy does y[i] = fma(a, x[i], y[i]). x must be as long as y.
func Axpy(y []float32, a float32, x []float32) {
	x = x[:len(y)]
	n := 0
	if useAVX2 {
		if n = len(y) &^ 7; n > 0 {
			axpyAVX2(&y[0], a, &x[0], n)
		}
	}
	for i := n; i < len(y); i++ {
		y[i] = f32.FMA(a, x[i], y[i])
	}
}

// Blend does y[i] = fma(x[i], b, y[i]*a): the merging of attention chunks.
func Blend(y []float32, a float32, x []float32, b float32) {
	for i := range y {
		y[i] = f32.FMA(x[i], b, float32(y[i]*a))
	}
}

// RMSNorm does y = (x * 1/sqrt(mean(x²)+eps)) * w.
func RMSNorm(y, x, w []float32, eps float32) {
	mean := float32(Dot(x, x) / float32(len(x)))
	inv := 1 / float32(math.Sqrt(float64(float32(mean+eps))))
	for i, v := range x {
		y[i] = float32(v*inv) * w[i]
	}
}

// Silu is x / (1 + exp(-x)).
func Silu(x float32) float32 { return x / (1 + Exp(-x)) }

// SwiGLU does y = silu(gate) * up.
func SwiGLU(y, gate, up []float32) {
	n := 0
	if useAVX2 {
		if n = len(y) &^ 7; n > 0 {
			swigluAVX2(&y[0], &gate[0], &up[0], n)
		}
	}
	for i := n; i < len(y); i++ {
		y[i] = Silu(gate[i]) * up[i]
	}
}

// ExpSum replaces s[j] by exp(s[j]-m) and gives the sum in 16 lanes by j mod 16, plain adds, reduced by halving.
func ExpSum(s []float32, m float32) float32 {
	n := 0
	if useAVX2 {
		if n = len(s) &^ 7; n > 0 {
			expAVX2(&s[0], m, n)
		}
	}
	for j := n; j < len(s); j++ {
		s[j] = Exp(s[j] - m)
	}
	var acc [16]float32
	for j, p := range s {
		acc[j&15] += p
	}
	return f32.Reduce16(&acc)
}

// Max of s, ignoring NaN; -Inf when there is nothing else.
func Max(s []float32) float32 {
	m := float32(math.Inf(-1))
	for _, x := range s {
		if x > m {
			m = x
		}
	}
	return m
}

// Rope rotates pairs: with c and s the cosine and sine of each, x0' = fma(x0, c, -(x1*s)), x1' = fma(x0, s, x1*c). Element 0 of
// pair i is at i*step, element 1 apart elements after it.
func Rope(y, x, c, s []float32, step, apart int) {
	for i := range c {
		j := i * step
		x0, x1 := x[j], x[j+apart]
		y[j] = f32.FMA(x0, c[i], -float32(x1*s[i]))
		y[j+apart] = f32.FMA(x0, s[i], float32(x1*c[i]))
	}
}

// Package vec holds the kernels over single rows: norms, activations, rotary embedding, rows of the KV cache, and the
// parts of attention. Every path computes the formulas of docs/adr/0001-one-arithmetic.md bit for bit.
//
// Operands of one call have the lengths that the function's comment says; y may be x. Slices are never read or written
// beyond their lengths.
package vec

import (
	"math"

	"github.com/minfer-go/minfer/backend-cpu/internal/f32"
)

// Kernels selects a path; the zero value is pure Go.
type Kernels struct{ avx2, avx512 bool }

// New gives the kernels of a path. avx2 needs AVX2, FMA and F16C; builds without assembly ignore it.
func New(avx2 bool) Kernels { return Kernels{avx2: avx2 && hasAssembly} }

// New512 gives the kernels of a processor that has also AVX-512 F, BW, DQ and VL: attention with 16 lanes, the rest as AVX2.
func New512() Kernels { return Kernels{avx2: hasAssembly, avx512: hasAssembly} }

// Path names what is in use: generic, avx2 or avx512.
func (k Kernels) Path() string {
	switch {
	case k.avx512:
		return "avx512"
	case k.avx2:
		return "avx2"
	}
	return "generic"
}

// Add is y = a + b.
func (k Kernels) Add(y, a, b []float32) {
	done := 0
	if k.avx2 {
		if done = len(y) &^ 7; done > 0 {
			_, _ = a[done-1], b[done-1]
			addAVX2(&y[0], &a[0], &b[0], done)
		}
	}
	for i := done; i < len(y); i++ {
		y[i] = a[i] + b[i]
	}
}

// Mul is y = a * b.
func (k Kernels) Mul(y, a, b []float32) {
	for i := range y {
		y[i] = a[i] * b[i]
	}
}

// Scale is y = x * f.
func (k Kernels) Scale(y, x []float32, f float32) {
	done := 0
	if k.avx2 {
		if done = len(y) &^ 7; done > 0 {
			_ = x[done-1]
			scaleAVX2(&y[0], &x[0], done, f)
		}
	}
	for i := done; i < len(y); i++ {
		y[i] = x[i] * f
	}
}

// RmsNorm is y = (x*inv)*w with inv = 1/sqrt(sum/n + eps), sum the squares in 16 lanes.
func (k Kernels) RmsNorm(y, x, w []float32, eps float32) {
	n := len(y)
	x, w = x[:n], w[:n]
	if k.avx2 && n > 0 && n%16 == 0 {
		sum := sumSquaresAVX2(&x[0], n)
		normAVX2(&y[0], &x[0], &w[0], n, normFactor(sum, n, eps))
		return
	}
	inv := normFactor(sumSquares(x), n, eps)
	for i, v := range x {
		y[i] = float32(v*inv) * w[i]
	}
}

func normFactor(sum float32, n int, eps float32) float32 {
	// The float64 square root of a float32, rounded, is the correctly rounded float32 one.
	return 1 / float32(math.Sqrt(float64(float32(sum/float32(n))+eps)))
}

func sumSquares(x []float32) float32 {
	var acc [16]float32
	for i, v := range x {
		acc[i&15] = f32.FMA(v, v, acc[i&15])
	}
	return f32.Reduce16(&acc)
}

// Silu is y = x / (1 + exp(-x)).
func (k Kernels) Silu(y, x []float32) {
	for i, v := range x[:len(y)] {
		y[i] = silu(v)
	}
}

// SwiGLU is y = silu(gate) * up.
func (k Kernels) SwiGLU(y, gate, up []float32) {
	done := 0
	if k.avx2 {
		if done = len(y) &^ 7; done > 0 {
			_, _ = gate[done-1], up[done-1]
			swigluAVX2(&y[0], &gate[0], &up[0], done)
		}
	}
	for i := done; i < len(y); i++ {
		y[i] = silu(gate[i]) * up[i]
	}
}

// Rope rotates the pairs of one head: pair i is (i, i+len(cos)), or (2i, 2i+1) when interleaved. cos and sin hold one
// value a pair; elements beyond the pairs are copied.
func (k Kernels) Rope(y, x, cos, sin []float32, interleaved bool) {
	half := len(cos)
	sin, x = sin[:half], x[:len(y)]
	first, second, step := 0, half, 1
	if interleaved {
		second, step = 1, 2
	}
	i := 0
	if k.avx2 && !interleaved {
		if i = half &^ 7; i > 0 {
			_, _ = y[2*half-1], x[2*half-1]
			ropeAVX2(&y[0], &x[0], &y[half], &x[half], &cos[0], &sin[0], i)
		}
	}
	for ; i < half; i++ {
		x0, x1 := x[first+i*step], x[second+i*step]
		y[first+i*step] = f32.FMA(x0, cos[i], -float32(x1*sin[i]))
		y[second+i*step] = f32.FMA(x0, sin[i], float32(x1*cos[i]))
	}
	copy(y[2*half:], x[2*half:])
}

// Softmax is y = exp(x - max) / sum over the row, with the sum in 16 lanes and one reciprocal.
func (k Kernels) Softmax(y, x []float32) {
	m := float32(math.Inf(-1))
	for i, v := range x {
		if i == 0 || v > m {
			m = v
		}
	}
	var acc [16]float32
	for i, v := range x {
		y[i] = Exp(v - m)
		acc[i&15] += y[i]
	}
	inv := 1 / f32.Reduce16(&acc)
	for i := range y {
		y[i] *= inv
	}
}

// Dot is the float product of ADR 0001: 16 lanes and reduce16.
func (k Kernels) Dot(a, b []float32) float32 {
	var acc [16]float32
	for i, v := range a {
		acc[i&15] = f32.FMA(v, b[i], acc[i&15])
	}
	return f32.Reduce16(&acc)
}

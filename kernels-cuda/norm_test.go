package kernelscuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func normReference(x []float32, w []float32, eps float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	inv := 1 / math.Sqrt(sum/float64(len(x))+eps)
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v) * inv * float64(w[i])
	}
	return y
}

func TestRmsNorm(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(21, 22))
	const rows, eps = 2, 1e-5
	for _, width := range []int{1, 33, 896, 1056, 3584, 17000, 20480} {
		stride := width + 4*(width%3)
		x, add, w := random(r, rows*stride, 2), random(r, rows*width, 1), random(r, width, 1)
		for _, residual := range []bool{false, true} {
			px, y := put(e, x), e.alloc(4*rows*width)
			p := &RmsNormParams{X: px, W: put(e, w), Y: y, Rows: rows, Width: int32(width), XStride: int32(stride), YStride: int32(width), Eps: eps}
			want := make([]float32, rows*width)
			for i := range want {
				want[i] = x[i/width*stride+i%width]
			}
			if residual { // the sum takes the place of x
				p.Residual, p.ResidualStride, p.Sum, p.SumStride = put(e, add), int32(width), px, int32(stride)
				for i := range want {
					want[i] += add[i]
				}
			}
			if width%32 == 0 {
				p.Q8, p.Records = e.alloc(rows*width), e.alloc(rows*width/4)
			}
			require.NoError(t, e.RmsnormF32(e, p))
			got, sum := get[float32](e, y, rows*width), get[float32](e, px, rows*stride)
			for row := range rows {
				at := row * width
				near(t, normReference(want[at:][:width], w, eps), got[at:][:width], 1e-6, width, residual)
				require.Equal(t, want[at:][:width], sum[row*stride:][:width])
				if p.Q8 != 0 {
					checkQ8(t, got[at:][:width], get[int8](e, p.Q8, rows*width)[at:], get[record](e, p.Records, rows*width/32)[at/32:][:width/32])
				}
			}
		}
	}
}

func TestHeadNorm(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(23, 24))
	const rows, heads, eps = 2, 9, 1e-6
	for _, width := range []int{5, 64, 128, 260} {
		stride := heads*width + 8
		x, w := random(r, rows*stride, 1), random(r, width, 1)
		y := e.alloc(4 * rows * heads * width)
		require.NoError(t, e.HeadnormF32(e, &HeadNormParams{X: put(e, x), W: put(e, w), Y: y, Rows: rows, Heads: heads, Width: int32(width),
			XStride: int32(stride), YStride: int32(heads * width), Eps: eps}))
		got := get[float32](e, y, rows*heads*width)
		for i := range rows * heads {
			near(t, normReference(x[i/heads*stride+i%heads*width:][:width], w, eps), got[i*width:][:width], 1e-6, width)
		}
	}
}

func TestSoftmax(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(25, 26))
	const rows, inner = 2, 3
	for _, width := range []int{1, 100, 1500, 5000} {
		stride := inner*width + 1
		x := random(r, rows*stride, 20)
		x[0] = float32(math.Inf(-1))
		y := e.alloc(4 * rows * stride)
		require.NoError(t, e.SoftmaxF32(e, &SoftmaxParams{X: put(e, x), Y: y, Rows: rows, Inner: inner, Width: int32(width), XStride: int32(stride), YStride: int32(stride)}))
		got := get[float32](e, y, rows*stride)
		for i := range rows * inner {
			at := i/inner*stride + i%inner*width
			v, top, sum := x[at:][:width], math.Inf(-1), 0.0
			for _, f := range v {
				top = math.Max(top, float64(f))
			}
			want := make([]float64, width)
			for j, f := range v {
				want[j] = math.Exp(float64(f) - top)
				sum += want[j]
			}
			for j := range want {
				want[j] /= sum
			}
			if i == 0 && width == 1 {
				require.True(t, math.IsNaN(float64(got[at])), "nothing above -Inf")
				continue
			}
			near(t, want, got[at:][:width], 2e-6, fmt.Sprint(width, i))
		}
	}
}

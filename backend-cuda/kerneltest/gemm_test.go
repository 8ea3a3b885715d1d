package kerneltest

import (
	"fmt"
	"math/rand/v2"

	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/quant"
)

// halves rounds rows of k values to 16-bit rows of stride values, and gives what they stand for.
func halves(bf16 bool, x []float32, rows, k, stride int) (h []uint16, w []float32) {
	h, w = make([]uint16, rows*stride), make([]float32, rows*k)
	for r := range rows {
		for i := range k {
			v := x[r*k+i]
			if bf16 {
				h[r*stride+i] = quant.F32ToBF16(v)
				w[r*k+i] = quant.BF16ToF32(h[r*stride+i])
			} else {
				h[r*stride+i] = quant.F32ToF16(v)
				w[r*k+i] = quant.F16ToF32(h[r*stride+i])
			}
		}
	}
	return h, w
}

// tensorError is how far a product on tensor cores may be from float64's over the same operands, in parts of the terms'
// magnitudes: they add with a few bits less than float32 and cut off instead of rounding.
const tensorError = 2e-5

// gemmCase compares every form of the product on tensor cores with float64 over the rounded operands, the forms with each other bit
// for bit, and a few rows alone with the same rows among many.
func gemmCase(bf16 bool, m, n, k int) testCase {
	name := map[bool]string{true: "bf16", false: "f16"}[bf16]
	return testCase{fmt.Sprintf("gemm/%s/%dx%dx%d", name, m, n, k), func(r *rig) error {
		rng := rand.New(rand.NewPCG(9, uint64(m*n*k)))
		stride := (k+7)&^7 + 8
		a, wa := halves(bf16, randomRows(rng, m*k), m, k, stride)
		b, wb := halves(bf16, randomRows(rng, n*k), n, k, stride)
		bias, residual, scales := randomRows(rng, n), randomRows(rng, m*n), make([]float32, m)
		for i := range scales {
			scales[i] = float32(int(1) << (i % 5))
		}
		want, magnitude := product(wb, wide(wa), n, k, m)
		for i := range want {
			s, e := float64(scales[i/n]), float64(bias[i%n])+float64(residual[i])
			want[i], magnitude[i] = want[i]*s+e, magnitude[i]*s+10
		}
		var d [5]buffer
		for i, data := range [][]byte{bytesOf(a), bytesOf(b), bytesOf(bias), bytesOf(residual), bytesOf(scales)} {
			var err error
			if d[i], err = r.up(data); err != nil {
				return err
			}
		}
		yStride := n + 3
		forms := []kernelscuda.ID{kernelscuda.KernelGemmBf16128x256, kernelscuda.KernelGemmBf16128x128, kernelscuda.KernelGemmBf1664x64}
		if !bf16 {
			forms = []kernelscuda.ID{kernelscuda.KernelGemmF16128x256, kernelscuda.KernelGemmF16128x128, kernelscuda.KernelGemmF1664x64}
		}
		var first []float32
		for _, id := range forms {
			if why := r.k.Why(id); why != nil {
				return why
			}
			for _, rows := range []int{m, (m + 1) / 2} {
				y, err := r.alloc(int64(4 * rows * yStride))
				if err != nil {
					return err
				}
				p := kernelscuda.GemmParams{A: d[0].ptr, B: d[1].ptr, Bias: d[2].ptr, Residual: d[3].ptr, Scales: d[4].ptr, Y: y.ptr,
					M: int32(rows), N: int32(n), K: int32((k + 7) &^ 7), AStride: int32(stride), BStride: int32(stride), ResidualStride: int32(n), YStride: int32(yStride)}
				if err := r.k.GemmForm(r, id, &p); err != nil {
					return err
				}
				all, err := values[float32](r, y, id.String())
				if err != nil {
					return err
				}
				got, err := dense(all, yStride, n, rows)
				if err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
				if first == nil {
					first = got
					if err := near(got, n, want, magnitude, n, m, tensorError); err != nil {
						return fmt.Errorf("%s: %w", id, err)
					}
				}
				if err := same(fmt.Sprintf("%s, %d rows", id, rows), bits(got), bits(first[:rows*n])); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// gemmF32Case compares the float32 product with float64, and its rows with fewer.
func gemmF32Case(m, n, k int) testCase {
	return testCase{fmt.Sprintf("gemm/f32/%dx%dx%d", m, n, k), func(r *rig) error {
		rng := rand.New(rand.NewPCG(11, uint64(m*n*k)))
		a, b, bias, residual := randomRows(rng, m*k), randomRows(rng, n*k), randomRows(rng, n), randomRows(rng, m*n)
		want, magnitude := product(b, wide(a), n, k, m)
		for i := range want {
			want[i] += float64(bias[i%n]) + float64(residual[i])
			magnitude[i] += 10
		}
		var d [3]buffer
		for i, data := range [][]byte{bytesOf(a), bytesOf(b), bytesOf(bias)} {
			var err error
			if d[i], err = r.up(data); err != nil {
				return err
			}
		}
		var first []float32
		for _, rows := range []int{m, (m + 1) / 2} {
			y, err := r.up(bytesOf(residual[:rows*n]))
			if err != nil {
				return err
			}
			p := kernelscuda.GemmF32Params{A: d[0].ptr, B: d[1].ptr, Bias: d[2].ptr, Residual: y.ptr, Y: y.ptr, M: int32(rows), N: int32(n), K: int32(k),
				AStride: int32(k), BStride: int32(k), ResidualStride: int32(n), YStride: int32(n)}
			if err := r.k.GemmF32(r, &p); err != nil {
				return err
			}
			got, err := values[float32](r, y, "gemm_f32")
			if err != nil {
				return err
			}
			if first == nil {
				first = got
				if err := near(got, n, want, magnitude, n, m, roundingError); err != nil {
					return err
				}
			}
			if err := same(fmt.Sprintf("%d rows", rows), bits(got), bits(first[:rows*n])); err != nil {
				return err
			}
		}
		return nil
	}}
}

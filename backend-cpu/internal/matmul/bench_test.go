package matmul

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/minfer-go/minfer/quant"
)

// One thread over a matrix of 96 MB of weights: beyond any cache, so that small n reads memory at its speed.
func BenchmarkMul(b *testing.B) {
	rng := rand.New(rand.NewSource(1))
	for _, t := range []quant.Type{quant.Q8_0, quant.Q4_0, quant.Q4_K, quant.Q6_K, quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.Q5_K} {
		const cols = 1536
		rows := 96 << 20 / t.RowBytes(cols) / 64 * 64
		w := weights(rng, t, rows, cols, ordinary)
		for _, p := range Available()[1:] {
			for _, n := range []int{1, 2, 4, 8, 128} {
				k, err := New(p)
				if err != nil {
					b.Fatal(err)
				}
				acts := NewActs(n, cols)
				acts.Reset(n, cols)
				acts.Quantize(p, activations(rng, n*cols, ordinary), cols, 0, n, 0, cols)
				dst, s := make([]float32, n*rows), new(Scratch)
				b.Run(fmt.Sprintf("%s/%s/n=%d", t, p, n), func(b *testing.B) {
					for b.Loop() {
						k.Mul(dst, rows, w, acts, 0, rows, s)
					}
					sec := b.Elapsed().Seconds() / float64(b.N)
					b.ReportMetric(float64(rows*t.RowBytes(cols))/sec/1e9, "GB/s")
					b.ReportMetric(float64(n*rows*cols)/sec/1e9, "GMAC/s")
				})
			}
		}
	}
}

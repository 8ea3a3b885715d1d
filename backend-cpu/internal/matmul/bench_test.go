package matmul

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/minfer-go/minfer/quant"
)

// One thread, the fastest of many short runs, so that a busy neighbour matters little. Weights of 192 KB stay in the second-level cache and
// show what kernels can do; those of 64 MB are read from memory.
func BenchmarkMul(b *testing.B) {
	rng := rand.New(rand.NewSource(1))
	for _, t := range []quant.Type{quant.Q8_0, quant.Q4_0, quant.Q4_K, quant.Q6_K, quant.Q5_0, quant.Q4_1, quant.Q5_1, quant.Q5_K} {
		for _, bytes := range []int{192 << 10, 64 << 20} {
			const cols = 1536
			rows := bytes / t.RowBytes(cols) / 64 * 64
			w := weights(rng, t, rows, cols, ordinary)
			for _, p := range Available()[1:] {
				for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 12, 128} {
					if bytes > 1<<20 && n > 8 {
						continue
					}
					k, err := New(p)
					if err != nil {
						b.Fatal(err)
					}
					acts := NewActs(n, cols)
					acts.Reset(n, cols)
					acts.Quantize(p, activations(rng, n*cols, ordinary), cols, 0, n, 0, cols)
					dst, s := make([]float32, n*rows), new(Scratch)
					b.Run(fmt.Sprintf("%s/%s/KB=%d/n=%d", t, p, bytes>>10, n), func(b *testing.B) {
						best := time.Hour
						for b.Loop() {
							start := time.Now()
							k.Mul(dst, rows, w, acts, 0, rows, s)
							best = min(best, time.Since(start))
						}
						b.ReportMetric(float64(rows*t.RowBytes(cols))/best.Seconds()/1e9, "GB/s")
						b.ReportMetric(float64(n*rows*cols)/best.Seconds()/1e9, "GMAC/s")
						b.ReportMetric(0, "ns/op")
					})
				}
			}
		}
	}
}

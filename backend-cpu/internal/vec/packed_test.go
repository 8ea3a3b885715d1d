package vec

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/backend-cpu/internal/f32"
	"github.com/minfer-go/minfer/kvformat"
)

// Products with packed keys equal the plain loops of the ADR, wherever a row sees the position.
func TestScoresPacked(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	for name, k := range paths(t) {
		for _, f := range formats {
			for _, dim := range dims(f) {
				for _, n := range []int{1, 15, 17, 33, 100, 128} {
					for _, queries := range []int{manyQueries, 18, 23} {
						if !k.Packs(queries) {
							continue
						}
						t.Run(fmt.Sprintf("%s %s dim %d, %d cells, %d queries", name, f, dim, n, queries), func(t *testing.T) {
							testPacked(t, rng, k, f, dim, n, queries)
						})
					}
				}
			}
		}
	}
}

func testPacked(t *testing.T, rng *rand.Rand, k Kernels, f kvformat.Format, dim, n, queries int) {
	mem, offs, rows := region(rng, f, dim, n)
	for len(offs) < Chunk {
		offs = append(offs, offs[n-1])
	}
	p := NewPacked(dim)
	k.Pack(p, NewRows(mem, offs, 2*f.Type().RowBytes(dim), dim, f).Head(1), n)
	padded, room := PadDim(dim), (queries+PackQueries-1)/PackQueries*PackQueries
	q, _ := guarded(room*padded, random(rng, 1))
	for i := range room {
		clear(q[i*padded+dim : (i+1)*padded])
	}
	s, check := guarded(room*Chunk, func(int) float32 { return float32(math.NaN()) })
	valid := make([]int, queries)
	for i := range valid {
		valid[i] = max(0, n-2*(queries-1-i))
	}
	k.ScoresPacked(s, q, p, dim, valid)
	check(t)
	for i, v := range valid {
		want := make([]float32, v)
		for j := range v {
			var acc [16]float32
			for e := range dim {
				acc[e&15] = f32.FMA(q[i*padded+e], rows[j][e], acc[e&15])
			}
			want[j] = f32.Reduce16(&acc)
		}
		require.Equal(t, bits(want), bits(s[i*Chunk:][:v]), "query %d", i)
	}
}

func BenchmarkPacked(b *testing.B) {
	b.Run("avx2", func(b *testing.B) { packedParts(b, New(vectorHere())) })
	if vector512Here() {
		b.Run("avx512", func(b *testing.B) { packedParts(b, New512()) })
	}
}

func packedParts(b *testing.B, k Kernels) {
	rng := rand.New(rand.NewPCG(19, 20))
	const n = 126
	for _, dim := range []int{64, 128} {
		for _, f := range formats {
			mem, offs, _ := region(rng, f, dim, Chunk)
			rows, p := NewRows(mem, offs, 2*f.Type().RowBytes(dim), dim, f), NewPacked(dim)
			b.Run(fmt.Sprintf("pack/%s/%d", f, dim), func(b *testing.B) {
				for b.Loop() {
					k.Pack(p, rows, Chunk)
				}
			})
		}
		p := NewPacked(dim)
		q, _ := guarded(n*dim, random(rng, 1))
		s, _ := guarded(n*Chunk, random(rng, 1))
		valid := make([]int, n)
		for i := range valid {
			valid[i] = Chunk
		}
		b.Run(fmt.Sprintf("scores/%d", dim), func(b *testing.B) {
			for b.Loop() {
				k.ScoresPacked(s, q, p, dim, valid)
			}
			b.ReportMetric(float64(2*n*Chunk*dim)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		})
	}
}

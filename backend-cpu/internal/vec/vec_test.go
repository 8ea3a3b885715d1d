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

// paths are the kernels under test: what this machine can run is compared with pure Go, bit for bit.
func paths(t *testing.T) map[string]Kernels {
	p := map[string]Kernels{"generic": {}}
	if vectorHere() {
		p["avx2"] = New(true)
	}
	if vector512Here() {
		p["avx512"] = New512()
	}
	t.Logf("paths: %d (assembly built in: %v)", len(p), hasAssembly)
	return p
}

const guard = 3.25

// guarded makes a slice of n floats at an odd place, with guard values on both sides; check fails if they changed.
func guarded(n int, fill func(i int) float32) (x []float32, check func(t *testing.T)) {
	mem := make([]float32, n+19)
	for i := range mem {
		mem[i] = guard
	}
	x = mem[9 : 9+n : 9+n]
	for i := range x {
		x[i] = fill(i)
	}
	return x, func(t *testing.T) {
		t.Helper()
		for i, v := range mem {
			if i < 9 || i >= 9+n {
				require.Equal(t, float32(guard), v, "guard at %d", i-9)
			}
		}
	}
}

func bits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		if b[i] = math.Float32bits(v); v != v {
			b[i] = 0x7fc00000 // a NaN is a NaN
		}
	}
	return b
}

func random(rng *rand.Rand, scale float64) func(int) float32 {
	return func(int) float32 { return float32(rng.NormFloat64() * scale) }
}

func TestExp(t *testing.T) {
	worst := 0.0
	for x := -87.3; x < 88.3; x += 0.00137 {
		want := math.Exp(float64(float32(x)))
		ulp := float64(math.Nextafter32(float32(want), math.MaxFloat32) - float32(want))
		worst = max(worst, math.Abs(float64(Exp(float32(x)))-want)/ulp)
	}
	require.Less(t, worst, 3.0, "units in the last place")
	inf := float32(math.Inf(1))
	require.Equal(t, float32(1), Exp(0))
	require.Equal(t, inf, Exp(89))
	require.Equal(t, inf, Exp(inf))
	require.Zero(t, Exp(-88))
	require.Zero(t, Exp(-inf))
	require.True(t, math.IsNaN(float64(Exp(float32(math.NaN())))))
}

func TestElementwise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 88.38, -88.38, 87.4, -87.4, 1e-40, 3e38}
	for name, k := range paths(t) {
		for _, n := range []int{1, 7, 8, 9, 15, 16, 31, 64, 100, 896} {
			a, _ := guarded(n, random(rng, 10))
			b, _ := guarded(n, random(rng, 1))
			w, _ := guarded(n, random(rng, 1))
			for i := range a {
				if rng.IntN(20) == 0 {
					a[i] = special[rng.IntN(len(special))]
				}
			}
			for op, f := range map[string]func(k Kernels, y []float32){
				"add":     func(k Kernels, y []float32) { k.Add(y, a, b) },
				"swiglu":  func(k Kernels, y []float32) { k.SwiGLU(y, a, b) },
				"norm":    func(k Kernels, y []float32) { k.RmsNorm(y, b, w, 1e-6) },
				"scale":   func(k Kernels, y []float32) { k.Scale(y, a, 0.3) },
				"softmax": func(k Kernels, y []float32) { k.Softmax(y, b) },
			} {
				want := make([]float32, n)
				f(Kernels{}, want)
				y, check := guarded(n, func(int) float32 { return 7 })
				f(k, y)
				require.Equal(t, bits(want), bits(y), "%s %s %d", name, op, n)
				check(t)
			}
		}
	}
}

func TestRmsNormFormula(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	x, _ := guarded(80, random(rng, 3))
	w, _ := guarded(80, random(rng, 1))
	y := make([]float32, 80)
	Kernels{}.RmsNorm(y, x, w, 1e-5)
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	for i := range y {
		require.InEpsilon(t, float64(x[i])/math.Sqrt(sum/80+1e-5)*float64(w[i]), y[i], 1e-5)
	}
}

func TestRope(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for name, k := range paths(t) {
		for _, dim := range []int{16, 64, 80, 128} {
			for _, half := range []int{1, dim / 4, dim / 2} {
				for _, interleaved := range []bool{false, true} {
					x, _ := guarded(dim, random(rng, 1))
					cos, _ := guarded(half, random(rng, 1))
					sin, _ := guarded(half, random(rng, 1))
					want := make([]float32, dim)
					Kernels{}.Rope(want, x, cos, sin, interleaved)
					y, check := guarded(dim, func(i int) float32 { return x[i] })
					k.Rope(y, y, cos, sin, interleaved)
					require.Equal(t, bits(want), bits(y), "%s %d %d in place", name, dim, half)
					check(t)
					first, second := 0, half
					if interleaved {
						second = 1
					}
					require.Equal(t, f32.FMA(x[first], cos[0], -(x[second]*sin[0])), want[first])
					require.Equal(t, f32.FMA(x[first], sin[0], x[second]*cos[0]), want[second])
				}
			}
		}
	}
}

var formats = []kvformat.Format{kvformat.F32, kvformat.F16, kvformat.Q8_0}

// region encodes random heads of dim elements at odd distances, each after another head of zeros.
func region(rng *rand.Rand, f kvformat.Format, dim, n int) (mem []byte, offs []int, rows [][]float32) {
	size := f.Type().RowBytes(dim)
	stride := 2*size + 6
	if f == kvformat.F32 {
		stride = 2*size + 8
	}
	mem = make([]byte, n*stride)
	for j := range n {
		x := make([]float32, dim)
		for e := range x {
			x[e] = float32(rng.NormFloat64())
		}
		at := (n - 1 - j) * stride
		offs = append(offs, at)
		head := mem[at+size:][:size]
		f.Encode(head, x)
		f.Decode(x, head)
		rows = append(rows, x)
	}
	return mem, offs, rows
}

func dims(f kvformat.Format) []int {
	if f == kvformat.Q8_0 {
		return []int{32, 64, 96, 128, 288}
	}
	return []int{16, 20, 32, 64, 80, 128}
}

// Chunks of keys and values in all formats, as they stand and widened: products and sums equal the plain loops of the ADR on every path.
func TestChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for name, k := range paths(t) {
		for _, f := range formats {
			for _, dim := range dims(f) {
				for _, n := range []int{1, 7, 8, 9, 17, 100, 127, 128} {
					for _, queries := range []int{1, 2, 3, 4, 7, 11} {
						for _, widen := range []bool{false, true} {
							if widen || k.Direct(queries, dim, f) {
								t.Run(fmt.Sprintf("%s %s dim %d, %d cells, %d queries, widened %v", name, f, dim, n, queries, widen), func(t *testing.T) {
									testChunk(t, rng, k, f, dim, n, queries, widen)
								})
							}
						}
					}
				}
			}
		}
	}
}

func testChunk(t *testing.T, rng *rand.Rand, k Kernels, f kvformat.Format, dim, n, queries int, widen bool) {
	const head = 1 // of two
	mem, offs, rows := region(rng, f, dim, n)
	for len(offs) < Chunk {
		offs = append(offs, offs[n-1])
	}
	padded := PadDim(dim)
	r := NewRows(mem, offs, 2*f.Type().RowBytes(dim), dim, f).Head(head)
	if widen {
		w := NewWide(dim)
		for from := 0; from < n; from += 40 {
			k.Widen(w, r, from, min(n, from+40), 1<<30)
		}
		r = w.Rows(dim)
	}
	q, _ := guarded(queries*padded, random(rng, 1))
	for i := range queries {
		clear(q[i*padded+dim : (i+1)*padded])
	}
	s, checkS := guarded(queries*Chunk, func(int) float32 { return float32(math.NaN()) })
	valid, wants, states := make([]int, queries), make([][]float32, queries), make([]State, queries)
	for i := range valid {
		valid[i] = max(0, n-i*i%5) // rows see different numbers of positions
	}
	for from := 0; from < n; from += 40 {
		k.Scores(s, q, r, valid, from, min(n, from+40), 1<<30)
	}
	checkS(t)
	for i, n := range valid {
		if n == 0 {
			continue
		}
		want := make([]float32, n)
		for j := range n {
			var acc [16]float32
			for e := range dim {
				acc[e&15] = f32.FMA(q[i*padded+e], rows[j][e], acc[e&15])
			}
			want[j] = f32.Reduce16(&acc)
		}
		require.Equal(t, bits(want), bits(s[i*Chunk:][:n]), "scores of query %d", i)
		wants[i], states[i] = want, soft(want, 0.125)
	}
	got := append([]State(nil), states...)
	for i := range got {
		if valid[i] > 0 {
			got[i] = State{-1, -1}
		}
	}
	k.Soft(s, valid, 0.125, got)
	checkS(t)
	for i := range queries {
		require.Equal(t, bits([]float32{states[i].M, states[i].L}), bits([]float32{got[i].M, got[i].L}), "state of query %d", i)
		require.Equal(t, bits(wants[i]), bits(s[i*Chunk:][:valid[i]]), "weights of query %d", i)
	}
	o, checkO := guarded(queries*padded, func(int) float32 { return 0 })
	for from := 0; from < n; from += 50 {
		k.Weigh(o, s, r, valid, from, min(n, from+50), 3)
	}
	checkO(t)
	for i := range queries {
		want := make([]float32, padded)
		for e := range dim {
			for j := range valid[i] {
				want[e] = f32.FMA(s[i*Chunk+j], rows[j][e], want[e])
			}
		}
		require.Equal(t, bits(want), bits(o[i*padded:(i+1)*padded]), "output of query %d", i)
	}
}

func TestRowsOutside(t *testing.T) {
	offs := make([]int, Chunk)
	mem := make([]byte, 256, 512)
	for _, at := range []int{-1, 129} {
		offs[Chunk-1] = at
		require.Panics(t, func() { NewRows(mem, offs, 128, 64, kvformat.F16) }, "row at %d", at)
	}
	offs[Chunk-1] = 128
	require.NotPanics(t, func() { NewRows(mem, offs, 128, 64, kvformat.F16) })
}

// Scores that are infinite or NaN spoil their own row and never pass as numbers.
func TestSoftNotFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, k := range paths(t) {
		for _, bad := range []float32{inf, nan} {
			for at := range 20 {
				s, state := make([]float32, Chunk), make([]State, 1)
				s[at] = bad
				k.Soft(s, []int{20}, 1, state)
				require.True(t, math.IsNaN(float64(state[0].L)), "%s: %v at %d", name, bad, at)
			}
		}
		s, state := make([]float32, Chunk), make([]State, 1)
		s[0], s[1] = 3e7, 2.9e7
		k.Soft(s, []int{2}, 1, state)
		require.Equal(t, State{3e7, 1}, state[0], "scores beyond float16's range")
	}
}

func TestMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	tops := []float32{1, 2.5, -3, 1e30, -1e30, inf, -inf, nan}
	for name, k := range paths(t) {
		for _, n := range []int{1, 8, 20, 64, 128} {
			oc, _ := guarded(3*n, random(rng, 1))
			for _, m := range tops {
				for _, cm := range tops {
					o, check := guarded(3*n, random(rng, 1))
					want := append([]float32(nil), o...)
					a, b, c := []State{{m, 2}, {1, 4}, {m, 2}}, []State{{m, 2}, {1, 4}, {m, 2}}, []State{{cm, 3}, {m, 1}, {cm, 1}}
					for i := range a {
						merge(&a[i], want[i*n:][:n], c[i], oc[i*n:])
					}
					k.Merge(b, o, c, oc)
					for i := range a {
						require.Equal(t, bits([]float32{a[i].M, a[i].L}), bits([]float32{b[i].M, b[i].L}), "%s: %v and %v", name, m, cm)
					}
					require.Equal(t, bits(want), bits(o), "%s %d: %v and %v", name, n, m, cm)
					check(t)
				}
			}
			s := []State{{1, 2}}
			k.Merge(s, make([]float32, n), []State{{2.5, 3}}, oc[:n])
			require.Equal(t, State{2.5, f32.FMA(3, 1, 2*Exp(-1.5))}, s[0])
		}
	}
}

func TestEncode(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for name, k := range paths(t) {
		for _, f := range formats {
			for _, n := range []int{32, 64, 128} {
				x, _ := guarded(n, random(rng, 1000))
				for i := range x {
					x[i] = math.Float32frombits(rng.Uint32())
				}
				want := make([]byte, f.Type().RowBytes(n))
				f.Encode(want, x)
				got := make([]byte, len(want)+2)
				got[len(want)], got[len(want)+1] = 0xa5, 0x5a
				k.Encode(got[:len(want)], x, f)
				require.Equal(t, append(want, 0xa5, 0x5a), got, "%s %s %d", name, f, n)
			}
		}
	}
}

func BenchmarkAttentionParts(b *testing.B) {
	b.Run("avx2", func(b *testing.B) { attentionParts(b, New(vectorHere())) })
	if vector512Here() {
		b.Run("avx512", func(b *testing.B) { attentionParts(b, New512()) })
	}
}

func attentionParts(b *testing.B, k Kernels) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, dim := range []int{64, 128} {
		for _, f := range formats {
			mem, offs, _ := region(rng, f, dim, Chunk)
			rows := NewRows(mem, offs, 2*f.Type().RowBytes(dim), dim, f)
			wide := NewWide(dim)
			b.Run(fmt.Sprintf("widen/%s/%d", f, dim), func(b *testing.B) {
				b.SetBytes(int64(Chunk * f.Type().RowBytes(dim)))
				for b.Loop() {
					k.Widen(wide, rows, 0, Chunk, 0)
				}
			})
			parts(b, k, f.String(), rows, []int{1, 2, 3, 6, 7})
			parts(b, k, "wide", wide.Rows(dim), []int{64})
		}
	}
}

func parts(b *testing.B, k Kernels, name string, r Rows, queries []int) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, n := range queries {
		q, _ := guarded(n*r.Dim, random(rng, 1))
		s, _ := guarded(n*Chunk, random(rng, 1))
		o, _ := guarded(n*r.Dim, random(rng, 1))
		valid, state := make([]int, n), make([]State, n)
		for i := range valid {
			valid[i] = Chunk
		}
		gflops := func(b *testing.B) {
			b.ReportMetric(float64(2*n*Chunk*r.Dim)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
		}
		b.Run(fmt.Sprintf("scores/%s/%d/%d", name, r.Dim, n), func(b *testing.B) {
			for b.Loop() {
				k.Scores(s, q, r, valid, 0, Chunk, 0)
			}
			gflops(b)
		})
		b.Run(fmt.Sprintf("soft/%s/%d/%d", name, r.Dim, n), func(b *testing.B) {
			for b.Loop() {
				k.Soft(s, valid, 1, state)
			}
		})
		b.Run(fmt.Sprintf("weigh/%s/%d/%d", name, r.Dim, n), func(b *testing.B) {
			for b.Loop() {
				k.Weigh(o, s, r, valid, 0, Chunk, 0)
			}
			gflops(b)
		})
	}
}

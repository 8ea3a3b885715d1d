package backendcpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/graph/graphtest"
	"github.com/minfer-go/minfer/quant"
)

// model is one transformer block of a Qwen2's or Qwen3's shape, with random weights.
type model struct {
	hidden, heads, kvHeads, dim, ff int
	qwen3                           bool
	w                               quant.Type
	kv                              quant.Type
	cells                           int
}

var small = model{hidden: 256, heads: 6, kvHeads: 2, dim: 64, ff: 288, w: quant.Q8_0, kv: quant.F16, cells: 400}

func (m model) spec() graph.KVSpec {
	return graph.KVSpec{Layers: 1, Cells: m.cells, KVHeads: m.kvHeads, HeadDim: m.dim, KeyType: m.kv, ValueType: m.kv}
}

func (m model) build(b graph.Backend, p graph.Params) (*graph.Graph, error) {
	g := graph.NewBuilder(p)
	weight := func(name string, t quant.Type, shape ...int) *graph.Weight {
		return randomWeight(g, b, fmt.Sprint(m), name, t, shape...)
	}
	q, kv := m.heads*m.dim, m.kvHeads*m.dim
	x := g.GetRows(weight("embd", m.w, 300, m.hidden), g.Input(graph.InTokens))
	g.SetLayer(0)
	h := g.RmsNorm(x, weight("norm1", quant.F32, m.hidden), 1e-6)
	var bias [3]*graph.Weight
	if !m.qwen3 {
		bias = [3]*graph.Weight{weight("bq", quant.F32, q), weight("bbk", quant.F32, kv), nil}
	}
	head := func(name string, n int, bias *graph.Weight) *graph.Node {
		return g.Reshape(g.MatMul(h, weight(name, m.w, n*m.dim, m.hidden), bias), p.Rows, n, m.dim)
	}
	qs, ks, vs := head("wq", m.heads, bias[0]), head("wkk", m.kvHeads, bias[1]), head("wvvv", m.kvHeads, bias[2])
	if m.qwen3 {
		qs = g.QkNorm(qs, weight("qn", quant.F32, m.dim), 1e-6)
		ks = g.QkNorm(ks, weight("kn", quant.F32, m.dim), 1e-6)
	}
	rope := graph.RopeAttr{Dims: m.dim, Base: 10000, FreqScale: 1, AttnFactor: 1}
	pos, cells := g.Input(graph.InPositions), g.Input(graph.InCells)
	kl := g.KvcacheLoad(g.KvcacheStore(g.RoPE(ks, pos, rope), cells, graph.KVAttr{}))
	vl := g.KvcacheLoad(g.KvcacheStore(vs, cells, graph.KVAttr{Value: true}))
	a := g.Attn(g.RoPE(qs, pos, rope), kl, vl, g.Input(graph.InLengths), g.Input(graph.InSeqs), g.Input(graph.InSeqRuns), g.Input(graph.InRuns),
		graph.AttnAttr{Heads: m.heads, KVHeads: m.kvHeads, HeadDim: m.dim, Scale: float32(1 / math.Sqrt(float64(m.dim)))})
	x = g.Add(x, g.MatMul(g.Reshape(a, p.Rows, q), weight("wo", m.w, m.hidden, q), nil))
	h = g.RmsNorm(x, weight("norm2", quant.F32, m.hidden), 1e-6)
	h = g.SwiGLU(g.MatMul(h, weight("gate", m.w, m.ff, m.hidden), nil), g.MatMul(h, weight("up", m.w, m.ff, m.hidden), nil))
	x = g.Add(g.MatMul(h, weight("down", m.w, m.hidden, m.ff), nil), x)
	g.Output(x)
	return g.Graph()
}

// randomWeight registers a weight whose values depend on its name alone.
func randomWeight(g *graph.Builder, b graph.Backend, model, name string, t quant.Type, shape ...int) *graph.Weight {
	w := &graph.Weight{Model: model, Name: name, Type: t, Shape: shape}
	rng := rand.New(rand.NewPCG(uint64(len(name)), uint64(name[0])))
	vals, data := make([]float32, w.Shape.Elems()), make([]byte, w.Bytes())
	for i := range vals {
		vals[i] = float32(rng.NormFloat64()) / 16
	}
	err := quant.Quantize(t, data, vals)
	if err == nil {
		err = b.RegisterWeight(w, data)
	}
	if err != nil {
		g.Fail(err)
	}
	return w
}

// session runs a model's steps for one sequence that lies in two runs, out of order.
type session struct {
	t    testing.TB
	b    *Backend
	exec *graph.Executor
	m    model
	feat graph.Feature
	n    int // cells used
}

func newSession(t testing.TB, m model, o Options, feat graph.Feature) *session {
	b, err := New(o)
	require.NoError(t, err)
	exec, err := graph.NewExecutor([]graph.Backend{b}, m.spec(), graph.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, exec.Close())
		require.NoError(t, b.Close())
	})
	return &session{t: t, b: b, exec: exec, m: m, feat: feat}
}

// cell is where position i of the sequence lies: the second half of the cache first.
func (s *session) cell(i int) int32 {
	if half := s.m.cells / 2; i < half {
		return int32(s.m.cells - half + i)
	} else {
		return int32(i - half)
	}
}

func (s *session) step(tokens ...int) *graph.Compiled {
	p := graph.Params{Rows: len(tokens), Outputs: 1, Seqs: 1, Runs: 2, Cells: s.m.cells, KeyType: s.m.kv, ValueType: s.m.kv, Features: s.feat}
	c, err := s.exec.Compile(p, func(p graph.Params) (*graph.Graph, error) { return s.m.build(s.b, p) })
	require.NoError(s.t, err)
	in := map[graph.Input][]int32{graph.InOutputs: {0}, graph.InSeqRuns: {0, 2}}
	half := int32(s.m.cells / 2)
	in[graph.InRuns] = []int32{int32(s.m.cells) - half, half, 0, int32(s.m.cells) - half}
	for _, t := range tokens {
		in[graph.InTokens] = append(in[graph.InTokens], int32(t))
		in[graph.InPositions] = append(in[graph.InPositions], int32(s.n))
		in[graph.InSeqs] = append(in[graph.InSeqs], 0)
		in[graph.InCells] = append(in[graph.InCells], s.cell(s.n))
		s.n++
		in[graph.InLengths] = append(in[graph.InLengths], int32(s.n))
	}
	for i, v := range in {
		require.NoError(s.t, c.SetInput(i, v))
	}
	return c
}

func (s *session) run(tokens ...int) []float32 {
	c := s.step(tokens...)
	require.NoError(s.t, c.Run())
	out, err := c.Output(0)
	require.NoError(s.t, err)
	return append([]float32(nil), out...)
}

func floatBits(x []float32) []uint32 {
	if len(x) == 0 {
		return nil
	}
	return append([]uint32(nil), unsafe.Slice((*uint32)(unsafe.Pointer(&x[0])), len(x))...)
}

// The bits of every row are the same whatever the path, the threads, the fusion and the cuts of the prompt.
func TestOneArithmetic(t *testing.T) {
	models := map[string]model{}
	for _, kv := range []quant.Type{quant.F32, quant.F16, quant.Q8_0} {
		for _, qwen3 := range []bool{false, true} {
			m := small
			m.kv, m.qwen3 = kv, qwen3
			if qwen3 {
				m.w, m.heads, m.ff = quant.Q4_K, 4, 512
			}
			models[fmt.Sprintf("kv %s, qwen3 %v", kv, qwen3)] = m
		}
	}
	tokens := make([]int, 290) // beyond two chunks and across the runs' border
	for i := range tokens {
		tokens[i] = i * 7 % 300
	}
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			var want []uint32
			check := func(what string, o Options, feat graph.Feature, cuts ...int) {
				s := newSession(t, m, o, feat)
				require.Equal(t, o.Path, s.b.Stats().Path)
				var got []uint32
				for i, at := 0, 0; at < len(tokens); i++ {
					n := min(cuts[min(i, len(cuts)-1)], len(tokens)-at)
					got = append(got, floatBits(s.run(tokens[at:at+n]...))...)
					at += n
				}
				if want == nil {
					want = got
				}
				require.Equal(t, want, got, "%s %+v", what, o)
			}
			for _, path := range Paths() {
				check("at once", Options{Threads: 1, Path: path}, 0, len(tokens))
				check("at once", Options{Threads: 3, Path: path}, 0, len(tokens))
				check("unfused", Options{Threads: 2, Path: path}, graph.FeatureNoFuse, 150, 130, 1)
				check("decode after 270", Options{Threads: 2, Path: path}, 0, 270, 1)
				if path != Paths()[0] || len(Paths()) == 1 {
					check("decode after 270", Options{Threads: 5, Path: path}, 0, 270, 1)
					check("pieces of 7", Options{Threads: 4, Path: path}, 0, 7)
				}
			}
			t.Log("paths:", Paths())
		})
	}
}

// Programs of all lengths round into the same memory, which is that of the longest; those compiled before it grew find it.
func TestProgramsShareRoundedRows(t *testing.T) {
	tokens := make([]int, 149)
	for i := range tokens {
		tokens[i] = i * 11 % 300
	}
	bytes := func(s *session) (n int) {
		for _, store := range s.b.scratch.acts {
			n += store.Bytes()
		}
		return n
	}
	whole := newSession(t, small, Options{Threads: 2}, 0)
	want := floatBits(whole.run(tokens...))
	s := newSession(t, small, Options{Threads: 2}, 0)
	var got []uint32
	at := 0
	for _, n := range []int{3, 40, 3, 60, 40, 3} {
		got = append(got, floatBits(s.run(tokens[at:at+n]...))...)
		at += n
	}
	require.Equal(t, want, got)
	longest := newSession(t, small, Options{Threads: 2}, 0)
	longest.run(tokens[:60]...)
	require.Positive(t, bytes(longest))
	require.Equal(t, bytes(longest), bytes(s))
}

// A decode step and a prompt step allocate nothing once compiled.
func TestRunAllocatesNothing(t *testing.T) {
	for _, path := range Paths() {
		for _, rows := range []int{1, 9} {
			s := newSession(t, small, Options{Threads: 2, Path: path}, 0)
			tokens := make([]int, rows)
			c := s.step(tokens...)
			require.NoError(t, c.Run()) // kernels make their scratch in the first run
			require.Zero(t, testing.AllocsPerRun(5, func() {
				if err := c.Run(); err != nil {
					panic(err)
				}
			}), "%s, %d rows", path, rows)
		}
	}
}

// The counters say what a step must read: each weight once, whatever the rows, and each cell once a block of rows.
func TestStatsCountBytes(t *testing.T) {
	s := newSession(t, small, Options{Threads: 2}, 0)
	s.run(1, 2, 3, 4, 5)
	before := s.b.Stats()
	s.run(6)
	got := s.b.Stats()
	m := small
	row := func(cols int) int { return m.w.RowBytes(cols) }
	q, kv := m.heads*m.dim, m.kvHeads*m.dim
	want := row(m.hidden) + 4*2*m.hidden + (q+2*kv+2*m.ff)*row(m.hidden) + 4*(q+kv) + m.hidden*row(q) + m.hidden*row(m.ff)
	require.EqualValues(t, want, got.WeightBytes-before.WeightBytes)
	require.EqualValues(t, 6*2*kv*2, got.KVBytes-before.KVBytes)
	require.EqualValues(t, 1, got.Runs-before.Runs)
	require.Equal(t, Paths()[len(Paths())-1], got.Path)
}

// Scores beyond float16's range stay finite and the same for f32 and f16 keys that hold the same numbers.
func TestLargeScores(t *testing.T) {
	for _, path := range Paths() {
		b, err := New(Options{Threads: 2, Path: path})
		require.NoError(t, err)
		var outs [][]float32
		for _, kv := range []quant.Type{quant.F32, quant.F16} {
			m := model{heads: 2, kvHeads: 1, dim: 64, cells: 8, kv: kv}
			exec, err := graph.NewExecutor([]graph.Backend{b}, m.spec(), graph.Options{})
			require.NoError(t, err)
			w := &graph.Weight{Model: "large " + kv.String(), Name: "x", Type: quant.F32, Shape: graph.Shape{4, 256}}
			data := make([]float32, 4*256)
			for i := range data {
				data[i] = float32(i%17-8) * 25 // products of 64 elements beyond 65504
			}
			require.NoError(t, b.RegisterWeight(w, unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 4*len(data))))
			c, err := exec.Compile(graph.Params{Rows: 4, Outputs: 1, Seqs: 1, Runs: 1, Cells: 8, KeyType: kv, ValueType: kv},
				func(p graph.Params) (*graph.Graph, error) {
					g := graph.NewBuilder(p)
					x := g.GetRows(w, g.Input(graph.InTokens))
					cells := g.Input(graph.InCells)
					k := g.KvcacheLoad(g.KvcacheStore(g.View(x, 128, 4, 1, 64), cells, graph.KVAttr{}))
					v := g.KvcacheLoad(g.KvcacheStore(g.View(x, 192, 4, 1, 64), cells, graph.KVAttr{Value: true}))
					g.Output(g.Attn(g.View(x, 0, 4, 2, 64), k, v, g.Input(graph.InLengths), g.Input(graph.InSeqs), g.Input(graph.InSeqRuns),
						g.Input(graph.InRuns), graph.AttnAttr{Heads: 2, KVHeads: 1, HeadDim: 64, Scale: 1}))
					return g.Graph()
				})
			require.NoError(t, err)
			for in, v := range map[graph.Input][]int32{graph.InTokens: {0, 1, 2, 3}, graph.InCells: {0, 1, 2, 3}, graph.InSeqs: {0, 0, 0, 0},
				graph.InLengths: {1, 2, 3, 4}, graph.InSeqRuns: {0, 1}, graph.InRuns: {0, 8}} {
				require.NoError(t, c.SetInput(in, v))
			}
			require.NoError(t, c.Run())
			out, err := c.Output(0)
			require.NoError(t, err)
			for _, v := range out {
				require.False(t, math.IsNaN(float64(v)) || math.IsInf(float64(v), 0))
			}
			outs = append(outs, append([]float32(nil), out...))
			require.NoError(t, exec.Close())
		}
		require.Equal(t, outs[0], outs[1])
		require.NoError(t, b.Close())
	}
}

func TestOptionsAndMemory(t *testing.T) {
	for _, o := range []Options{{Threads: -1}, {Threads: 5000}, {Path: "sse"}} {
		_, err := New(o)
		require.ErrorContains(t, err, "backendcpu: ", "%+v", o)
	}
	b, err := New(Options{})
	require.NoError(t, err)
	require.Positive(t, b.Threads())
	require.Contains(t, b.Describe(), b.Path())
	for _, n := range []int64{0, 1, 100, mapFrom - 1, mapFrom + 5} {
		buf, err := b.Alloc(n)
		require.NoError(t, err)
		mem := buf.(graph.HostBuffer).HostBytes()
		require.Len(t, mem, int(n))
		if n > 0 {
			require.Zero(t, uintptr(unsafe.Pointer(&mem[0]))%alignment)
			require.Zero(t, mem[n-1])
		}
		require.Error(t, b.Write(buf, n-1, []byte{1, 2}), "beyond the end")
		require.Error(t, b.Read(make([]byte, 2), buf, math.MaxInt64-1))
		b.Free(buf)
	}
	for _, n := range []int64{-1, math.MaxInt64, 1 << 50} {
		_, err := b.Alloc(n)
		require.ErrorIs(t, err, graph.ErrOutOfMemory, "%d", n)
	}
	require.NoError(t, b.Close())
	require.NoError(t, b.Close(), "twice")
}

// An F32 vector may start at any address in a mapped file.
func TestUnalignedVectors(t *testing.T) {
	mem := make([]byte, 40)
	for skip := range 4 {
		at := mem[skip : skip+8]
		copy(at, []byte{0, 0, 128, 63, 0, 0, 0, 64})
		require.Equal(t, []float32{1, 2}, floatsOf(at))
	}
}

// BenchmarkBlock times whole steps of one block of Qwen2.5-0.5B's shape at a depth. Besides the mean it reports the fastest step,
// which says more on a busy machine.
func BenchmarkBlock(b *testing.B) {
	m := model{hidden: 896, heads: 14, kvHeads: 2, dim: 64, ff: 4864, w: quant.Q8_0, kv: quant.F16, cells: 2560}
	for _, rows := range []int{1, 4, 512} {
		for _, depth := range []int{0, 2048} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("rows %d depth %d threads %d", rows, depth, threads), func(b *testing.B) {
					s := newSession(b, m, Options{Threads: threads}, 0)
					s.n = depth
					c := s.step(make([]int, rows)...)
					require.NoError(b, c.Run())
					best := time.Duration(math.MaxInt64)
					for b.Loop() {
						start := time.Now()
						if err := c.Run(); err != nil {
							b.Fatal(err)
						}
						best = min(best, time.Since(start))
					}
					b.ReportMetric(float64(best.Nanoseconds())/1e3, "best-µs")
				})
			}
		}
	}
}

// BenchmarkOps is the op table's speed mode: -bench Ops.
func BenchmarkOps(b *testing.B) {
	graphtest.Speed(b, func() graph.Backend {
		back, err := New(Options{Threads: 2})
		require.NoError(b, err)
		return back
	}, graphtest.SpeedOptions{})
}

package graph_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/graph/graphtest"
	"github.com/minfer-go/minfer/quant"
)

var story = []int32{3, 14, 15, 9, 2, 6, 5}

// One set of weights, many ways to run it: all give the same bits.
func TestEveryArrangementGivesTheSameLogits(t *testing.T) {
	for _, qwen3 := range []bool{false, true} {
		m := small
		m.qwen3 = qwen3
		plain := func() graph.Backend { return reference(graphtest.ReferenceOptions{}) }
		want := decode(t, executor(t, m, graph.Options{}, plain()), m, 0, story...)

		arrangements := map[string]struct {
			o        graph.Options
			backends []graph.Backend
			copies   bool
		}{
			"fused":                  {graph.Options{}, []graph.Backend{reference(graphtest.ReferenceOptions{Fused: func(*graph.Node) bool { return true }})}, false},
			"device":                 {graph.Options{}, []graph.Backend{reference(graphtest.ReferenceOptions{Device: true})}, false},
			"one graph in the cache": {graph.Options{MaxGraphs: 1}, []graph.Backend{plain()}, false},
		}
		for _, first := range []bool{false, true} { // memory that the host sees or not, on each side of a border
			for _, second := range []bool{false, true} {
				arrangements[fmt.Sprintf("two backends, device %v %v", first, second)] = struct {
					o        graph.Options
					backends []graph.Backend
					copies   bool
				}{graph.Options{Layers: []int{1, 1}}, []graph.Backend{
					reference(graphtest.ReferenceOptions{Name: "products", Device: first, Ops: only(graph.OpMatMul, graph.OpSwiGLU, graph.OpFusedQKV), Fused: only(graph.OpFusedQKV)}),
					reference(graphtest.ReferenceOptions{Name: "rest", Device: second})}, true}
			}
		}
		arrangements["a layer on each"] = struct {
			o        graph.Options
			backends []graph.Backend
			copies   bool
		}{graph.Options{Layers: []int{0, 1}}, []graph.Backend{plain(), reference(graphtest.ReferenceOptions{Name: "other", Device: true})}, true}

		for name, a := range arrangements {
			t.Run(fmt.Sprintf("qwen3 %v/%s", qwen3, name), func(t *testing.T) {
				e := executor(t, m, a.o, a.backends...)
				assert.Equal(t, want, decode(t, e, m, 0, story...), "token by token")

				// The prompt at once, over the same cells, in a graph with padding rows.
				p := params(10)
				c, err := e.Compile(p, m.build)
				require.NoError(t, err)
				assert.Equal(t, a.copies, c.Splits() > 1)
				for range 2 {
					step(t, c, p, 0, story...)
					require.NoError(t, c.Run())
					got := make([]float32, m.vocab)
					require.NoError(t, c.ReadOutput(0, 0, got))
					assert.Equal(t, want[len(want)-1], got, "at once")
				}
			})
		}
	}
}

func TestCacheOfCompiledGraphs(t *testing.T) {
	b := reference(graphtest.ReferenceOptions{})
	e := executor(t, small, graph.Options{MaxGraphs: 2}, b)
	kv := e.Stats().KVBytes
	assert.Equal(t, small.spec(32).Bytes(), kv)
	builds := 0
	build := func(p graph.Params) (*graph.Graph, error) { builds++; return small.build(p) }
	compile := func(rows int) *graph.Compiled {
		c, err := e.Compile(params(rows), build)
		require.NoError(t, err)
		return c
	}
	one, two := compile(1), compile(2)
	assert.Same(t, one, compile(1))
	three := compile(3) // pushes out two, the least recently used
	assert.Same(t, one, compile(1))
	assert.Same(t, three, compile(3))
	s := e.Stats()
	assert.Equal(t, [4]uint64{3, 3, 1, 2}, [4]uint64{s.Compiled, s.Hits, s.Evicted, uint64(s.Graphs)})
	assert.Equal(t, 3, builds)
	require.ErrorContains(t, two.Run(), "evicted")
	require.ErrorContains(t, two.SetInput(graph.InTokens, []int32{1, 2}), "evicted")
	_, err := two.Output(0)
	require.ErrorContains(t, err, "evicted")

	// Memory stays flat whatever comes and goes, and what the counters say is what the backend holds.
	var held int64
	for i := range 40 {
		compile(1 + i%5)
		_, bytes := b.Live()
		assert.Equal(t, e.Stats().BufferBytes+kv, bytes)
		if i >= 20 {
			held = max(held, bytes)
		}
	}
	for i := range 20 {
		compile(1 + i%5)
		_, bytes := b.Live()
		assert.LessOrEqual(t, bytes, held)
	}
	before := e.Stats().Generation
	compile(1 + 19%5)
	assert.Equal(t, before, e.Stats().Generation, "a hit moves no memory")
	require.NoError(t, e.Close())
	n, bytes := b.Live()
	assert.Zero(t, n)
	assert.Zero(t, bytes, "everything was given back")
}

// Cached graphs keep no more memory than they may, and results stay the same.
func TestBuffersAreBounded(t *testing.T) {
	want := decode(t, executor(t, small, graph.Options{}, reference(graphtest.ReferenceOptions{})), small, 0, story...)
	size := func(rows int) int64 {
		e := executor(t, small, graph.Options{}, reference(graphtest.ReferenceOptions{}))
		_, err := e.Compile(params(rows), small.build)
		require.NoError(t, err)
		return e.Stats().BufferBytes
	}
	limit := size(4) + size(1)
	b := reference(graphtest.ReferenceOptions{})
	e := executor(t, small, graph.Options{MaxBufferBytes: limit}, b)
	kv := e.Stats().KVBytes
	for _, rows := range []int{1, 4, 1, 3, 2, 4, 1} {
		_, err := e.Compile(params(rows), small.build)
		require.NoError(t, err)
		s := e.Stats()
		assert.LessOrEqual(t, s.BufferBytes, limit, "after a graph of %d rows", rows)
		_, bytes := b.Live()
		assert.Equal(t, s.BufferBytes+kv, bytes)
	}
	assert.Positive(t, e.Stats().Evicted)
	assert.Equal(t, 2, e.Stats().Graphs, "4 and 1 rows fit together")
	c, err := e.Compile(params(16), small.build)
	require.NoError(t, err, "a graph that is larger by itself")
	assert.Equal(t, 1, e.Stats().Graphs)
	assert.Greater(t, e.Stats().BufferBytes, limit)
	step(t, c, params(16), 0, story...)
	require.NoError(t, c.Run())
	assert.Equal(t, want, decode(t, e, small, 0, story...))
	_, err = graph.NewExecutor([]graph.Backend{b}, graph.KVSpec{}, graph.Options{MaxBufferBytes: -1})
	require.ErrorContains(t, err, "MaxBufferBytes -1")
}

// KV rows outlive the graphs that stored them.
func TestRegionsSurviveRebuilds(t *testing.T) {
	want := decode(t, executor(t, small, graph.Options{}, reference(graphtest.ReferenceOptions{})), small, 0, story...)
	e := executor(t, small, graph.Options{MaxGraphs: 1}, reference(graphtest.ReferenceOptions{}))
	p := params(4)
	c, err := e.Compile(p, small.build)
	require.NoError(t, err)
	step(t, c, p, 0, story[:4]...)
	require.NoError(t, c.Run())
	assert.Equal(t, want[4:], decode(t, e, small, 4, story[4:]...))

	// Moved cells serve as well: the run table says where they are.
	e = executor(t, small, graph.Options{}, reference(graphtest.ReferenceOptions{}))
	decode(t, e, small, 0, story[:6]...)
	require.NoError(t, e.CopyCells(20, 0, 6))
	c, err = e.Compile(params(1), small.build)
	require.NoError(t, err)
	step(t, c, params(1), 6, story[6])
	require.NoError(t, c.SetInput(graph.InRuns, []int32{20, 7}))
	require.NoError(t, c.SetInput(graph.InCells, []int32{26}))
	require.NoError(t, c.Run())
	got, err := c.Output(0)
	require.NoError(t, err)
	assert.Equal(t, want[6], got)
	require.ErrorContains(t, e.CopyCells(0, 30, 3), "the cache has 32")
	require.Error(t, e.CopyCells(-1, 0, 1))
}

func TestInputsAreChecked(t *testing.T) {
	e := executor(t, small, graph.Options{}, reference(graphtest.ReferenceOptions{}))
	p := params(2)
	p.Seqs, p.Runs = 2, 3
	c, err := e.Compile(p, small.build)
	require.NoError(t, err)
	require.ErrorContains(t, c.Run(), "input tokens was never set")
	for _, bad := range []struct {
		in   graph.Input
		vals []int32
		want string
	}{
		{graph.InTokens, []int32{49, 50}, "input tokens: entry 1 is 50, want 0 to 49"},
		{graph.InTokens, []int32{-1, 0}, "entry 0 is -1"},
		{graph.InTokens, []int32{1}, "1 values, want [2]"},
		{graph.InPositions, []int32{0, -3}, "entry 1 is -3"},
		{graph.InSeqs, []int32{0, 2}, "want 0 to 1"},
		{graph.InLengths, []int32{33, 0}, "want 0 to 32"},
		{graph.InCells, []int32{32, 0}, "want -1 to 31"},
		{graph.InCells, []int32{-2, 0}, "want -1 to 31"},
		{graph.InOutputs, []int32{2}, "want 0 to 1"},
		{graph.InSeqRuns, []int32{0, 1, 2, 2}, "entry 1 is 2 and 2 more, beyond the 3"},
		{graph.InRuns, []int32{0, 1, 31, 2, 0, 0}, "entry 1 is 31 and 2 more, beyond the 32"},
		{graph.InRuns, []int32{0, 1, 2147483647, 2147483647, 0, 0}, "beyond"},
		{graph.NumInputs, nil, "no input 9"},
	} {
		require.ErrorContains(t, c.SetInput(bad.in, bad.vals), bad.want)
	}
	set := func(in graph.Input, vals ...int32) { require.NoError(t, c.SetInput(in, vals)) }
	set(graph.InTokens, 1, 2)
	set(graph.InPositions, 0, 1)
	set(graph.InSeqs, 0, 1)
	set(graph.InLengths, 3, 2)
	set(graph.InCells, 2, 9)
	set(graph.InOutputs, 0)
	set(graph.InSeqRuns, 0, 2, 2, 1)
	set(graph.InRuns, 0, 1, 2, 2, 8, 1)
	require.ErrorContains(t, c.Run(), "row 1 attends to 2 cells, the runs of its sequence 1 have 1")
	_, err = c.Output(0)
	require.Error(t, err, "nothing has run")
	set(graph.InRuns, 0, 1, 2, 2, 8, 2)
	require.NoError(t, c.Run())
	out, err := c.Output(0)
	require.NoError(t, err)
	assert.Len(t, out, small.vocab)
}

func TestOutputs(t *testing.T) {
	host, device := reference(graphtest.ReferenceOptions{}), reference(graphtest.ReferenceOptions{Device: true, Name: "gpu"})
	for _, b := range []*graphtest.Reference{host, device} {
		e := executor(t, small, graph.Options{}, b)
		p := params(3)
		p.Outputs = 1
		c, err := e.Compile(p, small.build)
		require.NoError(t, err)
		step(t, c, p, 0, 1, 2, 3)
		require.NoError(t, c.Run())
		assert.Equal(t, graph.Shape{1, 50}, c.OutputShape(0))
		part := make([]float32, 7)
		require.NoError(t, c.ReadOutput(0, 0, part))
		require.ErrorContains(t, c.ReadOutput(0, 1, part), "[1 50]")
		require.ErrorContains(t, c.ReadOutput(0, 0, make([]float32, 51)), "51 elements")
		require.ErrorContains(t, c.ReadOutput(1, 0, part), "output 1 of 1")
		all, err := c.Output(0)
		if b == device {
			require.ErrorIs(t, err, graph.ErrUnsupported)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, part, all[:7])
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	for name, backends := range map[string][]graph.Backend{
		"host": {reference(graphtest.ReferenceOptions{})},
		"two":  {reference(graphtest.ReferenceOptions{Name: "products", Device: true, Ops: only(graph.OpMatMul)}), reference(graphtest.ReferenceOptions{Device: true})},
	} {
		w := func(rows, cols int) *graph.Weight {
			return weight(fmt.Sprintf("m%d.weight", rows), quant.F32, rows, cols)
		}
		for _, b := range backends {
			require.NoError(t, b.RegisterWeight(w(50, 8), make([]byte, 50*8*4)))
			require.NoError(t, b.RegisterWeight(w(9, 8), make([]byte, 9*8*4)))
		}
		e, err := graph.NewExecutor(backends, graph.KVSpec{}, graph.Options{})
		require.NoError(t, err)
		p := params(2)
		build := func(p graph.Params) (*graph.Graph, error) {
			b := graph.NewBuilder(p)
			b.Output(b.Silu(b.MatMul(b.GetRows(w(50, 8), b.Input(graph.InTokens)), w(9, 8), nil)))
			return b.Graph()
		}
		tokens, out := []int32{1, 2}, make([]float32, 18)
		assert.Zero(t, testing.AllocsPerRun(50, func() {
			c, err := e.Compile(p, build)
			if err != nil || c.SetInput(graph.InTokens, tokens) != nil || c.Run() != nil || c.ReadOutput(0, 0, out) != nil {
				t.Fatal("step failed", err)
			}
		}), "%s: a whole step", name)
		require.NoError(t, e.Close())
	}
}

// Each call of a backend fails once: the error says where, no output can be read, nothing leaks, and the next step works.
func TestFailuresOfBackends(t *testing.T) {
	boom := errors.New("boom")
	for _, call := range []string{"Alloc", "Write", "Compile", "Run", "Read", "Sync"} {
		for n := range 6 {
			t.Run(fmt.Sprintf("%s %d", call, n), func(t *testing.T) {
				left := -1
				fail := func(c string) error {
					if c != call || left < 0 {
						return nil
					}
					if left--; left < 0 {
						return boom
					}
					return nil
				}
				products := reference(graphtest.ReferenceOptions{Name: "products", Device: true, Ops: only(graph.OpMatMul), Fail: fail})
				rest := reference(graphtest.ReferenceOptions{Name: "rest", Device: call != "Sync", Fail: fail})
				e := executor(t, small, graph.Options{Layers: []int{1, 1}}, products, rest)
				want := decode(t, executor(t, small, graph.Options{}, reference(graphtest.ReferenceOptions{})), small, 0, story[:3]...)
				assert.Equal(t, want[:1], decode(t, e, small, 0, story[0]))

				left = n
				p := params(2)
				logits := make([]float32, small.vocab)
				c, err := e.Compile(p, small.build)
				if err == nil {
					step(t, c, p, 1, story[1:3]...)
					err = c.Run()
					if err == nil {
						err = c.ReadOutput(0, 0, logits)
					} else {
						require.Error(t, c.ReadOutput(0, 0, logits), "the outputs of an aborted step are never read")
					}
				}
				if left < 0 {
					require.ErrorIs(t, err, boom)
					assert.ErrorContains(t, err, "graph: ")
				} else {
					require.NoError(t, err, "the call came less often")
				}
				left = -1
				c, err = e.Compile(p, small.build)
				require.NoError(t, err)
				step(t, c, p, 1, story[1:3]...)
				require.NoError(t, c.Run())
				require.NoError(t, c.ReadOutput(0, 0, logits))
				assert.Equal(t, want[2], logits)
				require.NoError(t, e.Close())
				for _, b := range []*graphtest.Reference{products, rest} {
					live, _ := b.Live()
					assert.Zero(t, live, "buffers of %s", b.Name())
				}
			})
		}
	}
}

func TestNewExecutorRefuses(t *testing.T) {
	b := reference(graphtest.ReferenceOptions{})
	spec := small.spec(32)
	_, err := graph.NewExecutor(nil, spec, graph.Options{})
	require.Error(t, err)
	_, err = graph.NewExecutor([]graph.Backend{b}, spec, graph.Options{Layers: []int{0}})
	require.ErrorContains(t, err, "1 entries for 2 layers")
	_, err = graph.NewExecutor([]graph.Backend{b}, spec, graph.Options{Layers: []int{0, 1}})
	require.ErrorContains(t, err, "layer 1 is on backend 1 of 1")
	odd := spec
	odd.HeadDim, odd.KeyType = 80, quant.Q8_0
	_, err = graph.NewExecutor([]graph.Backend{b}, odd, graph.Options{})
	require.ErrorIs(t, err, graph.ErrUnsupported)
	require.ErrorContains(t, err, "head_dim 80")
	odd = spec
	odd.Cells = 0
	_, err = graph.NewExecutor([]graph.Backend{b}, odd, graph.Options{})
	require.Error(t, err)

	calls := 0
	full := reference(graphtest.ReferenceOptions{Name: "full", Fail: func(call string) error {
		if calls++; call == "Alloc" && calls == 4 {
			return fmt.Errorf("no room: %w", graph.ErrOutOfMemory)
		}
		return nil
	}})
	_, err = graph.NewExecutor([]graph.Backend{full}, spec, graph.Options{})
	require.ErrorIs(t, err, graph.ErrOutOfMemory)
	assert.ErrorContains(t, err, "KV cache of layer 1 (32 cells) on full")
	live, _ := full.Live()
	assert.Zero(t, live, "regions made before are given back")
}

func TestCompileRefusesAnotherCache(t *testing.T) {
	e := executor(t, small, graph.Options{}, reference(graphtest.ReferenceOptions{}))
	p := params(1)
	p.Cells = 16
	_, err := e.Compile(p, small.build)
	require.ErrorContains(t, err, "params say 16 KV cells, the cache has 32")
	p = params(1)
	p.KeyType = quant.F32
	_, err = e.Compile(p, small.build)
	require.ErrorContains(t, err, `"blk.0.k_store"`)
	_, err = e.Compile(params(1), func(graph.Params) (*graph.Graph, error) { return small.build(params(2)) })
	require.ErrorContains(t, err, "built for")
	boom := errors.New("boom")
	_, err = e.Compile(params(1), func(graph.Params) (*graph.Graph, error) { return nil, boom })
	require.ErrorIs(t, err, boom)
}

func TestTrace(t *testing.T) {
	var traced []bool
	b := reference(graphtest.ReferenceOptions{})
	spy := &spyBackend{Reference: b, units: &traced}
	e := executor(t, small, graph.Options{}, spy)
	want := decode(t, e, small, 0, story[:2]...)
	assert.Equal(t, []bool{false}, traced)

	seen := map[string][]float32{}
	tr := &graph.Trace{Times: true, Values: func(n *graph.Node, vals []float32) error {
		seen[n.Name] = append([]float32(nil), vals...)
		return nil
	}}
	e.SetTrace(tr)
	assert.Equal(t, want, decode(t, e, small, 0, story[:2]...), "tracing changes no bit")
	for _, unit := range traced[1:] {
		assert.True(t, unit, "the backend is told that it must not replay")
	}
	assert.Equal(t, want[1], seen["logits"])
	assert.Len(t, seen["blk.0.attn"], 128)
	assert.NotContains(t, seen, "blk.0.k_store")

	var out bytes.Buffer
	require.NoError(t, tr.WriteChrome(&out))
	var file struct {
		TraceEvents []struct {
			Name, Cat, Ph string
			TS, Dur       float64
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &file))
	assert.Len(t, file.TraceEvents, 2*(34+4))
	assert.Equal(t, "embed", file.TraceEvents[0].Name)
	assert.Equal(t, "GetRows", file.TraceEvents[0].Cat)
	for i, ev := range file.TraceEvents {
		assert.Equal(t, "X", ev.Ph)
		if i > 0 {
			assert.GreaterOrEqual(t, ev.TS, file.TraceEvents[i-1].TS)
		}
	}

	boom := errors.New("boom")
	e.SetTrace(&graph.Trace{Values: func(*graph.Node, []float32) error { return boom }})
	c, err := e.Compile(params(1), small.build)
	require.NoError(t, err)
	step(t, c, params(1), 0, 1)
	require.ErrorIs(t, c.Run(), boom)

	e.SetTrace(nil)
	hits := e.Stats().Hits
	assert.Equal(t, want, decode(t, e, small, 0, story[:2]...))
	assert.Equal(t, hits+2, e.Stats().Hits, "the graph without trace is still there")
	out.Reset()
	require.NoError(t, (&graph.Trace{}).WriteChrome(&out))
	assert.JSONEq(t, `{"traceEvents":[],"displayTimeUnit":"ns"}`, out.String())
}

type spyBackend struct {
	*graphtest.Reference
	units *[]bool
}

func (s *spyBackend) Compile(u *graph.Unit) (graph.Program, error) {
	*s.units = append(*s.units, u.Traced)
	return s.Reference.Compile(u)
}

package backendcuda

import (
	"flag"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/graph/graphtest"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/kernels-cuda/kernelstest"
	"github.com/minfer-go/minfer/quant"
)

// image and newFake: what the backend asks of the driver is under test here, not the results.
var image = kernelstest.Image

func newFake(o cudatest.Options) *cudatest.Fake { return kernelstest.New(o, nil) }

// onFake makes a backend on a fake driver with faults by rule. When the test ends nothing may be left on the device.
func onFake(t *testing.T, f *cudatest.Fake, rule string, o Options) *Backend {
	t.Helper()
	in, err := cudatest.ParseInject(rule)
	require.NoError(t, err)
	o.Driver, o.Kernels = cudart.NewDriver(in.Wrap(f.Table())), image
	b, err := New(o)
	require.NoError(t, err)
	return b
}

func clean(t *testing.T, f *cudatest.Fake) {
	t.Helper()
	assert.Empty(t, f.Violations())
	for what, n := range f.Live() {
		assert.Zero(t, n, "%s left", what)
	}
}

var smallKV = graph.KVSpec{Layers: 1, Cells: 64, KVHeads: 1, HeadDim: 64, KeyType: quant.F16, ValueType: quant.F16}

func smallParams(rows int) graph.Params {
	return graph.Params{Rows: rows, Outputs: 1, Seqs: 1, Runs: 1, Cells: 64, KeyType: quant.F16, ValueType: quant.F16}
}

// small is a model of one layer; model names its weights.
func small(model string) (weights []*graph.Weight, build func(graph.Params) (*graph.Graph, error)) {
	w := func(name string, t quant.Type, shape ...int) *graph.Weight {
		x := &graph.Weight{Model: model, Name: name, Type: t, Shape: shape}
		weights = append(weights, x)
		return x
	}
	embd, norm := w("embd", quant.Q8_0, 50, 64), w("norm", quant.F32, 64)
	q, k, v, o := w("q", quant.Q4_0, 128, 64), w("k", quant.Q4_0, 64, 64), w("v", quant.Q8_0, 64, 64), w("o", quant.Q5_0, 64, 128)
	gate, up, down, out := w("gate", quant.Q8_0, 96, 64), w("up", quant.Q8_0, 96, 64), w("down", quant.F16, 64, 96), w("out", quant.BF16, 50, 64)
	rope := graph.RopeAttr{Dims: 64, Base: 1e4, FreqScale: 1, AttnFactor: 1}
	return weights, func(p graph.Params) (*graph.Graph, error) {
		b := graph.NewBuilder(p)
		positions, cells := b.Input(graph.InPositions), b.Input(graph.InCells)
		x := b.GetRows(embd, b.Input(graph.InTokens))
		b.SetLayer(0)
		h := b.As("attn_norm").RmsNorm(x, norm, 1e-6)
		heads := func(m *graph.Node, n int) *graph.Node { return b.Reshape(m, p.Rows, n, 64) }
		qh := b.As("q_rope").RoPE(heads(b.MatMul(h, q, nil), 2), positions, rope)
		kh := b.As("k_rope").RoPE(heads(b.MatMul(h, k, nil), 1), positions, rope)
		vh := heads(b.MatMul(h, v, nil), 1)
		kc := b.As("k_cache").KvcacheLoad(b.As("k_store").KvcacheStore(kh, cells, graph.KVAttr{}))
		vc := b.As("v_cache").KvcacheLoad(b.As("v_store").KvcacheStore(vh, cells, graph.KVAttr{Value: true}))
		a := b.As("attn").Attn(qh, kc, vc, b.Input(graph.InLengths), b.Input(graph.InSeqs), b.Input(graph.InSeqRuns), b.Input(graph.InRuns),
			graph.AttnAttr{Heads: 2, KVHeads: 1, HeadDim: 64, Scale: 0.125})
		x = b.As("sum").Add(x, b.MatMul(b.Reshape(a, p.Rows, 128), o, nil))
		h = b.As("ffn_norm").RmsNorm(x, norm, 1e-6)
		h = b.As("swiglu").SwiGLU(b.MatMul(h, gate, nil), b.MatMul(h, up, nil))
		x = b.As("sum2").Add(x, b.MatMul(h, down, nil))
		b.SetLayer(-1)
		b.Output(b.As("logits").MatMul(b.As("rows").SelectRows(x, b.Input(graph.InOutputs)), out, nil))
		return b.Graph()
	}
}

func register(b *Backend, weights []*graph.Weight) error {
	for _, w := range weights {
		if err := b.RegisterWeight(w, make([]byte, w.Bytes())); err != nil {
			return err
		}
	}
	return nil
}

// step runs rows of a step, which attend to nothing, and reads the result.
func step(e *graph.Executor, build func(graph.Params) (*graph.Graph, error), rows int) error {
	return stepOf(e, build, make([]int32, rows))
}

// stepOf is a step of rows that attend to so many cells.
func stepOf(e *graph.Executor, build func(graph.Params) (*graph.Graph, error), lengths []int32) error {
	p := smallParams(len(lengths))
	c, err := e.Compile(p, build)
	if err != nil {
		return err
	}
	for in := range graph.NumInputs {
		vals := make([]int32, p.InputShape(in).Elems())
		switch in {
		case graph.InCells:
			for i := range vals {
				if vals[i] = int32(i); i >= p.Cells {
					vals[i] = -1
				}
			}
		case graph.InLengths:
			copy(vals, lengths)
		case graph.InSeqRuns:
			vals[1] = 1
		case graph.InRuns:
			vals[1] = 64
		}
		if err := c.SetInput(in, vals); err != nil {
			return err
		}
	}
	if err := c.Run(); err != nil {
		return err
	}
	return c.ReadOutput(0, 0, make([]float32, 50))
}

func TestReplay(t *testing.T) {
	for name, o := range map[string]Options{"captured": {}, "built": {Explicit: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFake(cudatest.Options{})
			b := onFake(t, f, "", o)
			weights, build := small("m")
			require.NoError(t, register(b, weights))
			e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{MaxGraphs: 2})
			require.NoError(t, err)
			for range 5 {
				require.NoError(t, step(e, build, 1))
			}
			s := b.Stats()
			assert.Equal(t, uint64(5), s.Runs)
			assert.Equal(t, uint64(1), s.Captured, "the second run")
			assert.Equal(t, uint64(3), s.Replayed, "the third and later")
			for _, rows := range []int{2, 3, 4, 1} { // each pushes another out
				require.NoError(t, step(e, build, rows))
				require.NoError(t, step(e, build, rows))
				assert.LessOrEqual(t, b.Stats().Execs, 2)
				assert.LessOrEqual(t, b.Stats().Programs, 2)
			}
			require.NoError(t, e.Close())
			assert.Zero(t, b.Stats().Programs+b.Stats().Execs)
			require.NoError(t, b.Close())
			clean(t, f)
		})
	}
}

// TestNoCallInsideAWindow: between the begin and the end of a capture there are launches, nothing else.
func TestNoCallInsideAWindow(t *testing.T) {
	f := newFake(cudatest.Options{})
	table := f.Table()
	var calls []string
	watch := sys.Intercept(table, func(name string) sys.Result { calls = append(calls, name); return sys.Success })
	b, err := New(Options{Driver: cudart.NewDriver(watch), Kernels: image})
	require.NoError(t, err)
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	require.NoError(t, step(e, build, 1))
	calls = nil
	require.NoError(t, step(e, build, 1))
	trace := strings.Join(calls, " ")
	_, window, ok := strings.Cut(trace, "StreamBeginCapture ")
	require.True(t, ok, trace)
	window, _, ok = strings.Cut(window, "StreamEndCapture")
	require.True(t, ok, trace)
	for name := range strings.FieldsSeq(window) {
		assert.Equal(t, "Launch", name)
	}
	assert.Greater(t, strings.Count(window, "Launch"), 8)
	calls = nil
	require.NoError(t, step(e, build, 1))
	assert.Equal(t, 1, strings.Count(strings.Join(calls, " "), "GraphLaunch"), "a replayed step is one launch: %v", calls)
	assert.NotContains(t, calls, "Launch")
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
}

func TestCaptureThatFails(t *testing.T) {
	for _, rule := range []string{"StreamBeginCapture:1=INVALID_VALUE", "StreamEndCapture:1=STREAM_CAPTURE_INVALIDATED", "GraphInstantiate:1=OUT_OF_MEMORY"} {
		t.Run(rule, func(t *testing.T) {
			f := newFake(cudatest.Options{})
			var notices []string
			b := onFake(t, f, rule, Options{Notice: func(s string) { notices = append(notices, s) }})
			weights, build := small("m")
			require.NoError(t, register(b, weights))
			e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
			require.NoError(t, err)
			for range 4 {
				require.NoError(t, step(e, build, 1))
			}
			require.Len(t, notices, 1, "one loud line")
			assert.Contains(t, notices[0], "no more replay")
			assert.Contains(t, b.Describe(), "one by one")
			assert.Zero(t, b.Stats().Captured+b.Stats().Replayed)
			require.NoError(t, e.Close())
			require.NoError(t, b.Close())
			clean(t, f)
		})
	}
}

// TestFaults: the n-th call of each kind fails; the error names it, nothing is lost, and the next request works.
func TestFaults(t *testing.T) {
	request := func(b *Backend) error {
		weights, build := small("m")
		if err := register(b, weights); err != nil {
			return err
		}
		e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
		if err != nil {
			return err
		}
		defer e.Close()
		for _, rows := range []int{40, 1, 1, 1, 1, 1} {
			if err := step(e, build, rows); err != nil {
				return err
			}
		}
		return nil
	}
	for _, call := range []string{"MemAlloc", "MemcpyHtoD", "MemcpyDtoH", "MemsetD8", "Launch", "GraphLaunch", "StreamQuery", "EventRecord", "EventCreate", "MemHostAlloc", "StreamCreate"} {
		for _, nth := range []string{"1", "2", "3", "7", "15"} {
			t.Run(call+" "+nth, func(t *testing.T) {
				f := newFake(cudatest.Options{})
				in, err := cudatest.ParseInject(call + ":" + nth + "=INVALID_VALUE")
				require.NoError(t, err)
				o := Options{Driver: cudart.NewDriver(in.Wrap(f.Table())), Kernels: image}
				b, err := New(o)
				if err != nil {
					assert.ErrorContains(t, err, call)
					b, err = New(o)
					require.NoError(t, err)
				}
				for range 5 { // until the call has come
					if err := request(b); err != nil {
						assert.ErrorContains(t, err, call)
						break
					}
				}
				require.NoError(t, request(b), "the next request")
				require.NoError(t, b.Close())
				clean(t, f)
			})
		}
	}
}

func TestOutOfMemory(t *testing.T) {
	f := newFake(cudatest.Options{Memory: 1 << 20})
	b := onFake(t, f, "", Options{})
	weights, build := small("m")
	big := &graph.Weight{Model: "m", Name: "big", Type: quant.F32, Shape: graph.Shape{1024, 1024}}
	err := b.RegisterWeight(big, make([]byte, big.Bytes()))
	require.ErrorIs(t, err, graph.ErrOutOfMemory)
	assert.ErrorContains(t, err, `"big"`)
	kv := smallKV
	kv.Cells = 1 << 20
	_, err = graph.NewExecutor([]graph.Backend{b}, kv, graph.Options{})
	require.ErrorIs(t, err, graph.ErrOutOfMemory)
	err = b.Admit(append(weights, big), 0)
	require.ErrorIs(t, err, graph.ErrOutOfMemory)
	assert.ErrorContains(t, err, "--backend cpu")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	require.NoError(t, step(e, build, 1))
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestModelsShareAndDont: two backends share a model's weights; models of one shape never do; the last user frees.
func TestModelsShareAndDont(t *testing.T) {
	f := newFake(cudatest.Options{})
	driver := cudart.NewDriver(f.Table())
	open := func() *Backend {
		b, err := New(Options{Driver: driver, Kernels: image})
		require.NoError(t, err)
		return b
	}
	one, two := open(), open()
	first, _ := small("first")
	second, _ := small("second")
	require.NoError(t, register(one, first))
	bytes := one.Stats().WeightBytes
	require.NoError(t, register(two, first))
	assert.Equal(t, bytes, one.Stats().WeightBytes, "shared")
	require.NoError(t, register(two, second))
	assert.Equal(t, 2*bytes, one.Stats().WeightBytes)
	at := func(b *Backend, w *graph.Weight) *plane {
		kept, err := b.weights.Find("cuda", new(graph.Node), w)
		require.NoError(t, err)
		return kept.plane
	}
	for i, w := range first {
		assert.Same(t, at(two, w), at(one, w))
		assert.NotEqual(t, at(two, w).ptr(), at(two, second[i]).ptr())
	}
	one.ReleaseModel("first")
	assert.Equal(t, 2*bytes, two.Stats().WeightBytes, "two still uses it")
	two.ReleaseModel("first")
	assert.Equal(t, bytes, two.Stats().WeightBytes)
	require.NoError(t, one.Close())
	require.NoError(t, two.Close())
	clean(t, f)
}

// TestADeviceThatHangs: a wait has a deadline and says what it waited for.
func TestADeviceThatHangs(t *testing.T) {
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "", Options{})
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	require.NoError(t, step(e, build, 2))
	b.opts.Deadline, b.staging.deadline = 1, 1
	f.Hang(kernelscuda.KernelRmsnormF32.String())
	err = step(e, build, 1)
	require.ErrorIs(t, err, cudart.ErrTimeout)
	assert.ErrorContains(t, err, "the step of 1 rows from")
	f.Resume(kernelscuda.KernelRmsnormF32.String())
	b.opts.Deadline, b.staging.deadline = defaultDeadline, defaultDeadline
	require.NoError(t, step(e, build, 1), "the device has come back")
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestADeadContext: after a sticky error every call gives its first cause.
func TestADeadContext(t *testing.T) {
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "Launch:15=ILLEGAL_ADDRESS", Options{})
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	first := step(e, build, 1)
	require.ErrorIs(t, first, cudart.ErrSticky)
	again := step(e, build, 1)
	require.ErrorIs(t, again, cudart.ErrSticky)
	assert.ErrorContains(t, again, "Launch", "the first cause")
	_, err = b.Alloc(10)
	require.ErrorIs(t, err, cudart.ErrSticky)
}

// TestOpTable: every case of the op table compiles to launches that the driver takes, and gives back what it took.
func TestOpTable(t *testing.T) {
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "", Options{})
	ran := 0
	for _, c := range graphtest.Cases() {
		e, compiled, err := graphtest.Prepare(b, c)
		require.NoError(t, err, c.Name)
		require.NoError(t, compiled.Run(), c.Name)
		require.NoError(t, e.Close(), c.Name)
		ran++
	}
	assert.Greater(t, ran, 300)
	require.NoError(t, b.Close())
	clean(t, f)
}

var soak = flag.Duration("soak", 0, "how long TestFakeSoak runs")

// TestFakeSoak alternates models, shapes of steps and KV formats on the fake driver: nothing may grow or be left.
func TestFakeSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("takes long: -soak=1h")
	}
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "", Options{})
	rounds, most := 0, int64(0)
	for began := time.Now(); time.Since(began) < *soak; rounds++ {
		for _, model := range []string{"one", "two"} {
			weights, build := small(model)
			require.NoError(t, register(b, weights))
			kv := smallKV
			e, err := graph.NewExecutor([]graph.Backend{b}, kv, graph.Options{MaxGraphs: 3})
			require.NoError(t, err)
			for i := range 12 {
				require.NoError(t, step(e, build, 1+(rounds*7+i*5)%48))
				require.NoError(t, step(e, build, 1))
			}
			require.NoError(t, e.Close())
			b.ReleaseModel(model)
		}
		if s := b.Stats(); rounds == 20 {
			most = s.PoolBytes + s.Scratch
		} else if rounds > 100 {
			require.LessOrEqual(t, s.PoolBytes+s.Scratch, 2*most)
			require.Zero(t, s.Programs+s.Execs)
		}
	}
	t.Logf("%d rounds, %d bytes in the pool after 20", rounds, most)
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestRopeTableThatDoesNotArrive: the table of frequencies is made once, and one whose copy failed is made again.
func TestRopeTableThatDoesNotArrive(t *testing.T) {
	f := newFake(cudatest.Options{})
	var tables int
	fail := false
	driver := *f.Table()
	copyTo := driver.MemcpyHtoD
	driver.MemcpyHtoD = func(dst sys.DevicePtr, src unsafe.Pointer, n uint64, s sys.Stream) sys.Result {
		if n == 8*32 { // 32 pairs of a head of 64
			if tables++; fail {
				return sys.InvalidValue
			}
		}
		return copyTo(dst, src, n, s)
	}
	b, err := New(Options{Driver: cudart.NewDriver(&driver), Kernels: image})
	require.NoError(t, err)
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	tables = 0
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	fail = true
	require.ErrorContains(t, step(e, build, 1), "table of frequencies")
	fail = false
	for rows := range 4 {
		require.NoError(t, step(e, build, 1+rows))
	}
	assert.Equal(t, 2, tables, "once in vain, once for all graphs")
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

package devicetest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backendcuda "github.com/minfer-go/minfer/backend-cuda"
	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/enginetest"
	"github.com/minfer-go/minfer/engine/sample"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
)

const testdata = "../../engine/testdata"

// captureModes are the values of MINFER_TEST_CUDA_CAPTURE_MODE.
var captureModes = map[string]backendcuda.CaptureMode{"thread_local": backendcuda.CaptureThreadLocal, "global": backendcuda.CaptureGlobal, "relaxed": backendcuda.CaptureRelaxed}

// onDevice are the options to load a model on the GPU, or the test is skipped with the reason why not.
func onDevice(t *testing.T, o backendcuda.Options) enginetest.Options {
	t.Helper()
	o = withCaptureMode(t, o)
	if o.Driver == nil {
		b, err := backendcuda.New(o)
		if errors.Is(err, backendcuda.ErrUnavailable) {
			t.Skipf("no GPU to test on: %v", err)
		}
		require.NoError(t, err)
		require.NoError(t, b.Close())
	}
	load := engine.LoadOptions{Backend: func(*modelsqwen.Model) (graph.Backend, error) { return backendcuda.New(o) }}
	return enginetest.Options{Dir: testdata, Load: load, Tie: 0.01, Slack: 2}
}

// withCaptureMode sets the mode that MINFER_TEST_CUDA_CAPTURE_MODE names, if it is set.
func withCaptureMode(t *testing.T, o backendcuda.Options) backendcuda.Options {
	t.Helper()
	if name := os.Getenv("MINFER_TEST_CUDA_CAPTURE_MODE"); name != "" {
		mode, ok := captureModes[name]
		require.True(t, ok, "MINFER_TEST_CUDA_CAPTURE_MODE=%q", name)
		o.Capture = mode
	}
	return o
}

func bigModel(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("MINFER_TEST_MODELS")
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); dir == "" || err != nil {
		t.Skipf("needs %s in the folder that MINFER_TEST_MODELS names (now %q)", name, dir)
	}
	return path
}

func storyModel() string { return "../defaultmodel/minfer-story-21m-q4_k_m.gguf" }

func TestGoldenHidden(t *testing.T) { enginetest.GoldenHidden(t, onDevice(t, backendcuda.Options{})) }
func TestGoldenLogits(t *testing.T) { enginetest.GoldenLogits(t, onDevice(t, backendcuda.Options{})) }
func TestF16Trap(t *testing.T)      { enginetest.F16Trap(t, onDevice(t, backendcuda.Options{})) }

func TestGoldenLogitsSmolLM2(t *testing.T) {
	name := "smollm2-135m-instruct-q4_1-qwen2"
	enginetest.GoldenLogitsOf(t, onDevice(t, backendcuda.Options{}), bigModel(t, name+".gguf"), name)
}

func TestGoldenGreedy(t *testing.T) {
	o := onDevice(t, backendcuda.Options{})
	t.Run("story-3m", func(t *testing.T) {
		enginetest.GoldenGreedy(t, o, filepath.Join(testdata, "models", "minfer-story-3m-q8_0.gguf"), "minfer-story-3m-q8_0-greedy.json")
	})
	t.Run("story-21m", func(t *testing.T) {
		enginetest.GoldenGreedy(t, o, storyModel(), "minfer-story-21m-q4_k_m-greedy.json")
	})
	t.Run("smollm2", func(t *testing.T) {
		enginetest.GoldenGreedy(t, o, bigModel(t, "smollm2-135m-instruct-q4_1-qwen2.gguf"), "smollm2-greedy.json")
	})
	t.Run("qwen2.5-coder-0.5b", func(t *testing.T) {
		enginetest.GoldenGreedy(t, o, bigModel(t, "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"), "qwen2.5-coder-0.5b-instruct-greedy.json")
	})
}

// TestDecodeRowsDontDependOnTheirCompany: the kernels of decoding give the same bits for one row, for seven, beside other
// sequences and, with the tensor cores switched off, for the whole prompt at once; with them the logits are near.
func TestDecodeRowsDontDependOnTheirCompany(t *testing.T) {
	plain, exact := onDevice(t, backendcuda.Options{}), onDevice(t, backendcuda.Options{NoPrefillGEMM: true})
	for i, name := range enginetest.InvarianceModels {
		kv := enginetest.InvarianceFormat(i)
		t.Run(fmt.Sprintf("%s kv %s", name, kv), func(t *testing.T) {
			tokens := plain.LongTokens(t, name)
			m := plain.Model(t, name)
			want := enginetest.RunFeed(t, m, enginetest.Chunks(1), kv, tokens)
			for _, f := range []enginetest.Feed{enginetest.Chunks(7), enginetest.Company} {
				enginetest.SameBits(t, f.Name, want, enginetest.RunFeed(t, m, f, kv, tokens))
			}
			got := enginetest.RunFeed(t, m, enginetest.Chunks(len(tokens)), kv, tokens)
			for i := range got {
				_, relative := enginetest.Difference(got[i], want[i])
				require.Less(t, relative, 0.1, "tensor cores, position %d", i) // activations of 8 bits here, of bf16's 8 there
			}
			n := exact.Model(t, name)
			got = enginetest.RunFeed(t, n, enginetest.Chunks(len(tokens)), kv, tokens)
			for i := range got {
				_, relative := enginetest.Difference(got[i], want[i])
				require.Less(t, relative, 0.02, "without tensor cores, position %d", i)
			}
		})
	}
}

// greedy feeds a prompt and decodes n tokens; it gives them and a hash of all logits.
func greedy(t *testing.T, c *engine.Context, prompt []int32, n int) ([]int32, uint64) {
	t.Helper()
	h := fnv.New64a()
	c.Truncate(0, 0)
	rows := make([]engine.Row, len(prompt))
	for i, id := range prompt {
		rows[i] = engine.Row{Token: id, Output: i == len(prompt)-1}
	}
	var tokens []int32
	for range n {
		require.NoError(t, c.Step(context.Background(), rows))
		logits := c.Logits(0)
		var b [4]byte
		for _, x := range logits {
			u := math.Float32bits(x)
			b = [4]byte{byte(u), byte(u >> 8), byte(u >> 16), byte(u >> 24)}
			h.Write(b[:])
		}
		id := enginetest.Argmax(logits)
		tokens = append(tokens, id)
		rows = []engine.Row{{Token: id, Output: true}}
	}
	return tokens, h.Sum64()
}

// TestReplayIsDirect: 2,000 tokens over several prompts have the same logits, bit for bit, whether steps are replayed from a
// captured graph, from one built node by node, or launched kernel by kernel; no graph is compiled again for a decoded token.
func TestReplayIsDirect(t *testing.T) {
	arms := []struct {
		name string
		o    backendcuda.Options
	}{{"captured", backendcuda.Options{}}, {"built", backendcuda.Options{Explicit: true}}, {"direct", backendcuda.Options{NoGraph: true}}}
	prompts := [][]int32{{1, 2, 3}, {7, 5, 9, 11, 13, 17, 2, 4}, {400, 3, 20, 21}, {9}}
	const each = 500
	var want []uint64
	for _, arm := range arms {
		o := onDevice(t, arm.o)
		m := o.Model(t, "minfer-story-3m-q8_0")
		c := enginetest.NewContext(t, m, engine.ContextOptions{Ctx: 512})
		var got []uint64
		for i, p := range prompts {
			before := c.Executor().Stats().Compiled
			_, sum := greedy(t, c, p, each)
			got = append(got, sum)
			if i > 0 {
				require.LessOrEqual(t, c.Executor().Stats().Compiled-before, uint64(1), "a graph for the prompt at most, none for a token")
			}
		}
		s := m.Backend().(*backendcuda.Backend).Stats()
		t.Logf("%s: %d runs, %d replayed, %d graphs made", arm.name, s.Runs, s.Replayed, s.Captured)
		if arm.o.NoGraph {
			require.Zero(t, s.Replayed+s.Captured)
		} else {
			require.Greater(t, s.Replayed, uint64(len(prompts)*each-20))
		}
		if want == nil {
			want = got
		}
		require.Equal(t, want, got, arm.name)
	}
}

// TestTwoModelsOfOneShape: alternating step by step, each gives the bits that it gives alone.
func TestTwoModelsOfOneShape(t *testing.T) {
	o := onDevice(t, backendcuda.Options{})
	other := enginetest.Scaled(t, filepath.Join(testdata, "models", "tiny-qwen3-f32.gguf"), func(name string) float32 {
		if name == "output_norm.weight" || name == "blk.0.ffn_down.weight" {
			return 0.5
		}
		return 1
	})
	load := func(t *testing.T, i int) *engine.Context {
		if i == 0 {
			return enginetest.NewContext(t, o.Model(t, "tiny-qwen3-f32"), engine.ContextOptions{Ctx: 128})
		}
		m, err := engine.LoadBytes("other", other, o.Load)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		return enginetest.NewContext(t, m, engine.ContextOptions{Ctx: 128})
	}
	const steps = 40
	var want [2]uint64
	for i := range want {
		t.Run("alone", func(t *testing.T) { _, want[i] = greedy(t, load(t, i), []int32{1, 2, 3}, steps) })
	}
	require.NotEqual(t, want[0], want[1])
	both := [2]*engine.Context{load(t, 0), load(t, 1)}
	hashes := [2]uint64{}
	for i, c := range both { // the same again, a token at a time and by turns
		_, hashes[i] = greedy(t, c, []int32{1, 2, 3}, steps)
	}
	require.Equal(t, want, hashes)
	var turns [2][][]float32
	for step := range steps {
		for i, c := range both {
			if step == 0 {
				c.Truncate(0, 0)
			}
			require.NoError(t, c.Step(context.Background(), []engine.Row{{Token: int32(step), Output: true}}))
			turns[i] = append(turns[i], append([]float32(nil), c.Logits(0)...))
		}
	}
	for i, c := range both {
		c.Truncate(0, 0)
		for step := range steps {
			require.NoError(t, c.Step(context.Background(), []engine.Row{{Token: int32(step), Output: true}}))
			enginetest.SameBits(t, fmt.Sprintf("model %d, step %d", i, step), turns[i][step:step+1], [][]float32{c.Logits(0)})
		}
	}
}

// TestRandomPromptLengths: memory on the device stays flat over 1,000 prompts of random lengths.
func TestRandomPromptLengths(t *testing.T) {
	o := onDevice(t, backendcuda.Options{})
	m := o.Model(t, "tiny-qwen2w-q4_k_m")
	c := enginetest.NewContext(t, m, engine.ContextOptions{Ctx: 512, KeyType: kvformat.Q8_0, ValueType: kvformat.F16})
	b := m.Backend().(*backendcuda.Backend)
	rows := make([]engine.Row, 500)
	seed, low := uint32(1), int64(math.MaxInt64)
	var start int64
	for i := range 1000 {
		seed = seed*1664525 + 1013904223
		n := 1 + int(seed>>8)%len(rows)
		c.Truncate(0, 0)
		for j := range n {
			rows[j] = engine.Row{Token: int32(j % 100), Output: j == n-1}
		}
		require.NoError(t, c.Step(context.Background(), rows[:n]))
		free, _, err := b.Memory()
		require.NoError(t, err)
		low = min(low, free)
		if i == 100 {
			start = free
		}
	}
	s := b.Stats()
	t.Logf("free after 100 prompts %d MiB, least %d MiB; %+v", start>>20, low>>20, s)
	require.Less(t, start-low, int64(64<<20))
	require.LessOrEqual(t, s.Programs, 8)
}

// faulty opens the machine's driver with faults by rule; on the real device only calls that fail before they do anything.
func faulty(t *testing.T, rule string) (*cudart.Driver, *cudatest.Inject) {
	t.Helper()
	d, err := cudart.Open()
	if errors.Is(err, cudart.ErrUnavailable) {
		t.Skipf("no GPU to test on: %v", err)
	}
	require.NoError(t, err)
	in, err := cudatest.ParseInject(rule)
	require.NoError(t, err)
	return cudart.NewDriver(in.Wrap(d.Table())), in
}

// faultRules are those of TestFaults: MINFER_TEST_CALL_FAIL's alone if it is set.
func faultRules() []string {
	if rule := os.Getenv("MINFER_TEST_CALL_FAIL"); rule != "" {
		return []string{rule}
	}
	return []string{"LibraryLoad:1=OUT_OF_MEMORY", "MemAlloc:3=OUT_OF_MEMORY", "MemAlloc:12=OUT_OF_MEMORY", "MemHostAlloc:2=OUT_OF_MEMORY", "StreamCreate:2=OUT_OF_MEMORY",
		"MemcpyHtoD:2=INVALID_VALUE", "MemcpyHtoD:40=INVALID_VALUE", "MemsetD8:4=INVALID_VALUE", "EventCreate:2=OUT_OF_MEMORY", "EventRecord:1=INVALID_HANDLE",
		"Launch:1=INVALID_VALUE", "Launch:20=INVALID_VALUE", "Launch:60=LAUNCH_OUT_OF_RESOURCES", "MemcpyDtoH:1=INVALID_VALUE", "MemcpyDtoH:3=INVALID_VALUE",
		"StreamBeginCapture:1=INVALID_VALUE", "StreamEndCapture:1=STREAM_CAPTURE_INVALIDATED", "GraphInstantiate:1=OUT_OF_MEMORY", "GraphLaunch:1=INVALID_VALUE",
		"GraphLaunch:5=INVALID_VALUE", "StreamQuery:4=INVALID_VALUE"}
}

// TestFaults: a call that fails is an error that names it; the process lives and the next request works.
func TestFaults(t *testing.T) {
	onDevice(t, backendcuda.Options{})
	for _, rule := range faultRules() {
		t.Run(rule, func(t *testing.T) {
			d, in := faulty(t, rule)
			var notices []string
			o := onDevice(t, backendcuda.Options{Driver: d, Notice: func(s string) { notices = append(notices, s) }})
			request := func() error {
				m, err := engine.Load(filepath.Join(testdata, "models", "tiny-qwen2w-q4_k_m.gguf"), o.Load)
				if err != nil {
					return err
				}
				c, err := m.NewContext(engine.ContextOptions{Ctx: 64})
				if err == nil {
					err = c.Step(context.Background(), []engine.Row{{Token: 1}, {Token: 2}, {Token: 3, Output: true}})
					for i := 0; i < 8 && err == nil; i++ {
						err = c.Step(context.Background(), []engine.Row{{Token: 5, Output: true}})
					}
					err = errors.Join(err, c.Close())
				}
				return errors.Join(err, m.Close())
			}
			err := request()
			require.NotEmpty(t, in.Fired(), "the rule met no call")
			if err == nil { // a capture that can't be made costs replay, not the answer
				require.NotEmpty(t, notices)
			} else {
				t.Log(err)
			}
			require.NoError(t, request(), "the next request")
		})
	}
}

// TestFirstStepIsPrewarmed: with all kernels loaded at the start the first forward costs under a millisecond more than the second.
func TestFirstStepIsPrewarmed(t *testing.T) {
	first := func(t *testing.T, o backendcuda.Options) time.Duration {
		m := onDevice(t, o).Model(t, "tiny-qwen2w-q4_k_m")
		c := enginetest.NewContext(t, m, engine.ContextOptions{Ctx: 64})
		var took [2]time.Duration
		for i := range took {
			began := time.Now()
			_, _, err := c.StepDraw(context.Background(), []engine.Row{{Token: 1, Output: true}}, sample.Draw{TopP: 1})
			took[i] = time.Since(began)
			require.NoError(t, err)
		}
		t.Logf("first %v, second %v", took[0], took[1])
		return took[0] - took[1]
	}
	require.Less(t, first(t, backendcuda.Options{NoGraph: true}), time.Millisecond)
	// The control: without it the code is loaded by the first launches (where the driver loads lazily).
	t.Logf("without prewarming %v more", first(t, backendcuda.Options{NoGraph: true, NoPrewarm: true}))
}

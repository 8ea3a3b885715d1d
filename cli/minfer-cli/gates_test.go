package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	backendcuda "github.com/minfer-go/minfer/backend-cuda"
	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/kernels-cuda/kernelstest"
)

// TestGatesReachTheBackend: each variable sets its option, whose effect backend-cuda's TestGates shows.
func TestGatesReachTheBackend(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        backendcuda.Options
	}{
		{"MINFER_THREADS", "1", backendcuda.Options{}}, // one that isn't of the GPU
		{"MINFER_NO_CUDA_GRAPH", "1", backendcuda.Options{NoGraph: true}},
		{"MINFER_NO_PREFILL_CAPTURE", "1", backendcuda.Options{NoPrefillCapture: true}},
		{"MINFER_NO_PREFILL_GEMM", "1", backendcuda.Options{NoPrefillGEMM: true}},
		{"MINFER_NO_PREWARM", "1", backendcuda.Options{NoPrewarm: true}},
		{"MINFER_CUDA_TILES", "0", backendcuda.Options{NoTiles: true}},
		{"MINFER_Q6K_DPL", "0", backendcuda.Options{NoTiles: true}},
		{"MINFER_OP_TIMING", "1", backendcuda.Options{Profile: true}},
		{"MINFER_CUDA_KERNELS", "/a/file", backendcuda.Options{KernelsPath: "/a/file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			got, err := cudaOptions(backendcuda.Options{}, nil)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	t.Setenv("MINFER_NO_PREWARM", "perhaps")
	_, err := cudaOptions(backendcuda.Options{}, nil)
	assert.ErrorContains(t, err, `MINFER_NO_PREWARM="perhaps"`)
}

// smallCard has just the memory that bandwidth is measured with: the fake's copies are real.
const smallCard = 600 << 20

// onFake runs a command in this process with a GPU that computes nothing, and tells which of its kernels ran.
func onFake(t *testing.T, args ...string) (stdout, stderr string, ran map[string]int, err error) {
	t.Helper()
	return onFakeOf(t, cudatest.Options{Memory: smallCard}, args...)
}

func onFakeOf(t *testing.T, o cudatest.Options, args ...string) (stdout, stderr string, ran map[string]int, err error) {
	t.Helper()
	ran = map[string]int{}
	f := kernelstest.New(o, func(id kernelscuda.ID) { ran[id.String()]++ })
	var c commands
	parser, err := kong.New(&c)
	require.NoError(t, err)
	kctx, err := parser.Parse(args)
	require.NoError(t, err)
	var out, notes bytes.Buffer
	a := &app{ctx: context.Background(), stdin: strings.NewReader(""), stdout: &out, stderr: &notes,
		cuda: backendcuda.Options{Driver: cudart.NewDriver(f.Table()), Kernels: kernelstest.Image}}
	err = kctx.Run(a)
	assert.Empty(t, f.Violations())
	for what, n := range f.Live() {
		assert.Zero(t, n, "%s left", what)
	}
	return out.String(), notes.String(), ran, err
}

// TestGatesOfTheProgram: what the program itself does for a variable, on a GPU that computes nothing.
func TestGatesOfTheProgram(t *testing.T) {
	answer := []string{"run", "-m", tinyModel, "--raw", "--greedy", "-n", "5", "-v", "Hello"}
	_, stderr, ran, err := onFake(t, answer...)
	require.NoError(t, err)
	assert.Contains(t, stderr, "cuda ")
	assert.NotContains(t, stderr, "graphs: ")
	assert.NotContains(t, stderr, "µs a call")
	assert.Positive(t, ran["attn_decode_f16_f16_d128"], "%v", ran)

	t.Run("MINFER_DISABLE_CUDA", func(t *testing.T) {
		t.Setenv("MINFER_DISABLE_CUDA", "1")
		_, stderr, ran, err := onFake(t, answer...)
		require.NoError(t, err)
		assert.Contains(t, stderr, "cpu ")
		assert.Contains(t, stderr, "no GPU: MINFER_DISABLE_CUDA is set")
		assert.Empty(t, ran)
		_, _, _, err = onFake(t, append(answer, "--backend", "cuda")...)
		assert.ErrorContains(t, err, "--backend cuda: MINFER_DISABLE_CUDA is set")
	})
	t.Run("MINFER_BACKEND", func(t *testing.T) {
		t.Setenv("MINFER_BACKEND", "cpu")
		_, stderr, ran, err := onFake(t, answer...)
		require.NoError(t, err)
		assert.Contains(t, stderr, "cpu ")
		assert.Empty(t, ran)
	})
	t.Run("MINFER_CACHE_TYPE", func(t *testing.T) {
		t.Setenv("MINFER_CACHE_TYPE", "q8_0")
		_, stderr, ran, err := onFake(t, answer...)
		require.NoError(t, err)
		assert.Contains(t, stderr, "KV q8_0/q8_0")
		assert.Positive(t, ran["attn_decode_q8_q8_d128"], "%v", ran)
		assert.Zero(t, ran["attn_decode_f16_f16_d128"])
	})
	t.Run("MINFER_OP_TIMING", func(t *testing.T) {
		t.Setenv("MINFER_OP_TIMING", "1")
		_, stderr, _, err := onFake(t, answer...)
		require.NoError(t, err)
		assert.Contains(t, stderr, "µs a call")
		assert.Regexp(t, `rmsnorm\w* +\d+ `, stderr)
	})
	t.Run("MINFER_REBUILD_TRACE", func(t *testing.T) {
		t.Setenv("MINFER_REBUILD_TRACE", "1")
		_, stderr, _, err := onFake(t, answer...)
		require.NoError(t, err)
		assert.Regexp(t, `graphs: 2 compiled, \d+ reused, 0 evicted`, stderr)
		assert.Regexp(t, `cuda: 5 runs, 2 of them replayed, 1 CUDA graphs made, \d+ kernels launched one by one`, stderr)
	})
	t.Run("MINFER_TRACE", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "trace.json")
		t.Setenv("MINFER_TRACE", file)
		_, _, _, err := onFake(t, answer...)
		require.NoError(t, err)
		var trace struct{ TraceEvents []struct{ Name string } }
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		decode(t, string(data), &trace)
		assert.Greater(t, len(trace.TraceEvents), 5*10, "every node of every step")
	})
}

// TestBenchOnAGPU: bench shows the share of the memory's bandwidth, or none where the model leaves no room to measure it.
func TestBenchOnAGPU(t *testing.T) {
	args := []string{"bench", "--backend", "cuda", "-m", tinyModel, "-p", "0", "-n", "3", "-r", "1", "-o", "json"}
	type row struct {
		Device string  `json:"device"`
		Limit  float64 `json:"limit_gb_per_second"`
		Share  float64 `json:"share_of_read"`
		GBs    float64 `json:"gb_per_second"`
	}
	for memory, known := range map[int64]bool{smallCard: true, smallCard / 2: false} {
		var rows []row
		stdout, stderr, _, err := onFakeOf(t, cudatest.Options{Memory: memory}, args...)
		require.NoError(t, err)
		memoryLine(t, stderr)
		decode(t, stdout, &rows)
		require.Len(t, rows, 1)
		for _, r := range rows {
			assert.Equal(t, "Fake 0", r.Device)
			assert.Equal(t, known, r.Limit > 0)
			assert.Equal(t, known, r.Share > 0)
			assert.Positive(t, r.GBs)
		}
	}
}

// memoryLine: the memory that is gone is at least the weights and the cache, and not more than was estimated.
func memoryLine(t *testing.T, stderr string) (used int) {
	t.Helper()
	_, line, found := strings.Cut(stderr, "GPU memory: ")
	require.True(t, found, "%s", stderr)
	var estimated, weights, kv, buffers, rest int
	_, err := fmt.Sscanf(line, "%d MiB used, %d estimated (weights %d, KV cache %d, buffers %d, the rest %d)", &used, &estimated, &weights, &kv, &buffers, &rest)
	require.NoError(t, err, "%s", line)
	assert.GreaterOrEqual(t, used, weights+kv)
	assert.LessOrEqual(t, used, estimated)
	assert.InDelta(t, weights+kv+buffers+rest, estimated, 4)
	return used
}

// TestVerboseOnAGPU: -v says what a run takes of the GPU's memory.
func TestVerboseOnAGPU(t *testing.T) {
	_, stderr, _, err := onFake(t, "run", "--backend", "cuda", "-v", "-n", "3", "a")
	require.NoError(t, err)
	assert.Greater(t, memoryLine(t, stderr), 12, "the built-in model's weights and more")
}

package devicetest

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	backendcuda "github.com/minfer-go/minfer/backend-cuda"
	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/enginetest"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kernels-cuda/kernelstest"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
)

// steps decodes four tokens with a GPU that computes nothing; it gives the modes of the captures that were begun.
func steps(t *testing.T, rule string) (modes []int, err error) {
	t.Helper()
	in, err := cudatest.ParseInject(rule)
	require.NoError(t, err)
	table := *in.Wrap(kernelstest.New(cudatest.Options{}, nil).Table())
	begin := table.StreamBeginCapture
	table.StreamBeginCapture = func(h sys.Stream, mode int) sys.Result {
		modes = append(modes, mode)
		return begin(h, mode)
	}
	o := withCaptureMode(t, backendcuda.Options{Driver: cudart.NewDriver(&table), Kernels: kernelstest.Image})
	m, err := engine.Load(filepath.Join(testdata, "models", "tiny-qwen2w-q4_k_m.gguf"), engine.LoadOptions{
		Backend: func(*modelsqwen.Model) (graph.Backend, error) { return backendcuda.New(o) }})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	c := enginetest.NewContext(t, m, engine.ContextOptions{Ctx: 64})
	for range 4 {
		if err = c.Step(t.Context(), []engine.Row{{Token: 5, Output: true}}); err != nil {
			break
		}
	}
	return modes, err
}

// TestCaptureModeGate: the variable's mode is what the driver is asked for; without it, thread-local.
func TestCaptureModeGate(t *testing.T) {
	for name, want := range map[string]int{"": sys.CaptureThreadLocal, "thread_local": sys.CaptureThreadLocal, "global": sys.CaptureGlobal, "relaxed": sys.CaptureRelaxed} {
		t.Setenv("MINFER_TEST_CUDA_CAPTURE_MODE", name)
		modes, err := steps(t, "")
		require.NoError(t, err)
		assert.Equal(t, []int{want}, modes, name)
	}
}

// TestCallFailGate: the variable's rule replaces those of TestFaults, and its call is the one that fails.
func TestCallFailGate(t *testing.T) {
	t.Setenv("MINFER_TEST_CALL_FAIL", "")
	assert.Greater(t, len(faultRules()), 10)
	t.Setenv("MINFER_TEST_CALL_FAIL", "Launch:30=INVALID_VALUE")
	require.Equal(t, []string{"Launch:30=INVALID_VALUE"}, faultRules())
	_, err := steps(t, faultRules()[0])
	assert.ErrorContains(t, err, "Launch: CUDA_ERROR_INVALID_VALUE")
}

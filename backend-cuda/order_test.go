package backendcuda

import (
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/quant"
)

// What must wait for what: a real device shows a missing wait now and then only.

// TestCompileWaitsForWeights: they are uploaded on another stream, so nothing may be queued that reads them before they are there.
func TestCompileWaitsForWeights(t *testing.T) {
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "", Options{Deadline: 20 * time.Millisecond})
	weights, build := small("m")
	name := kernelscuda.KernelRepackQ80.String()
	last := 6 // of type Q8_0
	require.NoError(t, register(b, append(slices.Clone(weights[:last]), weights[last+1:]...)))
	require.NoError(t, b.do(b.dev.registry.settle))
	f.Hang(name)
	require.NoError(t, register(b, weights[last:last+1]))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	_, err = e.Compile(smallParams(1), build)
	require.ErrorIs(t, err, cudart.ErrTimeout)
	require.ErrorContains(t, err, "the upload of weights")
	f.Resume(name)
	require.NoError(t, step(e, build, 1))
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestUploadWaitsForPinnedMemory: a buffer that weights go through is filled again only when the copy out of it is done.
func TestUploadWaitsForPinnedMemory(t *testing.T) {
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "", Options{Deadline: 20 * time.Millisecond})
	tiled := &graph.Weight{Model: "m", Name: "tiled", Type: quant.Q8_0, Shape: graph.Shape{16, 32}}
	large := &graph.Weight{Model: "m", Name: "large", Type: quant.F32, Shape: graph.Shape{3 * uploadChunk / 4}}
	name := kernelscuda.KernelRepackQ80.String()
	f.Hang(name)
	require.NoError(t, register(b, []*graph.Weight{tiled}))
	err := register(b, []*graph.Weight{large})
	require.ErrorIs(t, err, cudart.ErrTimeout)
	require.ErrorContains(t, err, `"large"`)
	require.NotContains(t, err.Error(), "\n", "one line")
	f.Resume(name)
	require.NoError(t, b.do(b.dev.registry.settle))
	require.NoError(t, register(b, []*graph.Weight{large}))
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestReleaseModelWaits: a step that still reads the weights is waited for, with a deadline, not inside the driver.
func TestReleaseModelWaits(t *testing.T) {
	f := newFake(cudatest.Options{})
	var notices []string
	b := onFake(t, f, "", Options{Deadline: 20 * time.Millisecond, Notice: func(s string) { notices = append(notices, s) }})
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	require.NoError(t, step(e, build, 1))
	name := kernelscuda.KernelRmsnormF32.String()
	f.Hang(name)
	c, err := e.Compile(smallParams(1), build)
	require.NoError(t, err)
	require.NoError(t, c.Run())
	b.ReleaseModel("m")
	require.Len(t, notices, 1)
	assert.Contains(t, notices[0], "deadline exceeded")
	assert.Empty(t, f.Violations())
	f.Resume(name)
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestOverlapIsWithinAProgram: a program's first kernel follows copies of its inputs and may not begin before they are done; each later one
// may begin early, since it waits itself for the kernel before it.
func TestOverlapIsWithinAProgram(t *testing.T) {
	f := newFake(cudatest.Options{})
	table := *f.Table()
	var early []uint32
	launch := table.Launch
	table.Launch = func(k sys.Kernel, cfg *sys.LaunchConfig, s sys.Stream, p unsafe.Pointer, n uint64) sys.Result {
		early = append(early, cfg.Programmatic)
		return launch(k, cfg, s, p, n)
	}
	b, err := New(Options{Driver: cudart.NewDriver(&table), Kernels: image})
	require.NoError(t, err)
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	for range 2 { // one by one, then captured
		early = nil
		require.NoError(t, step(e, build, 1))
		require.Greater(t, len(early), 8)
		assert.Zero(t, early[0])
		for i, p := range early[1:] {
			assert.EqualValues(t, 1, p, "kernel %d", i+1)
		}
	}
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestTracedStepsAreNotReplayed: a trace looks at results after each node, so the kernels must really run one by one.
func TestTracedStepsAreNotReplayed(t *testing.T) {
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "", Options{})
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	e.SetTrace(&graph.Trace{Times: true})
	for range 4 {
		require.NoError(t, step(e, build, 1))
	}
	assert.Zero(t, b.Stats().Captured+b.Stats().Replayed)
	e.SetTrace(nil)
	for range 4 {
		require.NoError(t, step(e, build, 1))
	}
	assert.EqualValues(t, 1, b.Stats().Captured)
	assert.EqualValues(t, 2, b.Stats().Replayed)
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

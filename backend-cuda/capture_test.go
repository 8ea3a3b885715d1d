package backendcuda

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
	"github.com/minfer-go/minfer/graph"
)

// launchesFail is a backend whose n-th launch from now on fails, counted from 0; n < 0: none.
func launchesFail(t *testing.T, f *cudatest.Fake, o Options) (b *Backend, n *int) {
	t.Helper()
	n = new(-1)
	o.Driver = cudart.NewDriver(sys.Intercept(f.Table(), func(name string) sys.Result {
		if name != "Launch" {
			return sys.Success
		}
		if *n--; *n == -1 {
			return sys.InvalidValue
		}
		return sys.Success
	}))
	o.Kernels = image
	b, err := New(o)
	require.NoError(t, err)
	return b, n
}

// TestWarmUpIsAWholeRun: a program is captured only after a run that launched all its kernels, so that none is loaded in a window.
func TestWarmUpIsAWholeRun(t *testing.T) {
	f := newFake(cudatest.Options{})
	b, fail := launchesFail(t, f, Options{})
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	*fail = 3
	require.ErrorContains(t, step(e, build, 1), "Launch: ")
	require.NoError(t, step(e, build, 1))
	s := b.Stats()
	assert.Zero(t, s.Captured, "the first run was none")
	kernels := s.Launches
	assert.Greater(t, kernels, uint64(8))
	require.NoError(t, step(e, build, 1))
	require.NoError(t, step(e, build, 1))
	s = b.Stats()
	assert.EqualValues(t, 1, s.Captured)
	assert.EqualValues(t, 1, s.Replayed)
	assert.Equal(t, kernels, s.Launches, "captured ones don't count as launched")
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestLaunchThatFailsInAWindow: it is an error of that run, in one line, and the stream works on without replay.
func TestLaunchThatFailsInAWindow(t *testing.T) {
	f := newFake(cudatest.Options{})
	var notices []string
	b, fail := launchesFail(t, f, Options{Notice: func(s string) { notices = append(notices, s) }})
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	require.NoError(t, step(e, build, 1))
	*fail = 3
	err = step(e, build, 1)
	require.ErrorContains(t, err, "Launch: ")
	assert.NotContains(t, err.Error(), "\n", "one line")
	require.Len(t, notices, 1)
	assert.NotContains(t, notices[0], "\n", "one line")
	for range 3 {
		require.NoError(t, step(e, build, 1))
	}
	assert.Zero(t, b.Stats().Captured)
	assert.Len(t, notices, 1)
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

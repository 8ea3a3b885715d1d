package backendcuda

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/kernels-cuda/kernelstest"
)

// seen is what a backend asked of the fake driver while it ran four prompts of 65 rows and four decode steps.
type seen struct {
	kernels map[string]int // runs of each
	calls   map[string]int
	modes   []int // of captures
	profile []graph.Profile
	stats   Stats
	prompts Stats // after the prompts
}

func (s seen) ran(part string) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(s.kernels)), func(k string) bool { return strings.Contains(k, part) })
}

func watch(t *testing.T, o Options) (s seen) {
	t.Helper()
	s.kernels = map[string]int{}
	f := kernelstest.New(cudatest.Options{}, func(id kernelscuda.ID) { s.kernels[id.String()]++ })
	table := *f.Table()
	begin := table.StreamBeginCapture
	table.StreamBeginCapture = func(h sys.Stream, mode int) sys.Result {
		s.modes = append(s.modes, mode)
		return begin(h, mode)
	}
	o.Driver, o.Kernels = cudart.NewDriver(&table), kernelstest.Image
	b, err := New(o)
	require.NoError(t, err)
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	for range 4 {
		require.NoError(t, step(e, build, 65))
	}
	s.prompts = b.Stats()
	for range 4 {
		require.NoError(t, step(e, build, 1))
	}
	s.stats, s.profile = b.Stats(), b.Profile()
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	s.calls = f.Counts()
	clean(t, f)
	return s
}

// TestGates: every switch does what it says, and none of it happens without the switch.
func TestGates(t *testing.T) {
	plain := watch(t, Options{})
	assert.EqualValues(t, 1, plain.prompts.Captured)
	assert.EqualValues(t, 2, plain.stats.Captured)
	assert.Equal(t, []int{sys.CaptureThreadLocal, sys.CaptureThreadLocal}, plain.modes)
	assert.True(t, plain.ran("gemm_") && plain.ran("attn_prefill_") && plain.ran("expand_"), "a prompt of 65 rows uses tensor cores")
	assert.Positive(t, plain.calls["FuncLoad"])
	assert.True(t, plain.ran("repack_") && plain.ran("matvec_tile"), "tiles")
	assert.Nil(t, plain.profile)

	s := watch(t, Options{NoGraph: true})
	assert.Zero(t, s.stats.Captured+s.stats.Replayed+uint64(s.calls["GraphLaunch"]+s.calls["StreamBeginCapture"]))
	assert.Equal(t, plain.kernels, s.kernels, "the same kernels, one by one")

	s = watch(t, Options{NoPrefillCapture: true})
	assert.Zero(t, s.prompts.Captured+s.prompts.Replayed)
	assert.EqualValues(t, 1, s.stats.Captured, "decode steps are replayed")
	assert.EqualValues(t, 2, s.stats.Replayed)

	s = watch(t, Options{NoPrefillGEMM: true})
	assert.False(t, s.ran("gemm_") || s.ran("attn_prefill_") || s.ran("expand_"), "%v", s.kernels)

	s = watch(t, Options{NoPrewarm: true})
	assert.Zero(t, s.calls["FuncLoad"])

	s = watch(t, Options{NoTiles: true})
	assert.False(t, s.ran("repack_") || s.ran("_tile"), "%v", s.kernels)

	s = watch(t, Options{Capture: CaptureGlobal})
	assert.Equal(t, []int{sys.CaptureGlobal, sys.CaptureGlobal}, s.modes)
	s = watch(t, Options{Capture: CaptureRelaxed})
	assert.Equal(t, []int{sys.CaptureRelaxed, sys.CaptureRelaxed}, s.modes)

	s = watch(t, Options{Profile: true})
	assert.Zero(t, s.stats.Captured)
	require.Len(t, s.profile, 2)
	timed, calls := uint64(0), map[string]int{}
	for i, p := range s.profile {
		assert.Equal(t, []graph.Phase{graph.PhasePrompt, graph.PhaseDecode}[i], p.Phase)
		assert.Equal(t, 4, p.Steps)
		var sum time.Duration
		for _, k := range p.Lines {
			sum += k.Time
			timed += uint64(k.Calls)
			calls[k.Name] += int(k.Calls)
		}
		assert.Equal(t, p.Time, sum)
	}
	assert.Equal(t, s.stats.Launches, timed, "every launch of a step is timed")
	for name, n := range calls {
		assert.Equal(t, s.kernels[name], n, name)
	}
}

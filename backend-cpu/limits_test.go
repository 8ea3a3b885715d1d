package backendcpu

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
)

func TestLimits(t *testing.T) {
	for _, path := range Paths() {
		p, err := NewProbe(path)
		require.NoError(t, err)
		for _, threads := range []int{1, 2} {
			l, err := p.Measure(threads)
			require.NoError(t, err)
			require.Greater(t, l.ReadBytes, 1e8, "%s", path)
			require.Greater(t, l.Int8MACs, 1e7, "%s", path)
			t.Logf("%s, %d threads: %.1f GB/s, %.1f GMAC/s", path, threads, l.ReadBytes/1e9, l.Int8MACs/1e9)
		}
		_, err = p.Measure(-1)
		require.ErrorContains(t, err, "-1 threads")
		p.Close()
	}
	_, err := NewProbe("abacus")
	require.ErrorContains(t, err, "abacus")
}

// Every byte is read by one worker, and every worker multiplies.
func TestLimitsSplit(t *testing.T) {
	const size = 1 << 20
	for _, workers := range []int{1, 2, 3} {
		at := 0
		for w := range workers {
			lo, hi := pool.Split(size, 4096, w, workers)
			require.Equal(t, at, lo)
			at = hi
		}
		require.Equal(t, size, at)
		var calls atomic.Int32
		loops := make(workStep, workers)
		for i := range loops {
			loops[i] = func() { calls.Add(1 << (8 * i)) }
		}
		p := pool.New(workers)
		require.NoError(t, p.Run([]pool.Step{loops, readStep{make([]byte, size), false}, readStep{make([]byte, size), true}}, nil))
		p.Close()
		require.EqualValues(t, 0x010101&(1<<(8*workers)-1), calls.Load())
	}
}

package backendcuda

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// TestProfileCountsCellsInUse: attention's bytes are those of the lengths that a step was given, not of the whole cache.
func TestProfileCountsCellsInUse(t *testing.T) {
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "", Options{Profile: true})
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	const cell = 2 * 64 * 2                         // a key and a value of 64 elements, f16
	const query, result = 2 * 64 * 4, 2*64 + 2*64/4 // two heads; their result in 8 bits with records
	decode, prefill := kernelscuda.KernelAttnDecodeF16F16D64.String(), kernelscuda.KernelAttnPrefillF16F16D64.String()
	for _, c := range []struct {
		rows, first int
		kernel      string
		bytes       int64
	}{
		{1, 5, decode, 5*cell + query + result},
		{1, 60, decode, 60*cell + query + result},
		{2, 7, decode, 8*cell + 2*(query+result)}, // 7 and 8 cells of one sequence
		{65, 10, prefill, 64*cell + 65*2*query},   // the result is float32 too
	} {
		before := bytesOf(b.Profile(), c.kernel)
		lengths := make([]int32, c.rows)
		for i := range lengths {
			lengths[i] = int32(min(c.first+i, smallKV.Cells))
		}
		require.NoError(t, stepOf(e, build, lengths))
		assert.Equal(t, c.bytes, bytesOf(b.Profile(), c.kernel)-before, "%d rows from %d cells on", c.rows, c.first)
	}
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

func bytesOf(list []graph.Profile, kernel string) (n int64) {
	for _, p := range list {
		for _, k := range p.Lines {
			if k.Name == kernel {
				n += k.Bytes
			}
		}
	}
	return n
}

// TestBandwidthOfAFullDevice: the probe takes what is free, or says that it is too little.
func TestBandwidthOfAFullDevice(t *testing.T) {
	for memory, ok := range map[int64]bool{600 << 20: true, 400 << 20: false} {
		f := newFake(cudatest.Options{Memory: memory})
		b := onFake(t, f, "", Options{})
		gbs, err := b.ReadBandwidth()
		if ok {
			require.NoError(t, err)
			assert.Positive(t, gbs)
		} else {
			require.ErrorIs(t, err, graph.ErrOutOfMemory)
		}
		require.NoError(t, b.Close())
		clean(t, f)
	}
}

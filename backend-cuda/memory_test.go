package backendcuda

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// TestUnusedBuffersGoBack: where memory runs out, for buffers or for scratch, what the pool keeps is given back to the driver first.
func TestUnusedBuffersGoBack(t *testing.T) {
	const memory, kept = 40 << 20, 30 << 20
	f := newFake(cudatest.Options{Memory: memory})
	b := onFake(t, f, "", Options{})
	keep := func() {
		buf, err := b.Alloc(kept)
		require.NoError(t, err)
		b.Free(buf)
		assert.EqualValues(t, kept, b.pool.kept)
	}
	keep()
	buf, err := b.Alloc(20 << 20)
	require.NoError(t, err)
	assert.EqualValues(t, 20<<20, b.Stats().PoolBytes)
	b.Free(buf)
	keep()
	require.NoError(t, b.do(func(bd *cudart.Bound) error {
		a, err := b.arenaFor(bd, 20<<20)
		if err != nil {
			return err
		}
		return a.drop(bd)
	}))
	assert.Zero(t, b.Stats().PoolBytes)
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestOutOfMemoryBehindAHang: giving buffers back waits for the device inside the driver; behind a kernel that hangs that is refused by
// a deadline, not for ever.
func TestOutOfMemoryBehindAHang(t *testing.T) {
	f := newFake(cudatest.Options{Memory: 40 << 20})
	b := onFake(t, f, "", Options{Deadline: 50 * time.Millisecond})
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	c, err := e.Compile(smallParams(1), build)
	require.NoError(t, err)
	for in := range graph.NumInputs {
		require.NoError(t, c.SetInput(in, make([]int32, smallParams(1).InputShape(in).Elems())))
	}
	buf, err := b.Alloc(30 << 20)
	require.NoError(t, err)
	b.Free(buf)
	name := kernelscuda.KernelRmsnormF32.String()
	f.Hang(name)
	require.NoError(t, c.Run())
	_, err = b.Alloc(20 << 20)
	require.ErrorIs(t, err, cudart.ErrTimeout)
	f.Resume(name)
	buf, err = b.Alloc(20 << 20)
	require.NoError(t, err, "the device has come back")
	b.Free(buf)
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

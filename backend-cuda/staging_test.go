package backendcuda

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// TestStagingBehindAHang: while copies out of pinned memory haven't run, what they are to bring isn't written over, however often a
// wait for them reaches its deadline; writes that were accepted arrive.
func TestStagingBehindAHang(t *testing.T) {
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "", Options{})
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	require.NoError(t, step(e, build, 2))
	const writes = 8
	buf, err := b.Alloc(writes * halfBytes)
	require.NoError(t, err)
	b.opts.Deadline, b.staging.deadline = time.Millisecond, time.Millisecond
	name := kernelscuda.KernelRmsnormF32.String()
	f.Hang(name)
	require.ErrorIs(t, step(e, build, 1), cudart.ErrTimeout)

	var accepted []int
	for i := range writes {
		err := b.Write(buf, int64(i)*halfBytes, bytes.Repeat([]byte{byte(i + 1)}, halfBytes))
		if err == nil {
			accepted = append(accepted, i)
			continue
		}
		require.ErrorIs(t, err, cudart.ErrTimeout)
	}
	assert.NotEmpty(t, accepted)
	assert.LessOrEqual(t, len(accepted), 2, "there are two halves")
	f.Resume(name)
	b.opts.Deadline, b.staging.deadline = defaultDeadline, defaultDeadline
	got := make([]byte, halfBytes)
	for _, i := range accepted {
		require.NoError(t, b.Read(got, buf, int64(i)*halfBytes))
		assert.Equal(t, halfBytes, bytes.Count(got, []byte{byte(i + 1)}), "bytes of write %d", i)
	}
	require.NoError(t, b.Write(buf, 0, got), "the ring goes on")
	b.Free(buf)
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestReadInParts: what comes back is what was written, of lengths about those at which a read goes in parts and on several threads, and
// the parts' memory serves again and again.
func TestReadInParts(t *testing.T) {
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "", Options{})
	const most = wideBytes + 2*slotBytes + 5
	buf, err := b.Alloc(most)
	require.NoError(t, err)
	want := make([]byte, most)
	for i := range want {
		want[i] = byte(i*7 + i>>11) // no two parts alike
	}
	require.NoError(t, b.Write(buf, 0, want))
	for _, n := range []int{0, 1, stagingBytes, stagingBytes + 1, 5 * slotBytes, wideBytes - 1, wideBytes, wideBytes + slotBytes/4 + 1, most} {
		got := make([]byte, n)
		require.NoError(t, b.Read(got, buf, int64(most-n)))
		assert.True(t, bytes.Equal(want[most-n:], got), "%d bytes", n)
	}
	b.Free(buf)
	require.NoError(t, b.Close())
	clean(t, f)
}

// TestReadInPartsBehindAHang: a read in parts that gives up at its deadline can be made again, and once it has come through memory can be
// freed again.
//
// It was seen failing, with the first step's ErrTimeout from trim, while only the parts' events were waited for.
func TestReadInPartsBehindAHang(t *testing.T) {
	f := newFake(cudatest.Options{})
	b := onFake(t, f, "", Options{})
	weights, build := small("m")
	require.NoError(t, register(b, weights))
	e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
	require.NoError(t, err)
	require.NoError(t, step(e, build, 2))
	buf, err := b.Alloc(wideBytes)
	require.NoError(t, err)
	want := bytes.Repeat([]byte{3}, wideBytes)
	require.NoError(t, b.Write(buf, 0, want))
	b.opts.Deadline, b.staging.deadline = time.Millisecond, time.Millisecond
	name := kernelscuda.KernelRmsnormF32.String()
	f.Hang(name)
	require.ErrorIs(t, step(e, build, 1), cudart.ErrTimeout)
	got := make([]byte, wideBytes)
	require.ErrorIs(t, b.Read(got, buf, 0), cudart.ErrTimeout)

	f.Resume(name)
	b.opts.Deadline, b.staging.deadline = defaultDeadline, defaultDeadline
	require.NoError(t, b.Read(got, buf, 0))
	assert.True(t, bytes.Equal(want, got))
	b.Free(buf)
	require.NoError(t, b.do(b.pool.trim), "the stream was seen idle")
	require.NoError(t, e.Close())
	require.NoError(t, b.Close())
	clean(t, f)
}

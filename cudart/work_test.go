package cudart_test

import (
	"errors"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
)

// Copies, sets and launches run in their stream's order and are seen after a wait.
func TestWork(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string, ...string) *world) {
		w := open("")
		w.do(func(b *cudart.Bound) {
			r := newRig(t, b, w.image)
			require.EqualValues(t, 1, r.value(b))
			require.NoError(t, r.launch(b, 4))
			require.NoError(t, r.launch(b, 5))
			require.EqualValues(t, 10, r.value(b))
			other, err := b.Alloc(4 * rigWords)
			require.NoError(t, err)
			require.NoError(t, b.CopyDevice(r.s, other.Ptr(), r.m.Ptr(), 4*rigWords))
			require.NoError(t, b.Memset8(r.s, r.m.Ptr(), 2, 4*rigWords))
			require.EqualValues(t, 0x02020202, r.value(b))
			require.NoError(t, b.CopyDevice(r.s, r.m.Ptr(), other.Ptr(), 4*rigWords))
			require.EqualValues(t, 10, r.value(b))
			copy(r.p.Bytes()[4:8], []byte{7, 0, 0, 0})
			require.NoError(t, b.CopyToDevice(r.s, r.m.Ptr(), r.p, 4, 4))
			require.NoError(t, b.CopyToDevice(r.s, r.m.Ptr()+4*(rigWords-1), r.p, 4, 4))
			require.EqualValues(t, 7, r.value(b))
			free, total, err := b.MemInfo()
			require.NoError(t, err)
			if w.fake != nil {
				require.EqualValues(t, 8*rigWords, total-free)
			}
			require.Less(t, free, total)
			require.NoError(t, other.Free(b))
			r.close(b)
		})
		w.clean()
	})
}

// Events order streams on the device and take times; their waits end like a stream's.
func TestEvents(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string, ...string) *world) {
		w := open("")
		w.do(func(b *cudart.Bound) {
			r := newRig(t, b, w.image)
			second2, err := b.NewStream()
			require.NoError(t, err)
			from, err := b.NewEvent(true)
			require.NoError(t, err)
			to, err := b.NewEvent(true)
			require.NoError(t, err)
			plain, err := b.NewEvent(false)
			require.NoError(t, err)
			require.NoError(t, from.Record(b, r.s))
			require.NoError(t, r.launch(b, 1))
			require.NoError(t, to.Record(b, r.s))
			require.NoError(t, second2.WaitEvent(b, to))
			require.NoError(t, b.CopyToHost(second2, r.p, 0, r.m.Ptr(), 4))
			require.NoError(t, plain.Record(b, second2))
			done, err := plain.Query(b)
			require.NoError(t, err)
			if w.fake != nil {
				require.False(t, done)
			}
			require.NoError(t, plain.Wait(b, second, "the copy"))
			require.EqualValues(t, 2, r.p.Bytes()[0], "the copy ran after what it waited for")
			d, err := to.Since(b, from)
			require.NoError(t, err)
			require.GreaterOrEqual(t, d, time.Duration(0))
			_, err = plain.Since(b, from)
			require.ErrorIs(t, err, cudart.ErrInvalid)
			for _, e := range []*cudart.Event{from, to, plain} {
				require.NoError(t, e.Destroy(b))
				require.ErrorIs(t, e.Destroy(b), cudart.ErrClosed)
				require.ErrorIs(t, e.Record(b, r.s), cudart.ErrClosed)
			}
			require.NoError(t, second2.Destroy(b))
			r.close(b)
		})
		w.clean()
	})
}

// What the driver would refuse, or answer with nonsense, is refused here with figures.
func TestLaunchChecks(t *testing.T) {
	w := newWorld(t, cudatest.Options{}, "")
	w.fake.RegisterWith("small", cudatest.Attributes{MaxThreads: 128, StaticShared: 1024, Registers: 40, LocalBytes: 8}, func(*sys.LaunchConfig, unsafe.Pointer) {})
	w.do(func(b *cudart.Bound) {
		r := newRig(t, b, w.image)
		k, err := r.lib.Kernel(b, "small")
		require.NoError(t, err)
		require.Equal(t, cudart.KernelAttributes{Registers: 40, LocalBytes: 8, StaticShared: 1024, MaxThreads: 128, Binary: 90}, k.Attributes())
		launch := func(cfg cudart.LaunchConfig, n uintptr) error {
			var p [cudart.MaxParams + 8]byte
			return b.Launch(r.s, k, &cfg, unsafe.Pointer(&p), n)
		}
		require.NoError(t, launch(cudart.LaunchConfig{GridX: 2, BlockX: 128}, 8))
		for _, bad := range []cudart.LaunchConfig{{}, {GridX: 1}, {BlockX: 1}, {GridX: 1, BlockX: 129}, {GridX: 1, GridY: 65536, BlockX: 1},
			{GridX: 1, BlockX: 32, SharedBytes: 47<<10 + 1}} {
			err := launch(bad, 8)
			require.ErrorIs(t, err, cudart.ErrInvalid)
			require.ErrorContains(t, err, "small")
		}
		require.ErrorIs(t, launch(cudart.LaunchConfig{GridX: 1, BlockX: 1}, cudart.MaxParams+1), cudart.ErrInvalid)
		require.ErrorIs(t, b.Launch(r.s, k, &rigLaunch, nil, 8), cudart.ErrInvalid)
		require.ErrorIs(t, b.Launch(r.s, nil, &rigLaunch, nil, 0), cudart.ErrInvalid)
		require.ErrorIs(t, b.Launch(nil, k, &rigLaunch, nil, 0), cudart.ErrInvalid)

		err = k.SetSharedLimit(b, 227<<10)
		require.ErrorIs(t, err, cudart.ErrUnsupported, "1024 static bytes are in the way")
		require.ErrorContains(t, err, "1024 static")
		require.NoError(t, k.SetSharedLimit(b, 226<<10))
		require.Equal(t, 226<<10, k.SharedLimit())
		require.NoError(t, launch(cudart.LaunchConfig{GridX: 1, BlockX: 32, SharedBytes: 226 << 10}, 8))
		n, err := k.BlocksPerMultiprocessor(b, 128, 100<<10)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		err = launch(cudart.LaunchConfig{GridX: 2*132 + 1, BlockX: 128, SharedBytes: 100 << 10, Cooperative: 1}, 8)
		require.ErrorIs(t, err, cudart.ErrInvalid)
		require.ErrorContains(t, err, "BlocksPerMultiprocessor")
		clusters, err := k.Clusters(b, &cudart.LaunchConfig{GridX: 132, GridY: 1, GridZ: 1, BlockX: 128, BlockY: 1, BlockZ: 1, SharedBytes: 200 << 10,
			ClusterX: 2, ClusterY: 1, ClusterZ: 1})
		require.NoError(t, err)
		require.Equal(t, 66, clusters)
		require.NoError(t, launch(cudart.LaunchConfig{GridX: 4, BlockX: 32, ClusterX: 2}, 8), "zero Y and Z mean 1")
		require.ErrorIs(t, launch(cudart.LaunchConfig{GridX: 3, BlockX: 32, ClusterX: 2}, 8), cudart.ErrUnsupported)

		_, err = r.lib.Kernel(b, "nowhere")
		require.ErrorIs(t, err, cudart.ErrNotFound)
		require.ErrorContains(t, err, `"nowhere"`)
		require.ErrorIs(t, b.CopyToHost(r.s, r.p, 4*rigWords-3, r.m.Ptr(), 4), cudart.ErrInvalid)
		require.ErrorIs(t, b.CopyToHost(r.s, r.p, -1, r.m.Ptr(), 4), cudart.ErrInvalid)
		require.ErrorIs(t, b.CopyToDevice(r.s, r.m.Ptr(), nil, 0, 4), cudart.ErrInvalid)
		require.ErrorIs(t, b.Memset32(r.s, r.m.Ptr()+2, 0, 1), cudart.ErrInvalid)
		require.NoError(t, b.CopyDevice(r.s, r.m.Ptr(), r.m.Ptr(), 0))
		_, err = b.Alloc(0)
		require.ErrorIs(t, err, cudart.ErrInvalid)
		r.close(b)
		require.ErrorIs(t, r.m.Free(b), cudart.ErrClosed)
		require.ErrorIs(t, r.p.Free(b), cudart.ErrClosed)
		require.ErrorIs(t, r.s.Destroy(b), cudart.ErrClosed)
		require.ErrorIs(t, r.lib.Unload(b), cudart.ErrClosed)
		require.ErrorIs(t, r.launch(b, 1), cudart.ErrClosed)
		require.Nil(t, r.p.Bytes())
	})
	w.clean()
}

// A Bound is of no use outside its Do, and objects of one context are refused in another.
func TestBound(t *testing.T) {
	w := newWorld(t, cudatest.Options{Devices: 2}, "")
	var kept *cudart.Bound
	var r *rig
	w.do(func(b *cudart.Bound) { kept, r = b, newRig(t, b, w.image) })
	_, err := kept.Alloc(1)
	require.ErrorIs(t, err, cudart.ErrClosed)
	require.ErrorIs(t, r.launch(kept, 1), cudart.ErrClosed)

	d := cudart.NewDriver(w.fake.Table())
	other, err := d.Retain(1)
	require.NoError(t, err)
	require.Equal(t, 1, other.Device().Ordinal)
	require.NoError(t, other.Do(func(b *cudart.Bound) error {
		require.ErrorIs(t, r.s.Wait(b, second, "nothing"), cudart.ErrInvalid)
		require.ErrorIs(t, r.m.Free(b), cudart.ErrInvalid)
		require.ErrorIs(t, r.p.Free(b), cudart.ErrInvalid)
		require.ErrorIs(t, r.s.Destroy(b), cudart.ErrInvalid)
		return nil
	}))
	require.NoError(t, other.Release())
	require.ErrorIs(t, other.Release(), cudart.ErrClosed)
	require.ErrorIs(t, other.Do(func(*cudart.Bound) error { return nil }), cudart.ErrClosed)
	w.do(func(b *cudart.Bound) { r.close(b) })
	w.clean()
}

// Do nests, also over two contexts, and each level has its own; the error and the panic of f pass through.
func TestDoNests(t *testing.T) {
	w := newWorld(t, cudatest.Options{Devices: 2}, "")
	d := cudart.NewDriver(w.fake.Table())
	first, err := d.Retain(0)
	require.NoError(t, err)
	second, err := d.Retain(1)
	require.NoError(t, err)
	again, err := d.Retain(1)
	require.NoError(t, err)
	require.Same(t, second, again)
	require.NoError(t, again.Release())
	mark := errors.New("mark")
	err = first.Do(func(a *cudart.Bound) error {
		err := second.Do(func(b *cudart.Bound) error {
			m, err := b.Alloc(1000)
			require.NoError(t, err)
			require.NoError(t, m.Free(b))
			return first.Do(func(c *cudart.Bound) error {
				require.NotSame(t, a, c)
				return mark
			})
		})
		free, total, infoErr := a.MemInfo() // this thread has the first context again
		require.NoError(t, infoErr)
		require.Equal(t, total, free)
		return err
	})
	require.ErrorIs(t, err, mark)
	require.PanicsWithValue(t, "out", func() {
		runtime.Gosched()
		require.NoError(t, first.Do(func(*cudart.Bound) error { panic("out") }))
	})
	require.NoError(t, first.Do(func(b *cudart.Bound) error { _, _, err := b.MemInfo(); return err }))
	sets := w.fake.Counts()["CtxSetCurrent"]
	runtime.LockOSThread()
	for range 10 {
		require.NoError(t, first.Do(func(*cudart.Bound) error { return nil }))
	}
	runtime.UnlockOSThread()
	require.LessOrEqual(t, w.fake.Counts()["CtxSetCurrent"], sets+1, "a context that is current isn't set again")
	require.NoError(t, first.Release())
	require.NoError(t, second.Release())
	w.clean()
}

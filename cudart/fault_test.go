package cudart_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
)

// A wait has a deadline and names its work; while its stream may hang nothing is freed, and afterwards all goes on.
func TestWaitDeadline(t *testing.T) {
	w := newWorld(t, cudatest.Options{}, "")
	w.do(func(b *cudart.Bound) {
		r := newRig(t, b, w.image)
		e, err := b.NewEvent(false)
		require.NoError(t, err)
		w.fake.Hang("add")
		require.NoError(t, r.launch(b, 1))
		require.NoError(t, e.Record(b, r.s))
		start := time.Now()
		err = r.s.Wait(b, 5*time.Millisecond, "decode step 7")
		require.GreaterOrEqual(t, time.Since(start), 5*time.Millisecond)
		require.ErrorIs(t, err, cudart.ErrTimeout)
		require.ErrorContains(t, err, "decode step 7: still running after 5ms")
		require.ErrorIs(t, e.Wait(b, time.Millisecond, "event"), cudart.ErrTimeout)
		idle, err := r.s.Query(b)
		require.NoError(t, err)
		require.False(t, idle)
		for _, err := range []error{r.m.Free(b), r.p.Free(b), r.lib.Unload(b), r.s.Destroy(b)} {
			require.ErrorIs(t, err, cudart.ErrTimeout)
			require.ErrorContains(t, err, "is refused")
		}
		require.ErrorIs(t, r.s.Wait(b, 0, "x"), cudart.ErrInvalid)
		w.fake.Resume("add")
		require.NoError(t, r.s.Wait(b, second, "decode step 7"))
		require.EqualValues(t, 2, r.value(b))
		require.NoError(t, e.Destroy(b))
		r.close(b)
	})
	w.clean()
}

// A context whose stream hangs is closed without asking the driver, which would wait.
func TestReleaseWhileHanging(t *testing.T) {
	w := newWorld(t, cudatest.Options{}, "")
	w.do(func(b *cudart.Bound) {
		r := newRig(t, b, w.image)
		w.fake.Hang("add")
		require.NoError(t, r.launch(b, 1))
		require.ErrorIs(t, r.s.Wait(b, time.Millisecond, "decode step"), cudart.ErrTimeout)
	})
	err := w.c.Release()
	require.ErrorIs(t, err, cudart.ErrTimeout)
	require.ErrorContains(t, err, "releasing device 0 is refused")
	require.Zero(t, w.fake.Counts()["PrimaryCtxRelease"])
	require.ErrorIs(t, w.c.Err(), cudart.ErrClosed)
}

// A bad access kills the context: its first cause, not blamed on the call that saw it, is what every later call says.
func TestSticky(t *testing.T) {
	w := newWorld(t, cudatest.Options{}, "")
	var first error
	err := w.c.Do(func(b *cudart.Bound) error {
		r := newRig(t, b, w.image)
		r.m, _ = b.Alloc(4) // too small for the kernel
		require.NoError(t, r.launch(b, 1))
		first = r.s.Wait(b, second, "prefill")
		require.ErrorIs(t, first, cudart.ErrSticky)
		var e *cudart.Error
		require.ErrorAs(t, first, &e)
		require.Equal(t, sys.IllegalAddress, e.Code)
		require.Equal(t, "StreamQuery", e.Call)
		require.ErrorContains(t, first, "failed in earlier work: CUDA_ERROR_ILLEGAL_ADDRESS (700,")
		require.ErrorContains(t, first, "seen by StreamQuery while waiting for prefill")
		_, err := b.Alloc(1)
		require.Same(t, first, err)
		require.Same(t, first, r.launch(b, 1))
		require.Same(t, first, r.m.Free(b))
		_, err = b.Capture(r.s, cudart.CaptureThreadLocal, func() error { return nil })
		require.Same(t, first, err)
		return nil
	})
	require.NoError(t, err)
	require.Same(t, first, w.c.Err())
	require.Same(t, first, w.c.Do(func(*cudart.Bound) error { return nil }))
	require.Len(t, w.fake.Violations(), 1)
	require.Contains(t, w.fake.Violations()[0], "kernel add")
	require.NoError(t, w.c.Release(), "a dead context can be given back")
}

// Out of memory says what was asked and what is free, and the next request works.
func TestOutOfMemory(t *testing.T) {
	w := newWorld(t, cudatest.Options{Memory: 1 << 20}, "")
	w.do(func(b *cudart.Bound) {
		_, err := b.Alloc(2 << 20)
		require.ErrorIs(t, err, cudart.ErrOutOfMemory)
		require.ErrorContains(t, err, "allocating 2097152 bytes of device memory (1048576 of 1048576 are free)")
		m, err := b.Alloc(1 << 20)
		require.NoError(t, err)
		require.NoError(t, m.Free(b))
		require.NoError(t, w.c.Err())
	})
	w.clean()
}

// Whatever call fails, with whatever result, is an error that names it, never a panic; and when the failure is past the
// same work succeeds. What the work doesn't call can't fail it.
func TestEveryCallFails(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		fired := everyCallFails(t, []byte("image"), func() *sys.Table { return newFake(cudatest.Options{}).Table() })
		for _, name := range cudatest.CallNames() {
			switch name {
			case "CtxSynchronize", "ErrorName", "ErrorString", "StreamIsCapturing", "FuncLoaded", "GraphNodeCount", "OccupancyClusters":
				continue // not called by this work, or in error paths only
			}
			require.True(t, fired[name], name)
		}
	})
	t.Run("device", func(t *testing.T) {
		table := deviceTable(t)
		fired := everyCallFails(t, deviceKernels(), func() *sys.Table { return table })
		require.Greater(t, len(fired), 40)
	})
}

func everyCallFails(t *testing.T, image []byte, table func() *sys.Table) (fired map[string]bool) {
	fired = map[string]bool{}
	for _, name := range cudatest.CallNames() {
		for _, result := range []string{"OUT_OF_MEMORY", "ILLEGAL_ADDRESS", "UNKNOWN"} {
			t.Run(name+"/"+result, func(t *testing.T) {
				in, err := cudatest.ParseInject(name + ":1=" + result)
				require.NoError(t, err)
				d := cudart.NewDriver(in.Wrap(table()))
				err = everything(d, image)
				if len(in.Fired()) == 0 {
					require.NoError(t, err)
					return
				}
				fired[name] = true
				require.ErrorContains(t, err, result)
				require.ErrorContains(t, err, name)
				var e *cudart.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, name, e.Call)
				require.NoError(t, everything(d, image), "after the failure")
			})
		}
	}
	return fired
}

// The error paths of a driver that doesn't come up: each its own sentence with what to do.
func TestUnavailable(t *testing.T) {
	cases := map[string]struct {
		opt   cudatest.Options
		rules string
		is    error
		says  string
	}{
		"no device":       {cudatest.Options{Devices: -1}, "", cudart.ErrUnavailable, "see what nvidia-smi lists"},
		"count of zero":   {cudatest.Options{}, "DeviceCount:1=NO_DEVICE", cudart.ErrUnavailable, "CUDA_VISIBLE_DEVICES"},
		"stub":            {cudatest.Options{}, "Init:1=STUB_LIBRARY", cudart.ErrUnavailable, "stubs folder"},
		"mismatch":        {cudatest.Options{}, "Init:1=SYSTEM_DRIVER_MISMATCH", cudart.ErrUnavailable, "restart the machine"},
		"not ready":       {cudatest.Options{}, "Init:1=SYSTEM_NOT_READY", cudart.ErrUnavailable, "nvidia-fabricmanager"},
		"unknown at init": {cudatest.Options{}, "Init:1=UNKNOWN", cudart.ErrUnavailable, "starting the CUDA driver"},
		"busy":            {cudatest.Options{}, "PrimaryCtxRetain:1=DEVICE_UNAVAILABLE", cudart.ErrBusy, "another process"},
		"prohibited":      {cudatest.Options{Attributes: map[int]int{sys.AttrComputeMode: sys.ComputeProhibited}}, "", cudart.ErrBusy, "nvidia-smi -c DEFAULT"},
		"exclusive": {cudatest.Options{Attributes: map[int]int{sys.AttrComputeMode: sys.ComputeExclusive}}, "PrimaryCtxRetain:1=INVALID_DEVICE",
			cudart.ErrBusy, "another process"},
		"full": {cudatest.Options{}, "PrimaryCtxRetain:1=OUT_OF_MEMORY", cudart.ErrOutOfMemory, "other processes fill"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in, err := cudatest.ParseInject(c.rules)
			require.NoError(t, err)
			_, err = cudart.NewDriver(in.Wrap(cudatest.New(c.opt).Table())).Retain(0)
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.says)
			if c.is == cudart.ErrBusy {
				require.ErrorIs(t, err, cudart.ErrUnavailable, "busy is a way of being unavailable")
			}
		})
	}
	d := cudart.NewDriver(cudatest.New(cudatest.Options{Driver: 12040}).Table())
	_, err := d.Retain(1)
	require.ErrorIs(t, err, cudart.ErrUnavailable)
	require.ErrorContains(t, err, "no device 1; this machine has 1")
	require.NoError(t, d.Require(12080))
	err = d.Require(13000)
	require.ErrorIs(t, err, cudart.ErrUnavailable)
	require.ErrorContains(t, err, "the driver supports CUDA 12.4 and the kernels were built with CUDA 13.0; install a driver for CUDA 13.0")
	for rule, says := range map[string]string{"NO_BINARY_FOR_GPU": "ARCHS", "UNSUPPORTED_PTX_VERSION": "newer driver", "INVALID_IMAGE": "damaged"} {
		w := newWorld(t, cudatest.Options{Driver: 12040}, "LibraryLoad:1="+rule)
		w.do(func(b *cudart.Bound) {
			_, err := b.LoadLibrary([]byte("image"))
			require.ErrorIs(t, err, cudart.ErrUnavailable)
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, "Fake 0, sm_90, driver CUDA 12.4")
		})
		w.clean()
	}
}

// Without a driver Open and Available agree, and say what to do; with one both are content.
func TestOpen(t *testing.T) {
	_, err := cudart.Open()
	available := cudart.Available()
	if err == nil {
		if available != nil {
			require.ErrorIs(t, available, cudart.ErrUnavailable)
		}
		return
	}
	require.ErrorIs(t, err, cudart.ErrUnavailable)
	require.Equal(t, err, available)
	var u *sys.UnavailableError
	if errors.As(err, &u) && u.Symbol == "" && !u.NoCgo {
		require.ErrorContains(t, err, "install NVIDIA's driver")
	}
}

// What a device tells comes through; the figures here are the fake's.
func TestDevices(t *testing.T) {
	d := cudart.NewDriver(cudatest.New(cudatest.Options{Devices: 2, Memory: 3 << 30}).Table())
	all, err := d.Devices()
	require.NoError(t, err)
	require.Len(t, all, 2)
	i := all[1]
	require.Equal(t, "Fake 1 (device 1, sm_90, 132 SMs, 3.0 GiB)", i.String())
	require.Equal(t, 90, i.Arch())
	require.Equal(t, 227<<10, i.SharedPerBlockOptin)
	require.Equal(t, fmt.Sprintf("%.0f", 2*3201e6*6016/8), fmt.Sprintf("%.0f", i.PeakBandwidth()))
	require.True(t, i.Clusters)
	require.NotEqual(t, all[0].UUID, i.UUID)
	v, err := d.Version()
	require.NoError(t, err)
	require.Equal(t, "13.0", cudart.VersionString(v))
}

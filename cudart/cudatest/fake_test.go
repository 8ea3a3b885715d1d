package cudatest

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart/sys"
)

// bench is a fake with a context current on the test's thread, a stream and some memory.
type bench struct {
	*sys.Table
	f *Fake
	s sys.Stream
	m sys.DevicePtr
	p unsafe.Pointer
}

const benchBytes = 64

func newBench(t *testing.T) *bench {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	f := New(Options{})
	b := &bench{Table: f.Table(), f: f}
	require.Equal(t, sys.NotInitialized, b.PrimaryCtxRelease(0))
	require.Equal(t, sys.Success, b.Init())
	require.Equal(t, sys.InvalidContext, b.CtxSynchronize())
	f.violations = nil
	c, r := b.PrimaryCtxRetain(0)
	require.Equal(t, sys.Success, r)
	require.Equal(t, sys.Success, b.CtxSetCurrent(c))
	b.s, r = b.StreamCreate(sys.StreamNonBlocking, 0)
	require.Equal(t, sys.Success, r)
	b.m, r = b.MemAlloc(benchBytes)
	require.Equal(t, sys.Success, r)
	b.p, r = b.MemHostAlloc(benchBytes)
	require.Equal(t, sys.Success, r)
	return b
}

// Work waits until it is asked for, and the first question finds it unfinished.
func TestFakeIsLazy(t *testing.T) {
	b := newBench(t)
	host := unsafe.Slice((*byte)(b.p), benchBytes)
	require.EqualValues(t, garbage, b.f.Bytes(b.m, 1)[0], "fresh memory is garbage")
	require.Equal(t, sys.Success, b.MemsetD8(b.m, 3, benchBytes, b.s))
	require.Equal(t, sys.Success, b.MemcpyDtoH(b.p, b.m, benchBytes, b.s))
	require.EqualValues(t, garbage, host[0])
	require.Equal(t, sys.NotReady, b.StreamQuery(b.s))
	require.EqualValues(t, garbage, host[0])
	require.Equal(t, sys.Success, b.StreamQuery(b.s))
	require.EqualValues(t, 3, host[benchBytes-1])
	require.Equal(t, 2, b.f.Counts()["StreamQuery"])
	require.Equal(t, map[string]int{"memory": 1, "bytes": benchBytes, "pinned": 1, "streams": 1, "contexts": 1}, b.f.Live())
	require.Empty(t, b.f.Violations())
}

// Each bad use of memory is a sticky illegal address and is noted with its reason.
func TestFakeMemoryFaults(t *testing.T) {
	cases := map[string]struct {
		do  func(b *bench) sys.Result
		why string
	}{
		"unknown address":  {func(b *bench) sys.Result { return b.MemsetD8(0x10, 0, 1, b.s) }, "no memory is allocated at 0x10"},
		"beyond its end":   {func(b *bench) sys.Result { return b.MemsetD8(b.m+60, 0, 5, b.s) }, "5 bytes at 0x"},
		"into the next":    {func(b *bench) sys.Result { return b.MemcpyDtoH(b.p, b.m+benchBytes, 1, b.s) }, "no memory is allocated"},
		"before its start": {func(b *bench) sys.Result { return b.MemcpyHtoD(b.m-1, b.p, 4, b.s) }, "no memory is allocated"},
		"after its free":   {func(b *bench) sys.Result { return or(b.MemFree(b.m), b.MemsetD32(b.m, 0, 1, b.s)) }, "has been freed"},
		"freed twice":      {func(b *bench) sys.Result { return or(b.MemFree(b.m), b.MemFree(b.m)) }, "has been freed"},
		"freed inside":     {func(b *bench) sys.Result { return b.MemFree(b.m + 8) }, "inside an allocation"},
		"source is bad":    {func(b *bench) sys.Result { return b.MemcpyDtoD(b.m, 0x20, 4, b.s) }, "no memory is allocated at 0x20"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if r := c.do(b); r != sys.IllegalAddress {
				require.Equal(t, sys.Success, r)
				require.Equal(t, sys.NotReady, b.StreamQuery(b.s))
				require.Equal(t, sys.IllegalAddress, b.StreamQuery(b.s))
			}
			_, r := b.MemAlloc(1)
			require.Equal(t, sys.IllegalAddress, r, "it stays")
			require.Len(t, b.f.Violations(), 1)
			require.Contains(t, b.f.Violations()[0], c.why)
		})
	}
}

func or(a, b sys.Result) sys.Result {
	if a != sys.Success {
		return a
	}
	return b
}

// What a real driver lets pass, or hangs on, is noted.
func TestFakeViolations(t *testing.T) {
	b := newBench(t)
	plain := make([]byte, 8)
	require.Equal(t, sys.InvalidValue, b.MemcpyHtoD(b.m, unsafe.Pointer(&plain[0]), 8, b.s))
	require.Equal(t, sys.InvalidHandle, b.MemsetD8(b.m, 0, 1, 0))
	result := make(chan sys.Result)
	go func() {
		runtime.LockOSThread() // never unlocked: a thread of its own that ends
		result <- b.MemsetD8(b.m, 0, 1, b.s)
	}()
	require.Equal(t, sys.InvalidContext, <-result)
	require.Equal(t, sys.Success, b.MemsetD8(b.m, 0, 1, b.s))
	require.Equal(t, sys.Success, b.StreamDestroy(b.s))
	require.Equal(t, sys.InvalidValue, b.MemFreeHost(unsafe.Pointer(&plain[0])))
	v := b.f.Violations()
	require.Len(t, v, 5)
	for i, want := range []string{"isn't pinned", "no stream 0x0", "no context is current", "nobody waited for", "isn't pinned"} {
		require.Contains(t, v[i], want)
	}
}

// A kernel that reads a bad address, and one whose Go code panics, fail the device as a kernel does.
func TestFakeKernelFaults(t *testing.T) {
	for name, want := range map[string]sys.Result{"reads": sys.IllegalAddress, "panics": sys.LaunchFailed} {
		b := newBench(t)
		b.f.Register("reads", func(*sys.LaunchConfig, unsafe.Pointer) { b.f.Bytes(b.m, benchBytes+1)[0] = 1 })
		b.f.Register("panics", func(*sys.LaunchConfig, unsafe.Pointer) { _ = Slice[uint32](b.f, b.m, 1)[len(b.f.opt.Without)+1] })
		lib, r := b.LibraryLoad([]byte{1})
		require.Equal(t, sys.Success, r)
		k, r := b.LibraryKernel(lib, name)
		require.Equal(t, sys.Success, r)
		cfg := sys.LaunchConfig{GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1, BlockZ: 1}
		require.Equal(t, sys.Success, b.Launch(k, &cfg, b.s, nil, 0))
		require.Equal(t, want, b.CtxSynchronize())
		require.Contains(t, b.f.Violations()[0], "kernel "+name)
	}
	f := New(Options{})
	require.Panics(t, func() { f.Bytes(1, 1) }, "outside of kernels it is the test's own bug")
	require.Nil(t, Slice[uint64](f, 1, 0))
}

// Memory has a limit that can change, and addresses aren't given twice.
func TestFakeMemoryLimit(t *testing.T) {
	b := newBench(t)
	b.f.SetMemory(1000)
	_, r := b.MemAlloc(1000 - benchBytes + 1)
	require.Equal(t, sys.OutOfMemory, r)
	m, r := b.MemAlloc(1000 - benchBytes)
	require.Equal(t, sys.Success, r)
	free, total, r := b.MemGetInfo()
	require.Equal(t, sys.Success, r)
	require.EqualValues(t, 0, free)
	require.EqualValues(t, 1000, total)
	require.Equal(t, sys.Success, b.MemFree(m))
	again, r := b.MemAlloc(1000 - benchBytes)
	require.Equal(t, sys.Success, r)
	require.NotEqual(t, m, again)
	require.Zero(t, m%256)
}

// A thread that captures globally forbids unsafe calls to all, a thread-local one to itself, a relaxed one to nobody.
func TestFakeCaptureModes(t *testing.T) {
	for mode, want := range map[int][2]sys.Result{ // allocation on this thread and on another
		sys.CaptureGlobal:      {sys.CaptureUnsupported, sys.CaptureUnsupported},
		sys.CaptureThreadLocal: {sys.CaptureUnsupported, sys.Success},
		sys.CaptureRelaxed:     {sys.Success, sys.Success},
	} {
		for i, here := range []bool{true, false} {
			b := newBench(t)
			ctx, _ := b.CtxGetCurrent()
			require.Equal(t, sys.Success, b.StreamBeginCapture(b.s, mode))
			got := make(chan sys.Result)
			alloc := func() { _, r := b.MemAlloc(1); got <- r }
			if here {
				_, r := b.MemAlloc(1)
				require.Equal(t, want[i], r)
			} else {
				go func() {
					runtime.LockOSThread() // never unlocked: a thread of its own that ends
					if r := b.CtxSetCurrent(ctx); r != sys.Success {
						got <- r
						return
					}
					alloc()
				}()
				require.Equal(t, want[i], <-got)
			}
			g, r := b.StreamEndCapture(b.s)
			if want[i] == sys.Success {
				require.Equal(t, sys.Success, r)
				require.Equal(t, sys.Success, b.GraphDestroy(g))
			} else {
				require.Equal(t, sys.CaptureInvalidated, r)
			}
			require.Equal(t, sys.Success, b.StreamBeginCapture(b.s, mode), "the stream works again")
		}
	}
}

// A stream that waits for an event of a hanging one hangs too, and freeing says that it would.
func TestFakeHang(t *testing.T) {
	b := newBench(t)
	b.f.Register("k", func(*sys.LaunchConfig, unsafe.Pointer) {})
	lib, r := b.LibraryLoad([]byte{1})
	require.Equal(t, sys.Success, r)
	k, r := b.LibraryKernel(lib, "k")
	require.Equal(t, sys.Success, r)
	other, r := b.StreamCreate(sys.StreamNonBlocking, 0)
	require.Equal(t, sys.Success, r)
	e, r := b.EventCreate(sys.EventNoTiming)
	require.Equal(t, sys.Success, r)
	b.f.Hang("k")
	cfg := sys.LaunchConfig{GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1, BlockZ: 1}
	require.Equal(t, sys.Success, b.Launch(k, &cfg, b.s, nil, 0))
	require.Equal(t, sys.Success, b.EventRecord(e, b.s))
	require.Equal(t, sys.Success, b.StreamWait(other, e))
	for range 3 {
		require.Equal(t, sys.NotReady, b.StreamQuery(other))
		require.Equal(t, sys.NotReady, b.EventQuery(e))
	}
	require.Equal(t, sys.NotReady, b.MemFree(b.m))
	require.Contains(t, b.f.Violations()[0], "would wait for ever")
	b.f.Resume("k")
	require.Equal(t, sys.Success, b.StreamQuery(other))
	require.Equal(t, sys.Success, b.EventQuery(e))
	require.Equal(t, sys.Success, b.MemFree(b.m))
}

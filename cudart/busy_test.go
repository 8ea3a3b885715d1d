package cudart_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
)

// Many goroutines use two contexts, each its own stream, with captures in all modes that a call of another thread may
// not spoil, while others keep the scheduler busy: every sum is right, every window ends on its thread.
func TestBusy(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		fake := newFake(cudatest.Options{Devices: 2})
		busy(t, cudart.NewDriver(fake.Table()), []byte("image"), 2)
		require.Empty(t, fake.Live())
		require.Empty(t, fake.Violations())
	})
	t.Run("device", func(t *testing.T) {
		d := cudart.NewDriver(deviceTable(t))
		n, err := d.Count()
		require.NoError(t, err)
		busy(t, d, deviceKernels(), min(n, 2))
	})
}

func busy(t *testing.T, d *cudart.Driver, image []byte, devices int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(4, runtime.NumCPU())))
	var stop atomic.Bool
	var noise, work sync.WaitGroup
	for range 4 {
		noise.Go(func() {
			for !stop.Load() {
				runtime.Gosched()
			}
		})
	}
	const users, rounds = 8, 25
	errs := make([]error, users)
	for u := range users {
		work.Go(func() { errs[u] = busyUser(d, image, u, u%devices, rounds) })
	}
	work.Wait()
	stop.Store(true)
	noise.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// busyUser is one goroutine of TestBusy. Each round is a Do of its own, so it may run on another thread.
func busyUser(d *cudart.Driver, image []byte, user, device, rounds int) (err error) {
	c, err := d.Retain(device)
	if err != nil {
		return err
	}
	t := &recorder{}
	var r *rig
	run := func(f func(b *cudart.Bound)) {
		if err == nil {
			err = c.Do(func(b *cudart.Bound) error { f(b); return t.err })
		}
	}
	run(func(b *cudart.Bound) { r = newRig(t, b, image) })
	mode := []cudart.CaptureMode{cudart.CaptureThreadLocal, cudart.CaptureRelaxed}[user/2%2]
	want := uint32(1)
	for i := range rounds {
		add := uint32(user*1000 + i)
		run(func(b *cudart.Bound) { require.NoError(t, r.launch(b, add)) })
		runtime.Gosched()
		run(func(b *cudart.Bound) {
			g, err := b.Capture(r.s, mode, func() error {
				for range 3 {
					runtime.Gosched() // the window stays on its thread
					if err := r.launch(b, 1); err != nil {
						return err
					}
				}
				time.Sleep(10 * time.Microsecond)
				return nil
			})
			require.NoError(t, err)
			x, err := g.Instantiate(b)
			require.NoError(t, err)
			require.NoError(t, x.Launch(b, r.s))
			m, err := b.Alloc(64) // unsafe for global captures of others, hence none of those here
			require.NoError(t, err)
			require.NoError(t, m.Free(b))
			require.NoError(t, r.s.Wait(b, second, "the graph"))
			require.NoError(t, x.Destroy(b))
			require.NoError(t, g.Destroy(b))
		})
		want += add + 3
		run(func(b *cudart.Bound) { require.Equal(t, want, r.value(b)) })
	}
	run(func(b *cudart.Bound) { r.close(b) })
	if e := c.Release(); err == nil {
		err = e
	}
	return err
}

// recorder keeps the first failed assertion of a goroutine that isn't the test's.
type recorder struct{ err error }

func (r *recorder) Errorf(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}
func (r *recorder) FailNow() { panic(r.err) }

// A window stays on one thread however the scheduler pushes, and a window that ends elsewhere would be noticed.
func TestWindowThread(t *testing.T) {
	fake := newFake(cudatest.Options{})
	table := fake.Table()
	c, err := cudart.NewDriver(table).Retain(0)
	require.NoError(t, err)
	require.NoError(t, c.Do(func(b *cudart.Bound) error {
		raw, r := table.StreamCreate(sys.StreamNonBlocking, 0)
		require.Equal(t, sys.Success, r)
		require.Equal(t, sys.Success, table.StreamBeginCapture(raw, sys.CaptureThreadLocal))
		result := make(chan sys.Result)
		go func() {
			result <- func() (r sys.Result) {
				err := c.Do(func(*cudart.Bound) error { _, r = table.StreamEndCapture(raw); return nil })
				if err != nil {
					return sys.Unknown
				}
				return r
			}()
		}()
		require.Equal(t, sys.CaptureWrongThread, <-result)
		_, r = table.StreamEndCapture(raw)
		require.Equal(t, sys.Success, r)
		return nil
	}))
	require.Len(t, fake.Violations(), 1)
	require.Contains(t, fake.Violations()[0], "another thread")
}

// quieten makes a table's hot functions succeed without doing or allocating anything; the context is current always.
func quieten(t *sys.Table, current sys.Context) {
	t.CtxGetCurrent = func() (sys.Context, sys.Result) { return current, sys.Success }
	t.Launch = func(sys.Kernel, *sys.LaunchConfig, sys.Stream, unsafe.Pointer, uint64) sys.Result { return sys.Success }
	t.MemcpyHtoD = func(sys.DevicePtr, unsafe.Pointer, uint64, sys.Stream) sys.Result { return sys.Success }
	t.MemcpyDtoH = func(unsafe.Pointer, sys.DevicePtr, uint64, sys.Stream) sys.Result { return sys.Success }
	t.MemcpyDtoD = func(_, _ sys.DevicePtr, _ uint64, _ sys.Stream) sys.Result { return sys.Success }
	t.MemsetD8 = func(sys.DevicePtr, uint8, uint64, sys.Stream) sys.Result { return sys.Success }
	t.EventRecord = func(sys.Event, sys.Stream) sys.Result { return sys.Success }
	t.EventQuery = func(sys.Event) sys.Result { return sys.Success }
	t.StreamWait = func(sys.Stream, sys.Event) sys.Result { return sys.Success }
	t.StreamQuery = func(sys.Stream) sys.Result { return sys.Success }
	t.GraphLaunch = func(sys.GraphExec, sys.Stream) sys.Result { return sys.Success }
	t.GraphExecSetNode = func(sys.GraphExec, sys.GraphNode, sys.Kernel, *sys.LaunchConfig, unsafe.Pointer, uint64) sys.Result {
		return sys.Success
	}
}

// hot is what the tests of allocations and of speed repeat: a Do with every call of a step.
type hot struct {
	c *cudart.Context
	r *rig
	n cudart.Node
	x *cudart.Exec
	e *cudart.Event
}

// newHot prepares it.
func newHot(t require.TestingT, table *sys.Table, image []byte) *hot {
	c, err := cudart.NewDriver(table).Retain(0)
	require.NoError(t, err)
	h := &hot{c: c}
	require.NoError(t, c.Do(func(b *cudart.Bound) error {
		h.r = newRig(t, b, image)
		if h.e, err = b.NewEvent(false); err != nil {
			return err
		}
		g, err := b.NewGraph()
		require.NoError(t, err)
		p := addParams{h.r.m.Ptr(), rigWords, 1}
		h.n, err = g.AddKernel(b, nil, h.r.add, &rigLaunch, unsafe.Pointer(&p), unsafe.Sizeof(p))
		require.NoError(t, err)
		h.x, err = g.Instantiate(b)
		return err
	}))
	return h
}

func (h *hot) step(b *cudart.Bound) error {
	r := h.r
	p := addParams{r.m.Ptr(), rigWords, 1}
	cfg := rigLaunch
	if err := b.CopyToDevice(r.s, r.m.Ptr(), r.p, 0, 64); err != nil {
		return err
	}
	if err := b.Launch(r.s, r.add, &cfg, unsafe.Pointer(&p), unsafe.Sizeof(p)); err != nil {
		return err
	}
	if err := h.x.SetKernel(b, h.n, r.add, &cfg, unsafe.Pointer(&p), unsafe.Sizeof(p)); err != nil {
		return err
	}
	if err := h.x.Launch(b, r.s); err != nil {
		return err
	}
	if err := b.Memset8(r.s, r.m.Ptr(), 0, 64); err != nil {
		return err
	}
	if err := b.CopyDevice(r.s, r.m.Ptr()+64, r.m.Ptr(), 64); err != nil {
		return err
	}
	if err := h.e.Record(b, r.s); err != nil {
		return err
	}
	if err := r.s.WaitEvent(b, h.e); err != nil {
		return err
	}
	if err := b.CopyToHost(r.s, r.p, 0, r.m.Ptr(), 64); err != nil {
		return err
	}
	if err := h.e.Wait(b, second, "the event"); err != nil {
		return err
	}
	return r.s.Wait(b, second, "the step")
}

// newQuiet prepares it on a driver that does nothing from then on.
func newQuiet(t require.TestingT) *hot {
	table := newFake(cudatest.Options{}).Table()
	h := newHot(t, table, []byte("image"))
	require.NoError(t, h.c.Do(func(*cudart.Bound) error {
		current, r := table.CtxGetCurrent()
		require.Equal(t, sys.Success, r)
		quieten(table, current)
		return nil
	}))
	return h
}

// A step allocates nothing: a collection of garbage in the middle would cost more than the step.
func TestAllocations(t *testing.T) {
	check := func(t *testing.T, h *hot) {
		n := testing.AllocsPerRun(100, func() {
			if err := h.c.Do(func(b *cudart.Bound) error { return h.step(b) }); err != nil {
				t.Fatal(err)
			}
		})
		require.Zero(t, n)
	}
	t.Run("quiet", func(t *testing.T) { check(t, newQuiet(t)) })
	t.Run("device", func(t *testing.T) {
		table := deviceTable(t)
		check(t, newHot(t, table, deviceKernels()))
	})
}

func BenchmarkDo(b *testing.B) {
	h := newQuiet(b)
	for b.Loop() {
		if err := h.c.Do(func(*cudart.Bound) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLaunch(b *testing.B) {
	h := newQuiet(b)
	if err := h.c.Do(func(d *cudart.Bound) error {
		for b.Loop() {
			if err := h.r.launch(d, 1); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}

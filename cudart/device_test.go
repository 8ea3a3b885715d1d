package cudart_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
)

// machine holds the machine's first device, so that its context isn't made anew for every test.
var machine struct {
	once sync.Once
	c    *cudart.Context
	err  error
}

// deviceTable gives the real driver's functions; without a driver and a device the test is skipped with the reason.
func deviceTable(t testing.TB) *sys.Table {
	t.Helper()
	machine.once.Do(func() {
		var d *cudart.Driver
		if d, machine.err = cudart.Open(); machine.err == nil {
			machine.c, machine.err = d.Retain(0)
		}
	})
	if machine.err != nil {
		t.Skipf("needs an NVIDIA device: %v", machine.err)
	}
	table, err := sys.Open()
	require.NoError(t, err)
	return table
}

// deviceKernels is the image for the machine's device, after deviceTable.
func deviceKernels() []byte {
	info := machine.c.Device()
	return deviceImage(info.Major)
}

// newDevice is a world on the machine's device.
func newDevice(t *testing.T) *world {
	t.Helper()
	table := deviceTable(t)
	w := &world{T: t, image: deviceKernels()}
	w.open(table, "")
	return w
}

// kernel finds a kernel of the rig's library.
func (r *rig) kernel(b *cudart.Bound, name string) *cudart.Kernel {
	k, err := r.lib.Kernel(b, name)
	require.NoError(r.t, err)
	return k
}

func (r *rig) spin(b *cudart.Bound, k *cudart.Kernel, d time.Duration) {
	ns := uint64(d)
	cfg := cudart.LaunchConfig{GridX: 1, BlockX: 1}
	require.NoError(r.t, b.Launch(r.s, k, &cfg, unsafe.Pointer(&ns), 8))
}

// The device tells what it is.
func TestDeviceInfo(t *testing.T) {
	w := newDevice(t)
	all, err := w.d.Devices()
	require.NoError(t, err)
	v, err := w.d.Version()
	require.NoError(t, err)
	require.NoError(t, w.d.Require(12040))
	require.ErrorIs(t, w.d.Require(99000), cudart.ErrUnavailable)
	for _, i := range all {
		t.Logf("%v, PCI %s, driver CUDA %s, %.0f GB/s by the driver's figures: %+v", &i, i.PCI, cudart.VersionString(v), i.PeakBandwidth()/1e9, i)
		require.NotEmpty(t, i.Name)
		require.NotZero(t, i.UUID)
		require.Equal(t, 32, i.WarpSize)
		require.GreaterOrEqual(t, i.SharedPerBlockOptin, i.SharedPerBlock)
		require.GreaterOrEqual(t, i.MaxGridX, 1<<31-1)
		for _, n := range []int{i.Major, i.Multiprocessors, i.L2Bytes, i.MaxThreadsPerSM, i.RegsPerSM, i.MaxBlocksPerSM, i.SharedPerSM} {
			require.Positive(t, n)
		}
	}
	require.NoError(t, cudart.Available())
	w.clean()
}

// Attributes, the opt-in to more shared memory, and what the driver says of too much.
func TestDeviceKernels(t *testing.T) {
	w := newDevice(t)
	info := w.c.Device()
	w.do(func(b *cudart.Bound) {
		r := newRig(t, b, w.image)
		require.Equal(t, info.Arch(), r.add.Attributes().Binary)
		require.Positive(t, r.add.Attributes().Registers)
		require.Equal(t, 1024, r.add.Attributes().MaxThreads)
		k := r.kernel(b, "shared")
		require.Equal(t, 48<<10, k.SharedLimit())
		most := info.SharedPerBlockOptin
		launch := func() error {
			p := sharedParams{r.m.Ptr(), uint32(most) - 4, 4711}
			cfg := cudart.LaunchConfig{GridX: 1, BlockX: 1, SharedBytes: uint32(most)}
			return b.Launch(r.s, k, &cfg, unsafe.Pointer(&p), unsafe.Sizeof(p))
		}
		require.ErrorIs(t, launch(), cudart.ErrInvalid)
		require.ErrorIs(t, k.SetSharedLimit(b, most+1), cudart.ErrUnsupported)
		require.NoError(t, k.SetSharedLimit(b, most))
		require.NoError(t, launch())
		require.NoError(t, b.CopyDevice(r.s, r.m.Ptr()+4*(rigWords-1), r.m.Ptr(), 4))
		require.EqualValues(t, 4711, r.value(b))
		n, err := k.BlocksPerMultiprocessor(b, 32, most)
		require.NoError(t, err)
		require.Equal(t, 1, n)

		perSM, err := r.add.BlocksPerMultiprocessor(b, 1024, 0)
		require.NoError(t, err)
		p := addParams{r.m.Ptr(), rigWords, 1}
		cfg := cudart.LaunchConfig{GridX: uint32(perSM * info.Multiprocessors), BlockX: 1024, Cooperative: 1}
		require.NoError(t, b.Launch(r.s, r.add, &cfg, unsafe.Pointer(&p), unsafe.Sizeof(p)))
		require.EqualValues(t, 4712, r.value(b))
		cfg.GridX++
		err = b.Launch(r.s, r.add, &cfg, unsafe.Pointer(&p), unsafe.Sizeof(p))
		require.ErrorIs(t, err, cudart.ErrInvalid)
		require.ErrorContains(t, err, "more blocks than the device holds")
		_, err = r.lib.Kernel(b, "nowhere")
		require.ErrorIs(t, err, cudart.ErrNotFound)
		for _, image := range []string{"no image at all, but long enough to be read as the header of one", ".version 99.9\n.target sm_80\n.address_size 64\n"} {
			lib, err := b.LoadLibrary([]byte(image)) // drivers may put reading it off until a kernel is asked for
			if err == nil {
				_, err = lib.Kernel(b, "add")
			}
			require.Error(t, err)
			t.Log(err)
		}
		require.NoError(t, w.c.Err(), "refusals leave the context well")
		r.close(b)
	})
	w.clean()
}

// Preparing a kernel loads its code onto the device.
func TestDeviceLoading(t *testing.T) {
	w := newDevice(t)
	table := w.d.Table()
	if table.FuncLoad == nil || table.FuncLoaded == nil {
		t.Skip("this driver can't load functions one by one (before CUDA 12.4)")
	}
	w.do(func(b *cudart.Bound) {
		state := func(f sys.Function) int {
			n, r := table.FuncLoaded(f)
			require.Equal(t, sys.Success, r)
			return n
		}
		lib, r := table.LibraryLoad(deviceKernels())
		require.Equal(t, sys.Success, r)
		k, r := table.LibraryKernel(lib, "spin")
		require.Equal(t, sys.Success, r)
		f, r := table.KernelFunction(k)
		require.Equal(t, sys.Success, r)
		t.Logf("loading state before FuncLoad: %d", state(f))
		require.Equal(t, sys.Success, table.FuncLoad(f))
		require.Equal(t, 1, state(f), "loaded")
		require.Equal(t, sys.Success, table.LibraryUnload(lib))
	})
	w.clean()
}

// A window must end on the thread that began it; the driver itself says so, and the window survives the attempt.
func TestDeviceWindowThread(t *testing.T) {
	table := deviceTable(t)
	w := newDevice(t)
	w.do(func(b *cudart.Bound) {
		raw, r := table.StreamCreate(sys.StreamNonBlocking, 0)
		require.Equal(t, sys.Success, r)
		require.Equal(t, sys.Success, table.StreamBeginCapture(raw, sys.CaptureThreadLocal))
		result := make(chan sys.Result)
		go func() {
			var r sys.Result
			err := w.c.Do(func(*cudart.Bound) error { _, r = table.StreamEndCapture(raw); return nil })
			if err != nil {
				r = sys.Unknown
			}
			result <- r
		}()
		require.Equal(t, sys.CaptureWrongThread, <-result)
		g, r := table.StreamEndCapture(raw)
		t.Logf("ending on the right thread afterwards: %v", r)
		if r == sys.Success {
			require.Equal(t, sys.Success, table.GraphDestroy(g))
		}
		state, r := table.StreamIsCapturing(raw)
		require.Equal(t, sys.Success, r)
		require.Equal(t, sys.CaptureNone, state)
		require.Equal(t, sys.Success, table.StreamDestroy(raw))
	})
	w.clean()
}

// More than the device has is out of memory, and no more than that.
func TestDeviceOutOfMemory(t *testing.T) {
	w := newDevice(t)
	w.do(func(b *cudart.Bound) {
		_, total, err := b.MemInfo()
		require.NoError(t, err)
		_, err = b.Alloc(total + 1<<30)
		require.ErrorIs(t, err, cudart.ErrOutOfMemory)
		t.Log(err)
		r := newRig(t, b, w.image)
		require.NoError(t, r.launch(b, 1))
		require.EqualValues(t, 2, r.value(b))
		r.close(b)
	})
	w.clean()
}

// A kernel that runs longer than the deadline: the wait ends in time, nothing can be freed before the stream is idle.
func TestDeviceDeadline(t *testing.T) {
	w := newDevice(t)
	w.do(func(b *cudart.Bound) {
		r := newRig(t, b, w.image)
		k := r.kernel(b, "spin")
		require.NoError(t, r.s.Wait(b, second, "the start"))
		r.spin(b, k, 300*time.Millisecond)
		start := time.Now()
		err := r.s.Wait(b, 20*time.Millisecond, "a kernel that spins")
		require.ErrorIs(t, err, cudart.ErrTimeout)
		require.Less(t, time.Since(start), 200*time.Millisecond)
		require.ErrorIs(t, r.m.Free(b), cudart.ErrTimeout)
		require.Less(t, time.Since(start), 200*time.Millisecond)
		require.NoError(t, r.s.Wait(b, 5*second, "a kernel that spins"))
		require.GreaterOrEqual(t, time.Since(start), 250*time.Millisecond)
		r.close(b)
	})
	w.clean()
}

var stickyChild = flag.Bool("sticky-child", false, "run the part of TestDeviceSticky that kills its context")

// An illegal address kills the context of its process with the first cause. It has a process of its own.
func TestDeviceSticky(t *testing.T) {
	if *stickyChild {
		stickyInChild(t)
		return
	}
	deviceTable(t)
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.Command(self, "-test.run=^TestDeviceSticky$", "-test.v", "-test.timeout=60s", "-sticky-child")
	out, err := child.CombinedOutput()
	t.Logf("the child said:\n%s", out)
	require.NoError(t, err)
	require.Contains(t, string(out), "the child has seen it all")
}

func stickyInChild(t *testing.T) {
	w := newDevice(t)
	w.do(func(b *cudart.Bound) {
		r := newRig(t, b, w.image)
		require.NoError(t, r.s.Wait(b, second, "the start"))
		p := addParams{0x10, rigWords, 1}
		require.NoError(t, b.Launch(r.s, r.add, &rigLaunch, unsafe.Pointer(&p), unsafe.Sizeof(p)))
		first := r.s.Wait(b, second, "a bad kernel")
		t.Log(first)
		require.ErrorIs(t, first, cudart.ErrSticky)
		var e *cudart.Error
		require.ErrorAs(t, first, &e)
		require.Equal(t, sys.IllegalAddress, e.Code)
		require.Equal(t, "CUDA_ERROR_ILLEGAL_ADDRESS", e.Name)
		require.Same(t, first, r.launch(b, 1))
		require.Same(t, first, r.m.Free(b))
		_, err := b.Alloc(1)
		require.Same(t, first, err)
		raw := w.d.Table().StreamQuery(0)
		t.Logf("the driver itself goes on saying %v", raw)
		require.Equal(t, sys.IllegalAddress, raw)
	})
	require.ErrorIs(t, w.c.Err(), cudart.ErrSticky)
	require.NoError(t, w.c.Release())
	fmt.Println("the child has seen it all")
}

// Nothing is allocated, loaded or asked for inside a window, as the driver counts it.
func TestDeviceWindowCalls(t *testing.T) {
	in, err := cudatest.ParseInject("")
	require.NoError(t, err)
	w := &world{T: t}
	table := deviceTable(t)
	w.image = deviceKernels()
	w.open(in.Wrap(table), "")
	w.do(func(b *cudart.Bound) {
		r := newRig(t, b, w.image)
		var inside map[string]int
		g, err := b.Capture(r.s, cudart.CaptureGlobal, func() error {
			before := in.Counts()
			for range 3 {
				if err := r.launch(b, 1); err != nil {
					return err
				}
			}
			inside = in.Counts()
			for name, n := range before {
				if inside[name] -= n; inside[name] == 0 {
					delete(inside, name)
				}
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, map[string]int{"Launch": 3}, inside)
		require.NoError(t, g.Destroy(b))
		r.close(b)
	})
	w.clean()
}

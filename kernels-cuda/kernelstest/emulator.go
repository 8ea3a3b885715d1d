package kernelstest

import (
	"errors"
	"sync"
	"testing"
	"unsafe"

	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
	"github.com/minfer-go/minfer/kernels-cuda/emulator"
)

// Emulate makes a driver whose memory and kernels are those of a process that runs the kernels' sources on the CPU (package emulator): results are
// computed, slowly. dir is the folder kernels-cuda. Work is done at once, so it must not be captured. The test is skipped where there is
// no C++ compiler; it fails if a kernel wrote outside of its buffers.
func Emulate(t *testing.T, dir string) *sys.Table {
	exe, err := emulator.Build(dir)
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := emulator.Start(exe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return table(p)
}

// table lays the process's memory and kernels over a Fake, which does the rest.
func table(p *emulator.Process) *sys.Table {
	t := *New(cudatest.Options{}, nil).Table()
	t.MemAlloc = func(n uint64) (sys.DevicePtr, sys.Result) { return sys.DevicePtr(p.Alloc(n)), sys.Success }
	t.MemFree = func(sys.DevicePtr) sys.Result { return sys.Success } // it goes with the process
	t.MemcpyHtoD = func(dst sys.DevicePtr, src unsafe.Pointer, n uint64, _ sys.Stream) sys.Result {
		p.Write(uint64(dst), unsafe.Slice((*byte)(src), n))
		return sys.Success
	}
	t.MemcpyDtoH = func(dst unsafe.Pointer, src sys.DevicePtr, n uint64, _ sys.Stream) sys.Result {
		copy(unsafe.Slice((*byte)(dst), n), p.Read(uint64(src), n))
		return sys.Success
	}
	t.MemsetD8 = func(dst sys.DevicePtr, v uint8, n uint64, _ sys.Stream) sys.Result {
		b := make([]byte, n)
		for i := range b {
			b[i] = v
		}
		p.Write(uint64(dst), b)
		return sys.Success
	}
	var mu sync.Mutex
	names := map[sys.Kernel]string{}
	find := t.LibraryKernel
	t.LibraryKernel = func(l sys.Library, name string) (sys.Kernel, sys.Result) {
		k, r := find(l, name)
		mu.Lock()
		defer mu.Unlock()
		names[k] = name
		return k, r
	}
	t.Launch = func(k sys.Kernel, c *sys.LaunchConfig, _ sys.Stream, params unsafe.Pointer, n uint64) sys.Result {
		mu.Lock()
		name := names[k]
		mu.Unlock()
		if !p.Launch(name, [3]uint32{c.GridX, c.GridY, c.GridZ}, [3]uint32{c.BlockX, c.BlockY, c.BlockZ}, c.SharedBytes, unsafe.Slice((*byte)(params), n)) {
			return sys.InvalidHandle
		}
		return sys.Success
	}
	return &t
}

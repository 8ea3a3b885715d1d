package kerneltest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// kernelsDir has the kernels' sources and, under _emu, the emulator that runs them on the CPU.
const kernelsDir = "../../kernels-cuda"

var emulatedFiles = []string{"quantize", "getrows", "repack", "gemm", "gemm_f32", "gemm_expand", "matvec_raw", "matvec_float", "matvec_tile", "matvec_swiglu", "matvec_mma", "matvec_mma_swiglu"}

// TestEmulated runs the cases of small shapes with the kernels' sources on the CPU: arithmetic and indexing, on machines
// without a device. Speed, and what threads do to each other, are for TestKernels.
func TestEmulated(t *testing.T) {
	if *group != "" || *speed {
		t.Skip("a device is asked for")
	}
	if _, err := os.Stat(kernelsDir); err != nil {
		t.Skipf("needs the kernels' sources: %v", err)
	}
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skipf("needs a C++ compiler: %v", err)
	}
	e := startEmulator(t, buildEmulator(t))
	ctx, err := cudart.NewDriver(e.table()).Retain(0)
	require.NoError(t, err)
	var k *kernelscuda.Kernels
	require.NoError(t, ctx.Do(func(b *cudart.Bound) (err error) { k, err = kernelscuda.Load(b, []byte("emulated")); return err }))
	small, columns = true, 19
	for _, name := range groupNames() {
		for _, c := range groups()[name] {
			t.Run(c.name, func(t *testing.T) { require.NoError(t, onRig(ctx, k, c.run)) })
		}
	}
	require.NoError(t, ctx.Do(k.Close))
	require.NoError(t, ctx.Release())
	e.send([]byte{'C'})
	require.Zero(t, binary.LittleEndian.Uint64(e.receive(8)), "bytes outside of buffers were written")
}

func buildEmulator(t *testing.T) string {
	dir := t.TempDir()
	objects := make([]string, len(emulatedFiles)+1)
	errs := make([]error, len(objects))
	var wg sync.WaitGroup
	limit := make(chan struct{}, 2)
	for i := range objects {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			source := []string{"_emu/emulator.cc"}
			if i < len(emulatedFiles) {
				source = []string{"-include", "emulator.h", "-x", "c++", "cu/" + emulatedFiles[i] + ".cu"}
			}
			objects[i] = filepath.Join(dir, fmt.Sprintf("%d.o", i))
			cmd := exec.Command("g++", append([]string{"-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-Wno-attributes", "-I_emu/include", "-Icu", "-c", "-o", objects[i]}, source...)...)
			cmd.Dir = kernelsDir
			if out, err := cmd.CombinedOutput(); err != nil {
				errs[i] = fmt.Errorf("%w: %s", err, out)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	exe := filepath.Join(dir, "emulator")
	out, err := exec.Command("g++", append(objects, "-rdynamic", "-ldl", "-o", exe)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return exe
}

// emulator is the process that has the device's memory and runs its kernels (kernels-cuda/_emu/emulator.cc).
type emulator struct {
	t   *testing.T
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

func startEmulator(t *testing.T, exe string) *emulator {
	cmd := exec.Command(exe)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	})
	return &emulator{t: t, in: in, out: bufio.NewReaderSize(out, 1<<20)}
}

func (e *emulator) send(b []byte) {
	if _, err := e.in.Write(b); err != nil {
		panic(fmt.Errorf("the emulator died: %w", err))
	}
}

func (e *emulator) receive(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(e.out, b); err != nil {
		panic(fmt.Errorf("the emulator died: %w", err))
	}
	return b
}

func (e *emulator) read(p cudart.Ptr, n uint64) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.send(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte{'R'}, uint64(p)), n))
	return e.receive(int(n))
}

func (e *emulator) write(p cudart.Ptr, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.send(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte{'W'}, uint64(p)), uint64(len(data))))
	e.send(data)
}

// table is a driver whose memory and kernels are the emulator's; everything runs at once, the rest is cudatest's.
func (e *emulator) table() *sys.Table {
	f := cudatest.New(cudatest.Options{})
	t := f.Table()
	t.MemAlloc = func(n uint64) (sys.DevicePtr, sys.Result) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.send(binary.LittleEndian.AppendUint64([]byte{'A'}, n))
		return sys.DevicePtr(binary.LittleEndian.Uint64(e.receive(8))), sys.Success
	}
	t.MemFree = func(sys.DevicePtr) sys.Result { return sys.Success } // with the process
	t.MemcpyHtoD = func(dst sys.DevicePtr, src unsafe.Pointer, n uint64, _ sys.Stream) sys.Result {
		e.write(dst, unsafe.Slice((*byte)(src), n))
		return sys.Success
	}
	t.MemcpyDtoH = func(dst unsafe.Pointer, src sys.DevicePtr, n uint64, _ sys.Stream) sys.Result {
		copy(unsafe.Slice((*byte)(dst), n), e.read(src, n))
		return sys.Success
	}
	t.MemsetD8 = func(dst sys.DevicePtr, v uint8, n uint64, _ sys.Stream) sys.Result {
		b := make([]byte, n)
		for i := range b {
			b[i] = v
		}
		e.write(dst, b)
		return sys.Success
	}
	names := map[sys.Kernel]string{}
	find := t.LibraryKernel
	t.LibraryKernel = func(l sys.Library, name string) (sys.Kernel, sys.Result) {
		f.Register(name, func(*sys.LaunchConfig, unsafe.Pointer) {})
		k, r := find(l, name)
		names[k] = name
		return k, r
	}
	t.Launch = func(k sys.Kernel, cfg *sys.LaunchConfig, _ sys.Stream, params unsafe.Pointer, n uint64) sys.Result {
		name := names[k]
		b := append(binary.LittleEndian.AppendUint32([]byte{'L'}, uint32(len(name))), name...)
		for _, v := range []uint32{cfg.GridX, cfg.GridY, cfg.GridZ, cfg.BlockX, cfg.BlockY, cfg.BlockZ, cfg.SharedBytes, uint32(n)} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.send(append(b, unsafe.Slice((*byte)(params), n)...))
		if binary.LittleEndian.Uint32(e.receive(4)) != 0 {
			return sys.InvalidHandle
		}
		return sys.Success
	}
	return t
}

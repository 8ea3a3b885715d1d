package kernelstest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
)

// Emulate makes a driver whose memory and kernels are those of a process that runs the kernels' sources on the CPU (_emu): results are
// computed, slowly. dir is the folder kernels-cuda. Work is done at once, so it must not be captured. The test is skipped where there is
// no C++ compiler; it fails if a kernel wrote outside of its buffers.
func Emulate(t *testing.T, dir string) *sys.Table {
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skipf("needs a C++ compiler: %v", err)
	}
	exe, err := buildEmulator(t.TempDir(), dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &emulator{in: in, out: bufio.NewReaderSize(out, 1<<20)}
	t.Cleanup(func() {
		e.send([]byte{'C'})
		if n := binary.LittleEndian.Uint64(e.receive(8)); n != 0 {
			t.Errorf("%d bytes outside of buffers were written", n)
		}
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	return e.table()
}

// buildEmulator compiles all sources, two at a time, to a program in to.
func buildEmulator(to, dir string) (exe string, err error) {
	sources, err := filepath.Glob(filepath.Join(dir, "cu", "*.cu"))
	if err != nil || len(sources) == 0 {
		return "", fmt.Errorf("no kernels in %s: %w", dir, errors.Join(err, os.ErrNotExist))
	}
	sources = append(sources, filepath.Join(dir, "_emu", "emulator.cc"))
	objects, errs := make([]string, len(sources)), make([]error, len(sources))
	limit := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for i, source := range sources {
		objects[i] = filepath.Join(to, fmt.Sprintf("%d.o", i))
		args := []string{"-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-Wno-attributes", "-I" + filepath.Join(dir, "_emu", "include"),
			"-I" + filepath.Join(dir, "cu"), "-c", "-o", objects[i]}
		if filepath.Ext(source) == ".cu" {
			args = append(args, "-include", "emulator.h", "-x", "c++")
		}
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			if out, err := exec.Command("g++", append(args, source)...).CombinedOutput(); err != nil {
				errs[i] = fmt.Errorf("%s: %w: %s", source, err, out)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	exe = filepath.Join(to, "emulator")
	if out, err := exec.Command("g++", append(objects, "-rdynamic", "-ldl", "-o", exe)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return exe, nil
}

// emulator is the process (its commands: _emu/emulator.cc).
type emulator struct {
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
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

// ask sends a command with its numbers, then data.
func (e *emulator) ask(command byte, data []byte, numbers ...uint64) {
	b := []byte{command}
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	e.send(append(b, data...))
}

func (e *emulator) write(dst sys.DevicePtr, data []byte) sys.Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ask('W', data, uint64(dst), uint64(len(data)))
	return sys.Success
}

// table lays the process's memory and kernels over a Fake, which does the rest.
func (e *emulator) table() *sys.Table {
	f := New(cudatest.Options{}, nil)
	t := *f.Table()
	t.MemAlloc = func(n uint64) (sys.DevicePtr, sys.Result) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ask('A', nil, n)
		return sys.DevicePtr(binary.LittleEndian.Uint64(e.receive(8))), sys.Success
	}
	t.MemFree = func(sys.DevicePtr) sys.Result { return sys.Success } // it goes with the process
	t.MemcpyHtoD = func(dst sys.DevicePtr, src unsafe.Pointer, n uint64, _ sys.Stream) sys.Result {
		return e.write(dst, unsafe.Slice((*byte)(src), n))
	}
	t.MemcpyDtoH = func(dst unsafe.Pointer, src sys.DevicePtr, n uint64, _ sys.Stream) sys.Result {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ask('R', nil, uint64(src), n)
		copy(unsafe.Slice((*byte)(dst), n), e.receive(int(n)))
		return sys.Success
	}
	t.MemsetD8 = func(dst sys.DevicePtr, v uint8, n uint64, _ sys.Stream) sys.Result {
		b := make([]byte, n)
		for i := range b {
			b[i] = v
		}
		return e.write(dst, b)
	}
	names := map[sys.Kernel]string{}
	find := t.LibraryKernel
	t.LibraryKernel = func(l sys.Library, name string) (sys.Kernel, sys.Result) {
		k, r := find(l, name)
		e.mu.Lock()
		defer e.mu.Unlock()
		names[k] = name
		return k, r
	}
	t.Launch = func(k sys.Kernel, cfg *sys.LaunchConfig, _ sys.Stream, params unsafe.Pointer, n uint64) sys.Result {
		e.mu.Lock()
		defer e.mu.Unlock()
		name := names[k]
		b := append(binary.LittleEndian.AppendUint32([]byte{'L'}, uint32(len(name))), name...)
		for _, v := range []uint32{cfg.GridX, cfg.GridY, cfg.GridZ, cfg.BlockX, cfg.BlockY, cfg.BlockZ, cfg.SharedBytes, uint32(n)} {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		e.send(append(b, unsafe.Slice((*byte)(params), n)...))
		if binary.LittleEndian.Uint32(e.receive(4)) != 0 {
			return sys.InvalidHandle
		}
		return sys.Success
	}
	return &t
}

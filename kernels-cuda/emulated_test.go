package kernelscuda

import (
	"bufio"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
)

// The kernels' arithmetic and indexing are tested on the CPU: _emu runs the same sources, one thread a coroutine, through the same
// launchers. What it can't show (races between warps, speed, what the compiler makes of it) is for tests on a device.

// emulatedFiles are the sources under test.
var emulatedFiles = []string{"elementwise", "norm", "rope", "attn_decode", "attn_mma_d64", "attn_mma_d128", "embed", "attn_prefill", "sample"}

var emulatorOnce = sync.OnceValues(buildEmulator)

func buildEmulator() (string, error) {
	dir, err := os.MkdirTemp("", "minfer-emulator")
	if err != nil {
		return "", err
	}
	common := []string{"-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-Wno-attributes", "-I_emu/include", "-Icu", "-c", "-o"}
	objects := make([]string, len(emulatedFiles)+1)
	errs := make([]error, len(objects))
	var wg sync.WaitGroup
	for i := range objects {
		wg.Go(func() {
			args := common
			if i == len(emulatedFiles) {
				objects[i] = filepath.Join(dir, "emulator.o")
				args = append(args[:len(args):len(args)], objects[i], "_emu/emulator.cc")
			} else {
				objects[i] = filepath.Join(dir, emulatedFiles[i]+".o")
				args = append(args[:len(args):len(args)], objects[i], "-include", "emulator.h", "-x", "c++", "cu/"+emulatedFiles[i]+".cu")
			}
			out, err := exec.Command("g++", args...).CombinedOutput()
			if err != nil {
				errs[i] = &exec.Error{Name: string(out), Err: err}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return "", err
		}
	}
	exe := filepath.Join(dir, "emulator")
	out, err := exec.Command("g++", append(objects, "-rdynamic", "-ldl", "-o", exe)...).CombinedOutput()
	if err != nil {
		return "", &exec.Error{Name: string(out), Err: err}
	}
	return exe, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if exe, err := emulatorOnce(); err == nil {
		os.RemoveAll(filepath.Dir(exe))
	}
	os.Exit(code)
}

// emulated is a device of its own: memory, and a Queue that runs launches at once.
type emulated struct {
	*Kernels
	t   testing.TB
	in  io.Writer
	out *bufio.Reader
}

// emulate starts one. It has few multiprocessors, so that splits have more than one chunk.
func emulate(t testing.TB) *emulated {
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip("no g++, which builds the kernels for the CPU")
	}
	exe, err := emulatorOnce()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	k := &Kernels{device: cudart.DeviceInfo{Name: "emulated", Major: 9, Multiprocessors: 3, SharedPerBlockOptin: 227 << 10}}
	for id := range NumKernels {
		k.kernels[id] = new(cudart.Kernel)
	}
	e := &emulated{Kernels: k, t: t, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	t.Cleanup(func() {
		e.send([]byte{'C'})
		require.Zero(t, binary.LittleEndian.Uint64(e.receive(8)), "bytes outside of buffers were written")
		require.NoError(t, in.Close())
		require.NoError(t, cmd.Wait())
	})
	return e
}

func (e *emulated) send(b []byte) {
	_, err := e.in.Write(b)
	require.NoError(e.t, err)
}

func (e *emulated) receive(n int) []byte {
	b := make([]byte, n)
	_, err := io.ReadFull(e.out, b)
	require.NoError(e.t, err, "the emulator died")
	return b
}

// Launch implements Queue.
func (e *emulated) Launch(_ *cudart.Kernel, cfg cudart.LaunchConfig, params unsafe.Pointer, n uintptr, info KernelInfo) error {
	require.Positive(e.t, info.Bytes)
	require.LessOrEqual(e.t, int(cfg.SharedBytes), max(table[info.ID].shared, staticLimit), "%s asks for more shared memory than its manifest says", info.ID)
	name := info.ID.String()
	b := binary.LittleEndian.AppendUint32([]byte{'L'}, uint32(len(name)))
	b = append(b, name...)
	for _, v := range []uint32{cfg.GridX, cfg.GridY, cfg.GridZ, cfg.BlockX, cfg.BlockY, cfg.BlockZ, cfg.SharedBytes, uint32(n)} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	e.send(append(b, unsafe.Slice((*byte)(params), n)...))
	require.Zero(e.t, binary.LittleEndian.Uint32(e.receive(4)), "the emulator doesn't know kernel %s", name)
	return nil
}

// alloc gives memory full of 0xff: NaNs.
func (e *emulated) alloc(n int) cudart.Ptr {
	e.send(binary.LittleEndian.AppendUint64([]byte{'A'}, uint64(n)))
	return cudart.Ptr(binary.LittleEndian.Uint64(e.receive(8)))
}

func (e *emulated) write(p cudart.Ptr, data []byte) {
	b := binary.LittleEndian.AppendUint64([]byte{'W'}, uint64(p))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	e.send(append(b, data...))
}

func (e *emulated) read(p cudart.Ptr, n int) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{'R'}, uint64(p))
	e.send(binary.LittleEndian.AppendUint64(b, uint64(n)))
	return e.receive(n)
}

func (e *emulated) bytes(data []byte) cudart.Ptr {
	p := e.alloc(len(data))
	e.write(p, data)
	return p
}

// put writes values of a fixed size to new memory.
func put[T any](e *emulated, v []T) cudart.Ptr {
	if len(v) == 0 {
		return e.alloc(1)
	}
	return e.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(v)*int(unsafe.Sizeof(v[0]))))
}

// get reads n values.
func get[T any](e *emulated, p cudart.Ptr, n int) []T {
	v := make([]T, n)
	b := e.read(p, n*int(unsafe.Sizeof(v[0])))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), len(b)), b)
	return v
}

func random(r *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64() * scale)
	}
	return v
}

// near compares with a reference: the distance is measured against the largest magnitude of the row.
func near(t testing.TB, want []float64, got []float32, tolerance float64, msg ...any) {
	t.Helper()
	require.Len(t, got, len(want))
	top := 0.0
	for _, w := range want {
		top = math.Max(top, math.Abs(w))
	}
	for i := range want {
		if d := math.Abs(want[i] - float64(got[i])); !(d <= tolerance*top) {
			require.Failf(t, "too far", "element %d: want %v, got %v, off by %.3g of %.3g: %v", i, want[i], got[i], d, tolerance*top, msg)
		}
	}
}

// record is Q8Record.
type record struct {
	D      float32
	S0, S1 int16
}

// checkQ8 holds a rounded row against the formula of ADR 0001.
func checkQ8(t testing.TB, x []float32, q []int8, records []record) {
	t.Helper()
	for b, rec := range records {
		v := x[32*b:][:32]
		amax := float32(0)
		for _, f := range v {
			amax = max(amax, float32(math.Abs(float64(f))))
		}
		id := float32(0)
		if amax != 0 {
			id = 127 / amax
		}
		var sums [2]int16
		for i, f := range v {
			want := int8(math.RoundToEven(float64(f * id)))
			require.Equal(t, want, q[32*b+i], "block %d, value %d", b, i)
			sums[i/16] += int16(want)
		}
		require.Equal(t, record{amax / 127, sums[0], sums[1]}, rec, "block %d", b)
	}
}

package kernelscuda

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/kernels-cuda/emulator"
)

// The kernels' arithmetic and indexing are tested on the CPU: _emu runs the same sources, one thread a coroutine, through the same
// launchers. What it can't show (races between warps, speed, what the compiler makes of it) is for tests on a device.

// emulated is a device of its own: memory, and a Queue that runs launches at once.
type emulated struct {
	*Kernels
	t testing.TB
	p *emulator.Process
}

// emulate starts one. It has few multiprocessors, so that splits have more than one chunk.
func emulate(t testing.TB) *emulated {
	exe, err := emulator.Build(".")
	if errors.Is(err, emulator.ErrNoCompiler) {
		t.Skip(err)
	}
	require.NoError(t, err)
	p, err := emulator.Start(exe)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	k := &Kernels{device: cudart.DeviceInfo{Name: "emulated", Major: 9, Multiprocessors: 3, SharedPerBlockOptin: 227 << 10}}
	for id := range NumKernels {
		k.kernels[id] = new(cudart.Kernel)
	}
	return &emulated{k, t, p}
}

// Launch implements Queue.
func (e *emulated) Launch(_ *cudart.Kernel, cfg cudart.LaunchConfig, params unsafe.Pointer, n uintptr, info KernelInfo) error {
	require.Positive(e.t, info.Bytes)
	require.LessOrEqual(e.t, int(cfg.SharedBytes), max(table[info.ID].shared, staticLimit), "%s asks for more shared memory than its manifest says", info.ID)
	name := info.ID.String()
	require.True(e.t, e.p.Launch(name, [3]uint32{cfg.GridX, cfg.GridY, cfg.GridZ}, [3]uint32{cfg.BlockX, cfg.BlockY, cfg.BlockZ}, cfg.SharedBytes, unsafe.Slice((*byte)(params), n)),
		"the emulator doesn't know kernel %s", name)
	return nil
}

func (e *emulated) alloc(n int) cudart.Ptr { return cudart.Ptr(e.p.Alloc(uint64(n))) }

func (e *emulated) write(p cudart.Ptr, data []byte) { e.p.Write(uint64(p), data) }

func (e *emulated) read(p cudart.Ptr, n int) []byte { return e.p.Read(uint64(p), uint64(n)) }

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

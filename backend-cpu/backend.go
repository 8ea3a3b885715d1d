// Package backendcpu runs graphs on the CPU. Its results are the same bits on every instruction path, with any number of threads and
// however rows are grouped into steps (docs/adr/0001-one-arithmetic.md).
package backendcpu

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/graph"
)

// Options of a backend. The zero value is useful.
type Options struct {
	Threads int    // 0: what affinity and the cgroup's quota allow
	Path    string // instruction path, one of Paths; "": the fastest
}

// maxThreads bounds Options.Threads: no machine has more, and each thread has a stack.
const maxThreads = 1024

// Paths lists the instruction paths that this machine and build can run, slowest first.
func Paths() []string {
	var names []string
	for _, p := range matmul.Available() {
		names = append(names, p.String())
	}
	return names
}

// Backend is a graph.Backend on the CPU.
type Backend struct {
	kernel  *matmul.Kernel
	pool    *pool.Pool
	weights map[weightKey][]byte
}

type weightKey struct{ model, name string }

// New makes a backend with its worker threads. Close ends them.
func New(o Options) (*Backend, error) {
	if o.Threads == 0 {
		o.Threads = pool.DefaultThreads()
	}
	if o.Threads < 0 || o.Threads > maxThreads {
		return nil, fmt.Errorf("backendcpu: %d threads: 1 to %d are possible, or 0 for as many as the machine gives", o.Threads, maxThreads)
	}
	path := matmul.Best()
	if o.Path != "" {
		i := slices.IndexFunc(matmul.Available(), func(p matmul.Path) bool { return p.String() == o.Path })
		if i < 0 {
			return nil, fmt.Errorf("backendcpu: path %q: %w on this machine (there are %s)", o.Path, graph.ErrUnsupported, strings.Join(Paths(), ", "))
		}
		path = matmul.Available()[i]
	}
	kernel, err := matmul.New(path)
	if err != nil {
		return nil, err
	}
	return &Backend{kernel: kernel, pool: pool.New(o.Threads), weights: map[weightKey][]byte{}}, nil
}

// Name of the backend.
func (b *Backend) Name() string { return "cpu" }

// Path is the instruction path in use.
func (b *Backend) Path() string { return b.kernel.Path().String() }

// Threads is the number of workers.
func (b *Backend) Threads() int { return b.pool.Workers() }

// Describe names backend, path and threads for people.
func (b *Backend) Describe() string {
	return fmt.Sprintf("cpu %s, %d threads", b.Path(), b.Threads())
}

// RegisterWeight keeps data as it is: nothing is copied or repacked.
func (b *Backend) RegisterWeight(w *graph.Weight, data []byte) error {
	if int64(len(data)) != w.Bytes() {
		return fmt.Errorf("backendcpu: weight %q: %d bytes, %s %s has %d", w.Name, len(data), w.Type, w.Shape, w.Bytes())
	}
	key := weightKey{w.Model, w.Name}
	if _, ok := b.weights[key]; !ok {
		b.weights[key] = data
	}
	return nil
}

// ReleaseModel forgets a model's weights.
func (b *Backend) ReleaseModel(model string) {
	for k := range b.weights {
		if k.model == model {
			delete(b.weights, k)
		}
	}
}

func (b *Backend) weight(w *graph.Weight) ([]byte, error) {
	data, ok := b.weights[weightKey{w.Model, w.Name}]
	if !ok {
		return nil, fmt.Errorf("backendcpu: weight %q isn't registered", w.Name)
	}
	return data, nil
}

// buffer is host memory, 64-byte aligned.
type buffer struct {
	mem []byte
}

func (b *buffer) Bytes() int64      { return int64(len(b.mem)) }
func (b *buffer) HostBytes() []byte { return b.mem }

const alignment = 64

// Alloc gives zeroed memory. The operating system commits it page by page as it is used.
func (b *Backend) Alloc(bytes int64) (buf graph.Buffer, err error) {
	const limit = 1 << 46
	if bytes < 0 || bytes > limit {
		return nil, fmt.Errorf("backendcpu: %d bytes of memory: %w", bytes, graph.ErrOutOfMemory)
	}
	if free, ok := availableMemory(); ok && bytes > 64<<20 && bytes > free {
		return nil, fmt.Errorf("backendcpu: %d MiB of memory asked for, the system has %d MiB available: %w", bytes>>20, free>>20, graph.ErrOutOfMemory)
	}
	mem := make([]byte, bytes+alignment)
	at := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mem))) & (alignment - 1))
	return &buffer{mem[at : at+int(bytes) : at+int(bytes)]}, nil
}

// Free drops the memory; the garbage collector takes it once no program uses it.
func (b *Backend) Free(buf graph.Buffer) {
	if own, ok := buf.(*buffer); ok {
		own.mem = nil
	}
}

// Write copies src into a buffer.
func (b *Backend) Write(dst graph.Buffer, offset int64, src []byte) error {
	mem := dst.(*buffer).mem
	if offset < 0 || offset > int64(len(mem)) || int64(len(src)) > int64(len(mem))-offset {
		return fmt.Errorf("backendcpu: write of %d bytes at %d into a buffer of %d", len(src), offset, len(mem))
	}
	copy(mem[offset:], src)
	return nil
}

// Read copies from a buffer.
func (b *Backend) Read(dst []byte, src graph.Buffer, offset int64) error {
	mem := src.(*buffer).mem
	if offset < 0 || offset > int64(len(mem)) || int64(len(dst)) > int64(len(mem))-offset {
		return fmt.Errorf("backendcpu: read of %d bytes at %d from a buffer of %d", len(dst), offset, len(mem))
	}
	copy(dst, mem[offset:])
	return nil
}

// CopyCells moves n rows of a region; the ranges may overlap.
func (b *Backend) CopyCells(r graph.KVRegion, dst, src, n int) error {
	if dst < 0 || src < 0 || n < 0 || n > r.Cells-max(dst, src) {
		return fmt.Errorf("backendcpu: move of %d cells from %d to %d: the region has %d", n, src, dst, r.Cells)
	}
	mem, row := r.Buffer.(*buffer).mem, int(r.RowBytes)
	copy(mem[dst*row:(dst+n)*row], mem[src*row:(src+n)*row])
	return nil
}

// Sync has nothing to wait for: Run is done when it returns.
func (b *Backend) Sync() error { return nil }

// Close ends the worker threads.
func (b *Backend) Close() error {
	b.pool.Close()
	return nil
}

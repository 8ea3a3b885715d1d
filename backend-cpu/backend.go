// Package backendcpu runs graphs on the CPU. It computes what docs/adr/0001-one-arithmetic.md says, with the same bits on
// every instruction path, for any number of threads and however rows are batched. See README.md.
package backendcpu

import (
	"fmt"
	"strings"

	"github.com/minfer-go/minfer/backend-cpu/internal/attn"
	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/backend-cpu/internal/vec"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// Options of a backend. The zero value is useful.
type Options struct {
	// Threads is the number of workers, the caller's goroutine among them; 0: as many as affinity and cgroup quota allow.
	Threads int
	// Path forces an instruction path, one of Paths; "": the fastest there is. Results don't depend on it.
	Path string
	// Profile times the work of every run; see Backend.Profile. Results are the same bits.
	Profile bool
}

// maxThreads bounds Options.Threads: more is a mistake, and each costs memory.
const maxThreads = 1024

// Validate reports what is wrong with the options, or nil.
func (o Options) Validate() error {
	if o.Threads < 0 || o.Threads > maxThreads {
		return fmt.Errorf("backendcpu: %d threads: want 0 (automatic) to %d", o.Threads, maxThreads)
	}
	_, err := o.path()
	return err
}

func (o Options) path() (matmul.Path, error) {
	if o.Path == "" {
		return matmul.Best(), nil
	}
	if p, ok := findPath(o.Path, matmul.Available()); ok {
		return p, nil
	}
	return 0, fmt.Errorf("backendcpu: instruction path %q isn't available here: this machine and build have %s",
		o.Path, strings.Join(Paths(), ", "))
}

// findPath knows a path by its name, avx512-vnni also as avx512.
func findPath(name string, among []matmul.Path) (matmul.Path, bool) {
	for _, p := range among {
		if strings.EqualFold(name, p.String()) || p == matmul.AVX512 && strings.EqualFold(name, "avx512") {
			return p, true
		}
	}
	return 0, false
}

// Paths lists the instruction paths of this machine and build, slowest first: generic, avx2, avx512-vnni.
func Paths() []string {
	var names []string
	for _, p := range matmul.Available() {
		names = append(names, p.String())
	}
	return names
}

// Stats says how a backend runs and what it has done since New.
type Stats struct {
	Path    string // instruction path of the matrix products
	Vector  string // instruction path of the other ops: generic, avx2 or avx512
	Threads int
	Runs    uint64 // programs run
	// WeightBytes counts the bytes of weights that programs had to read, each weight once a run (rows of tables one by one).
	WeightBytes uint64
	// ProductBytes counts the bytes of the weights that kernels were called for in fact, so that a product done twice, or once for each row,
	// shows. Last blocks of outputs may overlap the ones before.
	ProductBytes uint64
	// KVBytes counts the bytes of keys and values that attention read, each cell once a block of rows of one sequence.
	KVBytes uint64
}

// Backend implements graph.Backend. Run executes at once, so Sync has nothing to wait for. Use it from one goroutine at a time.
type Backend struct {
	kernel  *matmul.Kernel
	vec     vec.Kernels
	pool    *pool.Pool
	weights graph.Weights[*weight]
	scratch scratch
	stats   Stats
	prof    *profiler // nil without Options.Profile
	closed  bool
}

// scratch is memory that programs share, since only one runs at a time.
type scratch struct {
	matmul []*matmul.Scratch
	acts   []*matmul.Store           // free ones; programs of all shapes share them
	attn   map[[2]int][]*attn.Worker // by heads a KV head and head length
	parts  map[int]*attn.Parts       // by head length
	floats [][]float32               // by worker
}

var (
	_ graph.Backend  = (*Backend)(nil)
	_ graph.Profiler = (*Backend)(nil)
)

// New makes a backend and starts its workers.
func New(o Options) (*Backend, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	path, _ := o.path()
	kernel, err := matmul.New(path)
	if err != nil {
		return nil, fmt.Errorf("backendcpu: %w", err)
	}
	threads := o.Threads
	if threads == 0 {
		threads = pool.DefaultThreads()
	}
	b := &Backend{kernel: kernel, vec: vectors(path), pool: pool.New(threads)}
	b.scratch = scratch{attn: map[[2]int][]*attn.Worker{}, parts: map[int]*attn.Parts{},
		floats: make([][]float32, threads)}
	for range threads {
		b.scratch.matmul = append(b.scratch.matmul, new(matmul.Scratch))
	}
	if o.Profile {
		b.prof = newProfiler(threads)
	}
	b.stats = Stats{Path: path.String(), Vector: b.vec.Path(), Threads: threads}
	return b, nil
}

// vectors gives the kernels of the other ops that go with a path of the products.
func vectors(p matmul.Path) vec.Kernels {
	if p == matmul.AVX512 {
		return vec.New512()
	}
	return vec.New(p == matmul.AVX2)
}

// Name is "cpu".
func (b *Backend) Name() string { return "cpu" }

// Stats gives the counters.
func (b *Backend) Stats() Stats {
	s := b.stats
	for _, m := range b.scratch.matmul {
		s.ProductBytes += m.Asked()
	}
	return s
}

// Path is the instruction path in use.
func (b *Backend) Path() string { return b.stats.Path }

// Describe names backend, path and threads for people.
func (b *Backend) Describe() string {
	return fmt.Sprintf("cpu %s, %d threads", b.stats.Path, b.stats.Threads)
}

// Threads is the number of workers.
func (b *Backend) Threads() int { return b.pool.Workers() }

// Sync returns at once: Run has waited for its workers.
func (b *Backend) Sync() error { return nil }

// Close ends the workers. Buffers stay valid until freed.
func (b *Backend) Close() error {
	b.closed = true
	b.pool.Close()
	return nil
}

type weight struct {
	data   []byte
	vector []float32 // of F32 tensors with one dimension: norms and biases
}

// RegisterWeight keeps data (as a rule a slice of the mapped file) without copying or changing it; only F32 vectors at odd addresses
// are copied. Errors name the tensor.
func (b *Backend) RegisterWeight(w *graph.Weight, data []byte) error {
	if b.weights.Has(w) {
		return nil
	}
	if !w.Type.Known() || len(w.Shape) == 0 {
		return fmt.Errorf("backendcpu: tensor %q: %s of shape %s: %w", w.Name, w.Type, w.Shape, graph.ErrUnsupported)
	}
	if want := w.Bytes(); int64(len(data)) != want {
		return fmt.Errorf("backendcpu: tensor %q: %d bytes, %s of shape %s has %d", w.Name, len(data), w.Type, w.Shape, want)
	}
	r := &weight{data: data}
	if len(w.Shape) == 1 && w.Type == quant.F32 {
		r.vector = floatsOf(data)
	}
	b.weights.Add(w, r)
	return nil
}

// ReleaseModel forgets a model's weights.
func (b *Backend) ReleaseModel(model string) { b.weights.Release(model) }

package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/minfer-go/minfer/quant"
)

// Options of an Executor. The zero value is useful.
type Options struct {
	// Layers says which backend (an index into the list) owns each layer's KV regions and so runs its attention; nil: the
	// first one all.
	Layers []int
	// MaxGraphs bounds the cache of compiled graphs; 0: 16.
	MaxGraphs int
	// MaxBufferBytes bounds what the buffers of cached graphs take together: before a graph is compiled that would exceed it, others are
	// evicted, the least recently used first. One graph may be larger by itself. 0: no bound.
	MaxBufferBytes int64
}

const defaultMaxGraphs = 16

// Stats counts what an Executor did and holds.
type Stats struct {
	Compiled, Hits, Evicted uint64
	Graphs                  int    // in the cache now
	Buffers                 int    // of compiled graphs, on all backends
	BufferBytes             int64  // their size
	KVBytes                 int64  // of the persistent regions
	Generation              uint64 // changes with every buffer taken or given back
}

// Executor compiles graphs for a list of backends and runs them. It owns the KV regions, which live as long as it does,
// and a cache of compiled graphs keyed by Params. Use it and its graphs from one goroutine at a time.
type Executor struct {
	backends     []Backend
	opts         Options
	kv           KVSpec
	keys, values []KVRegion // by layer
	pools        []pool
	busy         []bool      // by backend: ran since the last Sync
	cache        []*Compiled // least recently used first
	trace        *Trace
	stats        Stats
}

// NewExecutor makes the KV regions on their backends. Nodes go to the earliest backend in the list that runs them. The
// backends stay the caller's to close, after the executor. Errors wrap ErrOutOfMemory where that is the cause.
func NewExecutor(backends []Backend, kv KVSpec, opts Options) (*Executor, error) {
	if len(backends) == 0 {
		return nil, errors.New("graph: an executor needs at least one backend")
	}
	if opts.MaxGraphs == 0 {
		opts.MaxGraphs = defaultMaxGraphs
	}
	if opts.Layers == nil {
		opts.Layers = make([]int, kv.Layers)
	}
	if opts.MaxBufferBytes < 0 {
		return nil, fmt.Errorf("graph: options: MaxBufferBytes %d is negative", opts.MaxBufferBytes)
	}
	if opts.MaxGraphs < 0 || len(opts.Layers) != kv.Layers {
		return nil, fmt.Errorf("graph: options: MaxGraphs %d is negative or Layers has %d entries for %d layers",
			opts.MaxGraphs, len(opts.Layers), kv.Layers)
	}
	for i, b := range opts.Layers {
		if b < 0 || b >= len(backends) {
			return nil, fmt.Errorf("graph: options: layer %d is on backend %d of %d", i, b, len(backends))
		}
	}
	if err := kv.Validate(); err != nil {
		return nil, err
	}
	e := &Executor{backends: slices.Clone(backends), opts: opts, kv: kv, busy: make([]bool, len(backends))}
	for _, b := range backends {
		e.pools = append(e.pools, pool{backend: b})
	}
	for i, b := range opts.Layers {
		for _, value := range []bool{false, true} {
			r, err := e.region(b, value)
			if err != nil {
				err = fmt.Errorf("graph: KV cache of layer %d (%d cells) on %s: %w", i, kv.Cells, backends[b].Name(), err)
				return nil, errors.Join(err, e.Close())
			}
			if value {
				e.values = append(e.values, r)
			} else {
				e.keys = append(e.keys, r)
			}
		}
	}
	return e, nil
}

// Validate reports what is wrong with a geometry, or nil.
func (s KVSpec) Validate() error {
	if s.Layers < 0 {
		return fmt.Errorf("graph: KV cache of %d layers", s.Layers)
	}
	if s.Layers == 0 {
		return nil
	}
	p := Params{Rows: 1, Seqs: 1, Runs: 1, Cells: s.Cells, KeyType: s.KeyType, ValueType: s.ValueType}
	if err := p.Validate(); err != nil {
		return err
	}
	if err := dims(Shape{s.Cells, s.KVHeads, s.HeadDim}); err != nil {
		return fmt.Errorf("graph: KV cache: %w", err)
	}
	for _, t := range []quant.Type{s.KeyType, s.ValueType} {
		if s.HeadDim%t.BlockElems() != 0 {
			return fmt.Errorf("graph: KV cache: head_dim %d is not a multiple of %d, the block of %s: choose F16 or F32: %w",
				s.HeadDim, t.BlockElems(), t, ErrUnsupported)
		}
	}
	return nil
}

// Bytes is the memory that the regions of all layers take.
func (s KVSpec) Bytes() int64 {
	if s.Layers == 0 {
		return 0
	}
	n := s.KVHeads * s.HeadDim
	return int64(s.Layers) * int64(s.Cells) * int64(s.KeyType.RowBytes(n)+s.ValueType.RowBytes(n))
}

func (e *Executor) region(backend int, value bool) (KVRegion, error) {
	t := e.kv.KeyType
	if value {
		t = e.kv.ValueType
	}
	r := KVRegion{Type: t, RowBytes: int64(t.RowBytes(e.kv.KVHeads * e.kv.HeadDim)), Cells: e.kv.Cells}
	var err error
	r.Buffer, err = e.backends[backend].Alloc(r.RowBytes * int64(r.Cells))
	if err == nil {
		e.stats.KVBytes += r.RowBytes * int64(r.Cells)
	}
	return r, err
}

// KV gives the persistent regions by layer, for sessions and tests.
func (e *Executor) KV() (keys, values []KVRegion) { return e.keys, e.values }

// LayerBackend is the backend that owns a layer's regions.
func (e *Executor) LayerBackend(layer int) Backend { return e.backends[e.opts.Layers[layer]] }

// CopyCells moves n cells of every region from cell src on to cell dst on; the ranges may overlap.
func (e *Executor) CopyCells(dst, src, n int) error {
	if dst < 0 || src < 0 || n < 0 || n > e.kv.Cells-max(dst, src) {
		return fmt.Errorf("graph: move of %d cells from %d to %d: the cache has %d", n, src, dst, e.kv.Cells)
	}
	for i, b := range e.opts.Layers {
		for _, r := range []KVRegion{e.keys[i], e.values[i]} {
			if err := e.backends[b].CopyCells(r, dst, src, n); err != nil {
				return fmt.Errorf("graph: move of cells of layer %d on %s: %w", i, e.backends[b].Name(), err)
			}
			e.busy[b] = true
		}
	}
	return nil
}

// Stats are the counters now.
func (e *Executor) Stats() Stats {
	s := e.stats
	s.Graphs = len(e.cache)
	for i := range e.pools {
		s.Buffers += e.pools[i].buffers
		s.BufferBytes += e.pools[i].held
		s.Generation += e.pools[i].generation
	}
	return s
}

// Compile gives the compiled graph for p: from the cache, or built by build and then assigned, fused, planned, split and
// compiled. The result is valid until Close or until it makes room for others (MaxGraphs, MaxBufferBytes), the least recently used first;
// then its methods return errors.
func (e *Executor) Compile(p Params, build func(Params) (*Graph, error)) (*Compiled, error) {
	for i, c := range e.cache {
		if c.params == p && c.trace == e.trace {
			e.stats.Hits++
			e.cache = append(slices.Delete(e.cache, i, i+1), c)
			return c, nil
		}
	}
	g, err := build(p)
	if err != nil {
		return nil, err
	}
	if g.Params != p {
		return nil, fmt.Errorf("graph: built for %+v, asked for %+v", g.Params, p)
	}
	for len(e.cache) >= e.opts.MaxGraphs {
		if err := e.evict(); err != nil {
			return nil, err
		}
	}
	c, err := e.compile(g)
	for i := range e.pools { // what an evicted graph held and this one has no use for
		if len(e.pools[i].free) > 0 {
			e.pools[i].trim()
		}
	}
	if err != nil {
		return nil, err
	}
	e.stats.Compiled++
	e.cache = append(e.cache, c)
	return c, nil
}

// makeRoom evicts graphs until bytes more fit MaxBufferBytes.
func (e *Executor) makeRoom(bytes int64) error {
	if e.opts.MaxBufferBytes == 0 {
		return nil
	}
	for len(e.cache) > 0 && e.inUse()+bytes > e.opts.MaxBufferBytes {
		if err := e.evict(); err != nil {
			return err
		}
	}
	return nil
}

// inUse is the size of the buffers that compiled graphs hold.
func (e *Executor) inUse() (bytes int64) {
	for i := range e.pools {
		bytes += e.pools[i].held
		for size, free := range e.pools[i].free {
			bytes -= size * int64(len(free))
		}
	}
	return bytes
}

func (e *Executor) evict() error {
	c := e.cache[0]
	e.cache = e.cache[1:]
	e.stats.Evicted++
	return c.close()
}

// Sync waits until everything that was started is done.
func (e *Executor) Sync() error {
	for i := range e.backends {
		if err := e.sync(i); err != nil {
			return err
		}
	}
	return nil
}

func (e *Executor) sync(b int) error {
	if !e.busy[b] {
		return nil
	}
	e.busy[b] = false
	if err := e.backends[b].Sync(); err != nil {
		return fmt.Errorf("graph: %s: %w", e.backends[b].Name(), err)
	}
	return nil
}

// Close closes all graphs and gives all memory back. The backends stay open.
func (e *Executor) Close() error {
	var errs []error
	for len(e.cache) > 0 {
		errs = append(errs, e.evict())
	}
	for i := range e.pools {
		e.pools[i].trim()
	}
	for _, regions := range []*[]KVRegion{&e.keys, &e.values} {
		for i, r := range *regions {
			e.backends[e.opts.Layers[i]].Free(r.Buffer)
		}
		*regions = nil
	}
	e.stats.KVBytes = 0
	return errors.Join(errs...)
}

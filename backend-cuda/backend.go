// Package backendcuda runs graphs on an NVIDIA GPU: weights in layouts of their own, kernels of package kernelscuda, and
// whole steps replayed as CUDA graphs. See README.md.
package backendcuda

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// Backend implements graph.Backend on one GPU. It has a stream of its own; the context, the kernels and the weights are
// shared with the other backends of the process. Use it from one goroutine at a time.
type Backend struct {
	opts    Options
	dev     *device
	stream  *cudart.Stream
	staging *staging
	pool    pool
	arena   *arena
	weights graph.Weights[*weight]
	tables  map[graph.RopeAttr]ropeFrequencies

	last    string // what runs now, for messages about waits
	noGraph bool   // replay is off: asked for, or a capture failed
	stats   Stats
	profile *profiler
	closed  bool
}

// Stats counts what a backend did.
type Stats struct {
	Runs     uint64 // programs run
	Launches uint64 // kernels launched one by one
	Captured uint64 // CUDA graphs made
	Replayed uint64 // runs by replay
	Programs int    // compiled and not closed
	Execs    int    // CUDA graphs held

	WeightBytes int64 // of all models on the device
	PoolBytes   int64 // taken from the driver for buffers
	Scratch     int64
	Generation  uint64 // of the pool
}

// spin is how long a wait polls without a pause: a decode step ends within it, and is then seen within microseconds.
const spin = 20 * time.Millisecond

var (
	_ graph.Backend  = (*Backend)(nil)
	_ graph.Profiler = (*Backend)(nil)
)

// weight is a registered tensor: its metadata and where it is.
type weight struct {
	meta  graph.Weight
	plane *plane
}

// ErrUnavailable is wrapped by New's error where there is no driver, no device or no image of the kernels: it says what to do.
var ErrUnavailable = errors.New("no CUDA backend here")

// New opens the device (its first user loads the kernels) and makes a backend on it.
func New(o Options) (*Backend, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	dev, err := openDevice(o)
	if errors.Is(err, cudart.ErrUnavailable) || errors.Is(err, kernelscuda.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err != nil {
		return nil, outOfMemory(err)
	}
	b := &Backend{opts: o, dev: dev, tables: map[graph.RopeAttr]ropeFrequencies{},
		last: "nothing yet", noGraph: o.NoGraph || o.Profile}
	if o.Profile {
		b.profile = &profiler{}
	}
	err = dev.ctx.Do(func(bd *cudart.Bound) (err error) {
		if b.stream, err = bd.NewStream(); err != nil {
			return err
		}
		b.stream.Spin = spin
		b.staging, err = newStaging(bd, o.Deadline)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("backendcuda: device %d: %w", o.Device, outOfMemory(err)), b.Close())
	}
	return b, nil
}

// do runs f with the context current. Nothing works after Close.
func (b *Backend) do(f func(*cudart.Bound) error) error {
	if b.closed {
		return errors.New("the backend is closed")
	}
	return b.dev.ctx.Do(f)
}

// Name is "cuda".
func (b *Backend) Name() string { return "cuda" }

// Describe names the device for people.
func (b *Backend) Describe() string {
	d := &b.dev.info
	how := "replayed"
	if b.noGraph {
		how = "launched one by one"
	}
	return fmt.Sprintf("cuda %s, %.0f GiB, sm_%d%d, steps %s", d.Name, float64(d.Memory)/(1<<30), d.Major, d.Minor, how)
}

// Device is the name of the device.
func (b *Backend) Device() string { return b.dev.info.Name }

// Stats gives the counters.
func (b *Backend) Stats() Stats {
	s := b.stats
	s.PoolBytes, s.Generation = b.pool.held, b.pool.generation
	if b.arena != nil {
		s.Scratch = b.arena.mem.Size()
	}
	if !b.closed {
		s.WeightBytes = b.dev.registry.bytes()
	}
	return s
}

// Memory is what is free on the device and what it has, in bytes.
func (b *Backend) Memory() (free, total int64, err error) {
	err = b.do(func(bd *cudart.Bound) (err error) { free, total, err = bd.MemInfo(); return err })
	return free, total, err
}

// RegisterWeight brings a tensor to the device in the layout that layoutFor says. Copies are queued; Compile waits for them.
func (b *Backend) RegisterWeight(w *graph.Weight, data []byte) error {
	if b.weights.Has(w) {
		return nil
	}
	layout, err := layoutFor(w, int64(len(data)), b.opts.tiled)
	if err != nil {
		return err
	}
	r := &weight{meta: *w}
	r.meta.Shape = slices.Clone(w.Shape)
	err = b.do(func(bd *cudart.Bound) (err error) {
		r.plane, err = b.dev.registry.acquire(bd, w, layout, data)
		return err
	})
	if err != nil {
		return outOfMemory(err)
	}
	b.weights.Add(w, r)
	return nil
}

// ReleaseModel gives a model's weights back; the device frees them when no other backend uses them.
func (b *Backend) ReleaseModel(model string) {
	if b.closed {
		return
	}
	err := b.do(func(bd *cudart.Bound) error {
		errs := []error{b.wait(bd)}
		for _, w := range b.weights.Release(model) {
			errs = append(errs, b.dev.registry.release(bd, w.plane))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		b.opts.Notice(fmt.Sprintf("CUDA: weights could not be given back: %v", err))
	}
}

// wait until the stream is idle.
func (b *Backend) wait(bd *cudart.Bound) error {
	if err := b.stream.Wait(bd, b.opts.Deadline, b.last); err != nil {
		return fmt.Errorf("backendcuda: %s: %w", b.last, err)
	}
	return nil
}

// Sync waits until everything queued is done; its errors name the graph that ran last.
func (b *Backend) Sync() error { return b.do(b.wait) }

// Close waits, then gives everything back in order: CUDA graphs went with their programs, then buffers, scratch, pinned
// memory, the stream; weights and context with their last user.
func (b *Backend) Close() error {
	if b.closed {
		return nil
	}
	err := b.dev.ctx.Do(func(bd *cudart.Bound) error {
		var errs []error
		if b.stream != nil {
			errs = append(errs, b.wait(bd))
		}
		for _, w := range b.weights.ReleaseAll() {
			errs = append(errs, b.dev.registry.release(bd, w.plane))
		}
		for _, t := range b.tables {
			errs = append(errs, t.mem.Free(bd))
		}
		errs = append(errs, b.pool.trim(bd))
		if b.arena != nil {
			errs = append(errs, b.arena.drop(bd))
		}
		if b.staging != nil {
			errs = append(errs, b.staging.close(bd))
		}
		if b.profile != nil {
			errs = append(errs, b.profile.close(bd))
		}
		if b.stream != nil {
			errs = append(errs, b.stream.Destroy(bd))
		}
		return errors.Join(errs...)
	})
	b.closed = true
	return errors.Join(err, b.dev.release())
}

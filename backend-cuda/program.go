package backendcuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// launch is one kernel of a program, complete: replaying needs nothing else. The parameter struct holds addresses and
// sizes that never change while the program lives; lengths and positions are read from device memory.
type launch struct {
	kernel *cudart.Kernel
	cfg    cudart.LaunchConfig
	params []uint64 // the struct's bytes
	n      uintptr
	info   kernelscuda.KernelInfo
	node   *graph.Node
	attn   *kernelscuda.AttnParams // of attention, whose bytes depend on data
}

// program is a compiled unit: kernels in order.
type program struct {
	b        *Backend
	name     string
	phase    graph.Phase // of its steps, for a profile
	launches []launch
	arena    *arena
	counters *cudart.Memory
	replays  bool // may become a CUDA graph
	warm     int  // times that all kernels were launched one by one
	exec     *cudart.Exec
	step     func(*cudart.Bound) error // run, made once so that Run allocates nothing
	closed   bool
}

// warmup is how many runs of a program are launched one by one, all of them, before it is captured: a graph that runs once isn't worth it.
const warmup = 1

// Run queues the program on the backend's stream.
func (p *program) Run() error {
	if p.closed {
		return errors.New("backendcuda: Run of a closed program")
	}
	p.b.last = p.name
	if err := p.b.do(p.step); err != nil {
		return fmt.Errorf("backendcuda: %s: %w", p.name, err)
	}
	p.b.stats.Runs++
	return nil
}

func (p *program) run(bd *cudart.Bound) error {
	b := p.b
	switch {
	case b.profile != nil:
		return p.profiled(bd)
	case p.exec != nil:
		b.stats.Replayed++
		return p.exec.Launch(bd, b.stream)
	case b.noGraph || !p.replays || p.warm < warmup:
		return p.direct(bd)
	}
	return p.capture(bd)
}

// direct runs the kernels one by one.
func (p *program) direct(bd *cudart.Bound) error {
	if err := p.launch(bd); err != nil {
		return err
	}
	p.warm++
	p.b.stats.Launches += uint64(len(p.launches))
	return nil
}

// launch gives all kernels to the stream, which runs or captures them.
func (p *program) launch(bd *cudart.Bound) error {
	for i := range p.launches {
		l := &p.launches[i]
		if err := bd.Launch(p.b.stream, l.kernel, &l.cfg, unsafe.Pointer(unsafe.SliceData(l.params)), l.n); err != nil {
			return l.node.Errorf("kernel %s: %w", l.info.ID, err)
		}
	}
	return nil
}

// Close gives the CUDA graph and the scratch back. The caller has synchronised.
func (p *program) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	p.b.stats.Programs--
	return p.b.do(func(bd *cudart.Bound) error {
		var errs []error
		if p.exec != nil {
			errs = append(errs, p.exec.Destroy(bd))
			p.b.stats.Execs--
		}
		if p.counters != nil {
			errs = append(errs, p.b.pool.put(bd, p.counters))
		}
		if p.arena != nil {
			errs = append(errs, p.arena.drop(bd))
		}
		return errors.Join(errs...)
	})
}

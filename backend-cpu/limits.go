package backendcpu

import (
	"fmt"
	"time"

	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
)

// Limits are what this machine does at best, with some number of threads at once on one instruction path: no step of a model
// can be faster than its bytes and its products allow by them.
type Limits struct {
	ReadBytes float64 // bytes a second, streamed from memory
	Int8MACs  float64 // products of 8-bit integers a second, multiplied and added with all operands in registers
}

// probeBytes is far beyond any cache that one process has for itself, and read in some 10 ms.
const probeBytes = 256 << 20

// Probe measures Limits, again and again if need be: the memory bandwidth of shared machines changes from second to second.
type Probe struct {
	path matmul.Path
	pool *pool.Pool
	mem  []byte
	free func()
}

// NewProbe makes a probe for o's threads and path. It holds 256 MiB until Close.
func NewProbe(o Options) (*Probe, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	path, _ := o.path()
	if o.Threads == 0 {
		o.Threads = pool.DefaultThreads()
	}
	p := &Probe{path: path, free: func() {}}
	mem, err := mapMemory(probeBytes)
	if err != nil {
		return nil, fmt.Errorf("backendcpu: probe: %d MiB to read: %w", probeBytes>>20, err)
	}
	if p.mem = mem; mem != nil {
		p.free = func() { unmapMemory(mem) }
	} else {
		p.mem = make([]byte, probeBytes)
	}
	for i := 0; i < len(p.mem); i += 512 {
		p.mem[i] = byte(i >> 9) // pages that were never written are all the same page
	}
	p.pool = pool.New(o.Threads)
	return p, nil
}

// Threads is the number of workers that measure together.
func (p *Probe) Threads() int { return p.pool.Workers() }

// Measure takes some 100 ms. All threads start together, and the time is that of the last one to end.
func (p *Probe) Measure() (Limits, error) {
	const tries = 3
	loops, products := make(workStep, p.pool.Workers()), 0.0
	for i := range loops {
		var n float64
		loops[i], n = matmul.PeakOnce(p.path)
		products += n
	}
	read, multiply := []pool.Step{readStep{p.mem}}, []pool.Step{loops}
	var l Limits
	for range tries {
		s, err := p.seconds(read)
		if err != nil {
			return l, err
		}
		l.ReadBytes = max(l.ReadBytes, float64(len(p.mem))/s)
	}
	for range tries {
		s, err := p.seconds(multiply)
		if err != nil {
			return l, err
		}
		l.Int8MACs = max(l.Int8MACs, products/s)
	}
	return l, nil
}

func (p *Probe) seconds(steps []pool.Step) (float64, error) {
	start := time.Now()
	err := p.pool.Run(steps)
	return time.Since(start).Seconds(), err
}

// Close ends the workers and gives the memory back.
func (p *Probe) Close() {
	p.pool.Close()
	p.free()
	p.mem = nil
}

// readStep reads a worker's part of mem.
type readStep struct{ mem []byte }

func (s readStep) Run(worker, n int) error {
	lo, hi := pool.Split(len(s.mem), 4096, worker, n)
	matmul.ReadOnce(s.mem[lo:hi])
	return nil
}

// workStep has a loop for each worker.
type workStep []func()

func (s workStep) Run(worker, _ int) error { s[worker](); return nil }

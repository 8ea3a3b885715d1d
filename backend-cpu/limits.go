package backendcpu

import (
	"fmt"
	"time"

	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/backend-cpu/internal/stream"
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
	mem  []byte
	free func()
}

// NewProbe makes a probe for an instruction path, one of Paths; "": the fastest there is. It holds 256 MiB until Close.
func NewProbe(path string) (*Probe, error) {
	o := Options{Path: path}
	found, err := o.path()
	if err != nil {
		return nil, err
	}
	mem, err := mapMemory(probeBytes)
	if err != nil {
		return nil, fmt.Errorf("backendcpu: probe: %d MiB to read: %w", probeBytes>>20, err)
	}
	p := &Probe{path: found, mem: mem, free: func() { unmapMemory(mem) }}
	if mem == nil {
		p.mem, p.free = make([]byte, probeBytes), func() {}
	}
	for i := 0; i < len(p.mem); i += 512 {
		p.mem[i] = byte(i >> 9) // pages that were never written are all the same page
	}
	return p, nil
}

// Measure takes some 100 ms on so many threads; 0: as many as a backend takes by itself. They start together, and the time is
// that of the last one to end; the best of a few tries counts, reading both
// one stretch and several places at once.
func (p *Probe) Measure(threads int) (l Limits, err error) {
	if err := (Options{Threads: threads}).Validate(); err != nil {
		return l, err
	}
	if threads == 0 {
		threads = pool.DefaultThreads()
	}
	workers := pool.New(threads)
	defer workers.Close()
	loops, products := make(workStep, threads), 0.0
	for i := range loops {
		var n float64
		loops[i], n = matmul.PeakOnce(p.path)
		products += n
	}
	for i := range 6 {
		s, err := seconds(workers, readStep{p.mem, i%2 == 1})
		if err != nil {
			return l, err
		}
		l.ReadBytes = max(l.ReadBytes, float64(len(p.mem))/s)
	}
	for range 3 {
		s, err := seconds(workers, loops)
		if err != nil {
			return l, err
		}
		l.Int8MACs = max(l.Int8MACs, products/s)
	}
	return l, nil
}

func seconds(workers *pool.Pool, s pool.Step) (float64, error) {
	steps := []pool.Step{s}
	start := time.Now()
	err := workers.Run(steps, nil)
	return time.Since(start).Seconds(), err
}

// Close gives the memory back.
func (p *Probe) Close() {
	p.free()
	p.mem = nil
}

// readStep reads a worker's part of mem: from the start to the end, or from several places at once.
type readStep struct {
	mem  []byte
	many bool
}

func (s readStep) Run(worker, n int) error {
	lo, hi := pool.Split(len(s.mem), 4096, worker, n)
	if !s.many || !stream.Read(s.mem[lo:hi]) {
		matmul.ReadOnce(s.mem[lo:hi])
	}
	return nil
}

// workStep has a loop for each worker.
type workStep []func()

func (s workStep) Run(worker, _ int) error { s[worker](); return nil }

// AvailableMemory is what the system can give without swapping, in bytes; not ok where that isn't known.
func AvailableMemory() (n int64, ok bool) { return availableMemory() }

// Package pool runs programs on a fixed set of workers. A program is a list of steps; all workers walk it together, each
// doing its share of every step, with a barrier between steps, so that a whole model step costs one wake-up.
package pool

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Step is a piece of work that all workers do together. Run does the share of one worker out of n; it must touch
// nothing that another worker's share of the same step writes. An error or a panic ends the program.
type Step interface {
	Run(worker, n int) error
}

// Spins of a waiting worker before it yields to the scheduler, and yields before it parks. PAUSE alone starves a
// worker that isn't on a core yet; parking at once costs a thread wake-up a step.
const (
	spins  = 64
	yields = 200
)

type pad [64]byte

// Pool is a set of workers; the goroutine that calls Run is worker 0. Run and Close aren't safe for concurrent use.
type Pool struct {
	n     int
	steps []Step
	done  <-chan struct{} // closed: the program is given up; nil: never

	_       pad
	epoch   atomic.Uint32 // counts programs; a change starts the workers
	_       pad
	arrived atomic.Int32 // workers at the barrier
	_       pad
	phase   atomic.Uint32 // counts barriers; a change opens the barrier
	_       pad
	failed  atomic.Bool // an error was seen: the rest of the program is walked without work
	closed  atomic.Bool
	_       pad
	sleeper []sleeper

	mu  sync.Mutex
	err error
	all sync.WaitGroup
}

type sleeper struct {
	parked atomic.Bool
	wake   chan struct{}
	_      pad
}

// New makes a pool of n workers (at least 1): n-1 goroutines, parked until the first Run.
func New(n int) *Pool {
	n = max(n, 1)
	p := &Pool{n: n, sleeper: make([]sleeper, n)}
	for id := 1; id < n; id++ {
		p.sleeper[id].wake = make(chan struct{}, 1)
		p.all.Add(1)
		go p.work(id)
	}
	return p
}

// Workers is the number of workers.
func (p *Pool) Workers() int { return p.n }

// ErrStopped is Run's error when done was closed before the last step began.
var ErrStopped = errors.New("pool: stopped")

// Run walks the steps with all workers and waits for the end. It returns the first error; later steps are skipped then, and
// so they are once done, which may be nil, is closed. It allocates nothing unless a step fails.
func (p *Pool) Run(steps []Step, done <-chan struct{}) error {
	if p.closed.Load() {
		return fmt.Errorf("pool: Run after Close")
	}
	if len(steps) == 0 {
		return nil
	}
	p.steps, p.done, p.err = steps, done, nil
	p.failed.Store(false)
	p.start()
	p.walk(0)
	p.steps, p.done = nil, nil
	return p.err
}

// Close ends the workers and waits for them.
func (p *Pool) Close() {
	if p.closed.Swap(true) {
		return
	}
	p.start()
	p.all.Wait()
}

func (p *Pool) start() {
	p.epoch.Add(1)
	for id := 1; id < p.n; id++ {
		if s := &p.sleeper[id]; s.parked.CompareAndSwap(true, false) {
			s.wake <- struct{}{}
		}
	}
}

func (p *Pool) work(id int) {
	defer p.all.Done()
	for seen := uint32(0); ; seen++ {
		p.await(id, seen)
		if p.closed.Load() {
			return
		}
		p.walk(id)
	}
}

// await returns once the epoch has left seen.
func (p *Pool) await(id int, seen uint32) {
	for i := 0; i < spins+yields; i++ {
		if p.epoch.Load() != seen {
			return
		}
		relax(i)
	}
	s := &p.sleeper[id]
	s.parked.Store(true)
	if p.epoch.Load() != seen && s.parked.CompareAndSwap(true, false) {
		return
	}
	<-s.wake
}

// walk does one worker's share of the whole program. Every worker passes every barrier, whatever fails, so that none
// waits for one that has given up; the last barrier is the end of the program for all.
func (p *Pool) walk(id int) {
	// A mapped weight file that was cut short under us faults: an error of this program, not the end of the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	steps := p.steps // read before the first barrier: after the last one it belongs to Run again
	for at := 0; at < len(steps); {
		at = p.stretch(id, steps, at)
	}
}

// stretch walks from step at to the end, or through the first step that panics, and returns the next one.
func (p *Pool) stretch(id int, steps []Step, at int) (next int) {
	defer func() {
		if r := recover(); r != nil {
			p.fail(fmt.Errorf("pool: worker %d, step %d: panic: %v\n%s", id, at, r, debug.Stack()))
			p.barrier()
			next = at + 1
		}
	}()
	for ; at < len(steps); at++ {
		if id == 0 && p.done != nil {
			select {
			case <-p.done:
				p.fail(ErrStopped)
			default:
			}
		}
		if !p.failed.Load() {
			if err := steps[at].Run(id, p.n); err != nil {
				p.fail(err)
			}
		}
		p.barrier()
	}
	return at
}

func (p *Pool) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.failed.Store(true)
}

func (p *Pool) barrier() {
	if p.n == 1 {
		return
	}
	phase := p.phase.Load()
	if p.arrived.Add(1) == int32(p.n) {
		p.arrived.Store(0)
		p.phase.Store(phase + 1)
		return
	}
	for i := 0; p.phase.Load() == phase; i++ {
		relax(i)
	}
}

func relax(i int) {
	switch {
	case i < spins:
		pause()
	case i < spins+yields:
		runtime.Gosched()
	default:
		// A long wait: as a rule the worker that is waited for has lost its core to another program. Give it one.
		yieldThread()
		runtime.Gosched()
	}
}

// Split gives the part of n items in units of unit that falls to a worker: [lo, hi), balanced to one unit, in order.
func Split(n, unit, worker, workers int) (lo, hi int) {
	units := (n + unit - 1) / unit
	lo = units * worker / workers * unit
	hi = units * (worker + 1) / workers * unit
	return min(lo, n), min(hi, n)
}

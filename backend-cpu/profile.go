package backendcpu

import (
	"fmt"
	"slices"
	"time"

	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// kind is a line of a profile. Those of products are made as programs need them.
type kind int

const (
	kindWaiting   kind = iota // for other workers, at barriers and to be woken
	kindAttention             // its plan and the rounding of its result included
	kindNorm
	kindRope // tables of angles included
	kindSwiGLU
	kindRounding
	kindStore
	kindAdd // biases and residuals
	kindLookup
	kindElse
	kindTiming // reading the clock
	numKinds
)

var kindNames = [numKinds]string{"waiting", "attention", "norm", "rope", "SwiGLU", "rounding", "cache writes", "adding", "look-ups", "else", "timing"}

// profiler says where the time of runs goes. Each worker reads the clock when it goes over to another kind of work, and books the time since it
// last did so: none is lost, none counts twice, and the kinds add up to the runs' time. What reading the clock takes is a kind too, so that it doesn't
// count with short work. A nil profiler books nothing.
type profiler struct {
	clock   func() time.Duration
	cost    time.Duration // of reading the clock and booking, about
	names   []string      // by kind
	started time.Duration
	watches []watch // by worker
	phases  [graph.NumPhases]phase
}

// watch is one worker's time in the run at hand.
type watch struct {
	_    [64]byte // alone in its cache lines
	last time.Duration
	took []time.Duration // by kind
	_    [64]byte
}

// phase is what runs of a phase came to.
type phase struct {
	runs int
	took time.Duration
	sums []sum // by kind
}

// sum of one kind: the time of all workers, and what the programs did.
type sum struct {
	took        time.Duration
	calls       int64
	bytes, macs int64
}

func (s *sum) add(x sum) {
	s.took, s.calls, s.bytes, s.macs = s.took+x.took, s.calls+x.calls, s.bytes+x.bytes, s.macs+x.macs
}

func newProfiler(workers int) *profiler {
	began := time.Now()
	p := &profiler{clock: func() time.Duration { return time.Since(began) }, watches: make([]watch, workers)}
	for _, name := range kindNames {
		p.kind(name)
	}
	p.calibrate()
	return p
}

// calibrate measures what a lap costs: the least of a few rounds, as anything else that runs makes one longer.
func (p *profiler) calibrate() {
	const rounds, laps = 20, 100
	p.cost = time.Hour
	for range rounds {
		start := p.clock()
		for range laps {
			p.book(0, kindElse)
		}
		p.cost = min(p.cost, (p.clock()-start)/laps)
	}
}

// kind gives the kind of a name, a new one if need be.
func (p *profiler) kind(name string) kind {
	if at := slices.Index(p.names, name); at >= 0 {
		return kind(at)
	}
	p.names = append(p.names, name)
	for i := range p.watches {
		p.watches[i].took = make([]time.Duration, len(p.names))
	}
	for i := range p.phases {
		p.phases[i].sums = append(p.phases[i].sums, sum{})
	}
	return kind(len(p.names) - 1)
}

// product is the kind of products of so many rows of activations with weights of a type.
func (p *profiler) product(t quant.Type, rows int) kind {
	if p == nil {
		return kindElse
	}
	if rows == 1 {
		return p.kind(fmt.Sprintf("%s products, 1 row", t))
	}
	return p.kind(fmt.Sprintf("%s products, %d rows", t, rows))
}

// begin starts the watches of a run.
func (p *profiler) begin() {
	p.started = p.clock()
	for i := range p.watches {
		p.watches[i].last = p.started
		clear(p.watches[i].took)
	}
}

// lap books a worker's time since its last lap on k.
func (p *profiler) lap(worker int, k kind) {
	if p != nil {
		p.book(worker, k)
	}
}

func (p *profiler) book(worker int, k kind) {
	w, now := &p.watches[worker], p.clock()
	took, cost := now-w.last, min(now-w.last, p.cost)
	w.took[k] += took - cost
	w.took[kindTiming] += cost
	w.last = now
}

// end adds up a run that did the work of a program. A run that failed has no end.
func (p *profiler) end(of graph.Phase, work []sum, kvBytes uint64) {
	now, ph := p.clock(), &p.phases[of]
	ph.runs++
	ph.took += now - p.started
	for i := range p.watches {
		w := &p.watches[i]
		w.took[kindWaiting] += now - w.last
		for k, took := range w.took {
			ph.sums[k].took += took
		}
	}
	for k := range work {
		ph.sums[k].add(work[k])
	}
	ph.sums[kindAttention].bytes += int64(kvBytes)
}

// timed is a step whose time is booked on a kind, but for what the step books on others itself. A worker that comes to it has waited.
type timed struct {
	pool.Step
	prof *profiler
	kind kind
}

func (s timed) Run(worker, n int) error {
	s.prof.book(worker, kindWaiting)
	err := s.Step.Run(worker, n)
	s.prof.book(worker, s.kind)
	return err
}

// Profile gives where the time of runs went, from Run's begin to its end on every worker. Bytes are those of weights, each once a run, and of the keys
// and values that attention read, as Stats counts them. Nil without Options.Profile.
func (b *Backend) Profile() (list []graph.Profile) {
	if b.prof == nil {
		return nil
	}
	for i := range b.prof.phases {
		ph := &b.prof.phases[i]
		if ph.runs == 0 {
			continue
		}
		p := graph.Profile{Phase: graph.Phase(i), Steps: ph.runs, Workers: b.pool.Workers(), Time: ph.took}
		for k, s := range ph.sums {
			if s != (sum{}) {
				p.Lines = append(p.Lines, graph.ProfileLine{Name: b.prof.names[k], Calls: s.calls, Time: s.took, Bytes: s.bytes, MACs: s.macs})
			}
		}
		p.Sort()
		list = append(list, p)
	}
	return list
}

// ResetProfile forgets what was timed.
func (b *Backend) ResetProfile() {
	if b.prof == nil {
		return
	}
	for i := range b.prof.phases {
		ph := &b.prof.phases[i]
		ph.runs, ph.took = 0, 0
		clear(ph.sums)
	}
}

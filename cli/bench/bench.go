// Package bench measures a model on this machine: tokens a second in prefill and decode, the bytes and products behind them, and
// what share they are of what the machine can do at best, which is measured in the same run.
package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
)

// Options of a measurement.
type Options struct {
	Prompts    []int // tokens of prefill tests (pp); 0 entries are left out
	Gens       []int // tokens of decode tests (tg)
	Batches    []int // sequences of batch tests (b): steps of one token for each of them
	Depths     []int // tokens already in the context
	Reps       int
	KeyType    kvformat.Format
	ValueType  kvformat.Format
	OnProgress func(done, total int)

	// What asks the machine, replaced in tests.
	limits    func(m *engine.Model) (Limits, error)
	available func() (bytes int64, ok bool)
}

// Limits of repetitions and sizes: more is a slip of the keyboard.
const (
	maxReps  = 1000
	maxTests = 1000
)

// Validate reports what is wrong with the options for a model, or nil.
func (o Options) Validate(m *engine.Model) error {
	if o.Reps < 1 || o.Reps > maxReps {
		return fmt.Errorf("bench: %d repetitions: want 1 to %d", o.Reps, maxReps)
	}
	if len(o.Depths) == 0 {
		return fmt.Errorf("bench: no depth: give at least 0")
	}
	tests := o.tests(0)
	if len(tests) == 0 {
		return fmt.Errorf("bench: nothing to measure: all of -p, -n and -b are 0")
	}
	if n := len(tests) * len(o.Depths); n > maxTests {
		return fmt.Errorf("bench: %d tests: want %d at most", n, maxTests)
	}
	for _, d := range o.Depths {
		if d < 0 {
			return fmt.Errorf("bench: a depth of %d tokens: want 0 or more", d)
		}
		for _, t := range tests {
			if t.n < 0 {
				return fmt.Errorf("bench: %s with %d: want 0 or more", t.kind, t.n)
			}
			if t.kind == batch && t.n > maxSeqs {
				return fmt.Errorf("bench: a batch of %d sequences: want %d at most", t.n, maxSeqs)
			}
			if limit := m.Config().NCtxTrain; d+t.steps()+1 > limit {
				return fmt.Errorf("bench: %s at depth %d needs a context of %d tokens, the model has %d: make it or the depth smaller",
					t.name(), d, d+t.steps()+1, limit)
			}
		}
	}
	return nil
}

// tests at one depth, in the order they are shown.
func (o Options) tests(depth int) (tests []*test) {
	for _, k := range []struct {
		kind string
		ns   []int
	}{{prefill, o.Prompts}, {decode, o.Gens}, {batch, o.Batches}} {
		for _, n := range k.ns {
			if n != 0 {
				tests = append(tests, &test{kind: k.kind, n: n, depth: depth})
			}
		}
	}
	return tests
}

// Run measures every test on every model: as a rule one file, loaded with several numbers of threads. All models and tests of a depth
// take turns, repetition by repetition, so that drifts of the machine fall on all alike; the limits are measured before and after each
// test, so that it is compared with the machine as it was then.
func Run(ctx context.Context, models []*engine.Model, o Options) ([]Result, error) {
	for _, m := range models {
		if err := o.Validate(m); err != nil {
			return nil, err
		}
	}
	if o.available == nil {
		o.available = backendcpu.AvailableMemory
	}
	if err := o.fit(models); err != nil {
		return nil, err
	}
	if o.limits == nil {
		p, err := newProber(models...)
		if err != nil {
			return nil, err
		}
		defer p.close()
		o.limits = p.measure
	}
	var results []Result
	total := len(models) * len(o.Depths) * len(o.tests(0)) * (o.Reps + 1)
	done := 0
	o.progress(done, total)
	for _, depth := range o.Depths {
		var all []*test
		for _, m := range models {
			p := &places{model: m, o: o, depth: depth, ctx: o.longest(depth)}
			defer p.close()
			for _, t := range o.tests(depth) {
				t.model, t.places = m, p
				all = append(all, t)
			}
		}
		for rep := -1; rep < o.Reps; rep++ { // -1 is the warm-up, a whole run that isn't counted
			for _, t := range all {
				if err := t.repetition(ctx, rep, o); err != nil {
					return nil, fmt.Errorf("bench: %s: %w", t.name(), err)
				}
				done++
				o.progress(done, total)
			}
		}
		for _, t := range all {
			results = append(results, t.result(o))
		}
		for _, t := range all {
			if err := t.places.close(); err != nil {
				return nil, err
			}
		}
	}
	return byModel(results, len(models), len(o.Depths)), nil
}

// byModel puts the depths of a model together: they were measured depth by depth.
func byModel(results []Result, models, depths int) (sorted []Result) {
	n := len(results) / (models * depths)
	for m := range models {
		for d := range depths {
			sorted = append(sorted, results[(d*models+m)*n:][:n]...)
		}
	}
	return sorted
}

func (o Options) progress(done, total int) {
	if o.OnProgress != nil {
		o.OnProgress(done, total)
	}
}

// Cells is how many cells the contexts of the largest depth hold together.
func (o Options) Cells() (cells int) {
	for _, depth := range o.Depths {
		sum := o.longest(depth)
		for _, t := range o.tests(depth) {
			if t.seqs() > 1 {
				sum += t.seqs() * (depth + t.steps() + 1)
			}
		}
		cells = max(cells, sum)
	}
	return cells
}

// fit refuses contexts that would fill the machine's memory cell by cell until the system ends the program: each buffer of them alone may
// be had, as long as nothing is written there. A device says so itself when it is asked for them.
func (o Options) fit(models []*engine.Model) error {
	var need int64
	for _, m := range models {
		if deviceOf(m) != "" {
			continue
		}
		mem, err := m.Memory(engine.ContextOptions{Ctx: o.Cells(), KeyType: o.KeyType, ValueType: o.ValueType})
		if err != nil {
			return err
		}
		need += mem.KV
	}
	if free, ok := o.available(); ok && need > free {
		return fmt.Errorf("bench: the KV caches of all tests of a depth take %d MiB, the system has %d MiB available: give a smaller depth, fewer sequences or thread numbers, or a smaller cache type",
			need>>20, free>>20)
	}
	return nil
}

// longest is the context that the tests of one sequence need.
func (o Options) longest(depth int) int {
	n := 1
	for _, t := range o.tests(depth) {
		if t.seqs() == 1 {
			n = max(n, t.steps())
		}
	}
	return depth + n + 1
}

// repetition measures one test once, between two measurements of the limits. The warm-up also compares with reference steps.
func (t *test) repetition(ctx context.Context, rep int, o Options) error {
	before, err := o.limits(t.model)
	if err != nil {
		return err
	}
	d, err := t.once(ctx)
	if err != nil {
		return err
	}
	after, err := o.limits(t.model)
	if err != nil || rep < 0 {
		return err
	}
	about := Limits{ReadBytes: (before.ReadBytes + after.ReadBytes) / 2, Int8MACs: (before.Int8MACs + after.Int8MACs) / 2}
	t.samples = append(t.samples, sample{d, about})
	t.profile = graph.AddProfiles(t.profile, t.timed)
	return nil
}

// sample is one repetition's time, and the limits of the machine about it.
type sample struct {
	time   time.Duration
	limits Limits
}

// median of some numbers; the lower of the middle ones.
func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[(len(x)-1)/2]
}

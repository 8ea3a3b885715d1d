package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/graph"
)

// The kinds of tests, as they are called in results.
const (
	prefill = "pp" // n tokens at once, logits of the last one
	decode  = "tg" // n steps of one token
	batch   = "b"  // batchSteps steps of one token for each of n sequences
)

const (
	batchSteps = 16
	maxSeqs    = 32 // the engine's limit of rows with logits in one graph run
)

type test struct {
	kind     string
	n, depth int
	model    *engine.Model
	places   *places
	samples  []sample
	want     []answer // of reference steps, by sequence; nil: not computed yet

	timed, profile []graph.Profile // of the last repetition and of all, if the backend times its work
}

// answer is what a sequence's last step came to.
type answer struct {
	best   int32
	logits []float32 // nil where the best token is all that is compared
}

// near is how far logits may be from a reference step's, rms over their standard deviation, where the kernels of long and short steps
// are not of one bitwise class (tensor cores). The rounding of activations to 8 bits alone makes 0.19 of it in a 7B of random weights; wrong ones are further off than 1; which of two neighbours is the best token says nothing
// with random weights.
const near = 0.35

// differs says in which way got is no answer that want could be of another kernel.
func (want *answer) differs(got answer) string {
	if want.logits == nil {
		if got.best != want.best {
			return fmt.Sprintf("best token is %d, a reference step says %d", got.best, want.best)
		}
		return ""
	}
	var mean, squares, off float64
	for i, w := range want.logits {
		mean += float64(w)
		squares += float64(w) * float64(w)
		d := float64(got.logits[i]) - float64(w)
		off += d * d
	}
	n := float64(len(want.logits))
	mean /= n
	if r := math.Sqrt(off / n / max(squares/n-mean*mean, math.SmallestNonzeroFloat64)); !(r < near) {
		return fmt.Sprintf("logits are off a reference step's by %.2g standard deviations (rms)", r)
	}
	return ""
}

// name is as llama-bench writes it: pp512, tg128 @ d2048; and b4.
func (t *test) name() string {
	s := fmt.Sprintf("%s%d", t.kind, t.n)
	if t.depth > 0 {
		s += fmt.Sprintf(" @ d%d", t.depth)
	}
	return s
}

func (t *test) seqs() int {
	if t.kind == batch {
		return t.n
	}
	return 1
}

// steps is how many tokens each sequence gets.
func (t *test) steps() int {
	if t.kind == batch {
		return batchSteps
	}
	return t.n
}

// tokens of one repetition, of all sequences.
func (t *test) tokens() int { return t.seqs() * t.steps() }

// once does the test's work once and gives the time of it, after checking the logits it came to.
func (t *test) once(ctx context.Context) (time.Duration, error) {
	c, err := t.places.get(ctx, t.seqs())
	if err != nil {
		return 0, err
	}
	profiler, timed := t.model.Backend().(graph.Profiler)
	var d time.Duration
	for compiled := true; compiled; { // a graph of another shape was needed: time it again, now that it is there
		before := c.Executor().Stats().Compiled
		t.places.rewind(c)
		if timed {
			profiler.ResetProfile()
		}
		if d, err = t.run(ctx, c); err != nil {
			return 0, err
		}
		if timed {
			t.timed = profiler.Profile()
		}
		compiled = c.Executor().Stats().Compiled != before
	}
	got := make([]answer, t.seqs())
	for seq := range got {
		if got[seq], err = t.answer(c.Logits(seq)); err != nil {
			return 0, fmt.Errorf("sequence %d: %w", seq, err)
		}
	}
	t.places.rewind(c)
	if t.want == nil {
		if t.want, err = t.reference(ctx, c); err != nil {
			return 0, err
		}
		t.places.rewind(c)
	}
	for seq := range t.want {
		if why := t.want[seq].differs(got[seq]); why != "" {
			return 0, fmt.Errorf("wrong output: sequence %d's %s", seq, why)
		}
	}
	return d, nil
}

// answer checks logits and keeps what is compared of them.
func (t *test) answer(logits []float32) (a answer, err error) {
	if a.best, err = bestToken(logits); err == nil && !bitwise(t.model) {
		a.logits = slices.Clone(logits)
	}
	return a, err
}

// run is what is timed.
func (t *test) run(ctx context.Context, c *engine.Context) (time.Duration, error) {
	if t.kind == prefill {
		all := rows(t.model, t.n, 0, t.depth)
		all[t.n-1].Output = true
		start := time.Now()
		err := c.Step(ctx, all)
		return time.Since(start), err
	}
	steps := make([][]engine.Row, t.steps())
	for i := range steps {
		for seq := range t.seqs() {
			r := rows(t.model, 1, seq, t.depth+i)
			r[0].Output = true
			steps[i] = append(steps[i], r...)
		}
	}
	start := time.Now()
	for _, s := range steps {
		if err := c.Step(ctx, s); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// referenceSteps is how many of a prompt's last tokens the reference feeds one by one.
const referenceSteps = 3

// reference feeds each sequence's tokens by another route than the test: a prompt's last ones row by row, what decode and batches feed
// row by row all at once but for the last. So kernels and cells that the test used are checked by others.
func (t *test) reference(ctx context.Context, c *engine.Context) (all []answer, err error) {
	for seq := range t.seqs() {
		fed := rows(t.model, t.steps(), seq, t.depth)
		head := len(fed) - 1
		if t.kind == prefill {
			head = max(0, len(fed)-referenceSteps)
		}
		if err := c.Step(ctx, fed[:head]); err != nil {
			return nil, fmt.Errorf("reference step: %w", err)
		}
		for i := head; i < len(fed); i++ {
			fed[i].Output = true
			if err := c.Step(ctx, fed[i:i+1]); err != nil {
				return nil, fmt.Errorf("reference step: %w", err)
			}
		}
		a, err := t.answer(c.Logits(0))
		if err != nil {
			return nil, fmt.Errorf("reference step of sequence %d: %w", seq, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// bitwise reports whether long and short steps have the same bits on the model's backend.
func bitwise(m *engine.Model) bool { return m.Backend().Name() == "cpu" }

// bestToken wants finite logits and gives the best token.
func bestToken(logits []float32) (best int32, err error) {
	for i, x := range logits {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return 0, fmt.Errorf("wrong output: logit %d is %g", i, x)
		}
		if x > logits[best] {
			best = int32(i)
		}
	}
	return best, nil
}

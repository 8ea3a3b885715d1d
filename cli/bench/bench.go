// Package bench measures a model on this machine: tokens a second in prefill and decode, with the bytes and products behind them.
package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/kvformat"
)

// Options of a measurement.
type Options struct {
	Prompts    []int // tokens of prefill tests (pp); 0 entries are left out
	Gens       []int // tokens of decode tests (tg)
	Batches    []int // rows a step of batch tests (b): one token for each of so many sequences
	Depths     []int // tokens already in the context
	Reps       int
	Batch      int // rows a graph run at most; 0: engine.DefaultBatch
	KeyType    kvformat.Format
	ValueType  kvformat.Format
	OnProgress func(done, total int)
}

// Result of one test.
type Result struct {
	Model   string    `json:"model"`
	Test    string    `json:"test"` // pp512, tg128, b4; with "@d2048" at a depth
	Kind    string    `json:"kind"`
	N       int       `json:"n"`
	Depth   int       `json:"depth"`
	Backend string    `json:"backend"` // backend, path and threads in effect
	Threads int       `json:"threads"`
	KV      string    `json:"kv"`
	Seconds []float64 `json:"seconds"` // each repetition
	TokS    float64   `json:"tokens_per_second"`
	Spread  float64   `json:"spread"` // (largest - smallest) / median time
	GBs     float64   `json:"gb_per_second"`
	GMACs   float64   `json:"gmac_per_second"`
	Checked bool      `json:"checked"` // finite logits, and the same best token as a reference step
}

// work is what one test reads and multiplies, from the shapes alone.
type work struct {
	bytes int64 // weights and KV rows read
	macs  int64
}

// Run measures every test on m, repetition by repetition over all tests, so that drifts of the machine fall on all alike.
func Run(ctx context.Context, m *engine.Model, threads int, o Options) ([]Result, error) {
	if o.Reps < 1 {
		return nil, fmt.Errorf("bench: %d repetitions: want 1 or more", o.Reps)
	}
	var tests []*test
	for _, d := range o.Depths {
		for _, k := range []struct {
			kind string
			ns   []int
		}{{"pp", o.Prompts}, {"tg", o.Gens}, {"b", o.Batches}} {
			for _, n := range k.ns {
				if n > 0 {
					tests = append(tests, &test{kind: k.kind, n: n, depth: d})
				}
			}
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("bench: nothing to measure: give -p, -n or -b")
	}
	total := len(tests) * (o.Reps + 1)
	for rep := -1; rep < o.Reps; rep++ { // -1 is the warm-up, which isn't counted
		for i, t := range tests {
			if err := t.open(m, o); err != nil {
				return nil, err
			}
			d, err := t.once(ctx)
			if cerr := t.close(); err == nil {
				err = cerr
			}
			if err != nil {
				return nil, fmt.Errorf("bench: %s: %w", t.name(), err)
			}
			if rep >= 0 {
				t.times = append(t.times, d)
			}
			if o.OnProgress != nil {
				o.OnProgress((rep+1)*len(tests)+i+1, total)
			}
		}
	}
	var out []Result
	for _, t := range tests {
		out = append(out, t.result(m, threads, o))
	}
	return out, nil
}

type test struct {
	kind     string
	n, depth int
	times    []time.Duration
	c        *engine.Context
	vocab    int
	checked  bool
}

func (t *test) name() string {
	s := fmt.Sprintf("%s%d", t.kind, t.n)
	if t.depth > 0 {
		s += fmt.Sprintf("@d%d", t.depth)
	}
	return s
}

// open makes the context and fills it to the depth; none of it is measured.
func (t *test) open(m *engine.Model, o Options) (err error) {
	eo := engine.ContextOptions{Ctx: t.depth + t.n + 1, Batch: o.Batch, KeyType: o.KeyType, ValueType: o.ValueType}
	if t.kind == "b" {
		eo.Ctx, eo.Seqs = t.depth+2, t.n
	}
	t.vocab = m.Tokenizer().Size()
	if t.c, err = m.NewContext(eo); err != nil {
		return err
	}
	for seq := range max(eo.Seqs, 1) {
		if err := t.c.Step(context.Background(), t.rows(t.depth, seq, 0)); err != nil {
			return err
		}
	}
	return nil
}

func (t *test) close() error { return t.c.Close() }

// token gives the i-th token of a fixed stream of ordinary ids.
func (t *test) token(i int) int32 {
	return int32((uint64(i)*2654435761 + 12345) >> 7 % uint64(min(t.vocab, 32000)-16))
}

func (t *test) rows(n, seq, from int) []engine.Row {
	rows := make([]engine.Row, n)
	for i := range rows {
		rows[i] = engine.Row{Token: t.token(from + i), Seq: seq}
	}
	return rows
}

// once does the test's work once and gives the time of it. The graphs it needs are compiled before.
func (t *test) once(ctx context.Context) (time.Duration, error) {
	var rows []engine.Row
	switch t.kind {
	case "pp":
		rows = t.rows(t.n, 0, t.depth)
		rows[t.n-1].Output = true
	case "tg":
		rows = t.rows(1, 0, t.depth)
		rows[0].Output = true
	case "b":
		for seq := range t.n {
			rows = append(rows, engine.Row{Token: t.token(t.depth), Seq: seq, Output: true})
		}
	}
	if err := t.warm(ctx, rows); err != nil {
		return 0, err
	}
	steps := 1
	if t.kind == "tg" {
		steps = t.n
	}
	start := time.Now()
	for i := range steps {
		if t.kind == "tg" {
			rows[0].Token = t.token(t.depth + i)
		}
		if err := t.c.Step(ctx, rows); err != nil {
			return 0, err
		}
	}
	d := time.Since(start)
	best, err := check(t.c.Logits(0))
	if err != nil {
		return 0, err
	}
	if err := t.compare(ctx, best); err != nil {
		return 0, err
	}
	return d, nil
}

// warm runs the step once so that its graph is compiled and its memory touched, and takes it back.
func (t *test) warm(ctx context.Context, rows []engine.Row) error {
	if err := t.c.Step(ctx, rows); err != nil {
		return err
	}
	t.rewind()
	return nil
}

func (t *test) rewind() {
	for seq := range t.c.Options().Seqs {
		t.c.Truncate(seq, t.depth)
	}
}

// compare does the first sequence's tokens again, one row a step, and wants the same best token: the measured run computed the model
// and not something else. Once for each test.
func (t *test) compare(ctx context.Context, best int32) error {
	if t.checked {
		return nil
	}
	t.rewind()
	n := t.n
	if t.kind == "b" {
		n = 1
	}
	// All but the last few in one go: every position must hold the right cells, and the last steps take another route than the test.
	all := t.rows(n, 0, t.depth)
	head := max(0, n-3)
	if t.kind == "tg" {
		head = n - 1
	}
	if err := t.c.Step(ctx, all[:head]); err != nil {
		return err
	}
	for _, r := range all[head:] {
		r.Output = true
		if err := t.c.Step(ctx, []engine.Row{r}); err != nil {
			return err
		}
	}
	again, err := check(t.c.Logits(0))
	if err != nil {
		return err
	}
	if again != best {
		return fmt.Errorf("the best token is %d, a reference step says %d", best, again)
	}
	t.checked = true
	return nil
}

// check wants finite logits and gives the best token.
func check(logits []float32) (best int32, err error) {
	for i, x := range logits {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return 0, fmt.Errorf("logit %d is %g", i, x)
		}
		if x > logits[best] {
			best = int32(i)
		}
	}
	return best, nil
}

func (t *test) result(m *engine.Model, threads int, o Options) Result {
	times := slices.Clone(t.times)
	slices.Sort(times)
	median := times[len(times)/2]
	w := t.work(m, o)
	r := Result{
		Model: m.Name(), Test: t.name(), Kind: t.kind, N: t.n, Depth: t.depth, Backend: m.Describe(), Threads: threads,
		KV: o.KeyType.String() + "/" + o.ValueType.String(), Checked: t.checked,
		TokS: float64(t.n) / median.Seconds(), Spread: (times[len(times)-1] - times[0]).Seconds() / median.Seconds(),
		GBs: float64(w.bytes) / median.Seconds() / 1e9, GMACs: float64(w.macs) / median.Seconds() / 1e9,
	}
	for _, d := range t.times {
		r.Seconds = append(r.Seconds, d.Seconds())
	}
	return r
}

// work of one repetition: matrix products of every row (the output matrix for rows with logits only), each weight read once a graph
// run, and the KV rows that attention reads.
func (t *test) work(m *engine.Model, o Options) work {
	cfg := m.Config()
	var blocks, output, blockBytes, outputBytes int64
	for _, w := range m.Net().Weights() {
		if len(w.Shape) != 2 {
			continue
		}
		switch {
		case w == m.Net().Output:
			output, outputBytes = int64(w.Shape.Elems()), w.Bytes()
		case w == m.Net().TokenEmbd:
		default:
			blocks += int64(w.Shape.Elems())
			blockBytes += w.Bytes()
		}
	}
	key, _ := o.KeyType.RowBytes(cfg.HeadDim)
	value, _ := o.ValueType.RowBytes(cfg.HeadDim)
	kvRow := int64(key+value) * int64(cfg.NHeadKV) * int64(cfg.NLayer)
	attn := 2 * int64(cfg.NHead*cfg.HeadDim*cfg.NLayer) // products a cell and row
	n, depth := int64(t.n), int64(t.depth)
	batch := int64(t.c.Options().Batch)
	switch t.kind {
	case "pp":
		runs := (n + batch - 1) / batch
		return work{runs*blockBytes + outputBytes + kvRow*(depth+n)*runs, n*blocks + output + attn*(n*depth+n*(n+1)/2)}
	case "tg":
		cells := n*depth + n*(n+1)/2
		return work{n*(blockBytes+outputBytes) + kvRow*cells, n*(blocks+output) + attn*cells}
	}
	return work{blockBytes + outputBytes + kvRow*n*(depth+1), n*(blocks+output) + attn*n*(depth+1)}
}

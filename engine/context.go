package engine

import (
	"errors"
	"fmt"
	"slices"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
)

// ErrContextFull is wrapped by the error of a step that needs more cells than its sequence has.
var ErrContextFull = errors.New("context full")

// Defaults of ContextOptions.
const (
	DefaultCtx   = 4096
	DefaultBatch = 512
)

// maxBuffers bounds the activations' memory that compiled graphs keep on the CPU, in bytes: a chat has prompts of all lengths, and there a
// graph is compiled again in a millisecond or two.
const maxBuffers = 48 << 20

// ContextOptions shapes a context. The zero value is useful.
type ContextOptions struct {
	Ctx                int             // cells of each sequence; 0: the smaller of the model's context and DefaultCtx
	Seqs               int             // sequences; 0: 1
	Batch              int             // rows of one graph run at most; 0: DefaultBatch
	KeyType, ValueType kvformat.Format // KV cache formats; zero: f16
	Features           graph.Feature
}

func (o ContextOptions) withDefaults(nCtxTrain int) (ContextOptions, error) {
	if o.Ctx == 0 {
		o.Ctx = min(nCtxTrain, DefaultCtx)
	}
	if o.Seqs == 0 {
		o.Seqs = 1
	}
	if o.Batch == 0 {
		o.Batch = DefaultBatch
	}
	o.Batch = min(o.Batch, max(o.Ctx*o.Seqs, 1))
	const maxCells = 1 << 30
	switch {
	case o.Ctx < 0 || o.Seqs < 0 || o.Batch < 0:
		return o, fmt.Errorf("engine: context options: negative size (ctx %d, seqs %d, batch %d)", o.Ctx, o.Seqs, o.Batch)
	case o.Ctx > maxCells || o.Seqs > maxCells/o.Ctx:
		return o, fmt.Errorf("engine: context options: %d sequences of %d cells are more than the limit of %d cells", o.Seqs, o.Ctx, maxCells)
	}
	return o, nil
}

// Context is the state of one or more sequences: their KV cache and compiled graphs. Not safe for concurrent use.
type Context struct {
	model *Model
	opts  ContextOptions
	exec  *graph.Executor

	lens   []int // tokens in each sequence
	inputs [graph.NumInputs][]int32
	logits [][]float32 // of the last Step's output rows
	kept   []float32   // logits copied out of graph runs before the last one of a Step
	read   []float32   // logits of the last graph run, if its backend keeps them where the host can't see them

	compiled *graph.Compiled // graph of the last run

	draws bool     // the backend draws the token of this step's output row
	drawn [1]int32 // the token
}

// NewContext makes a context with empty sequences.
func (m *Model) NewContext(o ContextOptions) (*Context, error) {
	o, err := o.withDefaults(m.cfg().NCtxTrain)
	if err != nil {
		return nil, err
	}
	key, value := o.KeyType.Type(), o.ValueType.Type()
	opts := graph.Options{MaxGraphs: 8}
	if _, ok := m.backend.(*backendcpu.Backend); ok {
		opts.MaxBufferBytes = maxBuffers
	}
	exec, err := graph.NewExecutor([]graph.Backend{m.backend}, m.net.KVSpec(o.Ctx*o.Seqs, key, value), opts)
	if err != nil {
		return nil, fmt.Errorf("engine: context of %d x %d cells: %w", o.Seqs, o.Ctx, err)
	}
	c := &Context{model: m, opts: o, exec: exec, lens: make([]int, o.Seqs)}
	for _, in := range []graph.Input{graph.InTokens, graph.InPositions, graph.InSeqs, graph.InLengths, graph.InCells} {
		c.inputs[in] = make([]int32, o.Batch)
	}
	c.inputs[graph.InOutputs] = make([]int32, min(o.Batch, maxOutputs))
	c.inputs[graph.InSeqRuns] = make([]int32, 2*o.Seqs)
	c.inputs[graph.InRuns] = make([]int32, 2*o.Seqs)
	c.inputs[graph.InSampling] = make([]int32, graph.SamplingWords)
	c.logits = make([][]float32, 0, maxOutputs)
	// Every answer needs the graph of one row: compiled now, its memory is known to be there and the first token doesn't wait for it.
	if _, err := exec.Compile(c.params(1, 1, m.draws && o.Features&graph.FeatureHidden == 0), m.net.Build); err != nil {
		return nil, errors.Join(fmt.Errorf("engine: context of %d x %d cells: %w", o.Seqs, o.Ctx, err), exec.Close())
	}
	return c, nil
}

// Close frees the KV cache and the compiled graphs.
func (c *Context) Close() error { return c.exec.Close() }

// Model the context belongs to.
func (c *Context) Model() *Model { return c.model }

// Options in effect.
func (c *Context) Options() ContextOptions { return c.opts }

// Executor runs the context's graphs; for dumps, traces and counters.
func (c *Context) Executor() *graph.Executor { return c.exec }

// Len is the number of tokens in a sequence.
func (c *Context) Len(seq int) int { return c.lens[seq] }

// Truncate forgets a sequence's tokens from index n on.
func (c *Context) Truncate(seq, n int) {
	if n < c.lens[seq] {
		c.lens[seq] = max(n, 0)
	}
}

// Logits of the i-th output row of the last Step, in the order the rows were given: n_vocab floats, valid until the next
// Step.
func (c *Context) Logits(i int) []float32 { return c.logits[i] }

// Hidden reads an inner result of the last graph run of a context with graph.FeatureHidden, by its name in
// modelsqwen.Model.HiddenNames: "blk.3.out". It has a row for each row of that run, then padding.
func (c *Context) Hidden(name string) ([]float32, error) {
	if c.compiled == nil || c.opts.Features&graph.FeatureHidden == 0 {
		return nil, fmt.Errorf("engine: no hidden state %q: nothing ran with FeatureHidden", name)
	}
	i := slices.Index(c.model.net.HiddenNames(), name)
	if i < 0 {
		return nil, fmt.Errorf("engine: there is no hidden state %q", name)
	}
	out := make([]float32, c.compiled.OutputShape(i+1).Elems())
	return out, c.compiled.ReadOutput(i+1, 0, out)
}

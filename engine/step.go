package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/minfer-go/minfer/engine/sample"
	"github.com/minfer-go/minfer/graph"
)

// maxOutputs bounds the rows of one graph run whose logits are computed: a vocabulary's logits are large.
const maxOutputs = 32

// Row is one token to be fed: it is appended to its sequence. Output asks for its logits.
type Row struct {
	Token  int32
	Seq    int
	Output bool
}

// Step appends rows to their sequences and computes the logits of the rows that ask for them. Rows beyond the batch size
// are fed in several graph runs; the results are the same bits however rows are grouped. On an error, and when ctx is cancelled (between
// runs, on the CPU also within one), the sequences are as before the call.
func (c *Context) Step(ctx context.Context, rows []Row) (err error) {
	if err := c.check(rows); err != nil {
		return err
	}
	done := 0
	defer func() {
		if err != nil { // roll back what earlier runs of this call appended
			for _, r := range rows[:done] {
				c.lens[r.Seq]--
			}
			c.logits = c.logits[:0]
		}
	}()
	c.logits, c.kept = c.logits[:0], c.kept[:0]
	for done < len(rows) {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, outputs := c.nextRun(rows[done:])
		if err := c.run(ctx, rows[done:done+n], outputs, done+n == len(rows)); err != nil {
			return err
		}
		done += n
	}
	return nil
}

// StepDraw is Step for rows of which the last one alone is an output: the backend draws the token that follows it, and its logits stay
// where they are. If it can't (the filters leave too many candidates) it reports that, and Logits(0) is there to draw from.
// Only for a model whose Draws says so.
func (c *Context) StepDraw(ctx context.Context, rows []Row, d sample.Draw) (id int32, drawn bool, err error) {
	if !c.model.Draws() || c.opts.Features&graph.FeatureHidden != 0 {
		return 0, false, fmt.Errorf("engine: %s doesn't draw tokens in this context: %w", c.model.Describe(), graph.ErrUnsupported)
	}
	for i := range rows {
		if rows[i].Output != (i == len(rows)-1) {
			return 0, false, fmt.Errorf("engine: row %d of %d: the last row alone must be an output to draw from", i, len(rows))
		}
	}
	d.Words(c.inputs[graph.InSampling])
	c.draws = true
	defer func() { c.draws = false }()
	if err := c.Step(ctx, rows); err != nil {
		return 0, false, err
	}
	const badLogits = -1 // of graph.Builder.Sample
	if c.drawn[0] == badLogits {
		return 0, false, fmt.Errorf("engine: %w: NaN, +Inf, or nothing above -Inf among them", sample.ErrLogits)
	}
	return c.drawn[0], c.drawn[0] >= 0, nil
}

// check refuses rows that can't be fed, before anything has changed.
func (c *Context) check(rows []Row) error {
	need := make([]int, 0, 8)
	if len(c.lens) > 8 {
		need = make([]int, 0, len(c.lens))
	}
	need = append(need, c.lens...)
	for i, r := range rows {
		if r.Seq < 0 || r.Seq >= len(c.lens) {
			return fmt.Errorf("engine: row %d: sequence %d of a context with %d", i, r.Seq, len(c.lens))
		}
		if r.Token < 0 || int(r.Token) >= c.model.cfg().NVocab {
			return fmt.Errorf("engine: row %d: token %d is outside the vocabulary of %d", i, r.Token, c.model.cfg().NVocab)
		}
		need[r.Seq]++
	}
	for seq, n := range need {
		if n > c.opts.Ctx {
			return fmt.Errorf("engine: %w: sequence %d needs %d tokens, the context has %d (the model was trained with %d; make the context larger, or the text shorter)",
				ErrContextFull, seq, n, c.opts.Ctx, c.model.cfg().NCtxTrain)
		}
	}
	return nil
}

// nextRun is how many of the rows fit one graph run, and how many of these want logits.
func (c *Context) nextRun(rows []Row) (n, outputs int) {
	for n < len(rows) && n < c.opts.Batch {
		if rows[n].Output {
			if outputs == maxOutputs {
				break
			}
			outputs++
		}
		n++
	}
	return n, outputs
}

// bucket rounds a number of rows up to one that graphs are compiled for, so that few are.
func bucket(n, limit int) int {
	switch {
	case n <= 8:
	case n <= 64:
		n = (n + 7) &^ 7
	default:
		n = (n + 31) &^ 31
	}
	return min(n, limit)
}

// params of the graph for so many rows and outputs.
func (c *Context) params(rows, outputs int, draws bool) graph.Params {
	p := graph.Params{
		Rows: bucket(rows, c.opts.Batch), Outputs: min(bucket(outputs, maxOutputs), c.opts.Batch), Seqs: c.opts.Seqs, Runs: c.opts.Seqs,
		Cells: c.opts.Ctx * c.opts.Seqs, KeyType: c.opts.KeyType.Type(), ValueType: c.opts.ValueType.Type(), Features: c.opts.Features,
	}
	if draws && outputs > 0 {
		p.Features |= graph.FeatureSample
	}
	return p
}

// run executes one graph over rows.
func (c *Context) run(ctx context.Context, rows []Row, outputs int, last bool) error {
	p := c.params(len(rows), outputs, c.draws)
	compiled, err := c.exec.Compile(p, c.model.net.Build)
	if err != nil {
		return err
	}
	c.fill(p, rows)
	for in := range graph.NumInputs {
		if in == graph.InOutputs && p.Outputs == 0 || in == graph.InSampling && p.Features&graph.FeatureSample == 0 {
			continue
		}
		if err := compiled.SetInput(in, c.inputs[in][:p.InputShape(in).Elems()]); err != nil {
			c.rollback(rows)
			return err
		}
	}
	if err := compiled.RunContext(ctx); err != nil {
		c.rollback(rows)
		return err
	}
	c.compiled = compiled
	if err := c.collect(compiled, outputs, last); err != nil { // an asynchronous backend reports a failed run here
		c.rollback(rows)
		return err
	}
	return nil
}

func (c *Context) rollback(rows []Row) {
	for _, r := range rows {
		c.lens[r.Seq]--
	}
}

// fill writes the step's inputs and appends the rows to their sequences. Each sequence is one run of cells for now.
func (c *Context) fill(p graph.Params, rows []Row) {
	out := 0
	for i, r := range rows {
		at := c.lens[r.Seq]
		c.lens[r.Seq]++
		c.inputs[graph.InTokens][i] = r.Token
		c.inputs[graph.InPositions][i] = int32(at)
		c.inputs[graph.InSeqs][i] = int32(r.Seq)
		c.inputs[graph.InLengths][i] = int32(at + 1)
		c.inputs[graph.InCells][i] = int32(r.Seq*c.opts.Ctx + at)
		if r.Output {
			c.inputs[graph.InOutputs][out] = int32(i)
			out++
		}
	}
	for i := len(rows); i < p.Rows; i++ { // padding
		c.inputs[graph.InTokens][i], c.inputs[graph.InPositions][i], c.inputs[graph.InSeqs][i] = 0, 0, 0
		c.inputs[graph.InLengths][i], c.inputs[graph.InCells][i] = 0, -1
	}
	for ; out < p.Outputs; out++ {
		c.inputs[graph.InOutputs][out] = 0
	}
	for seq, n := range c.lens {
		c.inputs[graph.InSeqRuns][2*seq], c.inputs[graph.InSeqRuns][2*seq+1] = int32(seq), 1
		c.inputs[graph.InRuns][2*seq], c.inputs[graph.InRuns][2*seq+1] = int32(seq*c.opts.Ctx), int32(n)
	}
}

// collect makes the run's logits available. Those of the last run stay in the graph's buffer if the host sees it; earlier
// ones are copied, since the next run may overwrite them.
func (c *Context) collect(compiled *graph.Compiled, outputs int, last bool) error {
	if outputs == 0 {
		return nil
	}
	from := 0 // which output the logits are
	if c.draws {
		if err := compiled.ReadTokens(0, c.drawn[:]); err != nil || c.drawn[0] >= 0 {
			return err
		}
		from = 1
	}
	nVocab := c.model.cfg().NVocab
	all, err := compiled.Output(from)
	if errors.Is(err, graph.ErrUnsupported) { // it is in a device's memory
		if c.read == nil {
			c.read = make([]float32, min(c.opts.Batch, maxOutputs)*nVocab)
		}
		all = c.read[:outputs*nVocab]
		err = compiled.ReadOutput(from, 0, all)
	}
	if err != nil {
		return err
	}
	for i := range outputs {
		row := all[i*nVocab : (i+1)*nVocab]
		if !last {
			at := len(c.kept)
			c.kept = append(c.kept, row...)
			row = c.kept[at:]
		}
		c.logits = append(c.logits, row)
	}
	return nil
}

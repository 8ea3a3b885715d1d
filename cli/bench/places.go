package bench

import (
	"context"
	"errors"

	"github.com/minfer-go/minfer/engine"
)

// places are the contexts of one model at one depth: one that all tests of a single sequence share, and one for each batch. They are
// filled to the depth once, and every test takes back what it appended.
type places struct {
	model *engine.Model
	o     Options
	depth int
	ctx   int // cells of the single sequence
	open  map[int]*engine.Context
}

// get gives the context with so many sequences, filled to the depth.
func (p *places) get(ctx context.Context, seqs int) (*engine.Context, error) {
	if c := p.open[seqs]; c != nil {
		return c, nil
	}
	eo := engine.ContextOptions{Ctx: p.ctx, Seqs: seqs, KeyType: p.o.KeyType, ValueType: p.o.ValueType}
	if seqs > 1 {
		eo.Ctx = p.depth + batchSteps + 1
	}
	c, err := p.model.NewContext(eo)
	if err != nil {
		return nil, err
	}
	for seq := range seqs {
		if err := c.Step(ctx, rows(p.model, p.depth, seq, 0)); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if p.open == nil {
		p.open = map[int]*engine.Context{}
	}
	p.open[seqs] = c
	return c, nil
}

// rewind takes back what a test appended.
func (p *places) rewind(c *engine.Context) {
	for seq := range c.Options().Seqs {
		c.Truncate(seq, p.depth)
	}
}

func (p *places) close() error {
	var errs []error
	for _, c := range p.open {
		errs = append(errs, c.Close())
	}
	p.open = nil
	return errors.Join(errs...)
}

// rows are the n tokens of a sequence from position from on: the same ordinary ids each time, other ones for each sequence.
func rows(m *engine.Model, n, seq, from int) []engine.Row {
	vocab := uint64(max(1, min(m.Tokenizer().Size(), 32000)-16)) // the last ids are special tokens
	out := make([]engine.Row, n)
	for i := range out {
		out[i] = engine.Row{Token: int32((uint64(from+i+1013*seq)*2654435761 + 12345) >> 7 % vocab), Seq: seq}
	}
	return out
}

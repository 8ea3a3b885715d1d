package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/minfer-go/minfer/engine/sample"
	"github.com/minfer-go/minfer/engine/tokenizer"
)

// StopReason says why generation ended.
type StopReason string

// The reasons.
const (
	StopEOG       StopReason = "stop"        // the model ended its answer
	StopString    StopReason = "stop_string" // a stop string was found
	StopLength    StopReason = "length"      // MaxTokens were generated
	StopContext   StopReason = "context"     // the context is full
	StopCancelled StopReason = "cancelled"   // the caller's context ended
	StopError     StopReason = "error"
)

// GenerateOptions steers one answer.
type GenerateOptions struct {
	Sample      sample.Params
	MaxTokens   int      // 0 or less: until the model ends or the context is full
	Stop        []string // strings that end the answer; they are not part of it
	KeepSpecial bool     // show the text of special tokens
}

// Result of a generation.
type Result struct {
	Text         string
	Tokens       []int32 // generated ones, the end-of-generation token included
	Reason       StopReason
	StopString   string // the one found
	PromptTokens int
	PromptTime   time.Duration // feeding the prompt
	FirstToken   time.Duration // from the call to the first token
	DecodeTime   time.Duration // generating the tokens after the first
}

// Generate feeds the prompt to a sequence and samples an answer, calling emit with each piece of text of whole code points.
// On an error or a cancellation the result holds what was generated so far. An answer that meets the end of the context is
// an error that wraps ErrContextFull.
func (c *Context) Generate(ctx context.Context, seq int, prompt []int32, o GenerateOptions, emit func(text string) error) (Result, error) {
	g, err := c.newGeneration(seq, prompt, o, emit)
	if err != nil {
		return Result{Reason: StopError}, err
	}
	err = g.run(ctx, prompt)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		g.res.Reason = StopCancelled
	} else if errors.Is(err, ErrContextFull) {
		g.res.Reason = StopContext
	} else if err != nil {
		g.res.Reason = StopError
	}
	g.res.Text = g.text.String()
	return g.res, err
}

// generation is the state of one Generate call.
type generation struct {
	c       *Context
	seq     int
	o       GenerateOptions
	sampler *sample.Sampler
	stream  *tokenizer.Stream
	stop    *sample.StopMatcher
	emit    func(string) error
	text    strings.Builder
	res     Result
}

func (c *Context) newGeneration(seq int, prompt []int32, o GenerateOptions, emit func(string) error) (*generation, error) {
	if len(prompt) == 0 { // even if the sequence has tokens: their logits are gone
		return nil, errors.New("engine: an empty prompt: give at least one token")
	}
	tok := c.model.tok
	sampler, err := sample.New(o.Sample, tok.Size()) // rows of the vocabulary beyond the tokenizer's are never sampled
	if err != nil {
		return nil, err
	}
	for _, id := range prompt {
		sampler.Accept(id)
	}
	g := &generation{c: c, seq: seq, o: o, sampler: sampler, emit: emit, stop: sample.NewStopMatcher(o.Stop)}
	g.stream = tok.NewStream(!o.KeepSpecial)
	g.res.PromptTokens = len(prompt)
	return g, nil
}

func (g *generation) run(ctx context.Context, prompt []int32) error {
	start := time.Now()
	rows := make([]Row, len(prompt))
	for i, id := range prompt {
		rows[i] = Row{Token: id, Seq: g.seq, Output: i == len(prompt)-1}
	}
	id, err := g.next(ctx, rows)
	if err != nil {
		return err
	}
	g.res.PromptTime = time.Since(start)
	rows = rows[:1]
	var first time.Time
	for {
		g.sampler.Accept(id)
		g.res.Tokens = append(g.res.Tokens, id)
		if len(g.res.Tokens) == 1 {
			first = time.Now()
			g.res.FirstToken = first.Sub(start)
		}
		done, err := g.take(id)
		g.res.DecodeTime = time.Since(first)
		if done || err != nil {
			return err
		}
		rows[0] = Row{Token: id, Seq: g.seq, Output: true}
		if id, err = g.next(ctx, rows); err != nil {
			return g.finish(err)
		}
	}
}

// next feeds rows, the last of which is an output, and draws the token that follows: on the backend where it can.
func (g *generation) next(ctx context.Context, rows []Row) (int32, error) {
	if g.c.model.Draws() {
		if d, ok := g.sampler.Draw(); ok {
			id, drawn, err := g.c.StepDraw(ctx, rows, d)
			if err == nil && !drawn {
				id, err = g.sampler.SampleWith(g.c.Logits(0), d)
			}
			return id, err
		}
	}
	if err := g.c.Step(ctx, rows); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	id, err := g.sampler.Sample(g.c.Logits(0))
	if err != nil {
		return 0, fmt.Errorf("engine: token %d: %w", len(g.res.Tokens), err)
	}
	return id, nil
}

// take shows a token's text and reports whether the answer ends with it.
func (g *generation) take(id int32) (done bool, err error) {
	if g.c.model.tok.IsEOG(id) {
		g.res.Reason = StopEOG
		return true, g.finish(nil)
	}
	piece, err := g.stream.Push(id)
	if err != nil {
		return true, g.finish(err)
	}
	shown, hit := g.stop.Feed(piece)
	if err := g.show(shown); err != nil {
		return true, err
	}
	if hit != "" {
		g.res.Reason, g.res.StopString = StopString, hit
		return true, nil
	}
	if g.o.MaxTokens > 0 && len(g.res.Tokens) >= g.o.MaxTokens {
		g.res.Reason = StopLength
		return true, g.finish(nil)
	}
	return false, nil
}

// finish shows what was held back (a cut code point, the beginning of a stop string) and passes err on.
func (g *generation) finish(err error) error {
	shown, hit := g.stop.Feed(g.stream.Flush())
	if hit == "" {
		shown += g.stop.Flush()
	}
	return errors.Join(err, g.show(shown))
}

func (g *generation) show(text string) error {
	if text == "" {
		return nil
	}
	g.text.WriteString(text)
	if g.emit == nil {
		return nil
	}
	return g.emit(text)
}

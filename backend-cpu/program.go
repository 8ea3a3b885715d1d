package backendcpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/minfer-go/minfer/backend-cpu/internal/attn"
	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/graph"
)

// program is a flat list of steps with everything resolved: memory, weights, scratch.
type program struct {
	b           *Backend
	steps       []pool.Step
	claims      []*claim // of the steps that have one
	acts        []*matmul.Acts
	weightBytes uint64
	plans       []planned
	phase       graph.Phase
	work        []sum // of a profile, by kind: what a run does, attention's bytes apart
}

type planned struct {
	plan     *attn.Plan
	rowBytes int64 // of a cell, keys and values, in all layers that the plan serves
}

// Run executes the program; it returns when all workers are done. It allocates nothing.
func (p *program) Run() error { return p.RunContext(context.Background()) }

// RunContext is Run that is given up when ctx ends, between two steps.
func (p *program) RunContext(ctx context.Context) error {
	if p.b.closed {
		return errors.New("backendcpu: Run after Close")
	}
	prof := p.b.prof
	if prof != nil {
		prof.begin()
	}
	for _, c := range p.claims {
		c.reset()
	}
	for _, a := range p.acts {
		a.Refresh()
	}
	if err := p.b.pool.Run(p.steps, ctx.Done()); err == pool.ErrStopped {
		return ctx.Err()
	} else if err != nil {
		return fmt.Errorf("backendcpu: %w", err)
	}
	s := &p.b.stats
	s.Runs++
	s.WeightBytes += p.weightBytes
	kv := uint64(0)
	for i := range p.plans {
		kv += uint64(p.plans[i].plan.Cells * p.plans[i].rowBytes)
	}
	s.KVBytes += kv
	if prof != nil {
		prof.end(p.phase, p.work, kv)
	}
	return nil
}

// Close drops the program's references.
func (p *program) Close() error {
	p.steps, p.plans, p.claims, p.acts = nil, nil, nil, nil
	return nil
}

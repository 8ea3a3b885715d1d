package backendcpu

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// stopper is a backend whose programs call stop in place of a step's beginning.
type stopper struct {
	*Backend
	at    int // the step; -1: none
	steps int // of the last program compiled
	stop  func()
}

type hook struct{ f func() }

func (h hook) Run(worker, _ int) error {
	if worker == 0 {
		h.f()
	}
	return nil
}

func (s *stopper) Compile(u *graph.Unit) (graph.Program, error) {
	p, err := s.Backend.Compile(u)
	if err == nil && s.at >= 0 {
		p := p.(*program)
		s.steps = len(p.steps)
		p.steps = slices.Insert(p.steps, s.at, pool.Step(hook{s.stop}))
	}
	return p, err
}

// A prompt that is given up before any of its steps leaves nothing behind: the request after it has the bits that it would have had.
func TestStoppedRun(t *testing.T) {
	tokens := make([]int, 170)
	for i := range tokens {
		tokens[i] = i * 7 % 300
	}
	for _, m := range []model{small, {hidden: 256, heads: 4, kvHeads: 2, dim: 64, ff: 512, qwen3: true, w: quant.Q4_K, kv: quant.Q8_0, cells: 400}} {
		want := newSession(t, m, Options{Threads: 2}, 0)
		answer := [][]float32{want.run(tokens[50:120]...), want.run(9)}
		want.n = 0
		whole := floatBits(want.run(tokens...))
		steps := math.MaxInt
		for at := 0; at < steps; at++ {
			t.Run(fmt.Sprintf("%s before step %d", m.w, at), func(t *testing.T) {
				b, err := New(Options{Threads: 2})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(context.Background())
				stopping := &stopper{b, at, 0, cancel}
				exec, err := graph.NewExecutor([]graph.Backend{stopping}, m.spec(), graph.Options{})
				require.NoError(t, err)
				s := &session{t: t, b: b, exec: exec, m: m}
				c := s.step(tokens...)
				steps = stopping.steps
				err = c.RunContext(ctx)
				require.ErrorIs(t, err, context.Canceled)
				require.Zero(t, b.Stats().Runs)
				_, err = c.Output(0)
				require.Error(t, err, "nothing can be read")
				require.ErrorIs(t, c.RunContext(ctx), context.Canceled, "it hasn't begun")

				stopping.at = -1
				s.n = 0
				got := [][]float32{s.run(tokens[50:120]...), s.run(9)}
				for i := range answer {
					require.Equal(t, floatBits(answer[i]), floatBits(got[i]), "request %d", i)
				}
				s.n = 0
				require.Equal(t, whole, floatBits(s.run(tokens...)), "the very program that was stopped")
				require.NoError(t, exec.Close())
				require.NoError(t, b.Close())
			})
		}
		require.Greater(t, steps, 8)
		require.Less(t, steps, 100)
	}
}

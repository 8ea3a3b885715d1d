package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/graph"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
)

// interrupted is a CPU backend that calls before with the number of each run before it begins.
type interrupted struct {
	*backendcpu.Backend
	runs   int
	before func(run int)
}

type interruptedProgram struct {
	graph.ContextProgram
	b *interrupted
}

func (p interruptedProgram) RunContext(ctx context.Context) error {
	p.b.runs++
	p.b.before(p.b.runs)
	return p.ContextProgram.RunContext(ctx)
}

func (b *interrupted) Compile(u *graph.Unit) (graph.Program, error) {
	p, err := b.Backend.Compile(u)
	if err != nil {
		return nil, err
	}
	return interruptedProgram{p.(graph.ContextProgram), b}, nil
}

// A prompt that is given up within a graph run leaves its sequence as it was, and what follows has the same bits as without it. Where in a
// run it is given up makes no difference: backend-cpu's TestStoppedRun.
func TestStepIsGivenUp(t *testing.T) {
	b := &interrupted{before: func(int) {}}
	m := loadModel(t, tinyModel("tiny-qwen3-q8_0"), LoadOptions{Backend: func(*modelsqwen.Model) (graph.Backend, error) {
		cpu, err := backendcpu.New(backendcpu.Options{Threads: 2})
		b.Backend = cpu
		return b, err
	}})
	prompt := func(from, n int) (rows []Row) {
		for i := range n {
			rows = append(rows, Row{Token: int32((from + 13*i) % 500), Output: i == n-1})
		}
		return rows
	}
	o := ContextOptions{Ctx: 200, Batch: 32}
	fed := func(c *Context, rows []Row) []float32 {
		require.NoError(t, c.Step(context.Background(), rows))
		return append([]float32(nil), c.Logits(0)...)
	}
	plain := newContext(t, m, o)
	first, second, third := fed(plain, prompt(1, 40)), fed(plain, prompt(7, 70)), fed(plain, prompt(3, 1))
	for run := 1; run <= 3; run++ { // of the 70 rows' three
		c := newContext(t, m, o)
		require.Equal(t, first, fed(c, prompt(1, 40)))
		ctx, cancel := context.WithCancel(context.Background())
		b.runs, b.before = 0, func(n int) {
			if n == run {
				cancel()
			}
		}
		require.ErrorIs(t, c.Step(ctx, prompt(100, 70)), context.Canceled)
		require.Equal(t, run, b.runs)
		require.Equal(t, 40, c.Len(0), "rolled back")
		b.before = func(int) {}
		require.Equal(t, second, fed(c, prompt(7, 70)))
		require.Equal(t, third, fed(c, prompt(3, 1)))
	}
}

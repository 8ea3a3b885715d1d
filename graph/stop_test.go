package graph_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/graph/graphtest"
)

// watched calls ran whenever one of its programs runs; with stops its programs know contexts.
type watched struct {
	*graphtest.Reference
	ran   func()
	stops bool
}

type watchedProgram struct {
	graph.Program
	ran func()
}

func (p watchedProgram) Run() error { p.ran(); return p.Program.Run() }

type stoppingProgram struct{ watchedProgram }

func (p stoppingProgram) RunContext(ctx context.Context) error {
	if p.ran(); ctx.Err() != nil {
		return ctx.Err()
	}
	return p.Program.Run()
}

func (w *watched) Compile(u *graph.Unit) (graph.Program, error) {
	p, err := w.Reference.Compile(u)
	if err != nil || !w.stops {
		return watchedProgram{p, w.ran}, err
	}
	return stoppingProgram{watchedProgram{p, w.ran}}, nil
}

// A run that is given up ends at the next border, or within a split whose program can; the next run is as if it hadn't been.
func TestRunContext(t *testing.T) {
	want := decode(t, executor(t, small, graph.Options{}, reference(graphtest.ReferenceOptions{})), small, 0, story...)
	for _, c := range []struct {
		name      string
		stops     bool
		at, split int // the program run that the context ends in; the split that the error names
	}{{"before", false, 0, 0}, {"in the first split", false, 1, 1}, {"in the first program", true, 1, 0}, {"in the last split", false, 2, 2}} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			runs := 0
			ran := func() {
				if runs++; runs == c.at {
					cancel()
				}
			}
			first, second := reference(graphtest.ReferenceOptions{}), reference(graphtest.ReferenceOptions{Name: "other", Device: true})
			e := executor(t, small, graph.Options{Layers: []int{0, 1}}, &watched{first, ran, c.stops}, &watched{second, ran, c.stops})
			p := params(10)
			compiled, err := e.Compile(p, small.build)
			require.NoError(t, err)
			require.GreaterOrEqual(t, compiled.Splits(), 2)
			if c.at == 0 {
				cancel()
			}
			step(t, compiled, p, 0, story...)
			err = compiled.RunContext(ctx)
			got := make([]float32, small.vocab)
			if c.at < compiled.Splits() {
				require.ErrorIs(t, err, context.Canceled)
				assert.ErrorContains(t, err, "split "+string(rune('0'+c.split)))
				require.Equal(t, c.at, runs, "nothing later ran")
				require.Error(t, compiled.ReadOutput(0, 0, got), "nothing can be read")
			} else {
				require.NoError(t, err, "it was too late")
			}
			require.NoError(t, compiled.Run())
			require.NoError(t, compiled.ReadOutput(0, 0, got))
			assert.Equal(t, want[len(want)-1], got)
		})
	}
}

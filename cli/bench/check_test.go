package bench

import (
	"context"
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/graph"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
)

// broken is a CPU backend that spoils the logits of some steps.
type broken struct {
	*backendcpu.Backend
	spoil func(p graph.Params, run int, logits []float32)
	runs  int
}

type brokenProgram struct {
	graph.Program
	b      *broken
	params graph.Params
	logits []float32
}

func (b *broken) Compile(u *graph.Unit) (graph.Program, error) {
	p, err := b.Backend.Compile(u)
	if err != nil || u.Params.Outputs == 0 {
		return p, err
	}
	at := u.Tensors[u.Nodes[len(u.Nodes)-1].ID]
	mem := at.Buffer.(graph.HostBuffer).HostBytes()[at.Offset:]
	return &brokenProgram{p, b, u.Params, unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), at.Shape.Elems())}, nil
}

func (p *brokenProgram) Run() error {
	err := p.Program.Run()
	p.b.runs++
	p.b.spoil(p.params, p.b.runs, p.logits)
	return err
}

// A backend that computes something else gets no figures, whichever steps are wrong, and be it in the last repetition only.
func TestWrongOutputIsAnError(t *testing.T) {
	infinite := func(l []float32) { l[7] = float32(math.Inf(1)) }
	other := func(l []float32) { l[len(l)-5] += 1e6 }
	type spoil = func(p graph.Params, run int, l []float32)
	o := Options{Prompts: []int{20}, Gens: []int{4}, Batches: []int{3}, Depths: []int{2}, Reps: 2, limits: known}
	for name, c := range map[string]struct {
		spoil spoil
		want  string
	}{
		"nothing":              {func(graph.Params, int, []float32) {}, ""},
		"everything is NaN":    {func(_ graph.Params, _ int, l []float32) { l[0] = float32(math.NaN()) }, "logit 0 is NaN"},
		"prompts are infinite": {func(p graph.Params, _ int, l []float32) { when(p.Rows > 8, infinite, l) }, "pp20 @ d2: sequence 0: wrong output: logit 7 is +Inf"},
		"prompts are wrong":    {func(p graph.Params, _ int, l []float32) { when(p.Rows > 8, other, l) }, "pp20 @ d2: wrong output: sequence 0's best token is 507, a reference step says"},
		"single rows of every other step are wrong": {func(p graph.Params, run int, l []float32) { when(p.Rows == 1 && run%2 == 0, other, l) }, "a reference step says"},
		"batches are wrong":                         {func(p graph.Params, _ int, l []float32) { when(p.Outputs > 1, other, l) }, "b3 @ d2: wrong output: sequence 2's best token"},
		"a late step of many":                       {func(p graph.Params, run int, l []float32) { when(p.Rows > 8 && run > 40, other, l) }, "pp20 @ d2: wrong output"},
	} {
		t.Run(name, func(t *testing.T) {
			cpu, err := backendcpu.New(backendcpu.Options{Threads: 1})
			require.NoError(t, err)
			b := &broken{Backend: cpu, spoil: c.spoil}
			m := tiny(t, "tiny:q8_0", engine.LoadOptions{Backend: func(*modelsqwen.Model) (graph.Backend, error) { return b, nil }})
			results, err := Run(context.Background(), []*engine.Model{m}, o)
			if c.want == "" {
				require.NoError(t, err)
				require.Len(t, results, 3)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.Empty(t, results)
		})
	}
}

func when(yes bool, f func([]float32), l []float32) {
	if yes {
		f(l)
	}
}

func TestBestToken(t *testing.T) {
	best, err := bestToken([]float32{-3, 5, 5, 2})
	require.NoError(t, err)
	require.EqualValues(t, 1, best, "the first of equal ones")
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, err := bestToken([]float32{1, float32(x)})
		require.ErrorContains(t, err, fmt.Sprintf("logit 1 is %g", x))
	}
}

// The same tokens every time, ordinary ones, and others for each sequence.
func TestRows(t *testing.T) {
	m := tiny(t, "tiny:q8_0", engine.LoadOptions{Threads: 1})
	a, b := rows(m, 300, 0, 10), rows(m, 300, 1, 10)
	require.Equal(t, a[5:], rows(m, 295, 0, 15))
	require.NotEqual(t, a[0].Token, b[0].Token)
	distinct := map[int32]bool{}
	for _, r := range append(a, b...) {
		require.Less(t, r.Token, int32(512-16))
		require.GreaterOrEqual(t, r.Token, int32(0))
		distinct[r.Token] = true
	}
	require.Greater(t, len(distinct), 200)
}

// Where steps of different lengths aren't of one bitwise class it is all logits that must be near, not which of two neighbours is best.
func TestAnswersOfAnotherClass(t *testing.T) {
	want := answer{best: 1, logits: []float32{1, 5, 4.95, 4, -3}}
	assert.Empty(t, want.differs(answer{best: 2, logits: []float32{1.1, 4.9, 5, 4, -3.1}}))
	assert.Contains(t, want.differs(answer{best: 1, logits: []float32{1, 5, 4.95, 4, 3}}), "standard deviations")
	assert.NotEmpty(t, want.differs(answer{best: 1, logits: make([]float32, 5)}))
	strict := answer{best: 1}
	assert.Empty(t, strict.differs(answer{best: 1}))
	assert.Contains(t, strict.differs(answer{best: 2}), "best token is 2, a reference step says 1")
}

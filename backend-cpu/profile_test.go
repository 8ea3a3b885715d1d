package backendcpu

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// profiled runs a prompt of 9 rows and two decode steps; clock replaces the profiler's if it isn't nil.
func profiled(t *testing.T, m model, o Options, clock func() time.Duration) (s *session, logits [][]uint32) {
	s = newSession(t, m, o, 0)
	if clock != nil {
		s.b.prof.clock, s.b.prof.cost = clock, 0
	}
	for _, tokens := range [][]int{{1, 2, 3, 4, 5, 6, 7, 8, 9}, {10}, {11}} {
		logits = append(logits, floatBits(s.run(tokens...)))
	}
	return s, logits
}

// TestProfileAddsUp: what workers book is all of their time between the begin and the end of a run, neither less nor more; and the results
// are those of a backend that times nothing.
func TestProfileAddsUp(t *testing.T) {
	qwen3 := model{hidden: 256, heads: 4, kvHeads: 2, dim: 64, ff: 512, qwen3: true, w: quant.Q4_0, kv: quant.Q8_0, cells: 400}
	for _, m := range []model{small, qwen3} {
		for _, threads := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%s, %d threads", m.w, threads), func(t *testing.T) {
				start := time.Now()
				s, got := profiled(t, m, Options{Threads: threads, Profile: true}, nil)
				wall := time.Since(start)
				_, want := profiled(t, m, Options{Threads: threads}, nil)
				require.Equal(t, want, got)
				list := s.b.Profile()
				require.Len(t, list, 2)
				var all time.Duration
				for i, p := range list {
					require.Equal(t, graph.Phase(i), p.Phase)
					require.Equal(t, 1+i, p.Steps)
					require.Equal(t, threads, p.Workers)
					all += p.Time
					var sum time.Duration
					for _, l := range p.Lines {
						assert.GreaterOrEqual(t, l.Time, time.Duration(0), "%s", l.Name)
						sum += l.Time
					}
					require.Positive(t, p.Time)
					require.Equal(t, p.Time*time.Duration(threads), sum, "%s", p.Phase)
				}
				require.LessOrEqual(t, all, wall)
				s.b.ResetProfile()
				require.Empty(t, s.b.Profile())
				s.run(12)
				require.Equal(t, 1, s.b.Profile()[0].Steps)
			})
		}
	}
}

// TestProfileCounts: calls, bytes and products are those of the model's block.
func TestProfileCounts(t *testing.T) {
	m := small
	var reads atomic.Int64 // a clock that shows another time at every look: nothing is too short for it
	s, _ := profiled(t, m, Options{Threads: 2, Profile: true}, func() time.Duration { return time.Duration(reads.Add(1)) })
	q, kv := m.heads*m.dim, m.kvHeads*m.dim
	matrices := m.hidden*(q+2*kv+2*m.ff) + q*m.hidden + m.ff*m.hidden
	row, cell := m.w.RowBytes(m.hidden), 2*2*kv
	for i, c := range []struct{ rows, steps, cells int }{{9, 1, 9}, {1, 2, 10 + 11}} {
		got := map[string]graph.ProfileLine{}
		for _, l := range s.b.Profile()[i].Lines {
			assert.Positive(t, l.Time, l.Name)
			l.Time = 0
			got[l.Name] = l
		}
		products := m.w.String() + " products, 1 row"
		if c.rows > 1 {
			products = fmt.Sprintf("%s products, %d rows", m.w, c.rows)
		}
		n := int64(c.steps)
		for _, want := range []graph.ProfileLine{
			{Name: products, Calls: 7 * n, Bytes: n * int64(matrices/32*34), MACs: n * int64(c.rows*matrices)},
			{Name: "attention", Calls: n, Bytes: int64(cell * c.cells)},
			{Name: "norm", Calls: 2 * n},
			{Name: "rope", Calls: n},
			{Name: "SwiGLU", Calls: n},
			{Name: "rounding", Calls: 3 * n}, // of both norms and of SwiGLU; attention rounds its own
			{Name: "cache writes", Calls: n},
			{Name: "adding", Calls: 4 * n}, // two biases, two residuals
			{Name: "look-ups", Calls: n, Bytes: n * int64(c.rows*row)},
		} {
			assert.Equal(t, want, got[want.Name])
			delete(got, want.Name)
		}
		assert.Equal(t, 11*n, got["waiting"].Calls, "a barrier a step")
		assert.Len(t, got, 2, "and what is else: %v", got)
	}
}

// keeper remembers the last program that its backend compiled.
type keeper struct {
	*Backend
	last *program
}

func (k *keeper) Compile(u *graph.Unit) (graph.Program, error) {
	p, err := k.Backend.Compile(u)
	k.last, _ = p.(*program)
	return p, err
}

// TestTimingIsAsked: without Options.Profile there is no watch, and no step is wrapped; with it a run allocates nothing either.
func TestTimingIsAsked(t *testing.T) {
	for _, on := range []bool{false, true} {
		b, err := New(Options{Threads: 2, Profile: on})
		require.NoError(t, err)
		k := &keeper{Backend: b}
		exec, err := graph.NewExecutor([]graph.Backend{k}, small.spec(), graph.Options{})
		require.NoError(t, err)
		s := &session{t: t, b: b, exec: exec, m: small}
		c := s.step(1)
		require.NoError(t, c.Run())
		require.Equal(t, on, b.prof != nil)
		for _, st := range k.last.steps {
			_, wrapped := st.(timed)
			require.Equal(t, on, wrapped, "%T", st)
		}
		require.Equal(t, on, len(k.last.work) > 0)
		require.Zero(t, testing.AllocsPerRun(5, func() {
			if err := c.Run(); err != nil {
				panic(err)
			}
		}))
		require.NoError(t, exec.Close())
		require.NoError(t, b.Close())
	}
}

// TestProfileOfFailedRuns: a run that was given up isn't in it.
func TestProfileOfFailedRuns(t *testing.T) {
	b, err := New(Options{Threads: 2, Profile: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	stopping := &stopper{b, 5, 0, cancel}
	exec, err := graph.NewExecutor([]graph.Backend{stopping}, small.spec(), graph.Options{})
	require.NoError(t, err)
	s := &session{t: t, b: b, exec: exec, m: small}
	require.ErrorIs(t, s.step(1, 2).RunContext(ctx), context.Canceled)
	require.Empty(t, b.Profile())
	s.n = 0
	s.run(1, 2)
	list := b.Profile()
	require.Len(t, list, 1)
	require.Equal(t, 1, list[0].Steps)
	require.NoError(t, exec.Close())
	require.NoError(t, b.Close())
}

// TestProfileOfTheClock: what reading it costs is a line of its own, as far as there is time to take it from.
func TestProfileOfTheClock(t *testing.T) {
	p := newProfiler(1)
	require.GreaterOrEqual(t, p.cost, time.Duration(0))
	require.Less(t, p.cost, time.Millisecond)
	now := time.Duration(0)
	p.clock, p.cost = func() time.Duration { return now }, 30
	p.begin()
	for _, at := range []time.Duration{100, 120, 200} {
		now = at
		p.lap(0, kindNorm)
	}
	require.Equal(t, time.Duration(70+0+50), p.watches[0].took[kindNorm])
	require.Equal(t, time.Duration(30+20+30), p.watches[0].took[kindTiming])
}

// laps is a step that works for 5, books it on a kind, and works for 7 more.
type laps struct {
	p   *profiler
	now *time.Duration
}

func (l laps) Run(worker, _ int) error {
	*l.now += 5
	l.p.lap(worker, kindRope)
	*l.now += 7
	return nil
}

// TestProfileOfAStep: what passes before a step is waiting; what it books is its own, the rest is the step's kind.
func TestProfileOfAStep(t *testing.T) {
	p, now := newProfiler(1), time.Duration(0)
	p.clock, p.cost = func() time.Duration { return now }, 0
	p.begin()
	for range 2 {
		now += 100
		require.NoError(t, timed{laps{p, &now}, p, kindStore}.Run(0, 1))
	}
	now += 1000
	p.end(graph.PhaseDecode, nil, 0)
	sums := p.phases[graph.PhaseDecode].sums
	require.Equal(t, []time.Duration{1200, 10, 14}, []time.Duration{sums[kindWaiting].took, sums[kindRope].took, sums[kindStore].took})
	require.Equal(t, now, p.phases[graph.PhaseDecode].took)
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/synthetic"
	"github.com/minfer-go/minfer/kvformat"
)

func tiny(t *testing.T, spec string, o engine.LoadOptions) *engine.Model {
	t.Helper()
	data, err := synthetic.Make(spec)
	require.NoError(t, err)
	m, err := engine.LoadBytes(spec, data, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// known stands for the probe of the machine.
func known(m *engine.Model) (Limits, error) {
	threads := Threads(m)
	return Limits{ReadBytes: 1e12 * float64(threads), Int8MACs: 2e12 * float64(threads)}, nil
}

func TestRun(t *testing.T) {
	models := []*engine.Model{tiny(t, "tiny:q8_0", engine.LoadOptions{Threads: 1}), tiny(t, "tiny:q8_0", engine.LoadOptions{Threads: 2, CPUPath: "generic"})}
	var progress []int
	o := Options{Prompts: []int{20, 0}, Gens: []int{3}, Batches: []int{2}, Depths: []int{0, 5}, Reps: 2, KeyType: kvformat.F16, ValueType: kvformat.Q8_0, limits: known,
		OnProgress: func(done, total int) {
			require.Equal(t, 2*3*2*3, total, "models, tests, depths, repetitions with the warm-up")
			progress = append(progress, done)
		}}
	results, err := Run(context.Background(), models, o)
	require.NoError(t, err)
	require.Len(t, progress, 37)
	require.Equal(t, 36, progress[36])
	var names []string
	for i, r := range results {
		names = append(names, fmt.Sprintf("%d %s", r.Threads, r.Test))
		m := models[r.Threads-1]
		require.Equal(t, "cpu", r.Backend)
		require.Equal(t, m.Backend().(*backendcpu.Backend).Path(), r.Path)
		require.Equal(t, "f16/q8_0", r.TypeK+"/"+r.TypeV)
		require.Equal(t, checked, r.Output)
		require.Len(t, r.Samples, 2)
		require.Equal(t, m.Net().WeightBytes(), r.Size)
		require.Equal(t, "tiny (random weights)", r.Model)
		require.Equal(t, "tiny:q8_0", r.File)
		require.InDelta(t, 1000*float64(r.Threads), r.ReadGBs, 1e-6)
		require.InDelta(t, 2000*float64(r.Threads), r.Int8GMACs, 1e-6)
		require.InEpsilon(t, r.GBs/r.ReadGBs, r.ReadShare, 1e-9)
		require.InEpsilon(t, r.GMACs/r.Int8GMACs, r.Int8Share, 1e-9)
		require.Positive(t, r.TokS, i)
	}
	require.Equal(t, []string{"1 pp20", "1 tg3", "1 b2", "1 pp20 @ d5", "1 tg3 @ d5", "1 b2 @ d5",
		"2 pp20", "2 tg3", "2 b2", "2 pp20 @ d5", "2 tg3 @ d5", "2 b2 @ d5"}, names)
}

// Contexts that the machine's memory doesn't hold are refused before any cell is written: here two of 6 + 5 + 1 and of 2 * (5 + 16 + 1) cells,
// of 1 KiB each (2 layers, 2 KV heads of 64, 2 bytes).
func TestRunRefusesTooManyCells(t *testing.T) {
	models := []*engine.Model{tiny(t, "tiny:q8_0", engine.LoadOptions{Threads: 1}), tiny(t, "tiny:q8_0", engine.LoadOptions{Threads: 2})}
	kib := int64(2 * (6 + 5 + 1 + 2*(5+16+1)))
	o := Options{Gens: []int{6}, Batches: []int{2}, Depths: []int{0, 5}, Reps: 1, limits: known, KeyType: kvformat.F16, ValueType: kvformat.F16}
	o.available = func() (int64, bool) { return kib << 10, true }
	_, err := Run(context.Background(), models, o)
	require.NoError(t, err)
	o.available = func() (int64, bool) { return kib<<10 - 1, true }
	results, err := Run(context.Background(), models, o)
	require.ErrorContains(t, err, "KV caches of all tests of a depth take 0 MiB")
	require.Empty(t, results)
	o.available = func() (int64, bool) { return 0, false }
	_, err = Run(context.Background(), models, o)
	require.NoError(t, err)
}

// A run against the real probe: shares are of this machine.
func TestRunMeasuresLimits(t *testing.T) {
	m := tiny(t, "tiny:q4_0", engine.LoadOptions{Threads: 2})
	results, err := Run(context.Background(), []*engine.Model{m}, Options{Gens: []int{4}, Depths: []int{0}, Reps: 1})
	require.NoError(t, err)
	require.Len(t, results, 1)
	require.Greater(t, results[0].ReadGBs, 0.1)
	require.Greater(t, results[0].Int8GMACs, 0.01)
	require.InEpsilon(t, results[0].GBs/results[0].ReadGBs, results[0].ReadShare, 1e-9)
}

// More graph shapes than a context keeps: none is compiled while time is taken.
func TestManyShapes(t *testing.T) {
	m := tiny(t, "tiny:q8_0", engine.LoadOptions{Threads: 1})
	o := Options{Prompts: []int{1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32, 600}, Depths: []int{0}, Reps: 1, limits: known}
	results, err := Run(context.Background(), []*engine.Model{m}, o)
	require.NoError(t, err)
	require.Len(t, results, 12)
}

func TestFill(t *testing.T) {
	sec := func(s float64) time.Duration { return time.Duration(s * 1e9) }
	var r Result
	r.fill([]sample{{sec(0.5), Limits{ReadBytes: 20e9, Int8MACs: 100e9}}, {sec(0.25), Limits{ReadBytes: 40e9, Int8MACs: 100e9}},
		{sec(1), Limits{ReadBytes: 10e9, Int8MACs: 100e9}}}, 10, work{bytes: 5e9, macs: 10e9})
	require.Equal(t, []float64{20, 40, 10}, r.Samples)
	require.InDelta(t, 70.0/3, r.TokS, 1e-9)
	require.InDelta(t, 20, r.Median, 1e-9)
	require.InDelta(t, math.Sqrt((100.0/9+2500.0/9+1600.0/9)/2), r.Stddev, 1e-9)
	require.InDelta(t, (10.0+20+5)/3, r.GBs, 1e-9)
	require.InDelta(t, 70.0/3, r.ReadGBs, 1e-9)
	require.InDelta(t, 0.5, r.ReadShare, 1e-9, "each repetition by the limits about it: all three ran at half of what the machine gave then")
	require.InDelta(t, (20.0+40+10)/3, r.GMACs, 1e-9)
	require.InDelta(t, 0.7/3, r.Int8Share, 1e-9)

	r = Result{}
	r.fill([]sample{{time.Second, Limits{}}}, 1, work{bytes: 1, macs: 1})
	require.Zero(t, r.Stddev)
	require.Zero(t, r.ReadShare, "unknown limits give no share")
}

// The bytes are those that the backend counts as read. In prompts it counts the cache once for each block of query rows, and rows of the
// embedding for padding; so there only the weights are compared, with prompts that need no padding.
func TestWorkIsWhatTheBackendReads(t *testing.T) {
	for _, spec := range []string{"tiny:q8_0", "tiny:q4_k_m", "tiny:f16"} {
		m := tiny(t, spec, engine.LoadOptions{Threads: 2})
		b := m.Backend().(*backendcpu.Backend)
		o := Options{KeyType: kvformat.F16, ValueType: kvformat.Q8_0}
		for _, x := range []*test{{kind: decode, n: 5}, {kind: decode, n: 5, depth: 9}, {kind: batch, n: 3, depth: 4}, {kind: prefill, n: 32}, {kind: prefill, n: 1032, depth: 7}} {
			x.model, x.places = m, &places{model: m, o: o, depth: x.depth, ctx: 1100}
			c, err := x.places.get(context.Background(), x.seqs())
			require.NoError(t, err)
			before := b.Stats()
			_, err = x.run(context.Background(), c)
			require.NoError(t, err)
			after := b.Stats()
			read := after.WeightBytes - before.WeightBytes
			want := workOf(m, x, o.KeyType, o.ValueType).bytes
			if x.kind == prefill {
				cells := []int{512, 512, x.n - 1024}
				if x.n < 512 {
					cells = []int{x.n}
				}
				at := x.depth
				for i, n := range cells {
					at += n
					layers := 2
					if i < len(cells)-1 {
						layers = 1 // the last one's attention is for rows with logits
					}
					want -= int64(layers * at * 2 * (64*2 + 64/32*34)) // 2 heads of 64, f16 and q8_0
				}
			} else {
				read += after.KVBytes - before.KVBytes
			}
			require.EqualValues(t, read, want, "%s %s", spec, x.name())
			require.NoError(t, x.places.close())
		}
	}
}

func TestWorkCountsProducts(t *testing.T) {
	m := tiny(t, "tiny:q8_0", engine.LoadOptions{Threads: 1})
	const queries, keys, rest = 256 * 256, 2 * 128 * 256, 256*256 + 3*512*256 // of a block of the shape "tiny": q; k, v; output, gate, up, down
	const layer, output = queries + keys + rest, 512 * 256
	for _, c := range []struct {
		t    test
		want int64
	}{{test{kind: prefill, n: 7}, 7*layer + 7*(queries+keys) + rest + output}, {test{kind: prefill, n: 513}, 513*layer + 513*keys + queries + rest + output}, {test{kind: decode, n: 7, depth: 100}, 7 * (2*layer + output)}, {test{kind: batch, n: 3}, 3 * batchSteps * (2*layer + output)}} {
		require.Equal(t, c.want, workOf(m, &c.t, kvformat.F16, kvformat.F16).macs, c.t.name())
	}
}

func TestCells(t *testing.T) {
	o := Options{Prompts: []int{20}, Gens: []int{30}, Batches: []int{1, 4}, Depths: []int{7, 100, 50}}
	require.Equal(t, 100+30+1+4*(100+batchSteps+1), o.Cells())
}

func TestValidate(t *testing.T) {
	m := tiny(t, "tiny:q8_0", engine.LoadOptions{Threads: 1})
	for want, o := range map[string]Options{
		"0 repetitions":          {Prompts: []int{1}, Depths: []int{0}},
		"9999 repetitions":       {Prompts: []int{1}, Depths: []int{0}, Reps: 9999},
		"no depth":               {Prompts: []int{1}, Reps: 1},
		"nothing to measure":     {Prompts: []int{0}, Gens: []int{0}, Depths: []int{0}, Reps: 1},
		"depth of -1":            {Prompts: []int{1}, Depths: []int{-1}, Reps: 1},
		"pp with -4":             {Prompts: []int{-4}, Depths: []int{0}, Reps: 1},
		"33 sequences":           {Batches: []int{33}, Depths: []int{0}, Reps: 1},
		"the model has 32768":    {Prompts: []int{512}, Depths: []int{0, 32768}, Reps: 1},
		"2000 tests: want 1000 ": {Prompts: []int{1, 2}, Depths: make([]int, 1000), Reps: 1},
	} {
		require.ErrorContains(t, o.Validate(m), want)
		_, err := Run(context.Background(), []*engine.Model{m}, o)
		require.ErrorContains(t, err, want)
	}
}

func TestErrorsEndTheRun(t *testing.T) {
	m := tiny(t, "tiny:q8_0", engine.LoadOptions{Threads: 1})
	o := Options{Prompts: []int{4}, Depths: []int{3}, Reps: 2, limits: known}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Run(ctx, []*engine.Model{m}, o)
	require.ErrorIs(t, err, context.Canceled)
	broken := errors.New("no probe")
	o.limits = func(*engine.Model) (Limits, error) { return Limits{}, broken }
	_, err = Run(context.Background(), []*engine.Model{m}, o)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "pp4 @ d3")
}

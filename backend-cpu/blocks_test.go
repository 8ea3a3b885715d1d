package backendcpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// ffnCase is an FFN from looked-up rows, and who reads its result h: the product after it (outputs 0), h as an output, a sum of h.
type ffnCase struct {
	rows, ff        int
	down            quant.Type
	product, h, sum bool
}

// outputs runs the case once.
func (f ffnCase) outputs(t *testing.T, path string) (out [][]float32) {
	const hidden = 64
	b, err := New(Options{Threads: 2, Path: path})
	require.NoError(t, err)
	spec := graph.KVSpec{Layers: 1, Cells: 64, KVHeads: 1, HeadDim: 64, KeyType: quant.F16, ValueType: quant.F16}
	exec, err := graph.NewExecutor([]graph.Backend{b}, spec, graph.Options{})
	require.NoError(t, err)
	p := graph.Params{Rows: f.rows, Outputs: 1, Seqs: 1, Runs: 1, Cells: spec.Cells, KeyType: spec.KeyType, ValueType: spec.ValueType}
	c, err := exec.Compile(p, func(p graph.Params) (*graph.Graph, error) {
		g := graph.NewBuilder(p)
		weight := func(name string, t quant.Type, shape ...int) *graph.Weight {
			return randomWeight(g, b, "ffn", name, t, shape...)
		}
		x := g.GetRows(weight("embd", quant.Q8_0, 64, hidden), g.Input(graph.InTokens))
		h := g.SwiGLU(g.MatMul(x, weight("gate", quant.Q8_0, f.ff, hidden), nil), g.MatMul(x, weight("up", quant.Q8_0, f.ff, hidden), nil))
		if f.product {
			g.Output(g.MatMul(h, weight("down", f.down, hidden, f.ff), nil))
		}
		if f.h {
			g.Output(h)
		}
		if f.sum {
			g.Output(g.Add(h, h))
		}
		return g.Graph()
	})
	require.NoError(t, err)
	tokens := make([]int32, f.rows)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	require.NoError(t, c.SetInput(graph.InTokens, tokens))
	require.NoError(t, c.Run())
	g, _ := c.Graph()
	for i := range g.Outputs {
		y, err := c.Output(i)
		require.NoError(t, err)
		out = append(out, append([]float32(nil), y...))
	}
	require.NoError(t, exec.Close())
	require.NoError(t, b.Close())
	return out
}

// TestFFNResult: what an FFN computes is stored for whoever reads it as it is, and the product after it gives the same bits with and without
// that. Rows and widths cross the borders of blocks.
func TestFFNResult(t *testing.T) {
	for _, path := range Paths() {
		for _, ff := range []int{32, 160, 416} {
			for _, down := range []quant.Type{quant.Q8_0, quant.F16} {
				for _, rows := range []int{1, 8, 9, 50} {
					t.Run(fmt.Sprintf("%s, ff %d, %s, %d rows", path, ff, down, rows), func(t *testing.T) {
						alone := ffnCase{rows, ff, down, false, true, false}.outputs(t, path)
						plain := ffnCase{rows, ff, down, true, false, false}.outputs(t, path)
						require.Equal(t, [][]float32{plain[0], alone[0]}, ffnCase{rows, ff, down, true, true, false}.outputs(t, path))
						for _, x := range alone[0] {
							require.False(t, math.IsNaN(float64(x)))
						}
						doubled := make([]float32, len(alone[0]))
						for i, x := range alone[0] {
							doubled[i] = x + x
						}
						require.Equal(t, [][]float32{plain[0], doubled}, ffnCase{rows, ff, down, true, false, true}.outputs(t, path))
					})
				}
			}
		}
	}
}

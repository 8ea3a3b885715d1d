package backendcuda

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// TestOnlyReaders: rows that a product alone reads, in one form, need no float32; as soon as another op reads them, through a view as
// well, they do.
//
// The second case was seen failing while only compared operands with the node itself, as a view of it isn't.
func TestOnlyReaders(t *testing.T) {
	b := onFake(t, newFake(cudatest.Options{}), "", Options{})
	defer b.Close()
	const rows, width = 2, 64
	table := &graph.Weight{Model: "m", Name: "table", Type: quant.Q8_0, Shape: []int{32, 2 * width}}
	out := &graph.Weight{Model: "m", Name: "out", Type: quant.Q8_0, Shape: []int{32, width}}
	for _, c := range []struct {
		name string
		also func(g *graph.Builder, x *graph.Node)
		want bool
	}{
		{"a product", func(*graph.Builder, *graph.Node) {}, true},
		{"a product and a view's reader", func(g *graph.Builder, x *graph.Node) { g.Output(g.Silu(g.View(x, 32, rows, 32))) }, false},
		{"a product and a sum", func(g *graph.Builder, x *graph.Node) { g.Output(g.Add(x, x)) }, false},
		{"a product and one of a view", func(g *graph.Builder, x *graph.Node) {
			half := &graph.Weight{Model: "m", Name: "half", Type: quant.Q8_0, Shape: []int{32, 32}}
			g.Output(g.MatMul(g.View(x, 32, rows, 32), half, nil))
		}, false},
	} {
		g := graph.NewBuilder(smallParams(rows))
		e := g.GetRows(table, g.Input(graph.InTokens))
		x := g.SwiGLU(g.View(e, 0, rows, width), g.View(e, width, rows, width))
		g.Output(g.MatMul(x, out, nil))
		c.also(g, x)
		made, err := g.Graph()
		require.NoError(t, err)
		u := &graph.Unit{Params: made.Params, Wanted: make([]bool, len(made.Nodes))}
		for _, n := range made.Nodes {
			if n.Op == graph.OpSwiGLU {
				x = n // Graph gives copies
			}
			if !n.Op.Places() {
				u.Nodes = append(u.Nodes, n)
			}
		}
		assert.Equal(t, c.want, (&compiler{b: b, u: u}).only(x, formQ8), c.name)
	}
}

package backendcuda

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/kernels-cuda/kernelstest"
	"github.com/minfer-go/minfer/quant"
)

// TestAttentionBeforeAProduct: whatever the size of heads, attention gives its result in a form that its kernel has, and the product
// after it reads that form.
func TestAttentionBeforeAProduct(t *testing.T) {
	for _, c := range []struct {
		headDim  int
		kernel   kernelscuda.ID
		quantize bool // by a kernel of its own
	}{
		{64, kernelscuda.KernelAttnDecodeF16F16D64, false},
		{40, kernelscuda.KernelAttnDecodeF32, true}, // blocks of 32 would go over heads
		{320, kernelscuda.KernelAttnReferenceF32, true},
	} {
		t.Run(fmt.Sprint(c.headDim), func(t *testing.T) {
			ran := map[kernelscuda.ID]int{}
			f := kernelstest.New(cudatest.Options{}, func(id kernelscuda.ID) { ran[id]++ })
			b := onFake(t, f, "", Options{})
			const heads, rows = 4, 2
			width := heads * c.headDim
			table := &graph.Weight{Model: "m", Name: "table", Type: quant.Q8_0, Shape: []int{32, width}}
			out := &graph.Weight{Model: "m", Name: "out", Type: quant.Q8_0, Shape: []int{32, width}}
			require.NoError(t, register(b, []*graph.Weight{table, out}))
			kv := graph.KVSpec{Layers: 1, Cells: 64, KVHeads: heads, HeadDim: c.headDim, KeyType: quant.F16, ValueType: quant.F16}
			e, err := graph.NewExecutor([]graph.Backend{b}, kv, graph.Options{})
			require.NoError(t, err)
			compiled, err := e.Compile(smallParams(rows), func(p graph.Params) (*graph.Graph, error) {
				g := graph.NewBuilder(p)
				x := g.Reshape(g.GetRows(table, g.Input(graph.InTokens)), rows, heads, c.headDim)
				cells := g.Input(graph.InCells)
				keys := g.KvcacheLoad(g.KvcacheStore(x, cells, graph.KVAttr{}))
				values := g.KvcacheLoad(g.KvcacheStore(x, cells, graph.KVAttr{Value: true}))
				a := g.Attn(x, keys, values, g.Input(graph.InLengths), g.Input(graph.InSeqs), g.Input(graph.InSeqRuns), g.Input(graph.InRuns),
					graph.AttnAttr{Heads: heads, KVHeads: heads, HeadDim: c.headDim, Scale: 1})
				g.Output(g.MatMul(g.Reshape(a, rows, width), out, nil))
				return g.Graph()
			})
			require.NoError(t, err)
			for _, in := range []graph.Input{graph.InTokens, graph.InCells, graph.InLengths, graph.InSeqs, graph.InSeqRuns, graph.InRuns} {
				require.NoError(t, compiled.SetInput(in, make([]int32, smallParams(rows).InputShape(in).Elems())))
			}
			require.NoError(t, compiled.Run())
			require.NoError(t, e.Sync())
			assert.Equal(t, 1, ran[c.kernel], "%v", ran)
			assert.Equal(t, c.quantize, ran[kernelscuda.KernelQuantizeQ8] == 1, "%v", ran)
			require.NoError(t, e.Close())
			require.NoError(t, b.Close())
			clean(t, f)
		})
	}
}

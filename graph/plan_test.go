package graph_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/graph/graphtest"
	"github.com/minfer-go/minfer/quant"
)

func only(ops ...graph.Op) func(*graph.Node) bool {
	return func(n *graph.Node) bool { return slices.Contains(ops, n.Op) }
}

func TestAssign(t *testing.T) {
	g, err := small.build(params(2))
	require.NoError(t, err)
	matmuls := reference(graphtest.ReferenceOptions{Name: "matmuls", Ops: only(graph.OpMatMul)})
	all := reference(graphtest.ReferenceOptions{Name: "all"})

	a, err := graph.Assign(g, []graph.Backend{matmuls, all}, []int{1, 1})
	require.NoError(t, err)
	for _, n := range g.Nodes {
		switch n.Op {
		case graph.OpMatMul:
			assert.Equal(t, 0, a[n.ID], n.Name)
		case graph.OpReshape:
			assert.Equal(t, a[n.In[0].ID], a[n.ID], "a reshape stays with its operand")
		case graph.OpInput:
		default:
			assert.Equal(t, 1, a[n.ID], n.Name)
		}
	}

	_, err = graph.Assign(g, []graph.Backend{matmuls}, []int{0, 0})
	require.ErrorIs(t, err, graph.ErrUnsupported)
	assert.ErrorContains(t, err, `GetRows "embed"`)
	assert.ErrorContains(t, err, "matmuls: GetRows is switched off")

	// A layer's region decides where its attention runs, and it must be able to.
	_, err = graph.Assign(g, []graph.Backend{matmuls, all}, []int{1, 0})
	require.ErrorIs(t, err, graph.ErrUnsupported)
	assert.ErrorContains(t, err, `"blk.1.k_store"`)
	_, err = graph.Assign(g, []graph.Backend{all}, []int{0})
	require.ErrorContains(t, err, "the KV cache has 1 layers")
}

func ops(g *graph.Graph) map[graph.Op]int {
	n := map[graph.Op]int{}
	for _, node := range g.Nodes {
		n[node.Op]++
	}
	return n
}

func fuse(t *testing.T, m tiny, p graph.Params, wanted ...graph.Op) *graph.Graph {
	t.Helper()
	g, err := m.build(p)
	require.NoError(t, err)
	var before bytes.Buffer
	require.NoError(t, graph.WriteDOT(&before, g, nil, nil))
	b := reference(graphtest.ReferenceOptions{Fused: only(wanted...)})
	backends := []graph.Backend{b}
	a, err := graph.Assign(g, backends, make([]int, m.layers))
	require.NoError(t, err)
	fused, fa := graph.Fuse(g, a, backends)
	assert.Len(t, fa, len(fused.Nodes))
	var after bytes.Buffer
	require.NoError(t, graph.WriteDOT(&after, g, nil, nil))
	assert.Equal(t, before.String(), after.String(), "the graph that was given is untouched")
	for i, n := range fused.Nodes {
		assert.Equal(t, i, n.ID)
		for _, in := range n.In {
			assert.Same(t, fused.Nodes[in.ID], in)
			assert.Less(t, in.ID, n.ID)
		}
	}
	return fused
}

func TestFuse(t *testing.T) {
	qwen3 := small
	qwen3.qwen3 = true
	every := []graph.Op{graph.OpFusedQKV, graph.OpQkvBiasRopeStore, graph.OpFusedQkvNorm, graph.OpFusedFFN}
	type counts map[graph.Op]int
	for name, c := range map[string]struct {
		m      tiny
		wanted []graph.Op
		want   counts
	}{
		"nothing": {small, nil, counts{graph.OpMatMul: 15, graph.OpRoPE: 4, graph.OpKvcacheStore: 4, graph.OpSwiGLU: 2}},
		"qwen2": {small, every, counts{graph.OpFusedQKV: 2, graph.OpQkvBiasRopeStore: 2, graph.OpFusedFFN: 2, graph.OpMatMul: 5, graph.OpView: 6,
			graph.OpRoPE: 0, graph.OpKvcacheStore: 0, graph.OpSwiGLU: 0, graph.OpKvcacheLoad: 4}},
		"qwen3": {qwen3, every, counts{graph.OpFusedQKV: 2, graph.OpFusedQkvNorm: 2, graph.OpFusedFFN: 2, graph.OpMatMul: 5,
			graph.OpQkvBiasRopeStore: 0, graph.OpQkNorm: 0, graph.OpRoPE: 0}},
		"qkv alone":   {small, every[:1], counts{graph.OpFusedQKV: 2, graph.OpMatMul: 9, graph.OpRoPE: 4, graph.OpKvcacheStore: 4}},
		"store alone": {small, every[1:2], counts{graph.OpQkvBiasRopeStore: 2, graph.OpMatMul: 15, graph.OpRoPE: 0}},
		// Without a node for the norms, ropes and stores still join.
		"qwen3 without norm": {qwen3, every[1:2], counts{graph.OpQkvBiasRopeStore: 0, graph.OpQkNorm: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ops(fuse(t, c.m, params(3), c.wanted...))
			for op, n := range c.want {
				assert.Equal(t, n, got[op], op)
			}
		})
	}

	g := fuse(t, small, params(3), every...)
	for _, n := range g.Nodes {
		switch n.Op {
		case graph.OpFusedQKV:
			assert.Equal(t, graph.Shape{3, 256}, n.Shape)
			assert.Nil(t, n.Weights[3], "biases moved on to QkvBiasRopeStore")
		case graph.OpQkvBiasRopeStore:
			assert.Equal(t, fmt.Sprintf("blk.%d.attn_k.bias", n.Layer), n.Weights[1].Name)
			root, offset, stride := n.In[1].Layout()
			assert.Equal(t, graph.OpFusedQKV, root.Op)
			assert.EqualValues(t, 128*4, offset, "k begins after q in a packed row")
			assert.EqualValues(t, 256*4, stride)
		}
	}
	for _, n := range fuse(t, small, params(3), graph.OpFusedQKV).Nodes {
		if n.Op == graph.OpFusedQKV {
			assert.Equal(t, "blk.0.attn_v.bias", n.Weights[5].Name, "biases stay")
			break
		}
	}
}

// What somebody else reads, or what is an output, is not fused away.
func TestFuseKeepsWhatIsRead(t *testing.T) {
	backends := []graph.Backend{reference(graphtest.ReferenceOptions{Fused: func(*graph.Node) bool { return true }})}
	for name, use := range map[string]func(b *graph.Builder, gate *graph.Node){
		"output":       func(b *graph.Builder, gate *graph.Node) { b.Output(gate) },
		"other reader": func(b *graph.Builder, gate *graph.Node) { b.Output(b.Silu(gate)) },
		"none":         func(*graph.Builder, *graph.Node) {},
	} {
		b := graph.NewBuilder(params(2))
		x := b.GetRows(weight("embd.weight", quant.F32, 10, 64), b.Input(graph.InTokens))
		gate, up := b.MatMul(x, weight("gate.weight", quant.F32, 8, 64), nil), b.MatMul(x, weight("up.weight", quant.F32, 8, 64), nil)
		b.Output(b.SwiGLU(gate, up))
		use(b, gate)
		g, err := b.Graph()
		require.NoError(t, err)
		a, err := graph.Assign(g, backends, nil)
		require.NoError(t, err)
		fused, _ := graph.Fuse(g, a, backends)
		want := 0
		if name == "none" {
			want = 1
		}
		assert.Equal(t, want, ops(fused)[graph.OpFusedFFN], name)
	}
}

func TestSplits(t *testing.T) {
	g, err := small.build(params(2))
	require.NoError(t, err)
	backends := []graph.Backend{reference(graphtest.ReferenceOptions{Ops: only(graph.OpMatMul, graph.OpSwiGLU)}), reference(graphtest.ReferenceOptions{})}
	a, err := graph.Assign(g, backends, []int{1, 1})
	require.NoError(t, err)
	splits := graph.Splits(g, a, false)
	next := 0
	type arrival struct{ node, backend int }
	arrived := map[arrival]int{}
	for i, s := range splits {
		if i > 0 {
			assert.NotEqual(t, splits[i-1].Backend, s.Backend, "ranges are maximal")
		}
		for _, c := range s.Copies {
			assert.Equal(t, c.From, a[c.Node.ID])
			assert.NotEqual(t, graph.OpInput, c.Node.Op)
			arrived[arrival{c.Node.ID, s.Backend}]++
		}
		for _, n := range s.Nodes {
			for g.Nodes[next].Op.Places() {
				next++
			}
			assert.Same(t, g.Nodes[next], n, "order is kept")
			next++
			assert.Equal(t, s.Backend, a[n.ID])
			for _, in := range n.In {
				root, _, _ := in.Layout()
				if root.Op != graph.OpInput && a[root.ID] != s.Backend {
					assert.Contains(t, arrived, arrival{root.ID, s.Backend}, "%q has %q", n.Name, root.Name)
				}
			}
		}
	}
	for at, n := range arrived {
		assert.Equal(t, 1, n, "%v is copied once", at)
	}
	for _, s := range graph.Splits(g, a, true) {
		assert.Len(t, s.Nodes, 1)
	}
}

// Random graphs of elementwise ops and views on two backends: no node writes a buffer that holds a value which is
// still to be read, in-place included; inputs, outputs and staged values have buffers of their own.
func TestAllocNeverSharesLiveBuffers(t *testing.T) {
	embd := weight("embd.weight", quant.F32, 10, 24)
	rapid.Check(t, func(t *rapid.T) {
		b := graph.NewBuilder(params(2))
		nodes := []*graph.Node{b.GetRows(embd, b.Input(graph.InTokens))}
		pick := func() *graph.Node { return nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "operand")] }
		for range rapid.IntRange(1, 30).Draw(t, "nodes") {
			x := pick()
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				x = b.Silu(x)
			case 1:
				y := pick()
				if !slices.Equal(x.Shape, y.Shape) {
					y = x
				}
				x = b.Add(x, y)
			case 2:
				x = b.View(x, 0, 2, rapid.IntRange(1, x.Shape[1:].Elems()).Draw(t, "width"))
			case 3:
				x = b.Reshape(x, append(graph.Shape{2, 1}, x.Shape[1:]...)...)
				x = b.Reshape(x, 2, x.Shape[1:].Elems())
			case 4:
				x = b.SelectRows(x, b.Input(graph.InPositions))
			}
			nodes = append(nodes, x)
		}
		for range rapid.IntRange(1, 3).Draw(t, "outputs") {
			b.Output(b.Silu(pick()))
		}
		g, err := b.Graph()
		require.NoError(t, err)
		a := make(graph.Assignment, len(g.Nodes))
		for i, n := range g.Nodes {
			if n.Op == graph.OpView || n.Op == graph.OpReshape {
				a[i] = a[n.In[0].ID]
			} else {
				a[i] = rapid.IntRange(0, 1).Draw(t, "backend")
			}
		}
		single := rapid.Bool().Draw(t, "single")
		splits := graph.Splits(g, a, single)
		checkPlan(t, g, splits, graph.Alloc(g, splits, 2))
	})
}

// checkPlan plays the plan: slots hold the ID of the node whose value is in them.
func checkPlan(t require.TestingT, g *graph.Graph, splits []graph.Split, p *graph.Plan) {
	holds := make([]int, len(p.Slots))
	for i := range holds {
		holds[i] = -1
	}
	kinds := map[int]int{} // node of an input, output or staging slot
	put := func(slot, backend int, n *graph.Node) {
		require.Equal(t, backend, p.Slots[slot].Backend)
		require.Equal(t, n.Bytes(), p.Slots[slot].Bytes, "lengths are exact")
		if p.Slots[slot].Kind != graph.SlotScratch {
			old, taken := kinds[slot]
			require.True(t, !taken || old == n.ID, "slot %d is the own one of node %d", slot, old)
			kinds[slot] = n.ID
		}
		holds[slot] = n.ID
	}
	for b := range p.At {
		for id, slot := range p.At[b] {
			if slot >= 0 && g.Nodes[id].Op == graph.OpInput {
				put(slot, b, g.Nodes[id])
			}
		}
	}
	for _, s := range splits {
		for _, c := range s.Copies {
			require.Equal(t, c.Node.ID, holds[p.At[c.From][c.Node.ID]], "%q is still there to be copied", c.Node.Name)
			put(p.At[s.Backend][c.Node.ID], s.Backend, c.Node)
		}
		for _, n := range s.Nodes {
			out := p.At[s.Backend][n.ID]
			for _, in := range n.In {
				root, _, _ := in.Layout()
				if root.Op.InRegion() {
					continue
				}
				slot := p.At[s.Backend][root.ID]
				require.GreaterOrEqual(t, slot, 0, "%q has %q on its backend", n.Name, root.Name)
				require.Equal(t, root.ID, holds[slot], "%q reads %q", n.Name, root.Name)
				require.NotEqual(t, slot, out, "%q does not write what it reads", n.Name)
			}
			if n.Op.InRegion() {
				require.Equal(t, -1, out, "KV regions are outside the plan")
				continue
			}
			put(out, s.Backend, n)
		}
	}
	for _, n := range g.Outputs {
		root, _, _ := n.Layout()
		found := false
		for b := range p.At {
			if slot := p.At[b][root.ID]; slot >= 0 && p.Slots[slot].Kind == graph.SlotOutput {
				require.Equal(t, root.ID, holds[slot], "output %q is there at the end", n.Name)
				found = true
			}
		}
		require.True(t, found, "output %q has a slot of its own", n.Name)
	}
}

func TestAllocReusesByExactLength(t *testing.T) {
	g, err := small.build(params(3))
	require.NoError(t, err)
	splits := graph.Splits(g, make(graph.Assignment, len(g.Nodes)), false)
	p := graph.Alloc(g, splits, 1)
	checkPlan(t, g, splits, p)
	results, scratch := 0, 0
	for _, n := range g.Nodes {
		if !n.Op.Places() && !n.Op.InRegion() {
			results++
		}
	}
	for _, s := range p.Slots {
		if s.Kind == graph.SlotScratch {
			scratch++
		}
	}
	assert.Equal(t, 34, results)
	assert.Less(t, scratch, 12, "a second layer takes no buffers of its own")

	deep := small
	deep.layers = 8
	g, err = deep.build(params(3))
	require.NoError(t, err)
	more := graph.Alloc(g, graph.Splits(g, make(graph.Assignment, len(g.Nodes)), false), 1)
	assert.Len(t, more.Slots, len(p.Slots), "memory does not grow with the number of layers")
}

func TestWriteDOT(t *testing.T) {
	m := small
	b := reference(graphtest.ReferenceOptions{Name: "ref", Fused: func(*graph.Node) bool { return true }})
	backends := []graph.Backend{b}
	g, err := m.build(params(2))
	require.NoError(t, err)
	a, err := graph.Assign(g, backends, []int{0, 0})
	require.NoError(t, err)
	g, a = graph.Fuse(g, a, backends)
	var out bytes.Buffer
	require.NoError(t, graph.WriteDOT(&out, g, a, backends))
	dot := out.String()
	for _, want := range []string{"digraph minfer {", `blk.0.ffn_swiglu\nFusedFFN F32 [2 96]\nblk.0.ffn_gate.weight Q8_0 [96 128]\nblk.0.ffn_up.weight Q8_0 [96 128]\non ref`,
		`label="block 1"`, "peripheries=2", `label="output 0"`} {
		assert.Contains(t, dot, want)
	}
	assert.Equal(t, strings.Count(dot, "{"), strings.Count(dot, "}"))
	assert.True(t, strings.HasSuffix(dot, "}\n"))

	evil := graph.NewBuilder(params(1))
	evil.Output(evil.GetRows(weight("a\"]; x [label=\"\\\n", quant.F32, 4, 4), evil.Input(graph.InTokens)))
	g, err = evil.Graph()
	require.NoError(t, err)
	out.Reset()
	require.NoError(t, graph.WriteDOT(&out, g, nil, nil))
	assert.Contains(t, out.String(), `a\"]; x [label=\"\\ `)

	require.ErrorContains(t, graph.WriteDOT(failing{}, g, nil, nil), "disk full")
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

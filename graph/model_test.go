package graph_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/graph/graphtest"
	"github.com/minfer-go/minfer/quant"
)

// tiny is a small model in the shape of Qwen2 (biases) or Qwen3 (q and k norm), for tests of the whole pipeline.
type tiny struct {
	layers, heads, kvHeads, dim, ff, vocab int
	qwen3                                  bool
}

var small = tiny{layers: 2, heads: 4, kvHeads: 2, dim: 32, ff: 96, vocab: 50}

func (m tiny) embd() int { return m.heads * m.dim }

func (m tiny) spec(cells int) graph.KVSpec {
	return graph.KVSpec{Layers: m.layers, Cells: cells, KVHeads: m.kvHeads, HeadDim: m.dim, KeyType: quant.F16, ValueType: quant.F16}
}

func params(rows int) graph.Params {
	return graph.Params{Rows: rows, Outputs: 1, Seqs: 1, Runs: 1, Cells: 32, KeyType: quant.F16, ValueType: quant.F16}
}

func weight(name string, t quant.Type, shape ...int) *graph.Weight {
	return &graph.Weight{Model: "tiny", Name: name, Type: t, Shape: shape}
}

// weights by name; bias and norm vectors are F32, matrices Q8_0.
func (m tiny) weights() map[string]*graph.Weight {
	all := map[string]*graph.Weight{}
	add := func(name string, shape ...int) {
		t := quant.F32
		if len(shape) == 2 {
			t = quant.Q8_0
		}
		all[name] = weight(name, t, shape...)
	}
	add("token_embd.weight", m.vocab, m.embd())
	add("output_norm.weight", m.embd())
	add("output.weight", m.vocab, m.embd())
	for i := range m.layers {
		blk := func(name string, shape ...int) { add(fmt.Sprintf("blk.%d.%s", i, name), shape...) }
		blk("attn_norm.weight", m.embd())
		for _, p := range []string{"attn_q", "attn_k", "attn_v"} {
			n := m.kvHeads * m.dim
			if p == "attn_q" {
				n = m.embd()
			}
			blk(p+".weight", n, m.embd())
			blk(p+".bias", n)
		}
		blk("attn_q_norm.weight", m.dim)
		blk("attn_k_norm.weight", m.dim)
		blk("attn_output.weight", m.embd(), m.embd())
		blk("ffn_norm.weight", m.embd())
		blk("ffn_gate.weight", m.ff, m.embd())
		blk("ffn_up.weight", m.ff, m.embd())
		blk("ffn_down.weight", m.embd(), m.ff)
	}
	return all
}

// build makes the model's graph.
func (m tiny) build(p graph.Params) (*graph.Graph, error) {
	w := m.weights()
	b := graph.NewBuilder(p)
	x := b.As("embed").GetRows(w["token_embd.weight"], b.Input(graph.InTokens))
	rope := graph.RopeAttr{Dims: m.dim, Base: 1e4, FreqScale: 1, AttnFactor: 1}
	for i := range m.layers {
		b.SetLayer(i)
		get := func(name string) *graph.Weight { return w[fmt.Sprintf("blk.%d.%s", i, name)] }
		h := b.RmsNorm(x, get("attn_norm.weight"), 1e-6)
		project := func(name string, heads int) *graph.Node {
			bias := get(name + ".bias")
			if m.qwen3 {
				bias = nil
			}
			y := b.Reshape(b.MatMul(h, get(name+".weight"), bias), p.Rows, heads, m.dim)
			if norm := get(name + "_norm.weight"); m.qwen3 && norm != nil {
				y = b.QkNorm(y, norm, 1e-6)
			}
			if name != "attn_v" {
				y = b.As(name+"_rope").RoPE(y, b.Input(graph.InPositions), rope)
			}
			return y
		}
		q, k, v := project("attn_q", m.heads), project("attn_k", m.kvHeads), project("attn_v", m.kvHeads)
		key := b.KvcacheLoad(b.As("k_store").KvcacheStore(k, b.Input(graph.InCells), graph.KVAttr{Layer: i}))
		value := b.KvcacheLoad(b.As("v_store").KvcacheStore(v, b.Input(graph.InCells), graph.KVAttr{Layer: i, Value: true}))
		a := b.As("attn").Attn(q, key, value, b.Input(graph.InLengths), b.Input(graph.InSeqs), b.Input(graph.InSeqRuns), b.Input(graph.InRuns),
			graph.AttnAttr{Layer: i, Heads: m.heads, KVHeads: m.kvHeads, HeadDim: m.dim, Scale: float32(1 / math.Sqrt(float64(m.dim)))})
		x = b.As("attn_residual").Add(x, b.MatMul(a, get("attn_output.weight"), nil))
		h = b.RmsNorm(x, get("ffn_norm.weight"), 1e-6)
		h = b.As("ffn_swiglu").SwiGLU(b.MatMul(h, get("ffn_gate.weight"), nil), b.MatMul(h, get("ffn_up.weight"), nil))
		x = b.As("out").Add(x, b.MatMul(h, get("ffn_down.weight"), nil))
	}
	b.SetLayer(-1)
	if p.Outputs > 0 {
		x = b.SelectRows(x, b.Input(graph.InOutputs))
		b.Output(b.As("logits").MatMul(b.RmsNorm(x, w["output_norm.weight"], 1e-6), w["output.weight"], nil))
	}
	return b.Graph()
}

func (m tiny) register(t *testing.T, backends ...graph.Backend) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	w := m.weights()
	names := make([]string, 0, len(w))
	for name := range w {
		names = append(names, name)
	}
	// In a fixed order, so that every executor of a test has the same model.
	slices.Sort(names)
	for _, name := range names {
		vals := make([]float32, w[name].Shape.Elems())
		for i := range vals {
			vals[i] = float32(rng.NormFloat64()) * 0.2
		}
		data := make([]byte, w[name].Bytes())
		require.NoError(t, quant.Quantize(w[name].Type, data, vals))
		for _, b := range backends {
			require.NoError(t, b.RegisterWeight(w[name], data))
		}
	}
}

// step sets the inputs for tokens at positions from pos on, in one sequence, and wants the last row's logits.
func step(t *testing.T, c *graph.Compiled, p graph.Params, pos int, tokens ...int32) {
	t.Helper()
	rows := func(f func(i int) int32) []int32 {
		v := make([]int32, p.Rows)
		for i := range v {
			v[i] = f(i)
		}
		return v
	}
	n := len(tokens)
	pad := func(i int, v, padding int32) int32 {
		if i < n {
			return v
		}
		return padding
	}
	set := func(in graph.Input, v []int32) { require.NoError(t, c.SetInput(in, v)) }
	set(graph.InTokens, rows(func(i int) int32 {
		if i < n {
			return tokens[i]
		}
		return 0
	}))
	set(graph.InPositions, rows(func(i int) int32 { return pad(i, int32(pos+i), 0) }))
	set(graph.InSeqs, make([]int32, p.Rows))
	set(graph.InLengths, rows(func(i int) int32 { return pad(i, int32(pos+i+1), 0) }))
	set(graph.InCells, rows(func(i int) int32 { return pad(i, int32(pos+i), -1) }))
	if p.Outputs > 0 {
		set(graph.InOutputs, []int32{int32(n - 1)})
	}
	set(graph.InSeqRuns, []int32{0, 1})
	set(graph.InRuns, []int32{0, int32(pos + n)})
}

// decode runs tokens one by one and gives all logits.
func decode(t *testing.T, e *graph.Executor, m tiny, from int, tokens ...int32) (all [][]float32) {
	t.Helper()
	for i, token := range tokens {
		c, err := e.Compile(params(1), m.build)
		require.NoError(t, err)
		step(t, c, params(1), from+i, token)
		require.NoError(t, c.Run())
		logits := make([]float32, m.vocab)
		require.NoError(t, c.ReadOutput(0, 0, logits))
		all = append(all, logits)
	}
	return all
}

func reference(o graphtest.ReferenceOptions) *graphtest.Reference { return graphtest.NewReference(o) }

func executor(t *testing.T, m tiny, o graph.Options, backends ...graph.Backend) *graph.Executor {
	t.Helper()
	m.register(t, backends...)
	e, err := graph.NewExecutor(backends, m.spec(32), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

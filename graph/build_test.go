package graph_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

func TestShapesAndNames(t *testing.T) {
	g, err := small.build(params(3))
	require.NoError(t, err)
	byName := map[string]*graph.Node{}
	for i, n := range g.Nodes {
		assert.Equal(t, i, n.ID)
		for _, in := range n.In {
			assert.Less(t, in.ID, i, "operands of %q stand before it", n.Name)
		}
		byName[n.Name] = n
	}
	assert.Len(t, byName, len(g.Nodes), "names are unique")
	for name, shape := range map[string]graph.Shape{"embed": {3, 128}, "blk.0.attn_q": {3, 128}, "blk.1.attn_k": {3, 64}, "blk.0.attn_q_rope": {3, 4, 32},
		"blk.1.k_store": {32, 2, 32}, "blk.1.attn": {3, 4, 32}, "blk.0.ffn_swiglu": {3, 96}, "logits": {1, 50}, "tokens": {3}, "seq_runs": {1, 2}} {
		require.Contains(t, byName, name)
		assert.Equal(t, shape, byName[name].Shape, name)
	}
	assert.Equal(t, 1, byName["blk.1.attn_q"].Layer)
	assert.Equal(t, -1, byName["logits"].Layer)
	assert.Equal(t, -1, byName["positions"].Layer, "inputs belong to no block")
	assert.Equal(t, quant.F16, byName["blk.1.v_store"].Type)
	assert.Same(t, byName["blk.1.k_store"], byName["blk.1.attn"].In[1].In[0], "attention depends on the store by data flow")
}

func TestUnreachableNodesAreDropped(t *testing.T) {
	p := params(3)
	p.Outputs = 0
	g, err := small.build(p)
	require.NoError(t, err)
	ops := map[graph.Op]int{}
	for _, n := range g.Nodes {
		ops[n.Op]++
	}
	assert.Equal(t, 4, ops[graph.OpKvcacheStore])
	assert.Equal(t, 1, ops[graph.OpAttn], "the last block's attention feeds nothing but logits")
	assert.Empty(t, g.Outputs)
}

func TestFaultsNameTheNode(t *testing.T) {
	rope := graph.RopeAttr{Dims: 32, Base: 1e4, FreqScale: 1, AttnFactor: 1}
	f := func(shape ...int) *graph.Weight { return weight("some.weight", quant.F32, shape...) }
	x := func(b *graph.Builder, width int) *graph.Node {
		return b.As("x").GetRows(weight("embd.weight", quant.F32, 10, width), b.Input(graph.InTokens))
	}
	heads := func(b *graph.Builder) *graph.Node { return b.Reshape(x(b, 64), 2, 2, 32) }
	for name, c := range map[string]struct {
		build func(b *graph.Builder)
		want  []string
	}{
		"matmul features":  {func(b *graph.Builder) { b.MatMul(x(b, 64), f(8, 32), nil) }, []string{`MatMul "some"`, "[2 64]", "32"}},
		"matmul vector":    {func(b *graph.Builder) { b.MatMul(x(b, 64), f(64), nil) }, []string{`"some"`, "[64]"}},
		"matmul blocks":    {func(b *graph.Builder) { b.MatMul(x(b, 80), weight("w.weight", quant.Q4_K, 8, 80), nil) }, []string{`"w.weight"`, "Q4_K"}},
		"matmul type":      {func(b *graph.Builder) { b.MatMul(x(b, 64), weight("w.weight", 77, 8, 64), nil) }, []string{`"w.weight"`, "type(77)"}},
		"matmul nil":       {func(b *graph.Builder) { b.MatMul(x(b, 64), nil, nil) }, []string{"MatMul", "nil"}},
		"matmul bias":      {func(b *graph.Builder) { b.MatMul(x(b, 64), f(8, 64), weight("b.bias", quant.F16, 8)) }, []string{`"b.bias"`, "F32 [8]"}},
		"huge weight":      {func(b *graph.Builder) { b.MatMul(x(b, 64), f(math.MaxInt/2, 64), nil) }, []string{"2^40"}},
		"norm size":        {func(b *graph.Builder) { b.SetLayer(3); b.As("n").RmsNorm(x(b, 64), f(65), 1e-6) }, []string{`RmsNorm "blk.3.n"`, "F32 [64]"}},
		"norm eps":         {func(b *graph.Builder) { b.RmsNorm(x(b, 64), f(64), float32(math.NaN())) }, []string{"eps NaN"}},
		"qk norm shape":    {func(b *graph.Builder) { b.QkNorm(x(b, 64), f(64), 1e-6) }, []string{"[rows heads head_dim]"}},
		"view bounds":      {func(b *graph.Builder) { b.View(x(b, 64), 60, 2, 5) }, []string{"View", "[60, 65)"}},
		"view overflow":    {func(b *graph.Builder) { b.View(x(b, 64), math.MaxInt, 2, 5) }, []string{"View"}},
		"view dims":        {func(b *graph.Builder) { b.View(x(b, 64), 0) }, []string{"at least one dimension"}},
		"reshape count":    {func(b *graph.Builder) { b.Reshape(x(b, 64), 2, 63) }, []string{"Reshape", "128 elements"}},
		"reshape negative": {func(b *graph.Builder) { b.Reshape(x(b, 64), -2, -64) }, []string{"below 1"}},
		"reshape strided":  {func(b *graph.Builder) { b.Reshape(b.View(x(b, 64), 0, 2, 32), 4, 16) }, []string{"row stride"}},
		"permute":          {func(b *graph.Builder) { b.Permute(x(b, 64), 0, 0) }, []string{"Permute", "[0 0]"}},
		"add":              {func(b *graph.Builder) { b.Add(x(b, 64), x(b, 32)) }, []string{"Add", "[2 64]", "[2 32]"}},
		"add ids":          {func(b *graph.Builder) { b.Add(b.Input(graph.InTokens), b.Input(graph.InTokens)) }, []string{`"tokens"`, "F32"}},
		"rope dims":        {func(b *graph.Builder) { r := rope; r.Dims = 33; b.RoPE(heads(b), b.Input(graph.InPositions), r) }, []string{"RoPE", "33"}},
		"rope scale":       {func(b *graph.Builder) { r := rope; r.FreqScale = 0; b.RoPE(heads(b), b.Input(graph.InPositions), r) }, []string{"FreqScale"}},
		"rope yarn":        {func(b *graph.Builder) { r := rope; r.ExtFactor = 1; b.RoPE(heads(b), b.Input(graph.InPositions), r) }, []string{"BetaFast"}},
		"rope positions":   {func(b *graph.Builder) { b.RoPE(heads(b), b.Input(graph.InTokens), rope) }, []string{`"tokens"`, "positions"}},
		"rows by value":    {func(b *graph.Builder) { b.SelectRows(x(b, 64), x(b, 64)) }, []string{"step input"}},
		"store twice": {func(b *graph.Builder) {
			b.As("first").KvcacheStore(heads(b), b.Input(graph.InCells), graph.KVAttr{})
			b.As("second").KvcacheStore(heads(b), b.Input(graph.InCells), graph.KVAttr{})
		}, []string{`"second"`, "twice"}},
		"load": {func(b *graph.Builder) { b.KvcacheLoad(x(b, 64)) }, []string{"KvcacheStore"}},
		"attn crossed": {func(b *graph.Builder) {
			k := b.KvcacheLoad(b.KvcacheStore(heads(b), b.Input(graph.InCells), graph.KVAttr{}))
			b.Attn(heads(b), k, k, b.Input(graph.InLengths), b.Input(graph.InSeqs), b.Input(graph.InSeqRuns), b.Input(graph.InRuns),
				graph.AttnAttr{Heads: 2, KVHeads: 2, HeadDim: 32, Scale: 1})
		}, []string{"Attn", "value true"}},
		"attn heads": {func(b *graph.Builder) {
			k := b.KvcacheLoad(b.KvcacheStore(heads(b), b.Input(graph.InCells), graph.KVAttr{}))
			b.Attn(heads(b), k, k, b.Input(graph.InLengths), b.Input(graph.InSeqs), b.Input(graph.InSeqRuns), b.Input(graph.InRuns),
				graph.AttnAttr{Heads: 3, KVHeads: 2, HeadDim: 32, Scale: 1})
		}, []string{"3 heads"}},
		"nil operand":    {func(b *graph.Builder) { b.Silu(nil) }, []string{"Silu", "operand 0", "nil"}},
		"foreign node":   {func(b *graph.Builder) { b.Add(x(b, 64), x(graph.NewBuilder(params(2)), 64)) }, []string{"another graph"}},
		"strided output": {func(b *graph.Builder) { b.Output(b.As("v").View(x(b, 64), 0, 2, 32)) }, []string{`"v"`, "contiguous"}},
		"input":          {func(b *graph.Builder) { b.Input(99) }, []string{"99"}},
		"region as data": {func(b *graph.Builder) {
			b.Silu(b.KvcacheStore(heads(b), b.Input(graph.InCells), graph.KVAttr{}))
		}, []string{"activation"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := params(2)
			p.KeyType = quant.F32
			b := graph.NewBuilder(p)
			c.build(b)
			err := b.Err()
			require.Error(t, err)
			assert.ErrorContains(t, err, "graph: ")
			for _, want := range c.want {
				assert.ErrorContains(t, err, want)
			}
			// The first fault sticks, and nothing after it panics.
			n := b.Softmax(b.Silu(b.Input(graph.InTokens)))
			_ = n.Shape[2]
			b.Output(n)
			_, again := b.Graph()
			assert.Equal(t, err, again)
		})
	}
}

func TestKVFormatRefusesHeadDim(t *testing.T) {
	p := params(2)
	p.ValueType = quant.Q8_0
	b := graph.NewBuilder(p)
	x := b.GetRows(weight("embd.weight", quant.F32, 10, 160), b.Input(graph.InTokens))
	b.SetLayer(4)
	b.As("v_store").KvcacheStore(b.Reshape(x, 2, 2, 80), b.Input(graph.InCells), graph.KVAttr{Layer: 4, Value: true})
	_, err := b.Graph()
	require.ErrorIs(t, err, graph.ErrUnsupported)
	assert.ErrorContains(t, err, `"blk.4.v_store"`)
	assert.ErrorContains(t, err, "head_dim 80")
}

func TestParams(t *testing.T) {
	for _, change := range []func(p *graph.Params){
		func(p *graph.Params) { p.Rows = 0 }, func(p *graph.Params) { p.Outputs = -1 }, func(p *graph.Params) { p.Seqs = 0 },
		func(p *graph.Params) { p.Runs = 0 }, func(p *graph.Params) { p.Cells = 1 << 31 }, func(p *graph.Params) { p.KeyType = quant.Q4_0 },
	} {
		p := params(1)
		change(&p)
		require.Error(t, p.Validate())
		_, err := graph.NewBuilder(p).Graph()
		require.Error(t, err)
	}
	_, err := graph.NewBuilder(params(1)).Graph()
	require.ErrorContains(t, err, "nothing to compute")
}

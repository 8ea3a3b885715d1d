package graphtest

import (
	"fmt"
	"math"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// WeightTypes are those that every backend has to multiply by and to look rows up in.
var WeightTypes = []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.Q8_0,
	quant.Q4_K, quant.Q5_K, quant.Q6_K}

// KVTypes are the formats of a cache.
var KVTypes = []quant.Type{quant.F32, quant.F16, quant.Q8_0}

var rowCounts = []int{1, 2, 7, 33}

// Cases is the op table.
func Cases() []Case {
	var all []Case
	for _, group := range []func() []Case{lookups, products, norms, elementwise, layouts, ropes, stores, attentions, blocks, sampling} {
		all = append(all, group()...)
	}
	return all
}

func params(rows int) graph.Params {
	return graph.Params{Rows: rows, Outputs: 3, Seqs: 1, Runs: 1, Cells: 64, KeyType: quant.F16, ValueType: quant.F16}
}

// widths are odd where the type's blocks allow it.
func widths(t quant.Type) []int {
	switch t.BlockElems() {
	case 1:
		return []int{5, 80, 257}
	case 32:
		return []int{32, 96, 544}
	}
	return []int{256, 768}
}

func lookups() (all []Case) {
	for _, t := range WeightTypes {
		for _, w := range widths(t) {
			for _, rows := range []int{1, 7} {
				all = append(all, Case{Name: fmt.Sprintf("GetRows/%s/%dx%d", t, rows, w), Op: graph.OpGetRows, Type: t, Params: params(rows),
					Build:  func(c *Context) { c.Output(c.GetRows(c.Weight("table", t, 1, 50, w), c.Input(graph.InTokens))) },
					Inputs: map[graph.Input][]int32{graph.InTokens: []int32{49, 0, 7, 7, 31, 48, 1}[:rows]}})
			}
		}
	}
	all = append(all, Case{Name: "GetRows/activation", Op: graph.OpGetRows, Params: params(7),
		Build: func(c *Context) {
			c.Output(c.SelectRows(c.X("x", 3, 5), c.Input(graph.InOutputs)))
			c.Output(c.SelectRows(c.View(c.X("y", 20), 3, 7, 11), c.Input(graph.InOutputs)))
		},
		Inputs: map[graph.Input][]int32{graph.InOutputs: {6, 0, 6}}})
	return all
}

func products() (all []Case) {
	for _, t := range WeightTypes {
		for _, in := range widths(t) {
			for _, rows := range rowCounts {
				for _, out := range []int{1, 7, 66} {
					all = append(all, Case{Name: fmt.Sprintf("MatMul/%s/%dx%dx%d", t, rows, in, out), Op: graph.OpMatMul, Type: t, Params: params(rows),
						Rowwise: rows == 7,
						Build: func(c *Context) {
							var bias *graph.Weight
							if out == 7 {
								bias = c.Weight("bias", quant.F32, 1, out)
							}
							c.Output(c.MatMul(c.X("x", in), c.Weight("w", t, 0.1, out, in), bias))
						}})
				}
			}
		}
		in := widths(t)[0]
		all = append(all, Case{Name: fmt.Sprintf("MatMul/%s/view", t), Op: graph.OpMatMul, Type: t, Params: params(7),
			Build: func(c *Context) { // rows with a stride, of three dimensions
				x := c.View(c.X("x", 3*in+8), 8, 7, 1, in)
				c.Output(c.MatMul(x, c.Weight("w", t, 0.1, 9, in), nil))
			}})
	}
	for _, s := range [][4]int{{1, 1, 1, 1}, {3, 2, 5, 7}, {2, 33, 4, 64}} {
		all = append(all, Case{Name: fmt.Sprintf("BatchMatMul/%v", s), Op: graph.OpBatchMatMul, Params: params(s[0]),
			Build: func(c *Context) { c.Output(c.BatchMatMul(c.X("a", s[1], s[3]), c.X("b", s[2], s[3]))) }})
	}
	return all
}

func norms() (all []Case) {
	for _, rows := range rowCounts {
		for _, n := range []int{1, 63, 64, 896} {
			all = append(all, Case{Name: fmt.Sprintf("RmsNorm/%dx%d", rows, n), Op: graph.OpRmsNorm, Params: params(rows), Rowwise: rows == 7,
				Build: func(c *Context) { c.Output(c.RmsNorm(c.X("x", n), c.Weight("w", quant.F32, 1, n), 1e-6)) }})
		}
	}
	for _, d := range []int{64, 80, 128} {
		all = append(all, Case{Name: fmt.Sprintf("QkNorm/%d", d), Op: graph.OpQkNorm, Params: params(7), Rowwise: true,
			Build: func(c *Context) {
				c.Output(c.QkNorm(c.X("x", 3, d), c.Weight("w", quant.F32, 1, d), 1e-5))
				c.Output(c.QkNorm(c.View(c.X("y", 7*d), 2*d, c.Params().Rows, 2, d), c.Weight("w", quant.F32, 1, d), 1e-5))
			}})
	}
	return all
}

func elementwise() (all []Case) {
	for _, rows := range rowCounts {
		for _, n := range []int{1, 37, 256} {
			add := func(op graph.Op, f func(c *Context, x, y *graph.Node) *graph.Node) {
				all = append(all, Case{Name: fmt.Sprintf("%s/%dx%d", op, rows, n), Op: op, Params: params(rows), Rowwise: rows == 7,
					Build: func(c *Context) { c.Output(f(c, c.X("x", n), c.X("y", n))) }})
			}
			add(graph.OpAdd, func(c *Context, x, y *graph.Node) *graph.Node { return c.Add(x, y) })
			add(graph.OpMul, func(c *Context, x, y *graph.Node) *graph.Node { return c.Mul(x, y) })
			add(graph.OpSilu, func(c *Context, x, _ *graph.Node) *graph.Node { return c.Silu(c.Scale(x, 20)) })
			add(graph.OpSwiGLU, func(c *Context, x, y *graph.Node) *graph.Node { return c.SwiGLU(x, y) })
			add(graph.OpScale, func(c *Context, x, _ *graph.Node) *graph.Node { return c.Scale(x, 0.3) })
			add(graph.OpSoftmax, func(c *Context, x, _ *graph.Node) *graph.Node { return c.Softmax(c.Scale(x, 5)) })
		}
	}
	all = append(all, Case{Name: "Add/views", Op: graph.OpAdd, Params: params(7), Build: func(c *Context) {
		x := c.X("x", 30)
		c.Output(c.Add(c.View(x, 1, 7, 9), c.View(x, 21, 7, 9)))
	}})
	return all
}

func layouts() []Case {
	return []Case{
		{Name: "View+Reshape", Op: graph.OpView, Params: params(7), Build: func(c *Context) {
			x := c.X("x", 36)
			c.Output(c.Scale(c.Reshape(x, 21, 12), 1))
			c.Output(c.Scale(c.Reshape(c.View(x, 4, 7, 24), 7, 2, 3, 4), 1))
			c.Output(c.Scale(c.View(c.View(x, 4, 7, 24), 5, 7, 2, 3), 1))
		}},
		{Name: "Permute", Op: graph.OpPermute, Params: params(7), Build: func(c *Context) {
			x := c.X("x", 2, 3, 5)
			c.Output(c.Permute(x, 2, 0, 3, 1))
			c.Output(c.Permute(x, 0, 1, 2, 3))
			c.Output(c.Permute(c.Reshape(x, 7, 30), 1, 0))
			c.Output(c.Permute(c.View(c.X("y", 40), 3, 7, 5, 6), 1, 0, 2))
		}},
	}
}

// rope of Qwen2.5, of Qwen3, and ones with scaling.
var ropeAttrs = map[string]graph.RopeAttr{
	"neox":        {Base: 1e6, FreqScale: 1, AttnFactor: 1},
	"interleaved": {Style: graph.RopeInterleaved, Base: 1e4, FreqScale: 1, AttnFactor: 1},
	"linear":      {Base: 1e4, FreqScale: 0.25, AttnFactor: 1},
	"yarn":        {Base: 1e6, FreqScale: 0.25, ExtFactor: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1, OrigCtx: 32768},
}

func ropes() (all []Case) {
	for name, a := range ropeAttrs {
		for _, d := range []int{64, 80, 128} {
			a := a
			a.Dims = d
			if d == 80 {
				a.Dims = 48
			}
			all = append(all, Case{Name: fmt.Sprintf("RoPE/%s/%d", name, d), Op: graph.OpRoPE, Params: params(7), Rowwise: true,
				Build: func(c *Context) {
					c.Output(c.RoPE(c.X("x", 3, d), c.Input(graph.InPositions), a))
					c.Output(c.RoPE(c.View(c.X("y", 5*d), d, c.Params().Rows, 2, d), c.Input(graph.InPositions), a))
				},
				Inputs: map[graph.Input][]int32{graph.InPositions: {0, 1, 2, 127, 4095, 40000, 5}}})
		}
	}
	return all
}

func kvCase(op graph.Op, name string, t quant.Type, rows, heads, dim int) Case {
	p := params(rows)
	p.KeyType, p.ValueType = t, t
	return Case{Name: name, Op: op, Type: t, Params: p,
		KV: graph.KVSpec{Layers: 2, Cells: p.Cells, KVHeads: heads, HeadDim: dim, KeyType: t, ValueType: t}}
}

// headDims that a format can hold.
func headDims(t quant.Type) []int {
	if t == quant.Q8_0 {
		return []int{32, 64, 128}
	}
	return []int{64, 80, 128}
}

func stores() (all []Case) {
	for _, t := range KVTypes {
		for _, d := range headDims(t) {
			c := kvCase(graph.OpKvcacheStore, fmt.Sprintf("KvcacheStore/%s/%d", t, d), t, 7, 2, d)
			c.Inputs = map[graph.Input][]int32{graph.InCells: {5, -1, 0, 63, -1, 6, 1}}
			c.Build = func(c *Context) {
				cells := c.Input(graph.InCells)
				c.KvcacheStore(c.X("k", 2, d), cells, graph.KVAttr{Layer: 1})
				c.KvcacheStore(c.View(c.X("v", 5*d), 3*d, c.Params().Rows, 2, d), cells, graph.KVAttr{Layer: 1, Value: true})
			}
			all = append(all, c)
		}
	}
	return all
}

func attentions() (all []Case) {
	for _, t := range KVTypes {
		for _, d := range headDims(t) {
			for _, h := range [][2]int{{1, 1}, {4, 2}, {14, 2}, {3, 3}} {
				for _, layout := range []string{"one", "many", "long"} {
					if layout == "long" && h != [2]int{4, 2} {
						continue
					}
					all = append(all, attention(t, layout, h[0], h[1], d))
				}
			}
		}
	}
	return all
}

func attention(t quant.Type, layout string, heads, kvHeads, dim int) Case {
	c := kvCase(graph.OpAttn, fmt.Sprintf("Attn/%s/%s/%dx%d/%d", t, layout, heads, kvHeads, dim), t, 7, kvHeads, dim)
	c.Rowwise = true
	switch layout {
	case "one": // a prompt after 9 cells, with padding
		c.Inputs = map[graph.Input][]int32{graph.InLengths: {10, 11, 12, 13, 14, 0, 0}, graph.InCells: {9, 10, 11, 12, 13, -1, -1}}
	case "many": // four sequences in runs all over the cache, one empty, one of a single cell
		c.Params.Seqs, c.Params.Runs = 4, 8
		c.Inputs = map[graph.Input][]int32{
			graph.InSeqRuns: {3, 3, 0, 1, 6, 0, 1, 2},
			graph.InRuns:    {63, 1, 40, 7, 0, 3, 20, 4, 2, 9, 50, 1, 0, 0, 0, 0},
			graph.InSeqs:    {0, 1, 3, 0, 3, 2, 0}, graph.InLengths: {14, 1, 10, 4, 8, 0, 13}, graph.InCells: {50, 63, 2, 23, 0, -1, 10},
		}
	case "long": // several chunks of cells, and cells shared by two sequences
		c.Params.Cells, c.KV.Cells = 700, 700
		c.Params.Seqs, c.Params.Runs = 2, 6
		c.Inputs = map[graph.Input][]int32{
			graph.InSeqRuns: {0, 3, 3, 2}, graph.InRuns: {0, 200, 500, 150, 300, 50, 0, 130, 200, 10, 0, 0},
			graph.InSeqs: {0, 0, 1, 1, 0, 0, 1}, graph.InLengths: {400, 399, 140, 128, 129, 1, 0}, graph.InCells: {349, 348, 209, 127, 128, 0, -1},
		}
	}
	c.Build = func(c *Context) {
		rows := c.Params().Rows
		cells := c.Input(graph.InCells)
		a := graph.AttnAttr{Layer: 1, Heads: heads, KVHeads: kvHeads, HeadDim: dim, Scale: float32(1 / math.Sqrt(float64(dim)))}
		// Stored rows come from a view, q has a stride too, and scores are large enough to matter.
		k := c.KvcacheLoad(c.KvcacheStore(c.X("k", kvHeads, dim), cells, graph.KVAttr{Layer: 1}))
		v := c.KvcacheLoad(c.KvcacheStore(c.X("v", kvHeads, dim), cells, graph.KVAttr{Layer: 1, Value: true}))
		q := c.View(c.X("q", (heads+1)*dim), dim, rows, heads, dim)
		c.Output(c.Attn(q, k, v, c.Input(graph.InLengths), c.Input(graph.InSeqs), c.Input(graph.InSeqRuns), c.Input(graph.InRuns), a))
	}
	return c
}

// blocks are whole attention and feed-forward parts, as models have them: with the fusion pass on, backends run them fused.
func blocks() (all []Case) {
	for _, t := range KVTypes {
		for _, arch := range []graph.Op{graph.OpQkvBiasRopeStore, graph.OpFusedQkvNorm} {
			for _, d := range headDims(t) {
				all = append(all, block(arch, quant.Q8_0, quant.Q8_0, t, d))
			}
		}
	}
	for _, w := range WeightTypes {
		mixed := w
		if w == quant.Q4_K {
			mixed = quant.Q6_K // as Q4_K_M files have it for v
		}
		all = append(all, block(graph.OpQkvBiasRopeStore, w, mixed, quant.F16, 64), block(graph.OpFusedQkvNorm, w, mixed, quant.F16, 64))
		for _, rows := range []int{1, 7} {
			all = append(all, Case{Name: fmt.Sprintf("FusedFFN/%s/%d", w, rows), Op: graph.OpFusedFFN, Type: w, Params: params(rows), Rowwise: true,
				Build: func(c *Context) {
					x := c.X("x", 256)
					c.Output(c.SwiGLU(c.MatMul(x, c.Weight("gate", w, 0.1, 70, 256), nil), c.MatMul(x, c.Weight("up", w, 0.1, 70, 256), nil)))
				}})
		}
	}
	return all
}

func block(arch graph.Op, w, wv, t quant.Type, dim int) Case {
	const heads, kvHeads, in = 4, 2, 256
	c := kvCase(arch, fmt.Sprintf("%s/%s/%s/%d", arch, w, t, dim), t, 7, kvHeads, dim)
	c.Rowwise = true
	c.Inputs = map[graph.Input][]int32{graph.InLengths: {10, 11, 12, 13, 14, 0, 0}, graph.InCells: {9, 10, 11, 12, 13, -1, -1}}
	c.Build = func(c *Context) {
		c.SetLayer(1)
		rows, x, cells, pos := c.Params().Rows, c.X("x", in), c.Input(graph.InCells), c.Input(graph.InPositions)
		rope := ropeAttrs["neox"]
		rope.Dims = dim
		project := func(name string, t quant.Type, n int) *graph.Node {
			var bias *graph.Weight
			if arch == graph.OpQkvBiasRopeStore {
				bias = c.Weight(name+".bias", quant.F32, 0.5, n*dim)
			}
			return c.Reshape(c.MatMul(x, c.Weight(name+".weight", t, 0.1, n*dim, in), bias), rows, n, dim)
		}
		q, k, v := project("blk.1.attn_q", w, heads), project("blk.1.attn_k", w, kvHeads), project("blk.1.attn_v", wv, kvHeads)
		if arch == graph.OpFusedQkvNorm {
			q = c.QkNorm(q, c.Weight("blk.1.attn_q_norm.weight", quant.F32, 1, dim), 1e-6)
			k = c.QkNorm(k, c.Weight("blk.1.attn_k_norm.weight", quant.F32, 1, dim), 1e-6)
		}
		key := c.KvcacheStore(c.RoPE(k, pos, rope), cells, graph.KVAttr{Layer: 1})
		value := c.KvcacheStore(v, cells, graph.KVAttr{Layer: 1, Value: true})
		a := graph.AttnAttr{Layer: 1, Heads: heads, KVHeads: kvHeads, HeadDim: dim, Scale: float32(1 / math.Sqrt(float64(dim)))}
		c.Output(c.Attn(c.RoPE(q, pos, rope), c.KvcacheLoad(key), c.KvcacheLoad(value), c.Input(graph.InLengths), c.Input(graph.InSeqs),
			c.Input(graph.InSeqRuns), c.Input(graph.InRuns), a))
	}
	return c
}

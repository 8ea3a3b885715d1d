package modelsqwen

import (
	"fmt"

	"github.com/minfer-go/minfer/graph"
)

// Build makes the forward pass for the step shape p. It reads metadata only.
//
// Output 0 holds the logits, [Outputs, n_vocab], of the rows named by the input outputs (with graph.FeatureSample output 1, and output 0
// the tokens drawn from them); with Outputs 0 the graph only fills the KV cache. With graph.FeatureHidden the embedding, every sub-layer's result and every block's result follow as
// outputs named as in HiddenNames, for all rows.
func (m *Model) Build(p graph.Params) (*graph.Graph, error) {
	b := graph.NewBuilder(p)
	s := step{
		Builder: b, m: m, hidden: p.Features&graph.FeatureHidden != 0,
		positions: b.Input(graph.InPositions), cells: b.Input(graph.InCells),
	}
	tokens := b.Input(graph.InTokens)
	x := s.keep(b.As("embed").GetRows(m.TokenEmbd, tokens))
	for i := range m.Layers {
		b.SetLayer(i)
		if x = s.block(x, i); x == nil {
			return b.Graph() // nothing but the last layer's keys and values was wanted
		}
	}
	b.SetLayer(-1)
	x = b.As("output_norm").RmsNorm(x, m.OutputNorm, m.NormEps)
	logits := b.As("logits").MatMul(x, m.Output, nil)
	if p.Features&graph.FeatureSample != 0 {
		vocab := m.Drawable
		if vocab == 0 {
			vocab = m.NVocab
		}
		b.Output(b.As("sample").Sample(logits, b.Input(graph.InSampling), graph.SampleAttr{Vocab: vocab}))
	}
	b.Output(logits)
	for _, n := range s.kept {
		b.Output(n)
	}
	return b.Graph()
}

// step is the building of one forward pass.
type step struct {
	*graph.Builder
	m                *Model
	positions, cells *graph.Node
	hidden           bool
	kept             []*graph.Node // FeatureHidden: nodes to become outputs after the logits
}

func (s *step) keep(n *graph.Node) *graph.Node {
	if s.hidden {
		s.kept = append(s.kept, n)
	}
	return n
}

// block is one transformer block on the residual stream x. In the last block only the rows whose logits are wanted go past
// attention; it is nil when there are none.
func (s *step) block(x *graph.Node, i int) *graph.Node {
	m, l, p := s.m, &s.m.Layers[i], s.Params()
	last := i == m.NLayer-1
	h := s.keep(s.As("attn_norm").RmsNorm(x, l.AttnNorm, m.NormEps))
	q, k, v := s.qkv(h, l)

	key := s.As("k_store").KvcacheStore(k, s.cells, graph.KVAttr{Layer: i})
	value := s.As("v_store").KvcacheStore(v, s.cells, graph.KVAttr{Layer: i, Value: true})
	if last && p.Outputs == 0 {
		return nil
	}
	kCache, vCache := s.As("k_cache").KvcacheLoad(key), s.As("v_cache").KvcacheLoad(value)
	lengths, seqs, seqRuns, runs := s.Input(graph.InLengths), s.Input(graph.InSeqs), s.Input(graph.InSeqRuns), s.Input(graph.InRuns)
	a := s.As("attn").Attn(q, kCache, vCache, lengths, seqs, seqRuns, runs,
		graph.AttnAttr{Layer: i, Heads: m.NHead, KVHeads: m.NHeadKV, HeadDim: m.HeadDim, Scale: m.attnScale()})
	if last && !s.hidden {
		outputs := s.Input(graph.InOutputs)
		a = s.As("attn_rows").SelectRows(a, outputs)
		x = s.As("residual_rows").SelectRows(x, outputs)
	}
	a = s.Reshape(a, a.Shape[0], m.NHead*m.HeadDim)
	o := s.keep(s.As("attn_output").MatMul(a, l.AttnOutput, l.AttnOutputBias))
	x = s.As("attn_residual").Add(x, o)

	h = s.keep(s.As("ffn_norm").RmsNorm(x, l.FFNNorm, m.NormEps))
	gate, up := s.As("ffn_gate").MatMul(h, l.FFNGate, nil), s.As("ffn_up").MatMul(h, l.FFNUp, nil)
	h = s.As("ffn_swiglu").SwiGLU(gate, up)
	down := s.keep(s.As("ffn_down").MatMul(h, l.FFNDown, nil))
	x = s.keep(s.As("out").Add(x, down))
	if last && s.hidden {
		outputs := s.Input(graph.InOutputs)
		x = s.As("output_rows").SelectRows(x, outputs)
	}
	return x
}

// qkv projects the normed stream and rotates q and k, each [rows, heads, head_dim].
func (s *step) qkv(h *graph.Node, l *Layer) (q, k, v *graph.Node) {
	m := s.m
	heads := func(x *graph.Node, n int) *graph.Node { return s.Reshape(x, x.Shape[0], n, m.HeadDim) }
	q = heads(s.keep(s.MatMul(h, l.Q, l.QBias)), m.NHead)
	k = heads(s.keep(s.MatMul(h, l.K, l.KBias)), m.NHeadKV)
	v = heads(s.keep(s.MatMul(h, l.V, l.VBias)), m.NHeadKV)
	if m.Arch == Qwen3 {
		q = s.As("attn_q_norm").QkNorm(q, l.QNorm, m.NormEps)
		k = s.As("attn_k_norm").QkNorm(k, l.KNorm, m.NormEps)
	}
	q = s.As("q_rope").RoPE(q, s.positions, m.Rope)
	k = s.As("k_rope").RoPE(k, s.positions, m.Rope)
	return q, k, v
}

// HiddenNames names the outputs after the logits of a graph with FeatureHidden, in order.
func (m *Model) HiddenNames() []string {
	names := []string{"embed"}
	for i := range m.Layers {
		for _, n := range []string{"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_down", "out"} {
			names = append(names, layerName(i, n))
		}
	}
	return names
}

func layerName(i int, name string) string { return fmt.Sprintf("blk.%d.%s", i, name) }

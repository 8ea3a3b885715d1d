package modelsqwen

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// spec describes a small GGUF file: metadata in order, tensors with zero data.
type spec struct {
	kv      []gguf.KV
	tensors []tensor
}

type tensor struct {
	name  string
	typ   quant.Type
	shape []int
}

func (s *spec) set(key string, v any) {
	value, err := gguf.NewValue(v)
	if err != nil {
		panic(err)
	}
	for i := range s.kv {
		if s.kv[i].Key == key {
			s.kv[i].Value = value
			return
		}
	}
	s.kv = append(s.kv, gguf.KV{Key: key, Value: value})
}

func (s *spec) unset(key string) {
	s.kv = slices.DeleteFunc(s.kv, func(e gguf.KV) bool { return e.Key == key })
}

func (s *spec) tensor(name string) *tensor {
	for i := range s.tensors {
		if s.tensors[i].name == name {
			return &s.tensors[i]
		}
	}
	panic("no tensor " + name)
}

func (s *spec) drop(name string) {
	s.tensors = slices.DeleteFunc(s.tensors, func(t tensor) bool { return t.name == name })
}

func (s *spec) add(name string, typ quant.Type, shape ...int) {
	s.tensors = append(s.tensors, tensor{name, typ, shape})
}

func (s *spec) open(t *testing.T) *gguf.File {
	t.Helper()
	f, err := gguf.OpenBytes(s.bytes(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func (s *spec) bytes(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gguf.NewWriter(&out, gguf.WriterOptions{})
	require.NoError(t, err)
	for _, e := range s.kv {
		require.NoError(t, w.Set(e.Key, e.Value))
	}
	for _, x := range s.tensors {
		require.NoError(t, w.AddTensor(x.name, x.typ, x.shape...))
	}
	for _, x := range s.tensors {
		n := x.typ.RowBytes(x.shape[0])
		for _, d := range x.shape[1:] {
			n *= d
		}
		require.NoError(t, w.WriteTensor(x.name, make([]byte, n)))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// small is a valid file of two layers: width 64, 4 heads of 16 with 2 KV heads, feed-forward 96, 40 rows of vocabulary.
func small(arch Arch) *spec {
	s := &spec{}
	a := string(arch)
	s.set("general.architecture", a)
	for _, k := range []struct {
		key string
		v   uint32
	}{{"block_count", 2}, {"context_length", 512}, {"embedding_length", 64}, {"feed_forward_length", 96}, {"attention.head_count", 4}, {"attention.head_count_kv", 2}} {
		s.set(a+"."+k.key, k.v)
	}
	s.set(a+".attention.layer_norm_rms_epsilon", float32(1e-6))
	s.add("token_embd.weight", quant.Q8_0, 64, 40)
	s.add("output_norm.weight", quant.F32, 64)
	for _, p := range []string{"blk.0.", "blk.1."} {
		s.add(p+"attn_norm.weight", quant.F32, 64)
		s.add(p+"attn_q.weight", quant.Q4_0, 64, 64)
		s.add(p+"attn_k.weight", quant.F16, 64, 32)
		s.add(p+"attn_v.weight", quant.BF16, 64, 32)
		s.add(p+"attn_output.weight", quant.F32, 64, 64)
		s.add(p+"ffn_norm.weight", quant.F32, 64)
		s.add(p+"ffn_gate.weight", quant.Q5_1, 64, 96)
		s.add(p+"ffn_up.weight", quant.Q5_0, 64, 96)
		s.add(p+"ffn_down.weight", quant.Q4_1, 96, 64)
		switch arch {
		case Qwen3:
			s.add(p+"attn_q_norm.weight", quant.F32, 16)
			s.add(p+"attn_k_norm.weight", quant.F32, 16)
		case Qwen2:
			s.add(p+"attn_q.bias", quant.F32, 64)
			s.add(p+"attn_k.bias", quant.F32, 32)
			s.add(p+"attn_v.bias", quant.F32, 32)
		}
	}
	return s
}

var params = graph.Params{Rows: 3, Outputs: 2, Seqs: 2, Runs: 4, Cells: 64, KeyType: quant.F16, ValueType: quant.F32}

func TestNew(t *testing.T) {
	m, err := New(small(Qwen2).open(t))
	require.NoError(t, err)
	require.Equal(t, Config{Arch: Qwen2, NLayer: 2, NCtxTrain: 512, NEmbd: 64, NFF: 96, NHead: 4, NHeadKV: 2, HeadDim: 16, NVocab: 40, NormEps: 1e-6, Tied: true,
		Rope: graph.RopeAttr{Style: graph.RopeNeox, Dims: 16, Base: 10000, FreqScale: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1, OrigCtx: 512}}, m.Config)
	require.Same(t, m.TokenEmbd, m.Output)
	require.Len(t, m.Weights(), 2+2*12)
	require.Equal(t, graph.Shape{96, 64}, m.Layers[1].FFNUp.Shape)
	require.Equal(t, graph.KVSpec{Layers: 2, Cells: 7, KVHeads: 2, HeadDim: 16, KeyType: quant.F16, ValueType: quant.Q8_0}, m.KVSpec(7, quant.F16, quant.Q8_0))

	s := small(Qwen2)
	s.add("output.weight", quant.Q8_0, 64, 40)
	for _, b := range []string{"attn_q.bias", "attn_v.bias"} {
		s.drop("blk.1." + b)
	}
	m, err = New(s.open(t))
	require.NoError(t, err)
	require.NotSame(t, m.TokenEmbd, m.Output)
	require.False(t, m.Tied)
	require.Nil(t, m.Layers[1].QBias)
	require.NotNil(t, m.Layers[1].KBias)

	s = small(Qwen3)
	s.set("qwen3.attention.key_length", uint32(16))
	s.set("qwen3.rope.freq_base", float32(1e6))
	m, err = New(s.open(t))
	require.NoError(t, err)
	require.Equal(t, float32(1e6), m.Rope.Base)
	require.Equal(t, graph.Shape{16}, m.Layers[0].KNorm.Shape)
}

func TestRopeScaling(t *testing.T) {
	rope := func(change func(*spec)) graph.RopeAttr {
		s := small(Qwen2)
		change(s)
		m, err := New(s.open(t))
		require.NoError(t, err)
		return m.Rope
	}
	plain := rope(func(*spec) {})
	linear := plain
	linear.FreqScale = 0.25
	require.Equal(t, linear, rope(func(s *spec) {
		s.set("qwen2.rope.scaling.type", "linear")
		s.set("qwen2.rope.scaling.factor", float32(4))
	}))
	require.Equal(t, linear, rope(func(s *spec) { s.set("qwen2.rope.scale_linear", float32(4)) }))
	require.Equal(t, plain, rope(func(s *spec) {
		s.set("qwen2.rope.scaling.type", "none")
		s.set("qwen2.rope.scaling.factor", float32(4))
	}))
	yarn := linear
	yarn.ExtFactor, yarn.OrigCtx, yarn.BetaFast, yarn.AttnFactor = 1, 256, 16, 0.5
	require.Equal(t, yarn, rope(func(s *spec) {
		s.set("qwen2.rope.scaling.type", "yarn")
		s.set("qwen2.rope.scaling.factor", float32(4))
		s.set("qwen2.rope.scaling.original_context_length", uint32(256))
		s.set("qwen2.rope.scaling.yarn_beta_fast", float32(16))
		s.set("qwen2.rope.scaling.attn_factor", float32(0.5))
	}))
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*spec)
		kind   error
		want   string
	}{
		{"architecture", func(s *spec) { s.set("general.architecture", "llama") }, ErrUnsupported, `architecture "llama"`},
		{"long architecture", func(s *spec) { s.set("general.architecture", strings.Repeat("q", 1<<16)) }, ErrUnsupported, `architecture "` + strings.Repeat("q", 64) + `":`},
		{"no architecture", func(s *spec) { s.unset("general.architecture") }, ErrInvalid, `"general.architecture"`},
		{"no layers", func(s *spec) { s.unset("qwen3.block_count") }, ErrInvalid, `"qwen3.block_count"`},
		{"zero layers", func(s *spec) { s.set("qwen3.block_count", uint32(0)) }, ErrInvalid, `"qwen3.block_count": 0`},
		{"huge width", func(s *spec) { s.set("qwen3.embedding_length", uint32(1<<31)) }, ErrInvalid, `"qwen3.embedding_length"`},
		{"a string for a number", func(s *spec) { s.set("qwen3.block_count", "2") }, ErrInvalid, `"qwen3.block_count"`},
		{"KV heads", func(s *spec) { s.set("qwen3.attention.head_count_kv", uint32(3)) }, ErrInvalid, `"qwen3.attention.head_count_kv"`},
		{"heads that don't divide", func(s *spec) { s.set("qwen3.attention.head_count", uint32(5)) }, ErrInvalid, "embedding_length"},
		{"value length", func(s *spec) { s.set("qwen3.attention.value_length", uint32(32)) }, ErrUnsupported, "value_length"},
		{"odd head", func(s *spec) { s.set("qwen3.attention.key_length", uint32(15)) }, ErrInvalid, "15 is odd"},
		{"eps", func(s *spec) { s.set("qwen3.attention.layer_norm_rms_epsilon", float32(0)) }, ErrInvalid, "layer_norm_rms_epsilon"},
		{"rope base", func(s *spec) { s.set("qwen3.rope.freq_base", float32(0.5)) }, ErrInvalid, "rope.freq_base"},
		{"rope dims", func(s *spec) { s.set("qwen3.rope.dimension_count", uint32(18)) }, ErrInvalid, "rope.dimension_count"},
		{"rope scaling", func(s *spec) { s.set("qwen3.rope.scaling.type", "longrope") }, ErrUnsupported, `"longrope"`},
		{"rope factor", func(s *spec) { s.set("qwen3.rope.scaling.type", "yarn") }, ErrInvalid, "rope.scaling.factor"},
		{"missing tensor", func(s *spec) { s.drop("blk.1.ffn_up.weight") }, ErrInvalid, `"blk.1.ffn_up.weight": missing`},
		{"missing q norm", func(s *spec) { s.drop("blk.0.attn_q_norm.weight") }, ErrInvalid, `"blk.0.attn_q_norm.weight": missing`},
		{"odd tensor", func(s *spec) { s.add("blk.0.attn_sinks.weight", quant.F32, 4) }, ErrUnsupported, `"blk.0.attn_sinks.weight"`},
		{"extra layer", func(s *spec) { s.add("blk.2.attn_norm.weight", quant.F32, 64) }, ErrUnsupported, `"blk.2.attn_norm.weight"`},
		{"norm type", func(s *spec) { s.tensor("output_norm.weight").typ = quant.F16 }, ErrUnsupported, `"output_norm.weight": type F16`},
		{"norm size", func(s *spec) { s.tensor("blk.1.ffn_norm.weight").shape = []int{32} }, ErrInvalid, `"blk.1.ffn_norm.weight": shape [32]`},
		{"matrix shape", func(s *spec) { s.tensor("blk.0.ffn_down.weight").shape = []int{96, 32} }, ErrInvalid, `"blk.0.ffn_down.weight": shape [96 32]`},
		{"transposed", func(s *spec) { s.tensor("blk.0.ffn_down.weight").shape = []int{64, 96} }, ErrInvalid, `"blk.0.ffn_down.weight"`},
		{"matrix type", func(s *spec) { s.tensor("blk.0.ffn_gate.weight").typ = quant.IQ4_NL }, ErrUnsupported, `"blk.0.ffn_gate.weight": type IQ4_NL`},
		{"output rows", func(s *spec) { s.add("output.weight", quant.F16, 64, 39) }, ErrInvalid, `"output.weight"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := small(Qwen3)
			c.change(s)
			_, err := New(s.open(t))
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "modelsqwen: ")
		})
	}
}

func TestBuild(t *testing.T) {
	for _, arch := range []Arch{Qwen2, Qwen3} {
		m, err := New(small(arch).open(t))
		require.NoError(t, err)
		g, err := m.Build(params)
		require.NoError(t, err)
		require.Len(t, g.Outputs, 1)
		require.Equal(t, graph.Shape{2, 40}, g.Outputs[0].Shape)
		count := map[graph.Op]int{}
		for _, n := range g.Nodes {
			count[n.Op]++
			if n.Name == "blk.1.ffn_down" {
				require.Equal(t, graph.Shape{2, 64}, n.Shape, "the last block's FFN is for the wanted rows only")
			}
		}
		require.Equal(t, 4, count[graph.OpKvcacheStore])
		require.Equal(t, 2, count[graph.OpAttn])
		require.Equal(t, 2*7+1, count[graph.OpMatMul])
		require.Equal(t, map[Arch]int{Qwen2: 0, Qwen3: 4}[arch], count[graph.OpQkNorm])

		noLogits := params
		noLogits.Outputs = 0
		g, err = m.Build(noLogits)
		require.NoError(t, err)
		require.Empty(t, g.Outputs)
		last := g.Nodes[len(g.Nodes)-1]
		require.Equal(t, graph.OpKvcacheStore, last.Op, "only keys and values of the last block are computed")

		hidden := params
		hidden.Features = graph.FeatureHidden
		g, err = m.Build(hidden)
		require.NoError(t, err)
		require.Len(t, g.Outputs, 1+len(m.HiddenNames()))
		for i, name := range m.HiddenNames() {
			require.Equal(t, name, g.Outputs[i+1].Name)
			require.Equal(t, 3, g.Outputs[i+1].Shape[0])
		}
	}
}

// countingReader counts the bytes read through it.
type countingReader struct {
	*bytes.Reader
	n int
}

func (r *countingReader) ReadAt(p []byte, off int64) (int, error) {
	r.n += len(p)
	return r.Reader.ReadAt(p, off)
}

// TestBuildReadsNoWeights: graphs are built from metadata; not a byte of the file is read for it.
func TestBuildReadsNoWeights(t *testing.T) {
	data := small(Qwen3).bytes(t)
	r := &countingReader{Reader: bytes.NewReader(data)}
	f, err := gguf.OpenReaderAt(r, int64(len(data)))
	require.NoError(t, err)
	defer f.Close()
	m, err := New(f)
	require.NoError(t, err)
	require.Positive(t, r.n, "the header came through the reader")
	r.n = 0
	_, err = m.Build(params)
	require.NoError(t, err)
	require.Zero(t, r.n)
	tensor, _ := f.Tensor("blk.0.attn_q.weight")
	_, err = f.TensorBytes(tensor)
	require.NoError(t, err)
	require.Positive(t, r.n, "weights would have been counted")
}

package synthetic

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"

	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/quant"
)

// Size is the number of bytes that the file of Make will have, about.
func Size(spec string) (int64, error) {
	s, typ, err := lookup(spec)
	if err != nil {
		return 0, err
	}
	size := int64(64 * s.vocab)
	for _, p := range s.tensors(typ) {
		size += p.bytes() + 32
	}
	return size, nil
}

// Make gives a GGUF file for spec, "SHAPE:TYPE" as in "qwen2.5-7b:q4_k_m": weights are random with the standard
// deviations of an initialised model, so that activations and logits are finite and of ordinary size. The same spec gives the same bytes.
func Make(spec string) ([]byte, error) {
	s, typ, err := lookup(spec)
	if err != nil {
		return nil, err
	}
	size, err := Size(spec)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(make([]byte, 0, size))
	if err := s.write(out, typ); err != nil {
		return nil, fmt.Errorf("synthetic: %s: %w", spec, err)
	}
	return out.Bytes(), nil
}

func (s shape) write(out io.Writer, typ int) error {
	w, err := gguf.NewWriter(out, gguf.WriterOptions{})
	if err != nil {
		return err
	}
	for _, e := range s.metadata(typ) {
		if err := w.Set(e.key, e.value); err != nil {
			return err
		}
	}
	tensors := s.tensors(typ)
	for _, p := range tensors {
		if err := w.AddTensor(p.name, p.typ, p.shape...); err != nil {
			return err
		}
	}
	g := generator{rng: rand.New(rand.NewPCG(1, 2)), pools: map[poolKey][]byte{}}
	for _, p := range tensors {
		if err := w.WriteTensorFrom(p.name, g.data(p)); err != nil {
			return err
		}
	}
	return w.Close()
}

type entry struct {
	key   string
	value any
}

// metadata holds the hyper-parameters and a byte-level tokenizer: 256 bytes, one merge, fillers and three special tokens.
func (s shape) metadata(typ int) []entry {
	a := s.arch + "."
	tokens := make([]string, s.vocab)
	types := make([]int32, s.vocab)
	for i := range tokens {
		types[i] = 1
		if i < 256 {
			tokens[i] = string(byteRune(byte(i)))
		} else {
			tokens[i] = fmt.Sprintf("<t%d>", i)
		}
	}
	tokens[256] = string([]rune{byteRune(' '), 't'})
	v := s.vocab
	tokens[v-1], tokens[v-2], tokens[v-3] = "<|endoftext|>", "<|im_end|>", "<|im_start|>"
	types[v-1], types[v-2], types[v-3] = 3, 3, 3
	return []entry{
		{"general.architecture", s.arch}, {"general.name", s.name + " (random weights)"}, {"general.file_type", fileTypes[typ].id},
		{a + "block_count", uint32(s.layers)}, {a + "context_length", uint32(32768)}, {a + "embedding_length", uint32(s.embd)},
		{a + "feed_forward_length", uint32(s.ff)}, {a + "attention.head_count", uint32(s.heads)}, {a + "attention.head_count_kv", uint32(s.kvHeads)},
		{a + "attention.key_length", uint32(s.headDim)}, {a + "attention.value_length", uint32(s.headDim)},
		{a + "rope.freq_base", s.ropeBase}, {a + "attention.layer_norm_rms_epsilon", float32(1e-6)},
		{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", "qwen2"}, {"tokenizer.ggml.tokens", tokens}, {"tokenizer.ggml.token_type", types},
		{"tokenizer.ggml.merges", []string{string(byteRune(' ')) + " t"}},
		{"tokenizer.ggml.eos_token_id", uint32(v - 2)}, {"tokenizer.ggml.bos_token_id", uint32(v - 1)}, {"tokenizer.ggml.padding_token_id", uint32(v - 1)},
		{"tokenizer.ggml.add_bos_token", false},
	}
}

// byteRune is the printable sign that stands for a byte in byte-level BPE vocabularies (GPT-2).
func byteRune(b byte) rune {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE }
	if printable(int(b)) {
		return rune(b)
	}
	n := rune(256)
	for i := range int(b) {
		if !printable(i) {
			n++
		}
	}
	return n
}

func (s shape) tensors(typ int) []plan {
	var list []plan
	vector := func(name string, n int, sigma float64) {
		list = append(list, plan{name, quant.F32, []int{n}, sigma})
	}
	matrix := func(name string, t quant.Type, cols, rows int, sigma float64) {
		if cols%t.BlockElems() != 0 { // as llama.cpp falls back for rows that are no whole number of super-blocks
			t = quant.Q8_0
		}
		list = append(list, plan{name, t, []int{cols, rows}, sigma})
	}
	inv := func(n int) float64 { return 1 / math.Sqrt(float64(n)) }
	ft := fileTypes[typ]
	output := ft.base
	if ft.mixed {
		output = quant.Q6_K
	}
	embd := ft.base
	if s.tied {
		embd = output
	}
	matrix("token_embd.weight", embd, s.embd, s.vocab, 0.02)
	q, kv := s.heads*s.headDim, s.kvHeads*s.headDim
	for i := range s.layers {
		more := ft.base // for attn_v and ffn_down, which matter most
		if L := s.layers; ft.mixed && (i < L/8 || i >= 7*L/8 || (i-L/8)%3 == 2) {
			more = quant.Q6_K
		}
		p := fmt.Sprintf("blk.%d.", i)
		vector(p+"attn_norm.weight", s.embd, 0)
		matrix(p+"attn_q.weight", ft.base, s.embd, q, inv(s.embd))
		matrix(p+"attn_k.weight", ft.base, s.embd, kv, inv(s.embd))
		matrix(p+"attn_v.weight", more, s.embd, kv, inv(s.embd))
		if s.arch == "qwen2" {
			vector(p+"attn_q.bias", q, 0.1)
			vector(p+"attn_k.bias", kv, 0.1)
			vector(p+"attn_v.bias", kv, 0.1)
		} else {
			vector(p+"attn_q_norm.weight", s.headDim, 0)
			vector(p+"attn_k_norm.weight", s.headDim, 0)
		}
		matrix(p+"attn_output.weight", ft.base, q, s.embd, inv(q))
		vector(p+"ffn_norm.weight", s.embd, 0)
		matrix(p+"ffn_gate.weight", ft.base, s.embd, s.ff, inv(s.embd))
		matrix(p+"ffn_up.weight", ft.base, s.embd, s.ff, inv(s.embd))
		matrix(p+"ffn_down.weight", more, s.ff, s.embd, inv(s.ff))
	}
	vector("output_norm.weight", s.embd, 0)
	if !s.tied {
		matrix("output.weight", output, s.embd, s.vocab, inv(s.embd))
	}
	return list
}

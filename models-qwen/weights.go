package modelsqwen

import (
	"fmt"
	"strings"

	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// Layer holds the weights of one transformer block. Biases and Q/K norms are nil where the file has none.
type Layer struct {
	AttnNorm                         *graph.Weight
	Q, K, V                          *graph.Weight
	QBias, KBias, VBias              *graph.Weight
	QNorm, KNorm                     *graph.Weight // Qwen3
	AttnOutput, AttnOutputBias       *graph.Weight
	FFNNorm, FFNGate, FFNUp, FFNDown *graph.Weight
}

// Model is a model's hyper-parameters and the metadata of its weights. It holds no weight bytes.
type Model struct {
	Config
	TokenEmbd  *graph.Weight
	OutputNorm *graph.Weight
	Output     *graph.Weight // TokenEmbd when the embedding is tied
	Layers     []Layer
	Drawable   int // tokens that FeatureSample may draw; 0: all rows of the embedding

	fingerprint string
	weights     []*graph.Weight
}

// MatrixTypes are the weight types a matrix may have.
var MatrixTypes = []quant.Type{quant.F32, quant.F16, quant.BF16, quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1,
	quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K}

// New reads a file's hyper-parameters and checks every tensor that the architecture needs: name, type and exact shape.
// A tensor that no part of the architecture uses is refused too, since ignoring it would change the model silently.
func New(f *gguf.File) (*Model, error) {
	cfg, err := readConfig(f)
	if err != nil {
		return nil, err
	}
	fingerprint, err := f.Fingerprint()
	if err != nil {
		return nil, err
	}
	r := tensorReader{f: f, model: fingerprint, used: map[string]bool{}}
	m := &Model{Config: cfg, fingerprint: fingerprint}
	m.TokenEmbd = r.embedding("token_embd.weight", cfg.NEmbd)
	if r.err != nil {
		return nil, r.err
	}
	m.NVocab = m.TokenEmbd.Shape[0]
	m.OutputNorm = r.vector("output_norm.weight", cfg.NEmbd)
	m.Output = r.optional("output.weight", func(name string) *graph.Weight { return r.matrix(name, m.NVocab, cfg.NEmbd) })
	if m.Output == nil {
		m.Output, m.Tied = m.TokenEmbd, true
	}
	qWidth, kvWidth := cfg.NHead*cfg.HeadDim, cfg.NHeadKV*cfg.HeadDim
	for i := 0; i < cfg.NLayer && r.err == nil; i++ {
		p := fmt.Sprintf("blk.%d.", i)
		bias := func(name string, n int) *graph.Weight {
			return r.optional(p+name, func(name string) *graph.Weight { return r.vector(name, n) })
		}
		l := Layer{
			AttnNorm: r.vector(p+"attn_norm.weight", cfg.NEmbd),
			Q:        r.matrix(p+"attn_q.weight", qWidth, cfg.NEmbd),
			K:        r.matrix(p+"attn_k.weight", kvWidth, cfg.NEmbd),
			V:        r.matrix(p+"attn_v.weight", kvWidth, cfg.NEmbd),
			QBias:    bias("attn_q.bias", qWidth), KBias: bias("attn_k.bias", kvWidth), VBias: bias("attn_v.bias", kvWidth),
			AttnOutput:     r.matrix(p+"attn_output.weight", cfg.NEmbd, qWidth),
			AttnOutputBias: bias("attn_output.bias", cfg.NEmbd),
			FFNNorm:        r.vector(p+"ffn_norm.weight", cfg.NEmbd),
			FFNGate:        r.matrix(p+"ffn_gate.weight", cfg.NFF, cfg.NEmbd),
			FFNUp:          r.matrix(p+"ffn_up.weight", cfg.NFF, cfg.NEmbd),
			FFNDown:        r.matrix(p+"ffn_down.weight", cfg.NEmbd, cfg.NFF),
		}
		if cfg.Arch == Qwen3 {
			l.QNorm = r.vector(p+"attn_q_norm.weight", cfg.HeadDim)
			l.KNorm = r.vector(p+"attn_k_norm.weight", cfg.HeadDim)
		}
		m.Layers = append(m.Layers, l)
	}
	if r.err == nil {
		r.refuseUnused(cfg)
	}
	if r.err != nil {
		return nil, r.err
	}
	m.weights = r.weights
	return m, nil
}

// Fingerprint identifies the file's contents: the Model of every weight.
func (m *Model) Fingerprint() string { return m.fingerprint }

// Weights lists every weight of the model once, in the order of use.
func (m *Model) Weights() []*graph.Weight { return m.weights }

// WeightBytes is the size of all weights together.
func (m *Model) WeightBytes() int64 {
	var n int64
	for _, w := range m.weights {
		n += w.Bytes()
	}
	return n
}

// KVSpec is the geometry of a KV cache for this model.
func (m *Model) KVSpec(cells int, key, value quant.Type) graph.KVSpec {
	return graph.KVSpec{Layers: m.NLayer, Cells: cells, KVHeads: m.NHeadKV, HeadDim: m.HeadDim, KeyType: key, ValueType: value}
}

// tensorReader looks tensors up by name, checks them and keeps the first error.
type tensorReader struct {
	f       *gguf.File
	model   string
	used    map[string]bool
	weights []*graph.Weight
	err     error
}

func (r *tensorReader) fail(kind error, name, format string, args ...any) *graph.Weight {
	if r.err == nil {
		r.err = fmt.Errorf("modelsqwen: tensor %q: %s: %w", name, fmt.Sprintf(format, args...), kind)
	}
	return nil
}

func (r *tensorReader) optional(name string, read func(string) *graph.Weight) *graph.Weight {
	if _, ok := r.f.Tensor(name); !ok || r.err != nil {
		return nil
	}
	return read(name)
}

// vector reads a float32 vector of exactly n elements.
func (r *tensorReader) vector(name string, n int) *graph.Weight {
	t, ok := r.tensor(name)
	if !ok {
		return nil
	}
	if t.Type != quant.F32 {
		return r.fail(ErrUnsupported, name, "type %s where F32 is needed", t.Type)
	}
	if len(t.Shape) != 1 || t.Shape[0] != n {
		return r.fail(ErrInvalid, name, "shape %v where [%d] is needed", t.Shape, n)
	}
	return r.add(name, t.Type, graph.Shape{n})
}

// matrix reads a matrix of exactly rows × cols (out features × in features; the file lists cols first).
func (r *tensorReader) matrix(name string, rows, cols int) *graph.Weight {
	t, ok := r.matrixTensor(name, cols)
	if !ok {
		return nil
	}
	if t.Shape[1] != rows {
		return r.fail(ErrInvalid, name, "shape %v where [%d %d] is needed", t.Shape, cols, rows)
	}
	return r.add(name, t.Type, graph.Shape{rows, cols})
}

// embedding reads a matrix whose number of rows is the vocabulary's size.
func (r *tensorReader) embedding(name string, cols int) *graph.Weight {
	t, ok := r.matrixTensor(name, cols)
	if !ok {
		return nil
	}
	if t.Shape[1] == 0 || t.Shape[1] > 1<<24 {
		return r.fail(ErrInvalid, name, "a vocabulary of %d rows (1 to %d are possible)", t.Shape[1], 1<<24)
	}
	return r.add(name, t.Type, graph.Shape{t.Shape[1], cols})
}

func (r *tensorReader) matrixTensor(name string, cols int) (t gguf.TensorInfo, ok bool) {
	if t, ok = r.tensor(name); !ok {
		return gguf.TensorInfo{}, false
	}
	if !matrixType(t.Type) {
		r.fail(ErrUnsupported, name, "type %s is not supported (%s are)", t.Type, typeNames())
		return gguf.TensorInfo{}, false
	}
	if len(t.Shape) != 2 || t.Shape[0] != cols {
		r.fail(ErrInvalid, name, "shape %v where a matrix of %d columns is needed", t.Shape, cols)
		return gguf.TensorInfo{}, false
	}
	return t, true
}

func (r *tensorReader) tensor(name string) (gguf.TensorInfo, bool) {
	if r.err != nil {
		return gguf.TensorInfo{}, false
	}
	t, ok := r.f.Tensor(name)
	if !ok {
		r.fail(ErrInvalid, name, "missing")
		return gguf.TensorInfo{}, false
	}
	return t, true
}

func (r *tensorReader) add(name string, t quant.Type, shape graph.Shape) *graph.Weight {
	w := &graph.Weight{Model: r.model, Name: name, Type: t, Shape: shape}
	r.used[name] = true
	r.weights = append(r.weights, w)
	return w
}

func (r *tensorReader) refuseUnused(cfg Config) {
	var odd []string
	for _, t := range r.f.Tensors() {
		if !r.used[t.Name] {
			odd = append(odd, t.Name)
		}
	}
	if len(odd) == 0 {
		return
	}
	more := ""
	if len(odd) > 3 {
		more = fmt.Sprintf(" and %d more", len(odd)-3)
		odd = odd[:3]
	}
	r.fail(ErrUnsupported, odd[0], "%s of %d layers has no such tensor (odd ones: %s%s)", cfg.Arch, cfg.NLayer, strings.Join(odd, ", "), more)
}

func matrixType(t quant.Type) bool {
	for _, m := range MatrixTypes {
		if m == t {
			return true
		}
	}
	return false
}

func typeNames() string {
	names := make([]string, len(MatrixTypes))
	for i, t := range MatrixTypes {
		names[i] = t.String()
	}
	return strings.Join(names, ", ")
}

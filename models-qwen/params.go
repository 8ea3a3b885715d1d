// Package modelsqwen knows the Qwen2, Qwen2.5 and Qwen3 (dense) architectures: their hyper-parameters and tensors in
// GGUF files, and how their forward pass is built as a graph.
package modelsqwen

import (
	"errors"
	"fmt"
	"math"

	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/graph"
)

// ErrUnsupported is wrapped by errors about architectures, keys, types or tensors that this package doesn't know.
var ErrUnsupported = errors.New("unsupported")

// ErrInvalid is wrapped by errors about missing or contradictory keys and tensors.
var ErrInvalid = errors.New("invalid model")

// Arch is a model architecture, as in general.architecture.
type Arch string

// The architectures of this package.
const (
	Qwen2 Arch = "qwen2" // Qwen2 and Qwen2.5: biases on Q, K and V
	Qwen3 Arch = "qwen3" // RMS norm of each head of Q and K
)

// Config holds the hyper-parameters, under llama.cpp's names.
type Config struct {
	Arch      Arch
	NLayer    int     // block_count
	NCtxTrain int     // context_length
	NEmbd     int     // embedding_length
	NFF       int     // feed_forward_length
	NHead     int     // attention.head_count
	NHeadKV   int     // attention.head_count_kv
	HeadDim   int     // attention.key_length, or NEmbd/NHead
	NVocab    int     // rows of token_embd.weight: may exceed the tokenizer's vocabulary
	NormEps   float32 // attention.layer_norm_rms_epsilon
	Rope      graph.RopeAttr
	Tied      bool // the output matrix is the embedding
}

// Limits on hyper-parameters: far above any real model, low enough that products of two don't overflow.
const (
	maxLayers = 1 << 12
	maxWidth  = 1 << 20
	maxCtx    = 1 << 30
)

// readConfig reads and checks the hyper-parameters. NVocab and Tied are left to the tensors.
func readConfig(f *gguf.File) (Config, error) {
	arch, ok, err := gguf.Get[string](f, "general.architecture")
	if err != nil {
		return Config{}, err
	}
	if !ok {
		return Config{}, fmt.Errorf("modelsqwen: key %q is missing: %w", "general.architecture", ErrInvalid)
	}
	if Arch(arch) != Qwen2 && Arch(arch) != Qwen3 {
		return Config{}, fmt.Errorf("modelsqwen: architecture %.64q: %w (supported are %s and %s)", arch, ErrUnsupported, Qwen2, Qwen3)
	}
	r := keyReader{f: f, prefix: arch + "."}
	c := Config{
		Arch:      Arch(arch),
		NLayer:    r.integer("block_count", maxLayers),
		NCtxTrain: r.integer("context_length", maxCtx),
		NEmbd:     r.integer("embedding_length", maxWidth),
		NFF:       r.integer("feed_forward_length", maxWidth),
		NHead:     r.integer("attention.head_count", maxWidth),
		NormEps:   r.float("attention.layer_norm_rms_epsilon", nil),
	}
	c.NHeadKV = r.integerOr("attention.head_count_kv", maxWidth, c.NHead)
	if r.err == nil && c.NEmbd%c.NHead != 0 && !r.has("attention.key_length") {
		r.fail("embedding_length", "%d is not a multiple of attention.head_count %d, and attention.key_length is missing", c.NEmbd, c.NHead)
	}
	if r.err != nil {
		return c, r.err
	}
	c.HeadDim = r.integerOr("attention.key_length", maxWidth, c.NEmbd/c.NHead)
	valueLength := r.integerOr("attention.value_length", maxWidth, c.HeadDim)
	c.Rope = readRope(&r, c)
	if r.err != nil {
		return c, r.err
	}
	switch {
	case c.NHead%c.NHeadKV != 0:
		r.fail("attention.head_count_kv", "%d doesn't divide attention.head_count %d", c.NHeadKV, c.NHead)
	case valueLength != c.HeadDim:
		r.unsupported("attention.value_length", "%d differs from the key length %d", valueLength, c.HeadDim)
	case c.HeadDim%2 != 0:
		r.fail("attention.key_length", "%d is odd: rotary embedding needs pairs", c.HeadDim)
	case c.NHead*c.HeadDim > maxWidth:
		r.fail("attention.head_count", "%d heads of %d are wider than the limit of %d", c.NHead, c.HeadDim, maxWidth)
	case !(c.NormEps > 0 && c.NormEps < 1):
		r.fail("attention.layer_norm_rms_epsilon", "%g is not between 0 and 1", c.NormEps)
	}
	return c, r.err
}

// readRope reads the rotary embedding's base and scaling: llama.cpp's keys and formulas (linear, and YaRN of
// arXiv:2309.00071). A scaling that isn't known changes every position, so it is refused rather than ignored.
func readRope(r *keyReader, c Config) graph.RopeAttr {
	one, zero, base := float32(1), float32(0), float32(10000)
	a := graph.RopeAttr{
		Style: graph.RopeNeox, Dims: r.integerOr("rope.dimension_count", maxWidth, c.HeadDim),
		Base: r.float("rope.freq_base", &base), FreqScale: 1, AttnFactor: r.float("rope.scaling.attn_factor", &one),
		BetaFast: 32, BetaSlow: 1, OrigCtx: c.NCtxTrain,
	}
	if a.Dims > c.HeadDim || a.Dims%2 != 0 {
		r.fail("rope.dimension_count", "%d is odd or above the head dimension %d", a.Dims, c.HeadDim)
	}
	if !(a.Base > 1) {
		r.fail("rope.freq_base", "%g is not above 1", a.Base)
	}
	factor := r.float("rope.scaling.factor", &zero)
	if old := r.float("rope.scale_linear", &zero); factor == 0 {
		factor = old
	}
	kind := r.text("rope.scaling.type", "")
	if kind == "" && factor > 0 && factor != 1 {
		kind = "linear" // llama.cpp's default for a bare factor
	}
	switch kind {
	case "", "none":
		return a
	case "linear", "yarn":
	default:
		r.unsupported("rope.scaling.type", "%.64q is not known (none, linear and yarn are)", kind)
		return a
	}
	if !(factor > 0 && factor <= 1<<20) {
		r.fail("rope.scaling.factor", "%g is missing or not positive, as %s scaling needs", factor, kind)
		return a
	}
	a.FreqScale = 1 / factor
	if kind == "yarn" {
		fast, slow := a.BetaFast, a.BetaSlow
		a.ExtFactor = r.float("rope.scaling.yarn_ext_factor", &one)
		a.AttnFactor *= r.float("rope.scaling.yarn_attn_factor", &one)
		a.BetaFast = r.float("rope.scaling.yarn_beta_fast", &fast)
		a.BetaSlow = r.float("rope.scaling.yarn_beta_slow", &slow)
		a.OrigCtx = r.integerOr("rope.scaling.original_context_length", maxCtx, c.NCtxTrain)
	}
	return a
}

// keyReader reads keys under the architecture's prefix and keeps the first error, which names the key.
type keyReader struct {
	f      *gguf.File
	prefix string
	err    error
}

func (r *keyReader) fail(key, format string, args ...any) {
	r.wrap(ErrInvalid, key, format, args...)
}

func (r *keyReader) unsupported(key, format string, args ...any) {
	r.wrap(ErrUnsupported, key, format, args...)
}

func (r *keyReader) wrap(kind error, key, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("modelsqwen: key %q: %s: %w", r.prefix+key, fmt.Sprintf(format, args...), kind)
	}
}

func (r *keyReader) has(key string) bool {
	_, ok := r.f.Value(r.prefix + key)
	return ok
}

// integer reads a positive integer of at most limit.
func (r *keyReader) integer(key string, limit int) int {
	v := r.integerOr(key, limit, 0)
	if v == 0 {
		r.fail(key, "missing")
	}
	return v
}

// integerOr reads a positive integer of at most limit, or gives def when the key is absent.
func (r *keyReader) integerOr(key string, limit, def int) int {
	v, ok, err := gguf.Get[uint64](r.f, r.prefix+key)
	switch {
	case err != nil:
		r.fail(key, "%v", err)
	case !ok:
		return def
	case v == 0 || v > uint64(limit):
		r.fail(key, "%d is not between 1 and %d", v, limit)
	default:
		return int(v)
	}
	return 1 // harmless for the arithmetic that follows; the error stands
}

// float reads a finite float, or gives *def when the key is absent; without a default the key is required.
func (r *keyReader) float(key string, def *float32) float32 {
	v, ok, err := gguf.Get[float32](r.f, r.prefix+key)
	switch {
	case err != nil:
		r.fail(key, "%v", err)
	case !ok && def == nil:
		r.fail(key, "missing")
	case !ok:
		return *def
	case math.IsNaN(float64(v)) || math.IsInf(float64(v), 0):
		r.fail(key, "%g is not a finite number", v)
	default:
		return v
	}
	return 1
}

func (r *keyReader) text(key, def string) string {
	v, ok, err := gguf.Get[string](r.f, r.prefix+key)
	if err != nil {
		r.fail(key, "%v", err)
	}
	if !ok {
		return def
	}
	return v
}

// attnScale is the factor of Q·K: 1/sqrt(head_dim), as the architectures have it.
func (c Config) attnScale() float32 { return float32(1 / math.Sqrt(float64(c.HeadDim))) }

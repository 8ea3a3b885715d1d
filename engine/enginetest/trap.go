package enginetest

import (
	"bytes"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/kvformat"
)

// Scaled is a copy of a model file with some float32 tensors multiplied: another model of the same shape.
func Scaled(t testing.TB, path string, factor func(tensor string) float32) []byte {
	t.Helper()
	f, err := gguf.Open(path)
	must(t, err)
	defer f.Close()
	var out bytes.Buffer
	w, err := gguf.NewWriter(&out, gguf.WriterOptions{})
	must(t, err)
	for _, e := range f.Metadata() {
		must(t, w.Set(e.Key, e.Value))
	}
	for _, x := range f.Tensors() {
		must(t, w.AddTensor(x.Name, x.Type, x.Shape...))
	}
	for _, x := range f.Tensors() {
		data, err := f.TensorBytes(x)
		must(t, err)
		data = slices.Clone(data)
		if k := factor(x.Name); k != 1 {
			for i := 0; i < len(data); i += 4 {
				v := math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))
				binary.LittleEndian.PutUint32(data[i:], math.Float32bits(v*k))
			}
		}
		must(t, w.WriteTensor(x.Name, data))
	}
	must(t, w.Close())
	return out.Bytes()
}

// F16Trap: Q·K beyond 65504, which a 16-bit sum of products would turn into infinity, stays finite with a 16-bit cache, and
// gives the same best tokens as a 32-bit one.
func F16Trap(t *testing.T, o Options) {
	const gain = 60 // of queries and of keys
	data := Scaled(t, filepath.Join(o.Dir, "models", "tiny-qwen3-f32.gguf"), func(name string) float32 {
		if strings.HasSuffix(name, "attn_q_norm.weight") || strings.HasSuffix(name, "attn_k_norm.weight") {
			return gain
		}
		return 1
	})
	m, err := engine.LoadBytes("trap", data, o.Load)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	// Normed heads have a length of about gain*sqrt(head_dim): a key's product with itself is about gain² * head_dim.
	if product := gain * gain * m.Config().HeadDim; product < 2*65504 {
		t.Fatalf("q·k is about %d: no trap", product)
	}
	var g golden
	o.json(t, "tiny-qwen3-f32.json", &g)
	var want [][]float32
	for _, kv := range []kvformat.Format{kvformat.F32, kvformat.F16} {
		got := AllLogits(t, NewContext(t, m, engine.ContextOptions{Ctx: 128, KeyType: kv, ValueType: kv}), g.Sequences[2].Tokens)
		for i := range got {
			for _, x := range got[i] {
				if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
					t.Fatalf("kv %s, position %d: %g", kv, i, x)
				}
			}
			if want != nil && Argmax(want[i]) != Argmax(got[i]) {
				t.Errorf("position %d: the best token is %d with an f16 cache, %d with f32", i, Argmax(got[i]), Argmax(want[i]))
			}
		}
		want = got
	}
}

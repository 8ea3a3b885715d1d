package engine

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/kvformat"
)

// scaled is a copy of a model file with some float32 tensors multiplied.
func scaled(t *testing.T, path string, factor func(name string) float32) []byte {
	t.Helper()
	f, err := gguf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var out bytes.Buffer
	w, err := gguf.NewWriter(&out, gguf.WriterOptions{})
	require.NoError(t, err)
	for _, e := range f.Metadata() {
		require.NoError(t, w.Set(e.Key, e.Value))
	}
	for _, x := range f.Tensors() {
		require.NoError(t, w.AddTensor(x.Name, x.Type, x.Shape...))
	}
	for _, x := range f.Tensors() {
		data, err := f.TensorBytes(x)
		require.NoError(t, err)
		data = append([]byte(nil), data...)
		if k := factor(x.Name); k != 1 {
			for i := 0; i < len(data); i += 4 {
				v := math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))
				binary.LittleEndian.PutUint32(data[i:], math.Float32bits(v*k))
			}
		}
		require.NoError(t, w.WriteTensor(x.Name, data))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// TestF16Trap: Q·K beyond 65504, which a 16-bit sum of products would turn into infinity, stays finite with a 16-bit cache, and
// gives the same best tokens as a 32-bit one.
func TestF16Trap(t *testing.T) {
	const gain = 60 // of queries and of keys
	data := scaled(t, tinyModel("tiny-qwen3-f32"), func(name string) float32 {
		if strings.HasSuffix(name, "attn_q_norm.weight") || strings.HasSuffix(name, "attn_k_norm.weight") {
			return gain
		}
		return 1
	})
	m, err := LoadBytes("trap", data, LoadOptions{})
	require.NoError(t, err)
	defer m.Close()
	// Normed heads have a length of about gain*sqrt(128): a key's product with itself is about gain² * 128.
	require.Greater(t, float64(gain*gain*m.Config().HeadDim), 2*65504.0)
	var golden goldenFile
	readJSON(t, "tiny-qwen3-f32.json", &golden)
	tokens := golden.Sequences[2].Tokens
	var want [][]float32
	for _, kv := range []kvformat.Format{kvformat.F32, kvformat.F16} {
		c := newContext(t, m, ContextOptions{Ctx: 128, KeyType: kv, ValueType: kv})
		got := allLogits(t, c, tokens)
		for i := range got {
			for _, x := range got[i] {
				require.False(t, math.IsNaN(float64(x)) || math.IsInf(float64(x), 0), "position %d", i)
			}
			if want != nil {
				require.Equal(t, argmax(want[i]), argmax(got[i]), "position %d", i)
			}
		}
		want = got
	}
}

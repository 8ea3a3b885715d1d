package synthetic

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/gguf"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
)

func TestMake(t *testing.T) {
	for _, kind := range Types() {
		data, err := Make("tiny:" + kind)
		require.NoError(t, err)
		again, err := Make("tiny:" + kind)
		require.NoError(t, err)
		require.Equal(t, data, again)
		size, err := Size("tiny:" + kind)
		require.NoError(t, err)
		require.LessOrEqual(t, int64(len(data)), size+4096)
		f, err := gguf.OpenBytes(data)
		require.NoError(t, err)
		m, err := modelsqwen.New(f)
		require.NoError(t, err)
		require.Equal(t, 2, m.NLayer)
		for _, info := range f.Tensors() {
			w, err := f.TensorFloats(info)
			require.NoError(t, err)
			var sum, sq float64
			for _, x := range w {
				sum += float64(x)
				sq += float64(x) * float64(x)
			}
			n := float64(len(w))
			mean, rms := sum/n, math.Sqrt(sq/n)
			what := fmt.Sprintf("%s %s: mean %g, rms %g", kind, info.Name, mean, rms)
			if len(info.Shape) == 1 {
				require.InDelta(t, 1, rms, 0.1, what)
				continue
			}
			sigma := 1 / math.Sqrt(float64(info.Shape[0]))
			if info.Name == "token_embd.weight" {
				sigma = 0.02
			}
			require.InDelta(t, 1, rms/sigma, 0.7, what) // random 6-bit scales and minima spread Q4_K and Q5_K by half more
			require.Less(t, math.Abs(mean), 0.25*sigma, what)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, bad := range []string{"", "qwen2.5-7b", "qwen2.5-7b:q3", "gpt:q8_0"} {
		_, err := Make(bad)
		require.ErrorContains(t, err, "qwen2.5-7b, qwen2.5-14b")
	}
	size, err := Size("qwen2.5-7b:q4_k_m")
	require.NoError(t, err)
	require.InDelta(t, 4.68e9, size, 0.05e9, "as llama.cpp's file of that mixture")
}

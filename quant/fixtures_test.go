package quant

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// byName gives the types that the fixtures name.
var byName = map[string]Type{
	"q4_0": Q4_0, "q4_1": Q4_1, "q5_0": Q5_0, "q5_1": Q5_1, "q8_0": Q8_0, "q4_k": Q4_K, "q5_k": Q5_K, "q6_k": Q6_K,
}

// load reads testdata/name into v.
func load(t *testing.T, name string, v any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, v))
}

// floats decodes concatenated IEEE bits, most significant digit first.
func floats(t *testing.T, s string) []float32 {
	t.Helper()
	b := unhex(t, s)
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.BigEndian.Uint32(b[4*i:]))
	}
	return out
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func bits32(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, v := range x {
		out[i] = math.Float32bits(v)
	}
	return out
}

func rms(a, b []float32) float64 {
	var e float64
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		e += d * d
	}
	return math.Sqrt(e / float64(len(a)))
}

func TestDequantizeFixtures(t *testing.T) {
	var fix struct {
		Types map[string]struct {
			GGMLType   uint32 `json:"ggml_type"`
			BlockElems int    `json:"block_elems"`
			BlockBytes int    `json:"block_bytes"`
			Blocks     []struct{ Raw, F32 string }
		}
	}
	load(t, "dequant.json", &fix)
	require.Len(t, fix.Types, len(byName))
	for name, f := range fix.Types {
		t.Run(name, func(t *testing.T) {
			typ := byName[name]
			require.Equal(t, f.GGMLType, uint32(typ))
			require.Equal(t, f.BlockElems, typ.BlockElems())
			require.Equal(t, f.BlockBytes, typ.BlockBytes())
			var all []byte
			var want []float32
			for i, b := range f.Blocks {
				got := make([]float32, typ.BlockElems())
				require.NoError(t, Dequantize(typ, got, unhex(t, b.Raw)))
				require.Equal(t, bits32(floats(t, b.F32)), bits32(got), "block %d", i)
				all = append(all, unhex(t, b.Raw)...)
				want = append(want, floats(t, b.F32)...)
			}
			// All blocks at once, from an odd address.
			odd := append([]byte{0}, all...)[1:]
			got := make([]float32, len(want))
			require.NoError(t, Dequantize(typ, got, odd))
			require.Equal(t, bits32(want), bits32(got))
		})
	}
}

func TestQuantizeFixtures(t *testing.T) {
	var fix struct {
		Rows []struct {
			Name, In, Undefined string
			Out                 map[string]string
		}
	}
	load(t, "quantize.json", &fix)
	require.Len(t, fix.Rows, 20)
	for _, row := range fix.Rows {
		for name, want := range row.Out {
			typ := byName[name]
			src := floats(t, row.In)
			got := make([]byte, typ.RowBytes(len(src)))
			require.NoError(t, Quantize(typ, got, src))
			if row.Undefined == "" {
				require.Equal(t, want, hex.EncodeToString(got), "%s %s", row.Name, name)
			}
		}
	}
}

func TestHalfFixtures(t *testing.T) {
	var fix struct {
		F16 [][2]string `json:"f16_to_f32"`
		F32 [][3]string `json:"f32_to"`
	}
	load(t, "f16.json", &fix)
	num := func(s string) uint32 {
		n, err := strconv.ParseUint(s, 16, 32)
		require.NoError(t, err)
		return uint32(n)
	}
	require.NotEmpty(t, fix.F16)
	require.NotEmpty(t, fix.F32)
	for _, p := range fix.F16 {
		require.Equal(t, num(p[1]), math.Float32bits(F16ToF32(uint16(num(p[0])))), "f16 %s", p[0])
	}
	for _, p := range fix.F32 {
		f := math.Float32frombits(num(p[0]))
		require.Equal(t, uint16(num(p[1])), F32ToF16(f), "f32 %s to f16", p[0])
		require.Equal(t, uint16(num(p[2])), F32ToBF16(f), "f32 %s to bf16", p[0])
	}
}

// The K types may choose other scales than ggml, but never with more error.
func TestQuantizeKError(t *testing.T) {
	var fix struct {
		Rows []struct {
			Name, In string
			Out      map[string]string
			RMS      map[string]float64
		}
	}
	load(t, "kquant.json", &fix)
	require.NotEmpty(t, fix.Rows)
	for _, row := range fix.Rows {
		for name, ref := range row.RMS {
			typ := byName[name]
			src := floats(t, row.In)
			back := make([]float32, len(src))
			require.NoError(t, Dequantize(typ, back, unhex(t, row.Out[name])))
			require.InDelta(t, ref, rms(src, back), 1e-6*ref, "%s %s: ggml's own error", row.Name, name)

			enc := make([]byte, typ.RowBytes(len(src)))
			require.NoError(t, Quantize(typ, enc, src))
			require.NoError(t, Dequantize(typ, back, enc))
			got := rms(src, back)
			t.Logf("%s %s: rms %.4g, ggml's %.4g", row.Name, name, got, ref)
			assert.LessOrEqual(t, got, ref, "%s %s", row.Name, name)
		}
	}
}

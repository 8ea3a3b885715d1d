package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// supported lists the types with a codec.
func supported() []Type {
	return []Type{F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K}
}

func TestSupportedMatchesCodecs(t *testing.T) {
	require.Len(t, codecs, len(supported()))
	for _, typ := range supported() {
		require.True(t, typ.Supported(), typ)
		require.True(t, typ.Known(), typ)
	}
	require.False(t, IQ2_XS.Supported())
	require.True(t, IQ2_XS.Known())
	require.False(t, Type(99).Known())
	require.Equal(t, "type(99)", Type(99).String())
	require.Equal(t, "Q4_K", Q4_K.String())
}

func TestLengthsAndTypesAreChecked(t *testing.T) {
	for _, typ := range supported() {
		n := typ.BlockElems()
		require.NoError(t, Dequantize(typ, nil, nil), typ)
		require.Error(t, Dequantize(typ, make([]float32, n), make([]byte, typ.BlockBytes()-1)), typ)
		require.Error(t, Dequantize(typ, make([]float32, n), make([]byte, 2*typ.BlockBytes())), typ)
		require.Error(t, Quantize(typ, make([]byte, typ.BlockBytes()+1), make([]float32, n)), typ)
		if n > 1 {
			require.ErrorContains(t, Dequantize(typ, make([]float32, n-1), make([]byte, typ.BlockBytes())), "no whole number")
		}
	}
	require.ErrorIs(t, Dequantize(IQ1_S, make([]float32, 256), make([]byte, 50)), ErrUnsupported)
	require.ErrorIs(t, Quantize(Type(99), nil, nil), ErrUnsupported)
	require.Panics(t, func() { Q4_K.RowBytes(100) })
}

// Every float16 survives the way through float32, and both roundings are to the nearest even: checked against float64
// arithmetic on both sides of every boundary between neighbours.
func TestHalfExhaustive(t *testing.T) {
	for h := range 1 << 16 {
		f := F16ToF32(uint16(h))
		if h&0x7fff > 0x7c00 {
			require.True(t, f != f)
			require.Equal(t, uint16(h)|0x200, F32ToF16(f))
			continue
		}
		require.Equal(t, uint16(h), F32ToF16(f))
		if h&0x7fff >= 0x7bff {
			continue
		}
		next := F16ToF32(uint16(h + 1))
		mid := float32((float64(f) + float64(next)) / 2) // exact
		even := uint16(h + h&1)
		require.Equal(t, even, F32ToF16(mid), "half way above %#x", h)
		require.Equal(t, uint16(h), F32ToF16(math.Nextafter32(mid, f)), "below the half above %#x", h)
		require.Equal(t, uint16(h+1), F32ToF16(math.Nextafter32(mid, next)), "beyond the half above %#x", h)
	}
	for h := range 1 << 16 {
		if f := BF16ToF32(uint16(h)); f == f {
			require.Equal(t, uint16(h), F32ToBF16(f))
		} else {
			require.Equal(t, uint16(h)|0x40, F32ToBF16(f))
		}
	}
	require.Equal(t, uint16(0x7c00), F32ToF16(65520))
	require.Equal(t, uint16(0x7bff), F32ToF16(65519.996))
	require.Equal(t, uint16(0xfc00), F32ToF16(float32(math.Inf(-1))))
	require.Equal(t, uint16(0x7f80), F32ToBF16(math.MaxFloat32))
}

// Nothing that floats or bytes can hold makes a codec panic.
func TestHostileInput(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	odd := []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, -math.MaxFloat32, 1e-45, -1e-45, 0}
	for _, typ := range supported() {
		src := make([]float32, 512)
		enc := make([]byte, typ.RowBytes(len(src)))
		for range 20 {
			for i := range src {
				src[i] = math.Float32frombits(r.Uint32())
				if r.IntN(4) == 0 {
					src[i] = odd[r.IntN(len(odd))]
				}
			}
			require.NoError(t, Quantize(typ, enc, src))
			for i := range enc {
				enc[i] = byte(r.Uint32())
			}
			require.NoError(t, Dequantize(typ, src, enc))
		}
	}
}

// Quantising what was dequantised from packed levels finds a grid at least nearly as good: the error stays far below a level.
func TestRoundTripError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	src := make([]float32, 4096)
	for i := range src {
		src[i] = float32(r.NormFloat64())
	}
	limit := map[Type]float64{
		F32: 0, F16: 3e-4, BF16: 2.5e-3, Q8_0: 7e-3, Q4_0: 0.1, Q4_1: 0.085, Q5_0: 0.05, Q5_1: 0.042,
		Q4_K: 0.072, Q5_K: 0.036, Q6_K: 0.019,
	}
	for _, typ := range supported() {
		enc, back := make([]byte, typ.RowBytes(len(src))), make([]float32, len(src))
		require.NoError(t, Quantize(typ, enc, src))
		require.NoError(t, Dequantize(typ, back, enc))
		e := rms(src, back)
		t.Logf("%s: rms error %.4g of standard deviation 1", typ, e)
		require.LessOrEqual(t, e, limit[typ], typ)
	}
}

func TestKScalesPackBothWays(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		var b, again [12]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		sc, mn := kScales(&b)
		packKScales(&again, &sc, &mn)
		require.Equal(t, b, again)
	}
}

func BenchmarkDequantize(b *testing.B) {
	for _, typ := range supported() {
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]float32, 4096)
			src := make([]byte, typ.RowBytes(len(dst)))
			for i := range src {
				src[i] = byte(i * 37 & 0x3b)
			}
			for b.Loop() {
				if err := Dequantize(typ, dst, src); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(dst))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Melem/s")
		})
	}
}

func BenchmarkQuantize(b *testing.B) {
	r := rand.New(rand.NewPCG(7, 8))
	src := make([]float32, 4096)
	for i := range src {
		src[i] = float32(r.NormFloat64())
	}
	for _, typ := range supported() {
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]byte, typ.RowBytes(len(src)))
			for b.Loop() {
				if err := Quantize(typ, dst, src); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(src))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Melem/s")
		})
	}
}

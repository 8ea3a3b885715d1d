package kvformat_test

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/kvformat"
	"github.com/minfer-go/minfer/quant"
)

var all = []kvformat.Format{kvformat.F16, kvformat.F32, kvformat.Q8_0}

func TestNamesAndTypes(t *testing.T) {
	for _, f := range all {
		g, err := kvformat.ParseFormat(f.String())
		require.NoError(t, err)
		assert.Equal(t, f, g)
		g, err = kvformat.FromType(f.Type())
		require.NoError(t, err)
		assert.Equal(t, f, g)
	}
	f, err := kvformat.ParseFormat("Q8_0")
	require.NoError(t, err)
	assert.Equal(t, kvformat.Q8_0, f)
	_, err = kvformat.ParseFormat("q4_0")
	require.ErrorIs(t, err, kvformat.ErrUnsupported)
	assert.ErrorContains(t, err, `"q4_0"`)
	_, err = kvformat.FromType(quant.Q4_K)
	require.ErrorIs(t, err, kvformat.ErrUnsupported)
	bad := kvformat.Format(9)
	assert.False(t, bad.Type().Known())
	assert.Equal(t, "format(9)", bad.String())
	_, err = bad.RowBytes(32)
	require.ErrorIs(t, err, kvformat.ErrUnsupported)
}

func TestRowBytes(t *testing.T) {
	for f, want := range map[kvformat.Format]int{kvformat.F32: 512, kvformat.F16: 256, kvformat.Q8_0: 136} {
		n, err := f.RowBytes(128)
		require.NoError(t, err)
		assert.Equal(t, want, n, f)
	}
	n, err := kvformat.F16.RowBytes(80)
	require.NoError(t, err)
	assert.Equal(t, 160, n)
	for _, bad := range []int{80, 0, -32, math.MaxInt} {
		_, err = kvformat.Q8_0.RowBytes(bad)
		require.ErrorIs(t, err, kvformat.ErrUnsupported)
	}
	_, err = kvformat.Q8_0.RowBytes(80)
	assert.ErrorContains(t, err, "head_dim")
}

// The bits were worked out by hand from the documented formula.
func TestExactBits(t *testing.T) {
	enc := func(f kvformat.Format, x ...float32) string {
		n, err := f.RowBytes(len(x))
		require.NoError(t, err)
		b := make([]byte, n)
		f.Encode(b, x)
		return hex.EncodeToString(b)
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	assert.Equal(t, "0000803f000000800000807f", enc(kvformat.F32, 1, float32(math.Copysign(0, -1)), inf))
	// 1; 65504 is the largest; 65520 becomes infinite; 2049 and 2051 are ties (to even: 2048, 2052); 2^-25 ties to 0.
	assert.Equal(t, "003cff7b007c0068026800000080", enc(kvformat.F16, 1, 65504, 65520, 2049, 2051, 0x1p-25, -0x1p-26))

	x := make([]float32, 32)
	for i := range x {
		x[i] = float32(i) - 16
	}
	x[0], x[1], x[2], x[3] = 127, 2.5, -3.5, 0.5 // d = 1, id = 1: ties to even give 2, -4, 0
	assert.Equal(t, "003c7f02fc00f4f5f6f7f8f9fafbfcfdfeff000102030405060708090a0b0c0d0e0f", enc(kvformat.Q8_0, x...))

	clear(x)
	assert.Equal(t, "0000"+zeros(32), enc(kvformat.Q8_0, x...))
	x[5], x[6] = nan, -127
	assert.Equal(t, "007e0000000000008100", enc(kvformat.Q8_0, x...)[:20], "a NaN makes the scale NaN and counts as 0")
	x[5] = inf
	assert.Equal(t, "007c"+zeros(32), enc(kvformat.Q8_0, x...), "an infinity makes the scale infinite")
	clear(x)
	x[0] = math.SmallestNonzeroFloat32 // 127/amax overflows: still no stray integer
	assert.Equal(t, "00007f00", enc(kvformat.Q8_0, x...)[:8])
}

func zeros(bytes int) string { return hex.EncodeToString(make([]byte, bytes)) }

func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, f := range all {
		for range 50 {
			src := make([]float32, 32*(1+rng.IntN(8)))
			for i := range src {
				src[i] = float32(rng.NormFloat64() * math.Exp2(float64(rng.IntN(9)-4)))
			}
			n, err := f.RowBytes(len(src))
			require.NoError(t, err)
			row, again := make([]byte, n+2), make([]byte, n)
			row[n], row[n+1] = 0xa5, 0x5a
			f.Encode(row[:n], src)
			assert.Equal(t, []byte{0xa5, 0x5a}, row[n:], "bytes behind the row are untouched")
			dst := make([]float32, len(src))
			f.Decode(dst, row[:n])
			viaQuant := make([]float32, len(src))
			require.NoError(t, quant.Dequantize(f.Type(), viaQuant, row[:n]))
			assert.Equal(t, viaQuant, dst, "decoding is that of quant.%s", f.Type())
			for i := range src {
				switch f {
				case kvformat.F32:
					require.Equal(t, src[i], dst[i])
				case kvformat.F16:
					require.InDelta(t, src[i], dst[i], math.Abs(float64(src[i]))*0x1p-11+0x1p-25)
				case kvformat.Q8_0: // half a step, and the scale's rounding on 127 steps
					d := float64(quant.F16ToF32(binary.LittleEndian.Uint16(row[i/32*34:])))
					require.InDelta(t, src[i], dst[i], d*(0.5+127*0x1p-11)*1.001)
				}
			}
			if f != kvformat.Q8_0 {
				f.Encode(again, dst)
				require.Equal(t, row[:n], again, "what was decoded encodes to the same bytes")
			}
		}
	}
}

func TestWrongLengthsPanic(t *testing.T) {
	assert.Panics(t, func() { kvformat.Q8_0.Encode(make([]byte, 34), make([]float32, 33)) })
	assert.Panics(t, func() { kvformat.F16.Decode(make([]float32, 2), make([]byte, 3)) })
	assert.NotPanics(t, func() { kvformat.F16.Encode(nil, nil) })
}

func BenchmarkEncodeQ8_0(b *testing.B) {
	src, dst := make([]float32, 128), make([]byte, 136)
	for i := range src {
		src[i] = float32(i%13) - 6
	}
	b.SetBytes(512)
	for b.Loop() {
		kvformat.Q8_0.Encode(dst, src)
	}
}

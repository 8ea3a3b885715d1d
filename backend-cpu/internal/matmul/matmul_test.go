package matmul

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/quant"
)

var quantised = []quant.Type{quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K}

// scaleAt gives the offsets of a block's f16 fields.
func scaleAt(t quant.Type) []int {
	switch t {
	case quant.Q4_1, quant.Q5_1, quant.Q4_K, quant.Q5_K:
		return []int{0, 2}
	case quant.Q6_K:
		return []int{208}
	}
	return []int{0}
}

type flavour int

const (
	ordinary flavour = iota
	extreme          // every level and activation at its largest magnitude
	wild             // scales of any bits: zero, subnormal, infinite, NaN
)

func (f flavour) String() string { return [...]string{"ordinary", "extreme", "wild"}[f] }

// weights makes a matrix at an odd address, with guard bytes behind it that are part of the slice's capacity only.
func weights(rng *rand.Rand, t quant.Type, rows, cols int, f flavour) Weight {
	n := rows * t.RowBytes(cols)
	data := make([]byte, n+1)[1:]
	rng.Read(data)
	if f == extreme {
		fill := []byte{0xff, 0x80, 0x00, 0x7f}
		for i := range data {
			data[i] = fill[(i/7+i/911)%4]
			if t == quant.Q8_0 && i%3 > 0 {
				data[i] = 0x80
			}
		}
	}
	if f != wild {
		for b := 0; b < n; b += t.BlockBytes() {
			for _, at := range scaleAt(t) {
				binary.LittleEndian.PutUint16(data[b+at:], quant.F32ToF16(float32(rng.NormFloat64())*0.02))
			}
		}
	}
	return Weight{Type: t, Rows: rows, Cols: cols, Data: data}
}

func floatWeights(rng *rand.Rand, t quant.Type, rows, cols int) Weight {
	data := make([]byte, rows*t.RowBytes(cols)+1)[1:]
	for i := range rows * cols {
		v := float32(rng.NormFloat64())
		switch t {
		case quant.F32:
			binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
		case quant.F16:
			binary.LittleEndian.PutUint16(data[2*i:], quant.F32ToF16(v))
		case quant.BF16:
			binary.LittleEndian.PutUint16(data[2*i:], quant.F32ToBF16(v))
		}
	}
	return Weight{Type: t, Rows: rows, Cols: cols, Data: data}
}

func activations(rng *rand.Rand, n int, f flavour) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * math.Exp(rng.NormFloat64()))
		if f == extreme {
			x[i] = 3.5 * float32(1-2*(i/5%2))
		}
	}
	if f == wild {
		for range n / 100 {
			x[rng.Intn(n)] = math.Float32frombits(rng.Uint32())
		}
	}
	return x
}

func bits(x []float32) []uint32 {
	out := make([]uint32, len(x))
	for i, f := range x {
		out[i] = math.Float32bits(f)
		if f != f {
			out[i] = 0x7fc00000 // the payload of a NaN isn't part of the formulas
		}
	}
	return out
}

// The taken-apart row means what quant says it means.
func TestDecodeAgreesWithQuant(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for _, typ := range quantised {
		const cols = 512
		w := weights(rng, typ, 3, cols, ordinary)
		for o := range w.Rows {
			want := make([]float32, cols)
			require.NoError(t, quant.Dequantize(typ, want, w.row(o)))
			var l levels
			l.decode(typ, w.row(o), cols)
			for i, v := range want {
				run := 32
				if typ == quant.Q6_K {
					run = 16
				}
				got := float32(l.dw[i/run] * float32(l.q[i]))
				if hasMin(typ) {
					got = float32(got + l.m[i/32])
				}
				require.Equal(t, v, got, "%s row %d weight %d", typ, o, i)
			}
		}
	}
}

// The product is that of the dequantised weights up to the rounding of activations.
func TestGenericProduct(t *testing.T) {
	rng := rand.New(rand.NewSource(2))
	k, err := New(Generic)
	require.NoError(t, err)
	for _, typ := range quantised {
		const rows, cols, n = 5, 768, 3
		w := weights(rng, typ, rows, cols, ordinary)
		x := activations(rng, n*cols, ordinary)
		acts := NewActs(n, cols)
		acts.Reset(n, cols)
		require.True(t, acts.Quantize(Generic, x, cols, 0, n, 0, cols))
		dst := make([]float32, n*rows)
		k.Mul(dst, rows, w, acts, 0, rows, new(Scratch))
		row := make([]float32, cols)
		for o := range rows {
			require.NoError(t, quant.Dequantize(typ, row, w.row(o)))
			for r := range n {
				var sum, size float64
				for c, v := range row {
					b := acts.blocks[r*cols/32+c/32]
					p := float64(v) * float64(b.d) * float64(b.q[c%32])
					sum += p
					size += math.Abs(p)
					require.InDelta(t, x[r*cols+c], b.d*float32(b.q[c%32]), float64(b.d)*0.5001)
				}
				require.InDelta(t, sum, dst[r*rows+o], size*1e-5, "%s", typ)
			}
		}
	}
}

func TestQuantizeAllPaths(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	for _, f := range []flavour{ordinary, extreme, wild} {
		const rows, cols, stride = 3, 320, 333
		x := activations(rng, rows*stride+1, f)[1:]
		if f == wild {
			for i := range 32 {
				x[i] = 0
				x[32+i] = math.Float32frombits(uint32(i))        // subnormal: 127/amax overflows
				x[64+i] = float32(i-16) * 0.5 * float32(i%2*2-1) // ties
			}
			x[100], x[140] = float32(math.NaN()), float32(math.Inf(-1))
		}
		var want Acts
		want.Reset(rows, cols)
		finite := want.Quantize(Generic, x, stride, 0, rows, 0, cols)
		require.Equal(t, f != wild, finite)
		for _, p := range Available() {
			var got Acts
			got.Reset(rows, cols)
			a := got.Quantize(p, x, stride, 0, 2, 0, 96)
			b := got.Quantize(p, x, stride, 0, 2, 96, cols)
			c := got.Quantize(p, x, stride, 2, 3, 0, cols)
			require.Equal(t, finite, a && b && c, "%s %s", p, f)
			for i := range want.blocks {
				g, w := got.blocks[i], want.blocks[i]
				require.Equal(t, bits([]float32{w.d, w.ds}), bits([]float32{g.d, g.ds}), "%s %s block %d", p, f, i)
				g.d, g.ds, w.d, w.ds = 0, 0, 0, 0
				require.Equal(t, w, g, "%s %s block %d", p, f, i)
				gb, wb := got.both[i], want.both[i]
				require.Equal(t, wb.q, gb.q, "%s %s tables of block %d", p, f, i)
				require.Equal(t, bits([]float32{want.blocks[i].d}), bits([]float32{gb.d}), "%s %s tables of block %d", p, f, i)
			}
		}
	}
}

// Every path gives the pure Go path's bits, for any split of outputs, and writes nowhere else.
func TestMulAllPaths(t *testing.T) {
	t.Logf("paths here: %v", Available())
	rng := rand.New(rand.NewSource(4))
	const guard = float32(-12345)
	generic, err := New(Generic)
	require.NoError(t, err)
	for _, typ := range quantised {
		for _, f := range []flavour{ordinary, extreme, wild} {
			for _, sh := range []struct{ rows, cols, n int }{
				{1, 256, 1}, {7, 256, 2}, {8, 512, 1}, {16, 256, 1}, {33, 768, 3}, {40, 256, 4}, {64, 512, 5}, {71, 768, 7}, {97, 2304, 13}, {48, 4608, 2}, {41, 1536, 55}, {139, 768, 8}, {300, 512, 6}, {210, 256, 1},
			} {
				cols := sh.cols
				if typ.BlockElems() == 32 && sh.n%2 == 1 {
					cols += 32 // an odd number of blocks
				}
				w := weights(rng, typ, sh.rows, cols, f)
				var acts Acts
				acts.Reset(sh.n, cols)
				acts.Quantize(Generic, activations(rng, sh.n*cols, f), cols, 0, sh.n, 0, cols)
				stride := sh.rows + 3
				want := make([]float32, sh.n*stride)
				for i := range want {
					want[i] = guard
				}
				generic.Mul(want, stride, w, &acts, 0, sh.rows, new(Scratch))
				for _, p := range Available() {
					k, err := New(p)
					require.NoError(t, err)
					var s Scratch
					for _, cut := range [][]int{{0, sh.rows}, {0, sh.rows / 3, sh.rows / 2, sh.rows}} {
						got := make([]float32, sh.n*stride)
						for i := range got {
							got[i] = guard
						}
						for i := range len(cut) - 1 {
							k.Mul(got, stride, w, &acts, cut[i], cut[i+1], &s)
						}
						require.Equal(t, bits(want), bits(got), "%s %s %s %+v cut %v", p, typ, f, sh, cut)
					}
				}
			}
		}
	}
}

// TestRowBeyond: what stands in memory behind activation rows, where kernels may read one more, is in no result.
func TestRowBeyond(t *testing.T) {
	const rows, cols = 100, 96
	rng := rand.New(rand.NewSource(6))
	generic, err := New(Generic)
	require.NoError(t, err)
	for _, typ := range []quant.Type{quant.Q8_0, quant.Q4_0, quant.Q5_0} {
		for n := 1; n <= FewRows; n++ {
			w := weights(rng, typ, rows, cols, ordinary)
			store := new(Store)
			before := store.Acts(FewRows, cols, false)
			before.Quantize(Generic, activations(rng, FewRows*cols, wild), cols, 0, FewRows, 0, cols)
			for i := range before.blocks {
				before.blocks[i].d = float32(math.NaN())
			}
			var own Acts
			own.Reset(n, cols)
			for _, acts := range []*Acts{store.Acts(n, cols, false), &own} {
				acts.Quantize(Generic, activations(rng, n*cols, ordinary), cols, 0, n, 0, cols)
				want := make([]float32, n*rows)
				generic.Mul(want, rows, w, acts, 0, rows, new(Scratch))
				for _, p := range Available() {
					k, err := New(p)
					require.NoError(t, err)
					got := make([]float32, n*rows)
					k.Mul(got, rows, w, acts, 0, rows, new(Scratch))
					require.Equal(t, bits(want), bits(got), "%s %s, %d rows", p, typ, n)
				}
			}
		}
	}
}

func TestMulFloatAllPaths(t *testing.T) {
	rng := rand.New(rand.NewSource(5))
	generic, err := New(Generic)
	require.NoError(t, err)
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16} {
		for _, sh := range []struct{ rows, cols, n int }{{1, 16, 1}, {5, 64, 1}, {9, 100, 3}, {14, 96, 4}, {33, 160, 7}} {
			w := floatWeights(rng, typ, sh.rows, sh.cols)
			xs, ds := sh.cols+1, sh.rows+2
			x := activations(rng, sh.n*xs, ordinary)
			want := make([]float32, sh.n*ds)
			generic.MulFloat(want, ds, w, x, xs, sh.n, 0, sh.rows, new(Scratch))
			exact := 0.0
			for c := range sh.cols {
				v := make([]float32, 1)
				size := typ.BlockBytes()
				require.NoError(t, quant.Dequantize(typ, v, w.Data[c*size:(c+1)*size]))
				exact += float64(v[0]) * float64(x[c])
			}
			require.InDelta(t, exact, want[0], 1e-3)
			for _, p := range Available() {
				k, err := New(p)
				require.NoError(t, err)
				got := make([]float32, sh.n*ds)
				k.MulFloat(got, ds, w, x, xs, sh.n, 0, sh.rows/2, new(Scratch))
				k.MulFloat(got, ds, w, x, xs, sh.n, sh.rows/2, sh.rows, new(Scratch))
				require.Equal(t, bits(want), bits(got), "%s %s %+v", p, typ, sh)
			}
		}
	}
}

func TestMulDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewSource(6))
	for _, p := range Available() {
		k, err := New(p)
		require.NoError(t, err)
		w := weights(rng, quant.Q4_K, 64, 512, ordinary)
		fw := floatWeights(rng, quant.F16, 64, 512)
		x := activations(rng, 3*512, ordinary)
		acts, s, dst := NewActs(3, 512), new(Scratch), make([]float32, 3*64)
		step := func() {
			acts.Reset(3, 512)
			acts.Quantize(p, x, 512, 0, 3, 0, 512)
			k.Mul(dst, 64, w, acts, 0, 64, s)
			k.MulFloat(dst, 64, fw, x, 512, 3, 0, 64, s)
		}
		step()
		require.Zero(t, testing.AllocsPerRun(5, step), "%s", p)
	}
}

// Products that read tables of both signs say so, and get none by chance from acts that were made without.
func TestBothSigns(t *testing.T) {
	for _, p := range Available() {
		k, err := New(p)
		require.NoError(t, err)
		for typ, want := range map[quant.Type]bool{quant.Q8_0: p == AVX2, quant.Q4_0: false, quant.Q6_K: false} {
			require.Equal(t, want, k.WantsBothSigns(typ, FewRows+1), "%s %s", p, typ)
			require.False(t, k.WantsBothSigns(typ, FewRows), "%s %s", p, typ)
		}
		w := Weight{Type: quant.Q8_0, Rows: 32, Cols: 64, Data: make([]byte, 32*68)}
		acts := new(Store).Acts(FewRows+1, 64, false)
		require.True(t, acts.Quantize(p, make([]float32, (FewRows+1)*64), 64, 0, FewRows+1, 0, 64))
		mul := func() { k.Mul(make([]float32, (FewRows+1)*32), 32, w, acts, 0, 32, new(Scratch)) }
		if p == AVX2 {
			require.PanicsWithValue(t, "matmul: activations without tables of both signs", mul)
		} else {
			require.NotPanics(t, mul)
		}
	}
}

func TestMisuse(t *testing.T) {
	k, err := New(Generic)
	require.NoError(t, err)
	w := Weight{Type: quant.Q8_0, Rows: 2, Cols: 64, Data: make([]byte, 2*68)}
	var acts Acts
	acts.Reset(1, 64)
	s := new(Scratch)
	require.Panics(t, func() { acts.Reset(1, 33) })
	require.Panics(t, func() { k.Mul(make([]float32, 1), 2, w, &acts, 0, 2, s) }, "dst too short")
	require.Panics(t, func() { k.Mul(make([]float32, 3), 2, w, &acts, 0, 3, s) }, "too many outputs")
	w.Data = w.Data[1:]
	require.Panics(t, func() { k.Mul(make([]float32, 2), 2, w, &acts, 0, 2, s) }, "weights too short")
	_, err = New(99)
	require.ErrorContains(t, err, "path(99)")
	require.Equal(t, "[generic avx2 avx512-vnni]", fmt.Sprint([]Path{Generic, AVX2, AVX512}))
}

package kernelscuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
)

// angles are the formulas of graph's RoPE in float64.
func angles(s RopeScaling, position int32) (cos, sin []float64) {
	corner := func(beta float64) float64 {
		return float64(s.Dims) * math.Log(float64(s.OrigCtx)/(beta*2*math.Pi)) / (2 * math.Log(s.Base))
	}
	for i := range s.Dims / 2 {
		extrap := float64(position) * math.Pow(s.Base, -2*float64(i)/float64(s.Dims))
		theta, m := s.FreqScale*extrap, s.AttnFactor
		if s.ExtFactor != 0 {
			low, high := math.Max(0, math.Floor(corner(s.BetaFast))), math.Min(float64(s.Dims-1), math.Ceil(corner(s.BetaSlow)))
			ramp := 1 - math.Min(1, math.Max(0, (float64(i)-low)/math.Max(0.001, high-low)))
			mix := ramp * s.ExtFactor
			theta = theta*(1-mix) + extrap*mix
			m *= 1 + 0.1*math.Log(1/s.FreqScale)
		}
		cos, sin = append(cos, math.Cos(theta)*m), append(sin, math.Sin(theta)*m)
	}
	return cos, sin
}

func ropeTable(t *testing.T, e *emulated, s RopeScaling, positions []int32) cudart.Ptr {
	freqs, scale := RopeFrequencies(s)
	table := e.alloc(8 * len(positions) * len(freqs))
	require.NoError(t, e.RopeTableF32(e, &RopeTableParams{Positions: put(e, positions), Frequencies: put(e, freqs), Table: table,
		Rows: int32(len(positions)), Pairs: int32(len(freqs)), Scale: scale}))
	return table
}

var ropeCases = []RopeScaling{
	{Dims: 64, Base: 1e6, FreqScale: 1, AttnFactor: 1},
	{Dims: 128, Base: 1e4, FreqScale: 0.25, AttnFactor: 1},
	{Dims: 128, Base: 1e6, FreqScale: 0.25, ExtFactor: 1, AttnFactor: 1, BetaFast: 32, BetaSlow: 1, OrigCtx: 32768},
}

func TestRopeTableFarAway(t *testing.T) {
	e := emulate(t)
	positions := []int32{0, 1, 4095, 131071, 1_000_003}
	for _, s := range ropeCases {
		got := get[float32](e, ropeTable(t, e, s, positions), len(positions)*s.Dims)
		for row, pos := range positions {
			cos, sin := angles(s, pos)
			for i := range cos {
				require.InDelta(t, cos[i], got[row*s.Dims+2*i], 1e-7, "position %d, pair %d", pos, i)
				require.InDelta(t, sin[i], got[row*s.Dims+2*i+1], 1e-7, "position %d, pair %d", pos, i)
			}
		}
	}
}

func rotated(x []float64, s RopeScaling, position int32, interleaved bool) []float64 {
	cos, sin := angles(s, position)
	y := append([]float64(nil), x...)
	for i := range cos {
		a, b := i, i+len(cos)
		if interleaved {
			a, b = 2*i, 2*i+1
		}
		y[a], y[b] = x[a]*cos[i]-x[b]*sin[i], x[a]*sin[i]+x[b]*cos[i]
	}
	return y
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func TestRope(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(27, 28))
	positions := []int32{5, 77, 3000}
	s := ropeCases[0] // 64 of each head's elements
	for _, dim := range []int{64, 80} {
		for interleaved := range 2 {
			const heads = 5
			stride := heads*dim + 3
			x, y := random(r, 3*stride, 1), e.alloc(4*3*heads*dim)
			require.NoError(t, e.RopeF32(e, &RopeParams{X: put(e, x), Y: y, Table: ropeTable(t, e, s, positions), Rows: 3, Heads: heads, HeadDim: int32(dim),
				Pairs: 32, Interleaved: int32(interleaved), XStride: int32(stride), YStride: int32(heads * dim)}))
			got := get[float32](e, y, 3*heads*dim)
			for i := range 3 * heads {
				near(t, rotated(widen(x[i/heads*stride+i%heads*dim:][:dim]), s, positions[i/heads], interleaved == 1), got[i*dim:][:dim], 3e-7, dim)
			}
		}
	}
}

// decodeKV reads n elements back.
func decodeKV(format int32, row []byte, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		switch format {
		case KVF32:
			out[i] = math.Float32frombits(uint32(row[4*i]) | uint32(row[4*i+1])<<8 | uint32(row[4*i+2])<<16 | uint32(row[4*i+3])<<24)
		case KVF16:
			out[i] = decodeF16(uint16(row[2*i]) | uint16(row[2*i+1])<<8)
		case KVQ8:
			b := row[i/32*34:]
			out[i] = decodeF16(uint16(b[0])|uint16(b[1])<<8) * float32(int8(b[2+i%32]))
		}
	}
	return out
}

// precision is how far encoding may move a value, relative to the largest.
var precision = map[int32]float64{KVF32: 1e-6, KVF16: 5e-4, KVQ8: 5e-3}

func TestQkvRopeStore(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(29, 30))
	const heads, kvHeads, dim, cells, eps = 3, 2, 128, 6, 1e-6
	positions, at := []int32{100, 7, 9}, []int32{4, -1, 0}
	const width = (heads + 2*kvHeads) * dim
	for _, format := range [][2]int32{{KVF16, KVF16}, {KVQ8, KVF32}, {KVF32, KVQ8}} {
		for _, norms := range []bool{false, true} {
			s := ropeCases[2]
			x := random(r, 3*width, 1)
			bias, wq, wk := random(r, width, 1), random(r, dim, 1), random(r, dim, 1)
			n := kvHeads * dim
			keyRow, valueRow := kvBytes(format[0], n), kvBytes(format[1], n)
			px, y := put(e, x), e.alloc(4*3*heads*dim)
			keys, values := e.alloc(int(keyRow)*cells), e.alloc(int(valueRow)*cells)
			p := &QkvRopeStoreParams{Q: px, K: px + 4*heads*dim, V: px + 4*(heads+kvHeads)*dim, Table: ropeTable(t, e, s, positions), Cells: put(e, at),
				Y: y, Keys: keys, Values: values, KeyRow: keyRow, ValueRow: valueRow, Rows: 3, Heads: heads, KvHeads: kvHeads, HeadDim: dim, Pairs: dim / 2,
				QStride: width, KStride: width, VStride: width, YStride: heads * dim, KeyType: format[0], ValueType: format[1], Eps: eps}
			if norms {
				p.QNorm, p.KNorm = put(e, wq), put(e, wk)
			} else {
				b := put(e, bias)
				p.QBias, p.KBias, p.VBias = b, b+4*heads*dim, b+4*(heads+kvHeads)*dim
			}
			require.NoError(t, e.QkvRopeStoreF32(e, p))
			gotQ, gotK, gotV := get[float32](e, y, 3*heads*dim), e.read(keys, int(keyRow)*cells), e.read(values, int(valueRow)*cells)
			for row := range 3 {
				for h := range heads + 2*kvHeads {
					v := widen(x[row*width+h*dim:][:dim])
					isQ, isV := h < heads, h >= heads+kvHeads
					if norms && !isV {
						w := wk
						if isQ {
							w = wq
						}
						v = normReference(x[row*width+h*dim:][:dim], w, eps)
					}
					for i := range v {
						if !norms {
							v[i] += float64(bias[h*dim+i])
						}
					}
					if !isV {
						v = rotated(v, s, positions[row], false)
					}
					msg := fmt.Sprint(format, norms, row, h)
					switch {
					case isQ:
						near(t, v, gotQ[(row*heads+h)*dim:][:dim], 1e-6, msg)
					case at[row] < 0:
					case isV:
						near(t, v, decodeKV(format[1], gotV[int(at[row])*int(valueRow):][:valueRow], n)[(h-heads-kvHeads)*dim:][:dim], precision[format[1]], msg)
					default:
						near(t, v, decodeKV(format[0], gotK[int(at[row])*int(keyRow):][:keyRow], n)[(h-heads)*dim:][:dim], precision[format[0]], msg)
					}
				}
			}
			for _, cell := range []int{1, 2, 3, 5} {
				for _, b := range gotK[cell*int(keyRow):][:keyRow] {
					require.EqualValues(t, 0xff, b, "cell %d isn't stored in", cell)
				}
			}
		}
	}
}

// The encoding is kvformat's, bit for bit: not a number makes the scale one and counts as 0, infinities leave zeros.
func TestKvStoreQ8(t *testing.T) {
	e := emulate(t)
	x := random(rand.New(rand.NewPCG(31, 32)), 4*32, 1)
	x[5] = float32(math.NaN())
	x[40] = float32(math.Inf(-1))
	clear(x[64:96])
	region := e.alloc(4 * 34)
	require.NoError(t, e.KvStoreF32(e, &KvStoreParams{X: put(e, x), Cells: put(e, []int32{0}), Region: region, Row: 4 * 34, Rows: 1, KvHeads: 4, HeadDim: 32, XStride: 128, Type: KVQ8}))
	got := e.read(region, 4*34)
	for b := range 4 {
		amax, nan := float32(0), false
		for _, v := range x[32*b:][:32] {
			if v != v {
				nan = true
			} else {
				amax = max(amax, float32(math.Abs(float64(v))))
			}
		}
		id := float32(0)
		if amax != 0 {
			id = 127 / amax
		}
		block := got[34*b:][:34]
		h := uint16(block[0]) | uint16(block[1])<<8
		switch {
		case nan:
			require.Greater(t, h&0x7fff, uint16(0x7c00))
		case math.IsInf(float64(amax), 1):
			require.Equal(t, uint16(0x7c00), h)
		default:
			require.Equal(t, encodeF16(amax/127), h)
		}
		for i, v := range x[32*b:][:32] {
			q := math.RoundToEven(float64(v * id))
			if q != q {
				q = 0
			}
			require.EqualValues(t, int8(q), int8(block[2+i]), "block %d, element %d", b, i)
		}
	}
}

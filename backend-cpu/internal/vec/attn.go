package vec

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/minfer-go/minfer/backend-cpu/internal/f32"
	"github.com/minfer-go/minfer/kvformat"
	"github.com/minfer-go/minfer/quant"
)

// Geometry of a chunk of cells in its float32 form, as the attention kernels read it.
//
// Keys lie in tiles of Tile positions, each [headDim][Tile]: lanes are positions, so that a product needs no horizontal
// sum and its 16 partial sums (element index modulo 16) stand in 16 registers' worth of steps. Values lie in slices
// of Slice elements, each [Chunk][Slice], so that a slice stays in the first cache while all queries pass.
const (
	Chunk = 128
	Tile  = 16
	Slice = 32
)

// PadDim is a head's length in values and outputs: whole slices.
func PadDim(headDim int) int { return (headDim + Slice - 1) / Slice * Slice }

// Keys converts the head's elements of n cells (up to Chunk) to tiles. Cell j's head starts at src[offs[j]]. Positions
// from n to the end of the last tile hold anything. dst has Chunk*headDim elements, offs Chunk.
func (k Kernels) Keys(dst []float32, src []byte, offs []int, n, headDim int, f kvformat.Format) {
	if n == 0 {
		return
	}
	headBytes := rowBytes(f, headDim)
	if k.avx2 && headDim%32 == 0 {
		tiles := (n + Tile - 1) / Tile
		_, offs = dst[tiles*Tile*headDim-1], offs[:tiles*Tile]
		for j := n; j < len(offs); j++ {
			offs[j] = offs[n-1]
		}
		for _, o := range offs {
			_ = src[o : o+headBytes]
		}
		for t := 0; t < 2*tiles; t++ {
			at := &dst[t/2*Tile*headDim+t%2*8]
			switch f {
			case kvformat.F32:
				keysF32AVX2(at, &src[0], &offs[t*8], headDim)
			case kvformat.F16:
				keysF16AVX2(at, &src[0], &offs[t*8], headDim)
			case kvformat.Q8_0:
				keysQ8AVX2(at, &src[0], &offs[t*8], headDim)
			}
		}
		return
	}
	for j := range n {
		row := src[offs[j]:][:headBytes]
		tile := dst[j/Tile*Tile*headDim:][:Tile*headDim]
		for e := range headDim {
			tile[e*Tile+j%Tile] = element(f, row, e)
		}
	}
}

// Values converts the head's elements of n cells to slices: dst has Chunk*PadDim(headDim) elements; elements past headDim
// become 0.
func (k Kernels) Values(dst []float32, src []byte, offs []int, n, headDim int, f kvformat.Format) {
	headBytes := rowBytes(f, headDim)
	if k.avx2 && headDim%32 == 0 && n > 0 {
		_, offs = dst[(headDim/Slice-1)*Chunk*Slice+n*Slice-1], offs[:n]
		for _, o := range offs {
			_ = src[o : o+headBytes]
		}
		switch f {
		case kvformat.F32:
			valuesF32AVX2(&dst[0], &src[0], &offs[0], n, headDim)
		case kvformat.F16:
			valuesF16AVX2(&dst[0], &src[0], &offs[0], n, headDim)
		case kvformat.Q8_0:
			valuesQ8AVX2(&dst[0], &src[0], &offs[0], n, headDim)
		}
		return
	}
	for j := range n {
		row := src[offs[j]:][:headBytes]
		for e := range PadDim(headDim) {
			v := float32(0)
			if e < headDim {
				v = element(f, row, e)
			}
			dst[e/Slice*Chunk*Slice+j*Slice+e%Slice] = v
		}
	}
}

// Scores computes s[i*Chunk+j] = sum_e q[i*headDim+e] * key_j[e] for an even number of queries and the positions of all tiles
// that n positions touch (what stands past n means nothing).
func (k Kernels) Scores(s, q, keys []float32, queries, n, headDim int) {
	tiles := (n + Tile - 1) / Tile
	if queries == 0 || tiles == 0 {
		return
	}
	_, _, _ = s[queries*Chunk-1], q[queries*headDim-1], keys[tiles*Tile*headDim-1]
	if k.avx2 && headDim%16 == 0 && queries%2 == 0 {
		f := scoresAVX2
		switch headDim {
		case 64:
			f = scores64AVX2
		case 128:
			f = scores128AVX2
		}
		f(&s[0], &q[0], &keys[0], queries/2, tiles, headDim/16)
		return
	}
	for t := range tiles {
		tile := keys[t*Tile*headDim:][:Tile*headDim]
		for i := range queries {
			row := q[i*headDim:][:headDim]
			for j := range Tile {
				var acc [16]float32
				for e, v := range row {
					acc[e&15] = f32.FMA(v, tile[e*Tile+j], acc[e&15])
				}
				s[i*Chunk+t*Tile+j] = f32.Reduce16(&acc)
			}
		}
	}
}

// SoftChunk turns the products of one query with a chunk's positions into weights: s = exp(s*scale - m) with m their
// largest scaled score, and l the sum of weights in 16 lanes. s holds the chunk's valid positions, at least one.
func (k Kernels) SoftChunk(s []float32, scale float32) (m, l float32) {
	if k.avx2 && cap(s) >= (len(s)+15)&^15 {
		return softAVX2(&s[0], len(s), scale)
	}
	for j := range s {
		s[j] *= scale
	}
	m = s[0]
	for _, v := range s {
		if v > m {
			m = v
		}
	}
	var acc [16]float32
	for j, v := range s {
		s[j] = Exp(v - m)
		acc[j&15] += s[j]
	}
	return m, f32.Reduce16(&acc)
}

// Weigh adds positions [from,to) of one slice of values to an output's slice: o[e] = fma(p[j], values[j][e], o[e]), j ascending.
// o and values start at the slice.
func (k Kernels) Weigh(o, p, values []float32, from, to int) {
	if from >= to {
		return
	}
	o, p, values = o[:Slice], p[from:to], values[from*Slice:to*Slice]
	if k.avx2 {
		weighAVX2(&o[0], &p[0], &values[0], len(p))
		return
	}
	weigh(o, p, values)
}

func weigh(o, p, values []float32) {
	for j, w := range p {
		v := values[j*Slice:][:Slice]
		for e := range o {
			o[e] = f32.FMA(w, v[e], o[e])
		}
	}
}

// Weigh2 is Weigh for two outputs with the same positions [0,n).
func (k Kernels) Weigh2(o0, o1, p0, p1, values []float32, n int) {
	if n <= 0 {
		return
	}
	o0, o1, p0, p1, values = o0[:Slice], o1[:Slice], p0[:n], p1[:n], values[:n*Slice]
	if k.avx2 {
		weigh2AVX2(&o0[0], &o1[0], &p0[0], &p1[0], &values[0], n)
		return
	}
	weigh(o0, p0, values)
	weigh(o1, p1, values)
}

// State is what attention keeps of the chunks merged so far.
type State struct{ M, L float32 }

// Merge adds a chunk's state and output oc to o, both of the same length.
func (k Kernels) Merge(s *State, o []float32, c State, oc []float32) {
	m := s.M
	if c.M > m {
		m = c.M
	}
	a, b := Exp(s.M-m), Exp(c.M-m)
	s.M, s.L = m, f32.FMA(c.L, b, float32(s.L*a))
	oc = oc[:len(o)]
	done := 0
	if k.avx2 {
		if done = len(o) &^ 7; done > 0 {
			mergeAVX2(&o[0], &oc[0], done, a, b)
		}
	}
	for e := done; e < len(o); e++ {
		o[e] = f32.FMA(oc[e], b, float32(o[e]*a))
	}
}

func rowBytes(f kvformat.Format, n int) int { return f.Type().RowBytes(n) }

// element decodes one element of a head's row.
func element(f kvformat.Format, row []byte, e int) float32 {
	switch f {
	case kvformat.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(row[4*e:]))
	case kvformat.F16:
		return quant.F16ToF32(binary.LittleEndian.Uint16(row[2*e:]))
	}
	block := row[e/32*34:]
	return float32(quant.F16ToF32(binary.LittleEndian.Uint16(block)) * float32(int8(block[2+e%32])))
}

// Encode writes one head's row of a KV cache.
func (k Kernels) Encode(dst []byte, x []float32, f kvformat.Format) {
	switch {
	case f == kvformat.F32 && len(x) > 0:
		copy(dst, unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x)))
	case f == kvformat.F16 && k.avx2 && len(x) > 0 && len(x)%8 == 0 && len(dst) >= 2*len(x):
		encodeF16AVX2(&dst[0], &x[0], len(x))
	default:
		f.Encode(dst, x)
	}
}

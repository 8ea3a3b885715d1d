package matmul

import (
	"encoding/binary"

	"github.com/minfer-go/minfer/quant"
)

// levels is one weight row taken apart: integer levels and, for each run of 32 (or 16) of them, what they stand for.
// A weight is dw*q, or dw*q + m.
type levels struct {
	q  []int8    // [k]
	dw []float32 // [k/32], Q6_K [k/16]
	m  []float32 // [k/32] where the type has minimums
}

func (l *levels) reset(k int) {
	if len(l.q) < k {
		l.q, l.dw, l.m = make([]int8, k), make([]float32, k/16), make([]float32, k/blockLen)
	}
}

func hasMin(t quant.Type) bool {
	return t == quant.Q4_1 || t == quant.Q5_1 || t == quant.Q4_K || t == quant.Q5_K
}

func half(b []byte) float32 { return quant.F16ToF32(binary.LittleEndian.Uint16(b)) }

// decode takes k weights of type t apart.
func (l *levels) decode(t quant.Type, row []byte, k int) {
	l.reset(k)
	size, elems := t.BlockBytes(), t.BlockElems()
	for b := range k / elems {
		src := row[b*size:][:size]
		q := l.q[b*elems:][:elems]
		switch t {
		case quant.Q8_0:
			l.dw[b] = half(src)
			for i := range q {
				q[i] = int8(src[2+i])
			}
		case quant.Q4_0:
			l.dw[b] = half(src)
			nibbles(q, src[2:], nil, 8)
		case quant.Q4_1:
			l.dw[b], l.m[b] = half(src), half(src[2:])
			nibbles(q, src[4:], nil, 0)
		case quant.Q5_0:
			l.dw[b] = half(src)
			nibbles(q, src[6:], src[2:6], 16)
		case quant.Q5_1:
			l.dw[b], l.m[b] = half(src), half(src[2:])
			nibbles(q, src[8:], src[4:8], 0)
		case quant.Q4_K:
			l.kScales(b, src)
			nibblesK(q, src[16:], nil)
		case quant.Q5_K:
			l.kScales(b, src)
			nibblesK(q, src[48:], src[16:48])
		case quant.Q6_K:
			d := half(src[208:])
			for j := range 16 {
				l.dw[b*16+j] = d * float32(int8(src[192+j]))
			}
			sixes(q, src)
		}
	}
}

// nibbles spreads 16 bytes: low halves are levels 0 to 15, high halves 16 to 31; high holds a fifth bit for each.
func nibbles(q []int8, src, high []byte, off int8) {
	h := uint32(0)
	if high != nil {
		h = binary.LittleEndian.Uint32(high)
	}
	for i := range 16 {
		q[i] = int8(src[i]&15|byte(h>>i&1)<<4) - off
		q[i+16] = int8(src[i]>>4|byte(h>>(i+16)&1)<<4) - off
	}
}

// nibblesK spreads a superblock's 128 bytes: each 32 hold two sub-blocks; bit j of high[i] is the fifth bit of level i of sub-block j.
func nibblesK(q []int8, src, high []byte) {
	for j := range 4 {
		for i, v := range src[32*j:][:32] {
			lo, hi := v&15, v>>4
			if high != nil {
				lo |= high[i] >> (2 * j) & 1 << 4
				hi |= high[i] >> (2*j + 1) & 1 << 4
			}
			q[64*j+i], q[64*j+32+i] = int8(lo), int8(hi)
		}
	}
}

// kScales reads the 6-bit scales and minimums of a Q4_K or Q5_K superblock.
func (l *levels) kScales(b int, src []byte) {
	d, dmin, s := half(src), half(src[2:]), src[4:16]
	for j := range 8 {
		var sc, mn byte
		if j < 4 {
			sc, mn = s[j]&63, s[j+4]&63
		} else {
			sc, mn = s[j+4]&15|s[j-4]>>6<<4, s[j+4]>>4|s[j]>>6<<4
		}
		l.dw[b*8+j] = d * float32(sc)
		l.m[b*8+j] = -(dmin * float32(mn))
	}
}

// sixes spreads a Q6_K superblock.
func sixes(q []int8, src []byte) {
	for n := range 2 {
		low, high, out := src[64*n:], src[128+32*n:], q[128*n:]
		for i := range 32 {
			h := high[i]
			out[i] = int8(low[i]&15|h&3<<4) - 32
			out[i+32] = int8(low[i+32]&15|h>>2&3<<4) - 32
			out[i+64] = int8(low[i]>>4|h>>4&3<<4) - 32
			out[i+96] = int8(low[i+32]>>4|h>>6<<4) - 32
		}
	}
}

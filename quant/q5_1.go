package quant

import "encoding/binary"

// A Q5_1 block of 32 elements takes 24 bytes:
//
//	0   d   float16
//	2   m   float16
//	4   qh  uint32: bit i is the fifth bit of element i
//	8   ql  16 bytes: byte j holds the low four bits of element j in its low half, of element j+16 in its high half
//
// Element i is d*q[i] + m, q being 0 … 31.
const q5_1Bytes = 24

func decodeQ5_1(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[q5_1Bytes:] {
		d, m, qh := f16at(src), f16at(src[2:]), binary.LittleEndian.Uint32(src[4:])
		q, out := (*[16]byte)(src[8:]), (*[32]float32)(dst)
		for j, b := range q {
			out[j] = float32(d*float32(int32(uint32(b&15)|qh<<4&16))) + m
			out[j+16] = float32(d*float32(int32(uint32(b>>4)|qh>>12&16))) + m
			qh >>= 1
		}
	}
}

// encodeQ5_1 spreads 0 … 31 from the least to the largest element.
func encodeQ5_1(dst []byte, src []float32) {
	for ; len(src) >= 32; dst, src = dst[q5_1Bytes:], src[32:] {
		lo, hi := bounds(src[:32])
		d := (hi - lo) / 31
		putF16(dst, d)
		putF16(dst[2:], lo)
		id := inverse(d)
		var qh uint32
		for j := range 16 {
			a := offsetLevel(src[j]-lo, id, 0, 31)
			b := offsetLevel(src[j+16]-lo, id, 0, 31)
			dst[8+j] = byte(a&15 | b&15<<4)
			qh |= uint32(a>>4)<<j | uint32(b>>4)<<(j+16)
		}
		binary.LittleEndian.PutUint32(dst[4:], qh)
	}
}

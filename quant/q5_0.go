package quant

import "encoding/binary"

// A Q5_0 block of 32 elements takes 22 bytes:
//
//	0   d   float16
//	2   qh  uint32: bit i is the fifth bit of element i
//	6   ql  16 bytes: byte j holds the low four bits of element j in its low half, of element j+16 in its high half
//
// Element i is d*(q[i]-16), q being 0 … 31.
const q5_0Bytes = 22

func decodeQ5_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[q5_0Bytes:] {
		d, qh := f16at(src), binary.LittleEndian.Uint32(src[2:])
		q, out := (*[16]byte)(src[6:]), (*[32]float32)(dst)
		for j, b := range q {
			out[j] = d * float32(int32(uint32(b&15)|qh<<4&16)-16)
			out[j+16] = d * float32(int32(uint32(b>>4)|qh>>12&16)-16)
			qh >>= 1
		}
	}
}

// encodeQ5_0 maps the element of the largest magnitude, with its sign, to -16.
func encodeQ5_0(dst []byte, src []float32) {
	for ; len(src) >= 32; dst, src = dst[q5_0Bytes:], src[32:] {
		d := signedMax(src[:32]) / -16
		putF16(dst, d)
		id := inverse(d)
		var qh uint32
		for j := range 16 {
			lo := offsetLevel(src[j], id, 16, 31)
			hi := offsetLevel(src[j+16], id, 16, 31)
			dst[6+j] = byte(lo&15 | hi&15<<4)
			qh |= uint32(lo>>4)<<j | uint32(hi>>4)<<(j+16)
		}
		binary.LittleEndian.PutUint32(dst[2:], qh)
	}
}

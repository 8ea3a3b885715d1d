package quant

// A Q4_1 block of 32 elements takes 20 bytes:
//
//	0   d  float16
//	2   m  float16
//	4   q  16 bytes: byte j holds element j in its low half, element j+16 in its high half
//
// Element i is d*q[i] + m, q being 0 … 15.
const q4_1Bytes = 20

func decodeQ4_1(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[q4_1Bytes:] {
		d, m := f16at(src), f16at(src[2:])
		q, out := (*[16]byte)(src[4:]), (*[32]float32)(dst)
		for j, b := range q {
			// The conversion keeps the compiler from fusing product and sum on machines that could.
			out[j] = float32(d*float32(int32(b&15))) + m
			out[j+16] = float32(d*float32(int32(b>>4))) + m
		}
	}
}

// encodeQ4_1 spreads 0 … 15 from the least to the largest element.
func encodeQ4_1(dst []byte, src []float32) {
	for ; len(src) >= 32; dst, src = dst[q4_1Bytes:], src[32:] {
		lo, hi := bounds(src[:32])
		d := (hi - lo) / 15
		putF16(dst, d)
		putF16(dst[2:], lo)
		id := inverse(d)
		for j := range 16 {
			a := offsetLevel(src[j]-lo, id, 0, 15)
			b := offsetLevel(src[j+16]-lo, id, 0, 15)
			dst[4+j] = byte(a | b<<4)
		}
	}
}

// bounds gives the least and the largest element.
func bounds(x []float32) (lo, hi float32) {
	lo, hi = x[0], x[0]
	for _, v := range x[1:] {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	return lo, hi
}

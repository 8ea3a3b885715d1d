package quant

// A Q4_0 block of 32 elements takes 18 bytes:
//
//	0   d  float16
//	2   q  16 bytes: byte j holds element j in its low half, element j+16 in its high half
//
// Element i is d*(q[i]-8), q being 0 … 15.
const q4_0Bytes = 18

func decodeQ4_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[q4_0Bytes:] {
		d := f16at(src)
		q, out := (*[16]byte)(src[2:]), (*[32]float32)(dst)
		for j, b := range q {
			out[j] = d * float32(int32(b&15)-8)
			out[j+16] = d * float32(int32(b>>4)-8)
		}
	}
}

// encodeQ4_0 maps the element of the largest magnitude, with its sign, to -8.
func encodeQ4_0(dst []byte, src []float32) {
	for ; len(src) >= 32; dst, src = dst[q4_0Bytes:], src[32:] {
		d := signedMax(src[:32]) / -8
		putF16(dst, d)
		id := inverse(d)
		for j := range 16 {
			lo := offsetLevel(src[j], id, 8, 15)
			hi := offsetLevel(src[j+16], id, 8, 15)
			dst[2+j] = byte(lo | hi<<4)
		}
	}
}

// signedMax is the first element of the largest magnitude.
func signedMax(x []float32) float32 {
	m, a := x[0], float32(0)
	for _, v := range x {
		w := v
		if w < 0 {
			w = -w
		}
		if w > a {
			a, m = w, v
		}
	}
	return m
}

func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// offsetLevel is x/d (id = 1/d) plus the offset, rounded half up, cut to 0 … top. The sum is rounded to float32 before
// it is cut off, as the reference does.
func offsetLevel(x, id, offset, top float32) int {
	p := x * id
	return clampInt(p+(offset+0.5), 0, top)
}

package quant

import "math"

// A Q8_0 block of 32 elements takes 34 bytes:
//
//	0   d  float16
//	2   q  32 int8
//
// Element i is d*q[i].
const q8_0Bytes = 34

func decodeQ8_0(dst []float32, src []byte) {
	for ; len(dst) >= 32; dst, src = dst[32:], src[q8_0Bytes:] {
		d := f16at(src)
		q, out := (*[32]byte)(src[2:]), (*[32]float32)(dst)
		for i, x := range q {
			out[i] = d * float32(int8(x))
		}
	}
}

// encodeQ8_0 makes the block's largest magnitude ±127 and rounds the rest half away from zero.
func encodeQ8_0(dst []byte, src []float32) {
	for ; len(src) >= 32; dst, src = dst[q8_0Bytes:], src[32:] {
		d := amax(src[:32]) / 127
		var id float32
		if d != 0 {
			id = 1 / d
		}
		putF16(dst, d)
		for i, x := range src[:32] {
			dst[2+i] = byte(int8(clampInt(roundAway(x*id), -127, 127)))
		}
	}
}

// amax is the largest magnitude of x.
func amax(x []float32) float32 {
	var m float32
	for _, v := range x {
		if v < 0 {
			v = -v
		}
		if v > m {
			m = v
		}
	}
	return m
}

// roundAway rounds half away from zero, as C's roundf.
func roundAway(x float32) float32 { return float32(math.Round(float64(x))) }

// clampInt converts x, cut to lo … hi; a NaN becomes lo (Go leaves the conversion of what doesn't fit undefined).
func clampInt(x, lo, hi float32) int {
	if !(x > lo) {
		return int(lo)
	}
	if x > hi {
		return int(hi)
	}
	return int(x)
}

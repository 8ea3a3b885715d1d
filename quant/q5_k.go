package quant

// A Q5_K super-block of 256 elements, 8 sub-blocks of 32, takes 176 bytes:
//
//	0    d       float16, scale of the sub-block scales
//	2    dmin    float16, scale of the sub-block minima
//	4    scales  12 bytes: 8 scales and 8 minima of 6 bits (see kScales)
//	16   qh      32 bytes: bit s of byte j is the fifth bit of element j of sub-block s
//	48   ql      128 bytes: the low four bits, as in Q4_K
//
// Element i of sub-block s is (d*scale[s])*q - dmin*min[s], q being 0 … 31.
const q5_KBytes = 176

func decodeQ5_K(dst []float32, src []byte) {
	for ; len(dst) >= 256; dst, src = dst[256:], src[q5_KBytes:] {
		d, dmin := f16at(src), f16at(src[2:])
		sc, mn := kScales((*[12]byte)(src[4:]))
		qh := (*[32]byte)(src[16:])
		for p := range 4 {
			q := (*[32]byte)(src[48+32*p:])
			out := (*[64]float32)(dst[64*p:])
			d0, m0 := d*float32(sc[2*p]), dmin*float32(mn[2*p])
			d1, m1 := d*float32(sc[2*p+1]), dmin*float32(mn[2*p+1])
			for j, b := range q {
				h := uint32(qh[j]) >> (2 * p)
				out[j] = float32(d0*float32(int32(uint32(b&15)|h<<4&16))) - m0
				out[j+32] = float32(d1*float32(int32(uint32(b>>4)|h<<3&16))) - m1
			}
		}
	}
}

func encodeQ5_K(dst []byte, src []float32) {
	var q [256]byte
	for ; len(src) >= 256; dst, src = dst[q5_KBytes:], src[256:] {
		encodeKMin(dst, src[:256], &q, 31)
		clear(dst[16:48])
		for p := range 4 {
			for j := range 32 {
				lo, hi := q[64*p+j], q[64*p+32+j]
				dst[48+32*p+j] = lo&15 | hi<<4
				dst[16+j] |= (lo>>4 | hi>>4<<1) << (2 * p)
			}
		}
	}
}

package quant

// A Q4_K super-block of 256 elements, 8 sub-blocks of 32, takes 144 bytes:
//
//	0    d       float16, scale of the sub-block scales
//	2    dmin    float16, scale of the sub-block minima
//	4    scales  12 bytes: 8 scales and 8 minima of 6 bits (see kScales)
//	16   q       128 bytes, 32 for each pair of sub-blocks: byte j holds element j of the first in its low half, of the
//	             second in its high half
//
// Element i of sub-block s is (d*scale[s])*q - dmin*min[s], q being 0 … 15.
const q4_KBytes = 144

func decodeQ4_K(dst []float32, src []byte) {
	for ; len(dst) >= 256; dst, src = dst[256:], src[q4_KBytes:] {
		d, dmin := f16at(src), f16at(src[2:])
		sc, mn := kScales((*[12]byte)(src[4:]))
		for p := range 4 {
			q := (*[32]byte)(src[16+32*p:])
			out := (*[64]float32)(dst[64*p:])
			d0, m0 := d*float32(sc[2*p]), dmin*float32(mn[2*p])
			d1, m1 := d*float32(sc[2*p+1]), dmin*float32(mn[2*p+1])
			for j, b := range q {
				out[j] = float32(d0*float32(int32(b&15))) - m0
				out[j+32] = float32(d1*float32(int32(b>>4))) - m1
			}
		}
	}
}

// kScales unpacks the 6-bit scales and minima of Q4_K and Q5_K. Those of sub-blocks 0 to 3 are the low 6 bits of bytes
// 0-3 (scales) and 4-7 (minima). Those of 4 to 7 have their low 4 bits in bytes 8-11 (scales in the low halves, minima
// in the high ones) and their upper 2 in the top bits of bytes 0-3 and 4-7.
func kScales(b *[12]byte) (sc, mn [8]byte) {
	for j := range 4 {
		sc[j] = b[j] & 63
		mn[j] = b[j+4] & 63
		sc[j+4] = b[j+8]&15 | b[j]>>6<<4
		mn[j+4] = b[j+8]>>4 | b[j+4]>>6<<4
	}
	return sc, mn
}

// packKScales is the inverse of kScales.
func packKScales(b *[12]byte, sc, mn *[8]byte) {
	for j := range 4 {
		b[j] = sc[j] | sc[j+4]>>4<<6
		b[j+4] = mn[j] | mn[j+4]>>4<<6
		b[j+8] = sc[j+4]&15 | mn[j+4]<<4
	}
}

func encodeQ4_K(dst []byte, src []float32) {
	var q [256]byte
	for ; len(src) >= 256; dst, src = dst[q4_KBytes:], src[256:] {
		encodeKMin(dst, src[:256], &q, 15)
		for p := range 4 {
			for j := range 32 {
				dst[16+32*p+j] = q[64*p+j] | q[64*p+32+j]<<4
			}
		}
	}
}

package quant

// A Q6_K super-block of 256 elements, 16 sub-blocks of 16, takes 210 bytes:
//
//	0    ql      128 bytes: low four bits
//	128  qh      64 bytes: upper two bits
//	192  scales  16 int8
//	208  d       float16
//
// Each half h of 128 elements has 64 bytes of ql and 32 of qh. Of its elements, with j = 0 … 31: j has the low half of
// ql[j] and bits 0-1 of qh[j]; j+32 the low half of ql[j+32] and bits 2-3; j+64 the high half of ql[j] and bits 4-5;
// j+96 the high half of ql[j+32] and bits 6-7.
//
// Element i of sub-block s is (d*scale[s])*(q-32), q being 0 … 63.
const q6_KBytes = 210

func decodeQ6_K(dst []float32, src []byte) {
	for ; len(dst) >= 256; dst, src = dst[256:], src[q6_KBytes:] {
		d := f16at(src[208:])
		var ds [16]float32
		for s, x := range src[192:208] {
			ds[s] = d * float32(int8(x))
		}
		for h := range 2 {
			ql, qh := (*[64]byte)(src[64*h:]), (*[32]byte)(src[128+32*h:])
			for g := range 2 { // the first and the second 16 of each run of 32
				out := dst[128*h+16*g:][:112]
				s := ds[8*h+g:][:7]
				d0, d1, d2, d3 := s[0], s[2], s[4], s[6]
				for j := range 16 {
					a, b, u := ql[16*g+j], ql[16*g+j+32], qh[16*g+j]
					out[j] = d0 * float32(int32(a&15|u<<4&48)-32)
					out[j+32] = d1 * float32(int32(b&15|u<<2&48)-32)
					out[j+64] = d2 * float32(int32(a>>4|u&48)-32)
					out[j+96] = d3 * float32(int32(b>>4|u>>2&48)-32)
				}
			}
		}
	}
}

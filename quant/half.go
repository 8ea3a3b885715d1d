package quant

import (
	"encoding/binary"
	"math"
)

// F16ToF32 widens an IEEE 754 binary16 number. It is exact; a NaN keeps its payload and becomes quiet.
func F16ToF32(h uint16) float32 {
	// Exponent and fraction at float32's place, still biased as float16's. Multiplying by 2^112 moves the bias and
	// normalises subnormal numbers in one exact step.
	x := uint32(h&0x7fff) << 13
	f := math.Float32bits(math.Float32frombits(x) * 0x1p112)
	if h&0x7c00 == 0x7c00 { // infinity or NaN
		f = x | 0x7f800000
		if h&0x3ff != 0 {
			f |= 0x400000
		}
	}
	return math.Float32frombits(f | uint32(h&0x8000)<<16)
}

// F32ToF16 rounds to the nearest binary16 number, ties to even. What is too large becomes infinite (from 65520 on),
// what is too small a signed zero or subnormal; a NaN stays one.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= 0x477ff000: // 65520, half way between the largest number and the next power of two
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: adding 0.5 leaves units of 2^-24 in the sum's fraction, rounded to even
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5))
	}
	b += 0xfff + b>>13&1 // to nearest even at bit 13; a carry runs into the exponent, as it should
	return sign | uint16((b-112<<23)>>13)
}

// BF16ToF32 widens a bfloat16 number, the upper half of a float32. It is exact.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// F32ToBF16 rounds to the nearest bfloat16 number, ties to even. A NaN stays one and becomes quiet.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// f16at reads the little-endian binary16 number at the front of b: the scales of the block formats.
func f16at(b []byte) float32 { return F16ToF32(binary.LittleEndian.Uint16(b)) }

func putF16(b []byte, f float32) { binary.LittleEndian.PutUint16(b, F32ToF16(f)) }

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func encodeF32(dst []byte, src []float32) {
	for i, f := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
}

func decodeF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = f16at(src[2*i:])
	}
}

func encodeF16(dst []byte, src []float32) {
	for i, f := range src {
		putF16(dst[2*i:], f)
	}
}

func decodeBF16(dst []float32, src []byte) {
	src = src[:2*len(dst)]
	for i := range dst {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func encodeBF16(dst []byte, src []float32) {
	for i, f := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], F32ToBF16(f))
	}
}

// Package f32 holds the float32 operations that every CPU path must agree on and that Go doesn't offer: an exact fused
// multiply-add, and the one order in which 16 lanes are summed.
package f32

import "math"

// FMA returns a*b + c with one rounding to float32 (to nearest, ties to even), as vfmadd231ss does.
//
// The product of two float32 is exact in float64, so the only errors are those of the float64 sum s and of its rounding
// to float32. Rounding twice differs from rounding once only where s lies on a point halfway between two float32. All
// such points, those of subnormal results included, end in 28 zero bits; there the sum's exact error decides the side.
func FMA(a, b, c float32) float32 {
	p, z := float64(a)*float64(b), float64(c)
	s := p + z
	if math.Float64bits(s)&(1<<28-1) != 0 {
		return float32(s)
	}
	return fmaNearTie(p, z, s)
}

// fmaNearTie rounds p+z, whose float64 sum s may stand halfway between two float32.
func fmaNearTie(p, z, s float64) float32 {
	// TwoSum (Knuth): p+z = s+e exactly. Infinities give a NaN here, which both comparisons below reject.
	t := s - p
	e := (p - (s - t)) + (z - t)
	switch {
	case e > 0:
		s = math.Nextafter(s, math.Inf(1))
	case e < 0:
		s = math.Nextafter(s, math.Inf(-1))
	}
	return float32(s)
}

// Reduce16 sums 16 lanes by halving: l with l+8, then +4, +2, +1. Vector code adds in this order by itself.
func Reduce16(acc *[16]float32) float32 {
	var r [8]float32
	for l := range r {
		r[l] = acc[l] + acc[l+8]
	}
	t0 := (r[0] + r[4]) + (r[2] + r[6])
	t1 := (r[1] + r[5]) + (r[3] + r[7])
	return t0 + t1
}

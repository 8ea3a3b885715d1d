package sample

import "math"

// exp returns e^x for x <= 0, within 2 units in the last place, and the same bits on every machine: package math's version uses fused
// multiply-add where the processor has it, and a compiler may fuse x*y + z, which the conversions below forbid.
func exp(x float64) float64 {
	const (
		log2e = 1.44269504088896338700e+00
		ln2hi = 6.93147180369123816490e-01 // its product with a small integer is exact
		ln2lo = 1.90821492927058770002e-10
	)
	if x < -708 {
		return 0 // below the normal numbers: no weight
	}
	k := math.Floor(float64(x*log2e) + 0.5)
	r := float64(x-float64(k*ln2hi)) - float64(k*ln2lo) // |r| <= ln2/2
	// Taylor's series: the first term left out is under 2^-56 at the ends.
	s := 1.0 / 6227020800
	s = float64(s*r) + 1.0/479001600
	s = float64(s*r) + 1.0/39916800
	s = float64(s*r) + 1.0/3628800
	s = float64(s*r) + 1.0/362880
	s = float64(s*r) + 1.0/40320
	s = float64(s*r) + 1.0/5040
	s = float64(s*r) + 1.0/720
	s = float64(s*r) + 1.0/120
	s = float64(s*r) + 1.0/24
	s = float64(s*r) + 1.0/6
	s = float64(s*r) + 0.5
	s = float64(s*r) + 1
	s = float64(s*r) + 1
	return s * math.Float64frombits(uint64(1023+int(k))<<52)
}

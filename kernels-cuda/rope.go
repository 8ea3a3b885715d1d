package kernelscuda

import "math"

// RopeScaling is what a rotary embedding's angles depend on beside the position (graph's RopeAttr has the formulas).
type RopeScaling struct {
	Dims               int // elements of a head that are rotated, in pairs
	Base               float64
	FreqScale          float64 // 1: none
	ExtFactor          float64 // YaRN's share; 0: none
	AttnFactor         float64
	BetaFast, BetaSlow float64
	OrigCtx            int
}

// RopeFrequencies gives what RopeTableF32 needs: for each pair the angle a position, in half turns, and the magnitude of rotated
// pairs. Multiples of half turns are what a device reduces exactly.
func RopeFrequencies(s RopeScaling) (frequencies []float64, scale float32) {
	var low, high float64
	m := s.AttnFactor
	if s.ExtFactor != 0 {
		corner := func(beta float64) float64 {
			return float64(s.Dims) * math.Log(float64(s.OrigCtx)/(beta*2*math.Pi)) / (2 * math.Log(s.Base))
		}
		low = math.Max(0, math.Floor(corner(s.BetaFast)))
		high = math.Min(float64(s.Dims-1), math.Ceil(corner(s.BetaSlow)))
		m *= 1 + 0.1*math.Log(1/s.FreqScale)
	}
	for i := range s.Dims / 2 {
		extrap := math.Pow(s.Base, -2*float64(i)/float64(s.Dims))
		f := s.FreqScale * extrap
		if s.ExtFactor != 0 {
			ramp := 1 - math.Min(1, math.Max(0, (float64(i)-low)/math.Max(0.001, high-low)))
			mix := ramp * s.ExtFactor
			f = f*(1-mix) + extrap*mix
		}
		frequencies = append(frequencies, f/math.Pi)
	}
	return frequencies, float32(m)
}

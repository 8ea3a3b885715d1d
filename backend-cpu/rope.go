package backendcpu

import (
	"math"

	"github.com/minfer-go/minfer/graph"
)

// ropeTable holds the cosines and sines of a step's rows, computed once a step and used by all layers.
type ropeTable struct {
	positions []int32
	freq      []ropeFreq // by pair
	scale     float64    // magnitude of the rotated values
	cos, sin  []float32  // [rows][pairs]
}

// ropeFreq turns a position into an angle: float64 throughout, so that far positions stay exact.
type ropeFreq struct{ extrap, interp, mix float64 }

func newRopeTable(a graph.RopeAttr, positions []int32) *ropeTable {
	half := a.Dims / 2
	t := &ropeTable{positions: positions, scale: float64(a.AttnFactor)}
	t.cos, t.sin = make([]float32, len(positions)*half), make([]float32, len(positions)*half)
	base, freqScale, ext := float64(a.Base), float64(a.FreqScale), float64(a.ExtFactor)
	var low, high float64
	if ext != 0 {
		corner := func(beta float32) float64 {
			return float64(a.Dims) * math.Log(float64(a.OrigCtx)/(float64(beta)*2*math.Pi)) / (2 * math.Log(base))
		}
		low = math.Max(0, math.Floor(corner(a.BetaFast)))
		high = math.Min(float64(a.Dims-1), math.Ceil(corner(a.BetaSlow)))
		t.scale *= 1 + 0.1*math.Log(1/freqScale)
	}
	for i := range half {
		f := ropeFreq{extrap: math.Pow(base, -2*float64(i)/float64(a.Dims))}
		f.interp = freqScale * f.extrap
		if ext != 0 {
			ramp := 1 - math.Min(1, math.Max(0, (float64(i)-low)/math.Max(0.001, high-low)))
			f.mix = ramp * ext
		}
		t.freq = append(t.freq, f)
	}
	return t
}

// fill computes entries [lo,hi) of the table, counted row by row.
func (t *ropeTable) fill(lo, hi int) {
	half := len(t.freq)
	for i := lo; i < hi; i++ {
		pos, f := float64(t.positions[i/half]), &t.freq[i%half]
		theta := pos * f.interp
		if f.mix != 0 {
			theta = theta*(1-f.mix) + pos*f.extrap*f.mix
		}
		sin, cos := math.Sincos(theta)
		t.cos[i], t.sin[i] = float32(cos*t.scale), float32(sin*t.scale)
	}
}

func (t *ropeTable) row(r int) (cos, sin []float32) {
	half := len(t.freq)
	return t.cos[r*half:][:half], t.sin[r*half:][:half]
}

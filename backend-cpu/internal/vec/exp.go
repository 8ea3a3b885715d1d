package vec

import (
	"math"

	"github.com/minfer-go/minfer/backend-cpu/internal/f32"
)

// Constants of Exp. Reduction: x = n*ln2 + r with ln2 in two parts (Cody and Waite); polynomial: Taylor's, whose remainder
// r^7/5040 on |r| ≤ ln2/2 is under a sixth of a unit in the last place.
const (
	expHigh  = 88.37 // above: +Inf (the scale 2^n must stay finite)
	expLow   = -87.33
	log2e    = 1.44269504088896341
	expMagic = 12582912.0 // 1.5*2^23: adding it rounds to an integer, to nearest even, in the low bits
	ln2High  = 0.693359375
	ln2Low   = -2.12194440e-4
	expC2    = 1.0 / 2
	expC3    = 1.0 / 6
	expC4    = 1.0 / 24
	expC5    = 1.0 / 120
	expC6    = 1.0 / 720
)

// Exp is e^x in float32 as every path computes it: within 3 units in the last place from -87.33 to 88.37, 0 below and
// +Inf above. A NaN stays one.
func Exp(x float32) float32 {
	switch {
	case x > expHigh:
		return float32(math.Inf(1))
	case x < expLow:
		return 0
	}
	t := f32.FMA(x, log2e, expMagic)
	n := t - expMagic
	r := f32.FMA(n, -ln2High, x)
	r = f32.FMA(n, -ln2Low, r)
	p := f32.FMA(expC6, r, expC5)
	p = f32.FMA(p, r, expC4)
	p = f32.FMA(p, r, expC3)
	p = f32.FMA(p, r, expC2)
	p = f32.FMA(p, r, 1)
	p = f32.FMA(p, r, 1)
	scale := math.Float32frombits((math.Float32bits(t) - math.Float32bits(expMagic) + 127) << 23)
	return float32(p * scale)
}

func silu(x float32) float32 { return x / (1 + Exp(-x)) }

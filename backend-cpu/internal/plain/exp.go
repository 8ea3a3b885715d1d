package plain

import (
	"math"

	"github.com/minfer-go/minfer/backend-cpu/internal/f32"
)

// Constants of Exp: x = k*ln2 + r with ln2 in two parts (Cody and Waite), and the Taylor coefficients of exp on |r| <= ln2/2, whose
// remainder of r^7/5040 is under a sixth of a unit in the last place.
const (
	expLo = -87.33654 // below: 0 (results would be subnormal)
	expHi = 88.72283  // above: +Inf
	log2e = 1.44269504088896341
	ln2Hi = 0.693359375
	ln2Lo = -2.12194440e-4
	magic = 12582912 // 1.5 * 2^23: adding and taking it off rounds to the nearest integer
	expC2 = 1.0 / 2
	expC3 = 1.0 / 6
	expC4 = 1.0 / 24
	expC5 = 1.0 / 120
	expC6 = 1.0 / 720
)

// Exp is e^x to about one unit in the last place; 0 below -87.3 and for -Inf, +Inf above 88.7; NaN stays. Every path does these
// operations in this order.
func Exp(x float32) float32 {
	if !(x >= expLo) {
		if x != x {
			return x
		}
		return 0
	}
	if x > expHi {
		return float32(math.Inf(1))
	}
	k := float32(f32.FMA(x, log2e, magic) - magic)
	r := f32.FMA(k, -ln2Hi, x)
	r = f32.FMA(k, -ln2Lo, r)
	p := f32.FMA(expC6, r, expC5)
	p = f32.FMA(p, r, expC4)
	p = f32.FMA(p, r, expC3)
	p = f32.FMA(p, r, expC2)
	p = f32.FMA(p, r, 1)
	p = f32.FMA(p, r, 1)
	// 2^k in two factors, since k may be 128.
	i := int32(k)
	half := i >> 1
	return float32(p*pow2(half)) * pow2(i-half)
}

func pow2(k int32) float32 { return math.Float32frombits(uint32(k+127) << 23) }

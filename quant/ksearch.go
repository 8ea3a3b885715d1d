package quant

import "math"

// The K formats leave the choice of scales to the encoder. Ours minimises the plain squared error: it fits each
// sub-block by least squares from a range of starting scales, rounds the sub-block scales to the super-block's, tries
// their neighbours, and fits the super-block's own scales once more to the levels found. ggml's reference searches
// alike, but weighs large elements more.

// kStarts are the sub-block scales, of at most 63, that the largest one is mapped to in turn: where sub-blocks are
// alike, a grid a little coarser may hit them better. The best start's super-block scales are then refitted kRefits times.
var kStarts = [...]float32{63, 62.25, 61.5, 60.75}

const kRefits = 2

// kMin is a choice for a Q4_K or Q5_K super-block.
type kMin struct {
	d, dmin float32
	sc, mn  [8]byte
	q       [256]byte
	err     float32 // squared error
}

// encodeKMin finds the scales, minima and levels 0 … top of a Q4_K or Q5_K super-block x of 256. It writes dst's first
// 16 bytes (d, dmin, packed scales) and the levels, in order, to q.
func encodeKMin(dst []byte, x []float32, q *[256]byte, top float32) {
	var scale, low [8]float32
	var maxScale, maxLow float32
	for s := range 8 {
		scale[s], low[s] = fitMin(x[32*s:32*s+32], top)
		maxScale, maxLow = max(maxScale, scale[s]), max(maxLow, low[s])
	}
	var best, next kMin
	for i, most := range kStarts {
		next.choose(x, maxScale/most, maxLow/most, &scale, &low, top)
		if i == 0 || next.err < best.err {
			best = next
		}
	}
	for range kRefits {
		d, dmin := best.refit(x)
		if d <= 0 || dmin < 0 {
			break
		}
		next.choose(x, d, dmin, &scale, &low, top)
		if !(next.err < best.err) {
			break
		}
		best = next
	}
	*q = best.q
	putF16(dst, best.d)
	putF16(dst[2:], best.dmin)
	packKScales((*[12]byte)(dst[4:]), &best.sc, &best.mn)
}

// choose rounds d and dmin as the file will hold them and picks the best scales, minima and levels for them.
func (k *kMin) choose(x []float32, d, dmin float32, scale, low *[8]float32, top float32) {
	k.d, k.dmin, k.err = F16ToF32(F32ToF16(d)), F16ToF32(F32ToF16(dmin)), 0
	for s := range 8 {
		sub := x[32*s : 32*s+32]
		var e float32
		k.sc[s], k.mn[s], e = pickMin(sub, k.d, k.dmin, scale[s], low[s], top)
		k.err += e
		minLevels(k.q[32*s:32*s+32], sub, k.d*float32(k.sc[s]), k.dmin*float32(k.mn[s]), top)
	}
}

// fitMin finds scale and low, neither negative, so that x ≈ scale*q - low with levels q of 0 … top.
func fitMin(x []float32, top float32) (scale, low float32) {
	lo, hi := bounds(x)
	lo = min(lo, 0)
	if !(hi > lo) {
		return 0, -lo
	}
	n, sx, sxx := float64(len(x)), 0.0, 0.0
	for _, v := range x {
		sx += float64(v)
		sxx += float64(v) * float64(v)
	}
	best := math.Inf(1)
	// Stretching the grid a little beyond the extremes, or cutting them off, often fits the rest better.
	for step := range 24 {
		inv := (top + 0.1*float32(step-10)) / (hi - lo)
		var sq, sqq int
		var sxq float32
		for _, v := range x {
			l := clampInt((v-lo)*inv+0.5, 0, top)
			sq += l
			sqq += l * l
			sxq += v * float32(l)
		}
		fq, fqq, fxq := float64(sq), float64(sqq), float64(sxq)
		det := n*fqq - fq*fq
		if det <= 0 {
			continue
		}
		s, m := (n*fxq-sx*fq)/det, (fq*fxq-fqq*sx)/det
		if m < 0 {
			s, m = fxq/fqq, 0
		}
		if s <= 0 {
			continue
		}
		e := sxx - 2*s*fxq + 2*m*sx + s*s*fqq - 2*s*m*fq + n*m*m
		if e < best {
			best, scale, low = e, float32(s), float32(m)
		}
	}
	if math.IsInf(best, 1) {
		return (hi - lo) / top, -lo
	}
	return scale, low
}

// pickMin rounds a sub-block's scale and low to multiples of d and dmin, trying the neighbours too.
func pickMin(x []float32, d, dmin, scale, low, top float32) (sc, mn byte, e float32) {
	s0, m0 := clampInt(scale*inverse(d)+0.5, 0, 63), clampInt(low*inverse(dmin)+0.5, 0, 63)
	first := true
	for s := max(s0-1, 0); s <= min(s0+1, 63); s++ {
		for m := max(m0-1, 0); m <= min(m0+1, 63); m++ {
			if t := minError(x, d*float32(s), dmin*float32(m), top); first || t < e {
				sc, mn, e, first = byte(s), byte(m), t, false
			}
		}
	}
	return sc, mn, e
}

// minError is the squared error of x on the grid scale*q - low.
func minError(x []float32, scale, low, top float32) float32 {
	inv := inverse(scale)
	var e float32
	for _, v := range x {
		l := clampInt((v+low)*inv+0.5, 0, top)
		t := scale*float32(l) - low - v
		e += t * t
	}
	return e
}

// minLevels writes the nearest levels of x on that grid.
func minLevels(q []byte, x []float32, scale, low, top float32) {
	inv := inverse(scale)
	for i, v := range x {
		q[i] = byte(clampInt((v+low)*inv+0.5, 0, top))
	}
}

// refit fits d and dmin to the levels and sub-block scales chosen, by least squares.
func (k *kMin) refit(x []float32) (d, dmin float32) {
	var aa, ab, bb, ax, bx float64
	for i, v := range x {
		a, b := float64(int(k.sc[i/32])*int(k.q[i])), float64(k.mn[i/32])
		aa += a * a
		ab += a * b
		bb += b * b
		ax += a * float64(v)
		bx += b * float64(v)
	}
	switch det := aa*bb - ab*ab; {
	case det > 0:
		return float32((ax*bb - bx*ab) / det), float32((ax*ab - bx*aa) / det)
	case aa > 0:
		return float32(ax / aa), k.dmin
	}
	return k.d, k.dmin
}

// fitSigned finds the scale (of either sign) so that x ≈ scale*q with levels q of -32 … 31.
func fitSigned(x []float32) float32 {
	peak := signedMax(x)
	if peak == 0 {
		return 0
	}
	var scale float32
	var best float64 // how much of x's energy the fit explains: (Σxq)²/Σq²
	for i := range 19 {
		// 0, -0.1, 0.1, -0.2 …: the plain grid first, where the peak takes the longer, negative side.
		step := 0.1 * float32((i+1)/2)
		if i&1 == 1 {
			step = -step
		}
		inv := -(32 + step) / peak
		var sqq int
		var sxq float32
		for _, v := range x {
			l := signedLevel(v, inv)
			sqq += l * l
			sxq += v * float32(l)
		}
		if sqq == 0 {
			continue
		}
		if g := float64(sxq) * float64(sxq) / float64(sqq); g > best*(1+1e-6) { // no better by rounding alone
			best, scale = g, sxq/float32(sqq)
		}
	}
	return scale
}

// signedLevel is x*inv rounded (half up) to -32 … 31.
func signedLevel(x, inv float32) int { return clampInt(x*inv+32.5, 0, 63) - 32 }

func encodeQ6_K(dst []byte, src []float32) {
	for ; len(src) >= 256; dst, src = dst[q6_KBytes:], src[256:] {
		encodeSuperQ6_K(dst, src[:256])
	}
}

func encodeSuperQ6_K(dst []byte, x []float32) {
	var scale [16]float32
	for s := range 16 {
		scale[s] = fitSigned(x[16*s : 16*s+16])
	}
	best := float32(math.Inf(1))
	d := signedMax(scale[:]) / -128 // the largest scale takes the longer side of int8
	var q [256]byte
	for round := 0; ; round++ {
		d = F16ToF32(F32ToF16(d))
		var sc [16]int8
		var levels [256]byte
		var sum float32
		var aa, ax float64
		for s := range 16 {
			sub := x[16*s : 16*s+16]
			var e float32
			sc[s], e = pickSigned(sub, d, scale[s])
			sum += e
			inv := inverse(d * float32(sc[s]))
			for i, v := range sub {
				l := signedLevel(v, inv)
				levels[16*s+i] = byte(l + 32)
				a := float64(int(sc[s]) * l)
				aa += a * a
				ax += a * float64(v)
			}
		}
		if round == 0 || sum < best {
			best, q = sum, levels
			putF16(dst[208:], d)
			for s, v := range sc {
				dst[192+s] = byte(v)
			}
		}
		if round == kRefits || aa == 0 {
			break
		}
		d = float32(ax / aa)
	}
	packQ6_K(dst, &q)
}

// pickSigned rounds a sub-block's scale to a multiple of d, trying the neighbours too.
func pickSigned(x []float32, d, scale float32) (sc int8, e float32) {
	s0 := clampInt(scale*inverse(d)+128.5, 0, 255) - 128
	first := true
	for s := max(s0-1, -128); s <= min(s0+1, 127); s++ {
		ds := d * float32(s)
		inv := inverse(ds)
		var t float32
		for _, v := range x {
			r := ds*float32(signedLevel(v, inv)) - v
			t += r * r
		}
		if first || t < e {
			sc, e, first = int8(s), t, false
		}
	}
	return sc, e
}

// packQ6_K stores 256 levels of 6 bits.
func packQ6_K(dst []byte, q *[256]byte) {
	for h := range 2 {
		l, ql, qh := q[128*h:], dst[64*h:], dst[128+32*h:]
		for j := range 32 {
			a, b, c, d := l[j], l[j+32], l[j+64], l[j+96]
			ql[j] = a&15 | c<<4
			ql[j+32] = b&15 | d<<4
			qh[j] = a>>4 | b>>4<<2 | c>>4<<4 | d>>4<<6
		}
	}
}

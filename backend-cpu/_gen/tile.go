package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// kind says how the levels of a panel become weights.
type kind struct {
	name   string
	signed bool // levels are magnitudes and places in tables of activations; else unsigned bytes
	flush  int  // groups of 4 columns whose products fit 16-bit sums
	shift  int  // level 1<<shift stands for zero; negative: none
	min    bool // weights have a minimum
	halves bool // a scale every 16 columns
}

var kinds = []kind{
	{name: "S8", signed: true, flush: 1, shift: -1}, // 128*127*2 = 32512, 128*-128*2 = -32768
	{name: "U4", flush: 8, shift: 3},                // 15*127*2*8 = 30480
	{name: "U5", flush: 4, shift: 4},                // 31*127*2*4 = 31496
	{name: "U4Min", flush: 8, shift: -1, min: true},
	{name: "U5Min", flush: 4, shift: -1, min: true},
	{name: "U6", flush: 2, shift: 5, halves: true}, // 63*127*2*2 = 32004
}

func tiles() {
	for _, k := range kinds {
		for _, t := range []int{1, 2, 4} {
			tile(k, t)
		}
	}
}

// tile multiplies the 16 rows of a panel with t rows of activations, adding to dst, and so on for the next t rows.
func tile(k kind, tokens int) {
	name := fmt.Sprintf("tile%sx%d", k.name, tokens)
	TEXT(name, NOSPLIT, "func(dst *float32, stride int, panel, acts *byte, actStride, blocks, times, fresh int, tmp *byte)")
	Doc(fmt.Sprintf("%s computes the product of 16 weight rows and times %d rows of activations and adds it to dst, or sets dst if fresh isn't 0.", name, tokens),
		"Strides are in bytes, tmp has 512 bytes.")
	dst := Load(Param("dst"), GP64()).(Register)
	stride := Load(Param("stride"), GP64()).(Register)
	a0 := Load(Param("acts"), GP64()).(Register)
	as := Load(Param("actStride"), GP64()).(Register)
	times := Load(Param("times"), GP64()).(GPVirtual)
	fresh := Load(Param("fresh"), GP64()).(GPVirtual)
	tmp := Load(Param("tmp"), GP64()).(Register)
	rows := func(base, s, s3 Register, t, off int) Mem {
		m := Mem{Base: base, Disp: off}
		switch t {
		case 1:
			m.Index, m.Scale = s, 1
		case 2:
			m.Index, m.Scale = s, 2
		case 3:
			m.Index, m.Scale = s3, 1
		}
		return m
	}
	as3, stride3 := GP64(), GP64()
	if tokens > 3 {
		LEAQ(Mem{Base: as, Index: as, Scale: 2}, as3)
		LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	}
	p, a, blocks := GP64(), GP64(), GP64()
	act := func(t, off int) Mem { return rows(a, as, as3, t, off) }
	out := func(t, v int) Mem { return rows(dst, stride, stride3, t, 32*v) }
	all := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}
	acc := func(v, t int) VecPhysical { return all[2*t+v] }
	w, x, y, ones, z := []VecPhysical{Y8, Y9}, Y12, Y13, Y14, Y15
	// Sums stand in registers as far as there are any, in tmp else.
	var sums []VecPhysical
	switch {
	case tokens <= 2:
		sums = all[4:]
	case k.signed: // which has nothing in x when it comes to scales
		z, sums = x, []VecPhysical{Y10, Y11, Y15}
	default:
		sums = []VecPhysical{Y10, Y11}
	}
	inReg := func(v, t int) bool { return 2*t+v < len(sums) }
	facc := func(v, t int) VecPhysical { return sums[2*t+v] }
	fmem := func(v, t int) Mem { return Mem{Base: tmp, Disp: 32 * (2*t + v)} }
	imem := func(v, t int) Mem { return Mem{Base: tmp, Disp: 256 + 32*(2*t+v)} }

	each := func(f func(v, t int)) {
		for t := range tokens {
			for v := range 2 {
				f(v, t)
			}
		}
	}
	VPCMPEQW(ones, ones, ones)
	VPSRLW(U8(15), ones, ones)
	Label("tile")
	Load(Param("panel"), p)
	Load(Param("blocks"), blocks)
	MOVQ(a0, a)
	TESTQ(fresh, fresh)
	JZ(LabelRef("add"))
	VPXOR(y, y, y)
	each(func(v, t int) {
		if inReg(v, t) {
			VPXOR(facc(v, t), facc(v, t), facc(v, t))
		} else {
			VMOVUPS(y, fmem(v, t))
		}
	})
	JMP(LabelRef("block"))
	Label("add")
	each(func(v, t int) {
		if inReg(v, t) {
			VMOVUPS(out(t, v), facc(v, t))
		} else {
			VMOVUPS(out(t, v), y)
			VMOVUPS(y, fmem(v, t))
		}
	})
	Label("block")
	nh, ng, size, scaleAt, d, blockSize := 1, 8, recSize, recScale, actD, actSize
	switch {
	case k.halves:
		nh, ng = 2, 4
	case k.signed:
		size, scaleAt, d, blockSize = signSize, signScale, bothD, bothSize
	}
	for h := range nh {
		for g0 := 0; g0 < ng; g0++ {
			g := h*ng + g0
			for v := range 2 {
				at := g*groupSize + 32*v
				if k.signed {
					at = g*signGroup + groupSize + 32*v
				}
				VMOVDQU(Mem{Base: p, Disp: at}, w[v])
			}
			// Both products before both sums: the multipliers are on other ports than most of what adds, and are found free more often so.
			for t := range tokens {
				if k.signed {
					VBROADCASTI128(act(t, g/2*16), x)
					VPSHUFB(Mem{Base: p, Disp: g * signGroup}, x, y)
					VPSHUFB(Mem{Base: p, Disp: g*signGroup + 32}, x, x)
					VPMADDUBSW(y, w[0], y)
					VPMADDUBSW(x, w[1], x)
					if g == 0 {
						VPMADDWD(ones, y, acc(0, t))
						VPMADDWD(ones, x, acc(1, t))
						continue
					}
					VPMADDWD(ones, y, y)
					VPMADDWD(ones, x, x)
					VPADDD(y, acc(0, t), acc(0, t))
					VPADDD(x, acc(1, t), acc(1, t))
					continue
				}
				VPBROADCASTD(act(t, 4*g), x)
				if g0%k.flush == 0 {
					VPMADDUBSW(x, w[0], acc(0, t))
					VPMADDUBSW(x, w[1], acc(1, t))
					continue
				}
				VPMADDUBSW(x, w[0], y)
				VPMADDUBSW(x, w[1], x)
				VPADDW(y, acc(0, t), acc(0, t))
				VPADDW(x, acc(1, t), acc(1, t))
			}
			if !k.signed && (g0+1)%k.flush == 0 {
				each(func(v, t int) {
					VPMADDWD(ones, acc(v, t), acc(v, t))
					if g0 >= k.flush {
						VPADDD(imem(v, t), acc(v, t), acc(v, t))
					}
					if g0+1 < ng {
						VMOVDQU(acc(v, t), imem(v, t))
					}
				})
			}
		}
		if h == 1 {
			scaleAt = recScale2
		}
		for t := range tokens {
			if k.shift >= 0 { // levels times activations less what the zero level adds
				switch {
				case !k.halves:
					VPBROADCASTD(act(t, actN32), x)
				case h == 0:
					VPBROADCASTD(act(t, actN16), x)
				default:
					VPBROADCASTD(act(t, actN32), x)
					VPBROADCASTD(act(t, actN16), y)
					VPSUBD(y, x, x)
				}
				VPSRAD(U8(7-k.shift), x, x)
			}
			VBROADCASTSS(act(t, d), y)
			if k.min {
				VBROADCASTSS(act(t, actDS), w[0])
			}
			for v := range 2 {
				i := acc(v, t)
				if k.shift >= 0 {
					VPADDD(x, i, i)
				}
				VCVTDQ2PS(i, i)
				VMULPS(Mem{Base: p, Disp: scaleAt + 32*v}, y, z)
				sum := i
				if inReg(v, t) {
					sum = facc(v, t)
					VFMADD231PS(i, z, sum)
				} else {
					VFMADD213PS(fmem(v, t), z, i)
				}
				if k.min {
					VFMADD231PS(Mem{Base: p, Disp: recMin + 32*v}, w[0], sum)
				}
				if !inReg(v, t) {
					VMOVUPS(i, fmem(v, t))
				}
			}
		}
	}
	ADDQ(U32(size), p)
	ADDQ(U8(blockSize), a)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	each(func(v, t int) {
		if inReg(v, t) {
			VMOVUPS(facc(v, t), out(t, v))
		} else {
			VMOVUPS(fmem(v, t), y)
			VMOVUPS(y, out(t, v))
		}
	})
	LEAQ(rows(dst, stride, nil, min(tokens, 2), 0), dst)
	LEAQ(rows(a0, as, nil, min(tokens, 2), 0), a0)
	if tokens > 2 {
		LEAQ(rows(dst, stride, nil, 2, 0), dst)
		LEAQ(rows(a0, as, nil, 2, 0), a0)
	}
	DECQ(times)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

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
	wide   bool // levels and activations are 16 bits; else levels are unsigned bytes
	flush  int  // groups of 4 columns whose products fit 16-bit sums
	shift  int  // level 1<<shift stands for zero; negative: none
	min    bool // weights have a minimum
	halves bool // a scale every 16 columns
}

var kinds = []kind{
	{name: "S16", wide: true, flush: 32, shift: -1},
	{name: "U4", flush: 8, shift: 3}, // 15*127*2*8 = 30480
	{name: "U5", flush: 4, shift: 4}, // 31*127*2*4 = 31496
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

// tile multiplies the 16 rows of a panel with t rows of activations, adding to dst.
func tile(k kind, tokens int) {
	name := fmt.Sprintf("tile%sx%d", k.name, tokens)
	TEXT(name, NOSPLIT, "func(dst *float32, stride int, panel, acts *byte, actStride, blocks int, tmp *byte)")
	Doc(fmt.Sprintf("%s adds the product of 16 weight rows and %d rows of activations to dst. Strides are in bytes, tmp has 512 bytes.", name, tokens))
	dst := Load(Param("dst"), GP64()).(Register)
	stride := Load(Param("stride"), GP64()).(Register)
	p := Load(Param("panel"), GP64()).(Register)
	a := Load(Param("acts"), GP64()).(Register)
	as := Load(Param("actStride"), GP64()).(Register)
	blocks := Load(Param("blocks"), GP64()).(GPVirtual)
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
	act := func(t, off int) Mem { return rows(a, as, as3, t, off) }
	out := func(t, v int) Mem { return rows(dst, stride, stride3, t, 32*v) }
	all := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}
	acc := func(v, t int) VecPhysical { return all[2*t+v] }
	fInReg := tokens <= 2
	facc := func(v, t int) VecPhysical { return all[4+2*t+v] }
	fmem := func(v, t int) Mem { return Mem{Base: tmp, Disp: 32 * (2*t + v)} }
	imem := func(v, t int) Mem { return Mem{Base: tmp, Disp: 256 + 32*(2*t+v)} }
	w, x, y, ones, z := []VecPhysical{Y8, Y9}, Y12, Y13, Y14, Y15
	panelScale, panelSize, actFields, actBytes := recScale, recSize, actD, actSize
	if k.wide {
		panelScale, panelSize, actFields, actBytes = wideScale, wideSize, wideD, wideAct
	}
	field := func(t, off int) Mem { return act(t, off-actD+actFields) }

	each := func(f func(v, t int)) {
		for t := range tokens {
			for v := range 2 {
				f(v, t)
			}
		}
	}
	VPCMPEQW(ones, ones, ones)
	VPSRLW(U8(15), ones, ones)
	each(func(v, t int) {
		if fInReg {
			VMOVUPS(out(t, v), facc(v, t))
		} else {
			VMOVUPS(out(t, v), y)
			VMOVUPS(y, fmem(v, t))
		}
	})
	Label("block")
	nh, ng := 1, 8
	switch {
	case k.halves:
		nh, ng = 2, 4
	case k.wide:
		ng = 16
	}
	for h := range nh {
		for g0 := 0; g0 < ng; g0++ {
			g := h*ng + g0
			for v := range 2 {
				VMOVDQU(Mem{Base: p, Disp: g*groupSize + 32*v}, w[v])
			}
			// Both products before both sums: the multipliers are on other ports than most of what adds, and are found free more often so.
			for t := range tokens {
				VPBROADCASTD(act(t, 4*g), x)
				multiply, add := VPMADDUBSW, VPADDW
				if k.wide {
					multiply, add = VPMADDWD, VPADDD
				}
				if g0%k.flush == 0 {
					multiply(x, w[0], acc(0, t))
					multiply(x, w[1], acc(1, t))
					continue
				}
				multiply(x, w[0], y)
				multiply(x, w[1], x)
				add(y, acc(0, t), acc(0, t))
				add(x, acc(1, t), acc(1, t))
			}
			if !k.wide && (g0+1)%k.flush == 0 {
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
		scale := panelScale
		if h == 1 {
			scale = recScale2
		}
		for t := range tokens {
			if k.shift >= 0 { // levels times activations less what the zero level adds
				switch {
				case !k.halves:
					VPBROADCASTD(field(t, actN32), x)
				case h == 0:
					VPBROADCASTD(field(t, actN16), x)
				default:
					VPBROADCASTD(field(t, actN32), x)
					VPBROADCASTD(field(t, actN16), y)
					VPSUBD(y, x, x)
				}
				VPSRAD(U8(7-k.shift), x, x)
			}
			VBROADCASTSS(field(t, actD), y)
			if k.min {
				VBROADCASTSS(field(t, actDS), w[0])
			}
			for v := range 2 {
				i := acc(v, t)
				if k.shift >= 0 {
					VPADDD(x, i, i)
				}
				VCVTDQ2PS(i, i)
				VMULPS(Mem{Base: p, Disp: scale + 32*v}, y, z)
				sum := i
				if fInReg {
					sum = facc(v, t)
					VFMADD231PS(i, z, sum)
				} else {
					VFMADD213PS(fmem(v, t), z, i)
				}
				if k.min {
					VFMADD231PS(Mem{Base: p, Disp: recMin + 32*v}, w[0], sum)
				}
				if !fInReg {
					VMOVUPS(i, fmem(v, t))
				}
			}
		}
	}
	ADDQ(U32(panelSize), p)
	ADDQ(U8(actBytes), a)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	each(func(v, t int) {
		if fInReg {
			VMOVUPS(facc(v, t), out(t, v))
		} else {
			VMOVUPS(fmem(v, t), y)
			VMOVUPS(y, out(t, v))
		}
	})
	VZEROUPPER()
	RET()
}

package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func tiles512() {
	for _, k := range []kind{
		{name: "V"}, {name: "VMin", min: true}, {name: "VHalf", halves: true},
	} {
		for _, t := range []int{1, 2, 4, 8, 12} {
			tile512(k, t)
		}
	}
}

// tile512 is tile with VNNI: four products and their sum in one instruction, 16 rows in a register. Levels of
// types without minimums have 128 added, and sums start at -128 times the activations' sum, so the offset is free.
func tile512(k kind, tokens int) {
	name := fmt.Sprintf("tile%sx%d", k.name, tokens)
	TEXT(name, NOSPLIT, "func(dst *float32, stride int, panel, acts *byte, actStride, blocks int, tmp *byte)")
	Doc(fmt.Sprintf("%s adds the product of 16 weight rows and %d rows of activations to dst. Strides are in bytes, tmp is unused.", name, tokens))
	dst := Load(Param("dst"), GP64()).(Register)
	out := newRows8(dst, Load(Param("stride"), GP64()).(Register))
	p := Load(Param("panel"), GP64()).(Register)
	a := Load(Param("acts"), GP64()).(Register)
	act := newRows8(a, Load(Param("actStride"), GP64()).(Register))
	blocks := Load(Param("blocks"), GP64()).(GPVirtual)
	acc := []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11}
	facc := []VecPhysical{Z12, Z13, Z14, Z15, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23}
	w, y, scale, low := []VecPhysical{Z24, Z25}, Z26, Z27, Z28
	if tokens > 8 {
		out.more()
		act.more()
	}
	for t := range tokens {
		VMOVUPS(out.at(t, 0), facc[t])
	}
	Label("block")
	nh, ng := 1, 8
	if k.halves {
		nh, ng = 2, 4
	}
	for h := range nh {
		for t := range tokens {
			switch {
			case k.min:
				VPXORD(acc[t], acc[t], acc[t])
			case !k.halves:
				VPBROADCASTD(act.at(t, actN32), acc[t])
			case h == 0:
				VPBROADCASTD(act.at(t, actN16), acc[t])
			default:
				VPBROADCASTD(act.at(t, actN32), acc[t])
				VPSUBD_BCST(act.at(t, actN16), acc[t], acc[t])
			}
		}
		for g := h * ng; g < (h+1)*ng; g++ {
			VMOVDQU32(Mem{Base: p, Disp: g * groupSize}, w[g%2])
			for t := range tokens {
				VPDPBUSD_BCST(act.at(t, 4*g), w[g%2], acc[t])
			}
		}
		at := recScale
		if h == 1 {
			at = recScale2
		}
		VMOVUPS(Mem{Base: p, Disp: at}, scale)
		if k.min {
			VMOVUPS(Mem{Base: p, Disp: recMin}, low)
		}
		for t := range tokens {
			VCVTDQ2PS(acc[t], acc[t])
			VMULPS_BCST(act.at(t, actD), scale, y)
			VFMADD231PS(acc[t], y, facc[t])
			if k.min {
				VFMADD231PS_BCST(act.at(t, actDS), low, facc[t])
			}
		}
	}
	ADDQ(U32(recSize), p)
	act.advance(actSize)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	for t := range tokens {
		VMOVUPS(facc[t], out.at(t, 0))
	}
	VZEROUPPER()
	RET()
}

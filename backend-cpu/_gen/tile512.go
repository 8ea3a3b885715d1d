package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// pairTokens is the number of activation rows that pass two panels at once.
const pairTokens = 6

func tiles512() {
	for _, k := range []kind{
		{name: "V"}, {name: "VMin", min: true}, {name: "VHalf", halves: true},
	} {
		for _, t := range []int{1, 2, 4, 8, 12} {
			tile512(k, 1, t)
		}
		tile512(k, 2, pairTokens)
	}
}

// tile512 is tile with VNNI: four products and their sum in one instruction, 16 rows in a register. Levels of types without minimums
// have 128 added, and sums start at -128 times the activations' sum, so the offset is free. Of two panels, the second one lies behind the
// first; each broadcast activation then serves two products: one load for each product would take as long as the products.
func tile512(k kind, panels, tokens int) {
	name := fmt.Sprintf("tile%sx%d", k.name, tokens)
	if panels == 2 {
		name = "tile" + k.name + "Pair"
	}
	TEXT(name, NOSPLIT, "func(dst *float32, stride int, panel, acts *byte, actStride, blocks, times, fresh int, tmp *byte)")
	Doc(fmt.Sprintf("%s computes the product of %d weight rows and times %d rows of activations and adds it to dst, or sets dst if fresh isn't 0.", name, 16*panels, tokens),
		"Strides are in bytes, tmp is unused.")
	out := newRows8(Load(Param("dst"), GP64()).(Register), Load(Param("stride"), GP64()).(Register))
	act := newRows8(Load(Param("acts"), GP64()).(Register), Load(Param("actStride"), GP64()).(Register))
	times := Load(Param("times"), GP64()).(GPVirtual)
	if tokens > 8 {
		out.more()
		act.more()
	}
	p, blocks, fresh := []Register{GP64(), GP64()}[:panels], GP64(), GP64()
	all := []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23}
	acc := func(v, t int) VecPhysical { return all[v*tokens+t] }
	facc := func(v, t int) VecPhysical { return all[12+v*tokens+t] }
	w, x, scale, y, d := []VecPhysical{Z24, Z25}, []VecPhysical{Z26, Z27}, []VecPhysical{Z28, Z29}, Z30, Z31
	each := func(f func(v, t int)) {
		for t := range tokens {
			for v := range panels {
				f(v, t)
			}
		}
	}
	Label("tile")
	Load(Param("panel"), p[0])
	Load(Param("blocks"), blocks)
	Load(Param("fresh"), fresh)
	if panels == 2 {
		IMUL3Q(U32(recSize), blocks, p[1])
		ADDQ(p[0], p[1])
	}
	TESTQ(fresh, fresh)
	JZ(LabelRef("add"))
	each(func(v, t int) { VPXORD(facc(v, t), facc(v, t), facc(v, t)) })
	JMP(LabelRef("block"))
	Label("add")
	each(func(v, t int) { VMOVUPS(out.at(t, 64*v), facc(v, t)) })
	Label("block")
	nh, ng := 1, 8
	if k.halves {
		nh, ng = 2, 4
	}
	for h := range nh {
		each(func(v, t int) {
			switch {
			case k.min:
				VPXORD(acc(v, t), acc(v, t), acc(v, t))
			case !k.halves:
				VPBROADCASTD(act.at(t, actN32), acc(v, t))
			case h == 0:
				VPBROADCASTD(act.at(t, actN16), acc(v, t))
			default:
				VPBROADCASTD(act.at(t, actN32), acc(v, t))
				VPSUBD_BCST(act.at(t, actN16), acc(v, t), acc(v, t))
			}
		})
		for g := h * ng; g < (h+1)*ng; g++ {
			if panels == 1 {
				VMOVDQU32(Mem{Base: p[0], Disp: g * groupSize}, w[g%2])
				for t := range tokens {
					VPDPBUSD_BCST(act.at(t, 4*g), w[g%2], acc(0, t))
				}
				continue
			}
			for v := range panels {
				VMOVDQU32(Mem{Base: p[v], Disp: g * groupSize}, w[v])
			}
			for t := range tokens {
				VPBROADCASTD(act.at(t, 4*g), x[t%2])
				for v := range panels {
					VPDPBUSD(x[t%2], w[v], acc(v, t))
				}
			}
		}
		at := recScale
		if h == 1 {
			at = recScale2
		}
		for v := range panels {
			VMOVUPS(Mem{Base: p[v], Disp: at}, scale[v])
			if k.min {
				VMOVUPS(Mem{Base: p[v], Disp: recMin}, w[v])
			}
		}
		for t := range tokens {
			VBROADCASTSS(act.at(t, actD), d)
			if k.min {
				VBROADCASTSS(act.at(t, actDS), x[0])
			}
			for v := range panels {
				VCVTDQ2PS(acc(v, t), acc(v, t))
				VMULPS(d, scale[v], y)
				VFMADD231PS(acc(v, t), y, facc(v, t))
				if k.min {
					VFMADD231PS(x[0], w[v], facc(v, t))
				}
			}
		}
	}
	for v := range panels {
		ADDQ(U32(recSize), p[v])
	}
	act.advance(actSize)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	each(func(v, t int) { VMOVUPS(facc(v, t), out.at(t, 64*v)) })
	// The next rows: as many strides on, and back over the blocks.
	Load(Param("blocks"), blocks)
	IMUL3Q(U32(actSize), blocks, blocks)
	IMUL3Q(U32(uint32(tokens)), act.s, fresh)
	SUBQ(blocks, fresh)
	act.step(fresh)
	IMUL3Q(U32(uint32(tokens)), out.s, fresh)
	out.step(fresh)
	DECQ(times)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// step moves on by the bytes in a register.
func (r rows8) step(by Register) {
	ADDQ(by, r.lo)
	ADDQ(by, r.hi)
	if r.top != nil {
		ADDQ(by, r.top)
	}
}

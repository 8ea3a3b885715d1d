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
		quad512(k)
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
			if k.min {
				VPXORD(acc(v, t), acc(v, t), acc(v, t))
			} else {
				startInts(k, h, act, t, acc(v, t))
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
	nextRows(tokens, blocks, fresh, act, out)
	DECQ(times)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// quad512 is tile512 of four panels: 10 loads serve 24 products, instead of 8 serving 12, which counts when another thread shares the core.
// Integer sums take 24 registers; the sums of whole rows stand in tmp.
func quad512(k kind) {
	const panels, tokens = 4, pairTokens
	name := "tile" + k.name + "Quad"
	TEXT(name, NOSPLIT, "func(dst *float32, stride int, panel, acts *byte, actStride, blocks, times, fresh int, tmp *byte)")
	Doc(fmt.Sprintf("%s computes the product of %d weight rows and times %d rows of activations and adds it to dst, or sets dst if fresh isn't 0.", name, 16*panels, tokens),
		"Strides are in bytes, tmp has 1536 bytes.")
	out := newRows8(Load(Param("dst"), GP64()).(Register), Load(Param("stride"), GP64()).(Register))
	act := newRows8(Load(Param("acts"), GP64()).(Register), Load(Param("actStride"), GP64()).(Register))
	tmp := Load(Param("tmp"), GP64()).(Register)
	p, last, size, blocks, any := GP64(), GP64(), GP64(), GP64(), GP64()
	ints := []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23}
	acc := func(v, t int) VecPhysical { return ints[v*tokens+t] }
	w, x, y := []VecPhysical{Z24, Z25, Z26, Z27}, []VecPhysical{Z28, Z29}, []VecPhysical{Z30, Z31}
	sum := func(v, t int) Mem { return Mem{Base: tmp, Disp: 64 * (v*tokens + t)} }
	rec := func(v, off int) Mem { // of panel v, size bytes after the one before
		switch v {
		case 0:
			return Mem{Base: p, Disp: off}
		case 3:
			return Mem{Base: last, Disp: off}
		}
		return Mem{Base: p, Index: size, Scale: uint8(v), Disp: off}
	}
	each := func(f func(v, t int)) {
		for t := range tokens {
			for v := range panels {
				f(v, t)
			}
		}
	}
	Label("tile")
	Load(Param("panel"), p)
	Load(Param("blocks"), blocks)
	IMUL3Q(U32(recSize), blocks, size)
	LEAQ(Mem{Base: size, Index: size, Scale: 2}, last)
	ADDQ(p, last)
	Load(Param("fresh"), any)
	TESTQ(any, any)
	JZ(LabelRef("add"))
	VPXORD(y[0], y[0], y[0])
	each(func(v, t int) { VMOVUPS(y[0], sum(v, t)) })
	JMP(LabelRef("block"))
	Label("add")
	each(func(v, t int) {
		VMOVUPS(out.at(t, 64*v), y[v%2])
		VMOVUPS(y[v%2], sum(v, t))
	})
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
			case v > 0:
				VMOVDQA32(acc(0, t), acc(v, t))
			default:
				startInts(k, h, act, t, acc(0, t))
			}
		})
		for g := h * ng; g < (h+1)*ng; g++ {
			for v := range panels {
				VMOVDQU32(rec(v, g*groupSize), w[v])
			}
			for t := range tokens {
				VPBROADCASTD(act.at(t, 4*g), x[t%2])
				for v := range panels {
					VPDPBUSD(x[t%2], w[v], acc(v, t))
				}
			}
		}
		for v := range panels {
			VMOVUPS(rec(v, []int{recScale, recScale2}[h]), w[v])
		}
		for t := range tokens {
			VBROADCASTSS(act.at(t, actD), x[0])
			if k.min {
				VBROADCASTSS(act.at(t, actDS), x[1])
			}
			for v := range panels {
				z, s := acc(v, t), y[v%2]
				VCVTDQ2PS(z, z)
				VMULPS(x[0], w[v], s)
				VFMADD213PS(sum(v, t), s, z)
				if k.min {
					if t == 0 {
						VFMADD231PS(rec(v, recMin), x[1], z)
					} else { // the first row's registers hold the minimums by then
						VFMADD231PS(acc(v, 0), x[1], z)
					}
				}
				VMOVUPS(z, sum(v, t))
				if k.min && t == 0 {
					VMOVUPS(rec(v, recMin), z)
				}
			}
		}
	}
	ADDQ(U32(recSize), p)
	ADDQ(U32(recSize), last)
	act.advance(actSize)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	each(func(v, t int) {
		VMOVUPS(sum(v, t), y[v%2])
		VMOVUPS(y[v%2], out.at(t, 64*v))
	})
	nextRows(tokens, blocks, any, act, out)
	DECQ(argument("times"))
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// startInts begins the integer sums of activation row t, or of its half h, at what the levels' offset of 128 adds too much.
func startInts(k kind, h int, act rows8, t int, z VecPhysical) {
	switch {
	case !k.halves:
		VPBROADCASTD(act.at(t, actN32), z)
	case h == 0:
		VPBROADCASTD(act.at(t, actN16), z)
	default:
		VPBROADCASTD(act.at(t, actN32), z)
		VPSUBD_BCST(act.at(t, actN16), z, z)
	}
}

// nextRows moves on to the next rows of a tile: as many strides on, and back over the blocks. a and b are free.
func nextRows(tokens int, a, b Register, act, out rows8) {
	Load(Param("blocks"), a)
	IMUL3Q(U32(actSize), a, a)
	IMUL3Q(U32(uint32(tokens)), act.s, b)
	SUBQ(a, b)
	act.step(b)
	IMUL3Q(U32(uint32(tokens)), out.s, b)
	out.step(b)
}

// step moves on by the bytes in a register.
func (r rows8) step(by Register) {
	ADDQ(by, r.lo)
	ADDQ(by, r.hi)
	if r.top != nil {
		ADDQ(by, r.top)
	}
}

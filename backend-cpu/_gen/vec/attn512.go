package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// sixteen loads elements [16*g,16*g+16) of a block at m, in float32 but for Q8's scale.
func sixteen(format string, m Mem, g int, v VecVirtual) {
	switch format {
	case "F32":
		VMOVUPS(m.Offset(64*g), v)
	case "F16":
		VCVTPH2PS(m.Offset(32*g), v)
	case "Q8":
		VPMOVSXBD(m.Offset(2+16*g), v)
		VCVTDQ2PS(v, v)
	}
}

func blockScale512(m Mem) VecVirtual {
	x, y := YMM(), ZMM()
	VPBROADCASTW(m, x)
	VCVTPH2PS(x, y)
	return y
}

func zero512() VecVirtual {
	v := ZMM()
	VPXORD(v, v, v)
	return v
}

// scores512 is scores with all 16 partial sums of a position in one register.
func scores512(format string, heads int) {
	name := fmt.Sprintf("scores%sx%dAVX512", format, heads)
	attr := NOSPLIT
	if format == "Q8" {
		attr = 0 // the frame is too large for that
	}
	TEXT(name, attr, "func(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int)")
	Doc(fmt.Sprintf("%s multiplies %d queries with tiles of 8 positions; the queries' rows have blocks*32 elements.", name, heads))
	Pragma("noescape")
	s, offs, tiles := ptr("s"), ptr("offs"), ptr("tiles")
	loadNext(format)
	q := []Register{ptr("q")}
	size := GP64() // bytes of a query
	Load(Param("blocks"), size)
	SHLQ(U8(7), size)
	for h := 1; h < heads; h++ {
		r := GP64()
		LEAQ(Mem{Base: q[h-1], Index: size, Scale: 1}, r)
		q = append(q, r)
	}
	first := AllocLocal(heads * 32)
	var scales Mem
	if format == "Q8" {
		scales = AllocLocal(maxScale * 4 * 64)
	}
	sizeAt := AllocLocal(8)
	MOVQ(size, sizeAt)

	Label("tile")
	for half, positions := range [][4]int{{0, 4, 1, 5}, {2, 6, 3, 7}} {
		var row [4]Register
		for p := range row {
			row[p] = GP64()
			Load(Param("src"), row[p])
			ADDQ(Mem{Base: offs, Disp: 8 * positions[p]}, row[p])
		}
		if format == "Q8" {
			at, to, left := GP64(), GP64(), GP64()
			XORQ(at, at)
			LEAQ(scales, to)
			Load(Param("blocks"), left)
			label := fmt.Sprintf("scale%d", half)
			Label(label)
			for p := range row {
				VMOVUPS(blockScale512(Mem{Base: row[p], Index: at, Scale: 1}), Mem{Base: to, Disp: 64 * p})
			}
			addStep(at)
			ADDQ(U32(256), to)
			DECQ(left)
			JNZ(LabelRef(label))
		}
		sums := make([][4]VecVirtual, heads)
		for h := range sums {
			for p := range row {
				sums[h][p] = zero512()
			}
		}
		at, qAt := GP64(), GP64()
		XORQ(at, at)
		XORQ(qAt, qAt)
		label := fmt.Sprintf("block%d", half)
		Label(label)
		for g := range 2 {
			var x []VecVirtual
			for h := range heads {
				v := ZMM()
				VMOVUPS(Mem{Base: q[h], Index: qAt, Scale: 1, Disp: 64 * g}, v)
				x = append(x, v)
			}
			for p := range row {
				k := ZMM()
				sixteen(format, Mem{Base: row[p], Index: at, Scale: 1}, g, k)
				if format == "Q8" {
					VMULPS(Mem{Base: scales.Base, Symbol: scales.Symbol, Disp: scales.Disp + 64*p, Index: qAt, Scale: 2}, k, k)
				}
				for h := range heads {
					VFMADD231PS(k, x[h], sums[h][p])
				}
				if p%2 == 1 {
					ask(format)
				}
			}
		}
		addStep(at)
		ADDQ(U32(128), qAt)
		CMPQ(qAt, sizeAt)
		JB(LabelRef(label))
		for h := range sums {
			var r [4]VecVirtual
			for p := range r {
				r[p] = YMM()
				VEXTRACTF64X4(U8(1), sums[h][p], r[p])
				VADDPS(r[p], sums[h][p].AsY(), r[p])
			}
			t := pairs4(pairs512(r[0], r[1]), pairs512(r[2], r[3]))
			if half == 0 {
				VMOVUPS(t, first.Offset(32*h))
				continue
			}
			f, a, b := YMM(), YMM(), YMM()
			VMOVUPS(first.Offset(32*h), f)
			VSHUFPS(U8(0x88), t, f, a)
			VSHUFPS(U8(0xdd), t, f, b)
			VADDPS(b, a, a)
			VMOVUPS(a, Mem{Base: s, Disp: sBytes * h})
		}
	}
	ADDQ(Imm(32), s)
	ADDQ(Imm(64), offs)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// weigh512 is weigh with two blocks of 32 elements at a time, so that as many sums are in flight.
func weigh512(format string, heads int) {
	name := fmt.Sprintf("weigh%sx%dAVX512", format, heads)
	TEXT(name, NOSPLIT, "func(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int)")
	Doc(fmt.Sprintf("%s adds n weighted rows to %d outputs that are oStep bytes apart; blocks is even.", name, heads))
	Pragma("noescape")
	o, oStep, p, src, offs := ptr("o"), ptr("oStep"), ptr("p"), ptr("src"), ptr("offs")
	n := ptr("n")
	loadNext(format)
	out := []Register{o}
	for h := 1; h < heads; h++ {
		r := GP64()
		LEAQ(Mem{Base: out[h-1], Index: oStep, Scale: 1}, r)
		out = append(out, r)
	}
	blocks := AllocLocal(8)
	{
		b := GP64()
		Load(Param("blocks"), b)
		MOVQ(b, blocks)
	}
	second := GP64()
	Label("block")
	MOVQ(src, second)
	addStep(second)
	acc := make([][4]VecVirtual, heads)
	for h := range acc {
		for e := range 4 {
			acc[h][e] = ZMM()
			VMOVUPS(Mem{Base: out[h], Disp: 64 * e}, acc[h][e])
		}
	}
	j := GP64()
	XORQ(j, j)
	Label("row")
	ask(format)
	ask(format)
	row := GP64()
	MOVQ(Mem{Base: offs, Index: j, Scale: 8}, row)
	var w []VecVirtual
	for h := range heads {
		x := ZMM()
		VBROADCASTSS(Mem{Base: p, Index: j, Scale: 4, Disp: sBytes * h}, x)
		w = append(w, x)
	}
	for b, base := range []Register{src, second} {
		m := Mem{Base: base, Index: row, Scale: 1}
		var scale VecVirtual
		if format == "Q8" {
			scale = blockScale512(m)
		}
		for e := range 2 {
			v := ZMM()
			sixteen(format, m, e, v)
			if format == "Q8" {
				VMULPS(scale, v, v)
			}
			for h := range heads {
				VFMADD231PS(v, w[h], acc[h][2*b+e])
			}
		}
	}
	INCQ(j)
	CMPQ(j, n)
	JB(LabelRef("row"))
	for h := range acc {
		for e := range 4 {
			VMOVUPS(acc[h][e], Mem{Base: out[h], Disp: 64 * e})
		}
		ADDQ(U32(256), out[h])
	}
	MOVQ(second, src)
	addStep(src)
	SUBQ(Imm(2), blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// pairs512 is pairs8 with instructions that take all 32 registers.
func pairs512(a, b VecVirtual) VecVirtual {
	x, y := YMM(), YMM()
	VSHUFF64X2(U8(2), b, a, x)
	VSHUFF64X2(U8(1), b, a, y)
	VADDPS(y, x, x)
	return x
}

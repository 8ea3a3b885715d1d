package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func zero512() VecVirtual {
	v := ZMM()
	VPXORD(v, v, v)
	return v
}

// scores512 is scores with all 16 partial sums of a position in one register.
func scores512(format string, heads int) {
	s, offs, tiles, size, q := beginScores(fmt.Sprintf("scores%sx%dAVX512", format, heads), format, heads)
	first := AllocLocal(heads * 32)
	var scales Mem
	if format == "Q8" {
		scales = AllocLocal(maxScale * 4 * 64)
	}
	sizeAt := AllocLocal(8)
	MOVQ(size, sizeAt)

	Label("tile")
	for half, positions := range [][4]int{{0, 4, 1, 5}, {2, 6, 3, 7}} {
		row := rowsAt(offs, positions)
		if format == "Q8" {
			keepScales(fmt.Sprintf("scale%d", half), row, scales, ZMM)
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
				load(format, Mem{Base: row[p], Index: at, Scale: 1}, g, 16, k)
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
			put(half, h, s, first, pairs4(pairs512(r[0], r[1]), pairs512(r[2], r[3])))
		}
	}
	endScores(s, offs, tiles)
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
			scale = blockScale(m, ZMM)
		}
		for e := range 2 {
			v := ZMM()
			load(format, m, e, 16, v)
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

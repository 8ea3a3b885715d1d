package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Rows of a KV cache: a head's elements stand in blocks of 32, one row's blocks `step` bytes apart.
const (
	wideRows = 128 + 8  // of a slice of widened rows
	sBytes   = 4 * 128  // from one query's scores to the next
	maxScale = 256 / 32 // blocks of a Q8 row whose scales there is room for
)

// load brings lanes [n*g,n*g+n) of a block at m into v, in float32 but for Q8's scale; n is 8 or 16.
func load(format string, m Mem, g, n int, v VecVirtual) {
	switch format {
	case "F32":
		VMOVUPS(m.Offset(4*n*g), v)
	case "F16":
		VCVTPH2PS(m.Offset(2*n*g), v)
	case "Q8":
		VPMOVSXBD(m.Offset(2+n*g), v)
		VCVTDQ2PS(v, v)
	}
}

// blockScale broadcasts the scale of a Q8 block to a vector of the kind that vec makes.
func blockScale(m Mem, vec func() VecVirtual) VecVirtual {
	half, y := XMM(), vec()
	if y.Size() == 64 {
		half = YMM()
	}
	VPBROADCASTW(m, half)
	VCVTPH2PS(half, y)
	return y
}

func widen(format string) {
	TEXT("widen"+format+"AVX2", NOSPLIT, "func(dst *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int)")
	Doc("widen" + format + "AVX2 writes n rows to slices of 32 elements.")
	Pragma("noescape")
	dst, src, offs, n, blocks, step := ptr("dst"), ptr("src"), ptr("offs"), ptr("n"), ptr("blocks"), ptr("step")
	loadNext(format)
	Label("row")
	from, to, left := GP64(), GP64(), GP64()
	MOVQ(Mem{Base: offs}, from)
	ADDQ(src, from)
	MOVQ(dst, to)
	MOVQ(blocks, left)
	Label("slice")
	ask(format)
	var scale VecVirtual
	if format == "Q8" {
		scale = blockScale(Mem{Base: from}, YMM)
	}
	for g := range 4 {
		v := YMM()
		load(format, Mem{Base: from}, g, 8, v)
		if format == "Q8" {
			VMULPS(scale, v, v)
		}
		VMOVUPS(v, Mem{Base: to, Disp: 32 * g})
	}
	ADDQ(step, from)
	ADDQ(U32(wideRows*128), to)
	DECQ(left)
	JNZ(LabelRef("slice"))
	ADDQ(Imm(8), offs)
	ADDQ(Imm(128), dst)
	DECQ(n)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// scores multiplies queries with tiles of 8 positions. Lanes are elements, as they stand in memory: the first 8 of the 16
// partial sums are made for 4 positions and all queries at once, then the other 8; that keeps 4 to 12 sums in flight, and
// each load of a query serves 4 positions, each load (and widening) of a key all queries. The lanes of 8 positions are then
// summed together, in the order of reduce16.
func scores(format string, heads int) {
	s, offs, tiles, size, q := beginScores(fmt.Sprintf("scores%sx%dAVX2", format, heads), format, heads)
	low := AllocLocal(4 * heads * 32)
	first := AllocLocal(heads * 32)
	var scales Mem
	if format == "Q8" {
		scales = AllocLocal(maxScale * 4 * 32)
	}
	sizeAt := AllocLocal(8)
	MOVQ(size, sizeAt)

	Label("tile")
	for half, positions := range [][4]int{{0, 4, 1, 5}, {2, 6, 3, 7}} {
		row := rowsAt(offs, positions)
		if format == "Q8" {
			keepScales(fmt.Sprintf("scale%d", half), row, scales, YMM)
		}
		sums := make([][4]VecVirtual, heads)
		for pass := range 2 {
			for h := range sums {
				for p := range row {
					sums[h][p] = zero()
				}
			}
			at, qAt := GP64(), GP64()
			XORQ(at, at)
			XORQ(qAt, qAt)
			label := fmt.Sprintf("block%d%d", half, pass)
			Label(label)
			for g := pass; g < 4; g += 2 {
				var x []VecVirtual
				for h := range heads {
					v := YMM()
					VMOVUPS(Mem{Base: q[h], Index: qAt, Scale: 1, Disp: 32 * g}, v)
					x = append(x, v)
				}
				for p := range row {
					k := YMM()
					load(format, Mem{Base: row[p], Index: at, Scale: 1}, g, 8, k)
					if format == "Q8" {
						VMULPS(Mem{Base: scales.Base, Symbol: scales.Symbol, Disp: scales.Disp + 32*p, Index: qAt, Scale: 1}, k, k)
					}
					for h := range heads {
						VFMADD231PS(k, x[h], sums[h][p])
					}
				}
			}
			ask(format)
			ask(format)
			addStep(at)
			ADDQ(U32(128), qAt)
			CMPQ(qAt, sizeAt)
			JB(LabelRef(label))
			for h := range sums {
				for p := range row {
					if m := low.Offset(32 * (4*h + p)); pass == 0 {
						VMOVUPS(sums[h][p], m)
					} else {
						VADDPS(m, sums[h][p], sums[h][p])
					}
				}
			}
		}
		for h, r := range sums {
			put(half, h, s, first, pairs4(pairs8(r[0], r[1]), pairs8(r[2], r[3])))
		}
	}
	endScores(s, offs, tiles)
}

// beginScores declares a kernel of scores and finds the queries and their size in bytes.
func beginScores(name, format string, heads int) (s, offs, tiles, size Register, q []Register) {
	attr := NOSPLIT
	if format == "Q8" {
		attr = 0 // the frame is too large for that
	}
	TEXT(name, attr, "func(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int)")
	Doc(fmt.Sprintf("%s multiplies %d queries with tiles of 8 positions; the queries' rows have blocks*32 elements.", name, heads))
	Pragma("noescape")
	s, offs, tiles = ptr("s"), ptr("offs"), ptr("tiles")
	loadNext(format)
	q = []Register{ptr("q")}
	size = GP64()
	Load(Param("blocks"), size)
	SHLQ(U8(7), size)
	for h := 1; h < heads; h++ {
		r := GP64()
		LEAQ(Mem{Base: q[h-1], Index: size, Scale: 1}, r)
		q = append(q, r)
	}
	return s, offs, tiles, size, q
}

// rowsAt gives the addresses of four of a tile's rows.
func rowsAt(offs Register, positions [4]int) (row [4]Register) {
	for p := range row {
		row[p] = GP64()
		Load(Param("src"), row[p])
		ADDQ(Mem{Base: offs, Disp: 8 * positions[p]}, row[p])
	}
	return row
}

// keepScales broadcasts the scales of four Q8 rows' blocks to scales, a vector each.
func keepScales(label string, row [4]Register, scales Mem, vec func() VecVirtual) {
	at, to, left := GP64(), GP64(), GP64()
	XORQ(at, at)
	LEAQ(scales, to)
	Load(Param("blocks"), left)
	Label(label)
	size := 0
	for p := range row {
		v := blockScale(Mem{Base: row[p], Index: at, Scale: 1}, vec)
		size = int(v.Size())
		VMOVUPS(v, Mem{Base: to, Disp: size * p})
	}
	addStep(at)
	ADDQ(U32(4*size), to)
	DECQ(left)
	JNZ(LabelRef(label))
}

// put keeps the sums t of a tile's first half, or adds neighbours of both halves and stores one query's 8 scores.
func put(half, h int, s Register, first Mem, t VecVirtual) {
	if half == 0 {
		VMOVUPS(t, first.Offset(32*h))
		return
	}
	f, a, b := YMM(), YMM(), YMM()
	VMOVUPS(first.Offset(32*h), f)
	VSHUFPS(U8(0x88), t, f, a)
	VSHUFPS(U8(0xdd), t, f, b)
	VADDPS(b, a, a)
	VMOVUPS(a, Mem{Base: s, Disp: sBytes * h})
}

// endScores goes on to the next tile.
func endScores(s, offs, tiles Register) {
	ADDQ(Imm(32), s)
	ADDQ(Imm(64), offs)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

// pairs8 adds lane l+4 to lane l of a and of b: a's sums are the first half of the result.
func pairs8(a, b VecVirtual) VecVirtual {
	x, y := YMM(), YMM()
	VBLENDPS(U8(0xf0), b, a, x)
	VPERM2F128(U8(0x21), b, a, y)
	VADDPS(y, x, x)
	return x
}

// pairs4 adds lane l+2 to lane l in each half of a and of b.
func pairs4(a, b VecVirtual) VecVirtual {
	x, y := YMM(), YMM()
	VSHUFPS(U8(0x44), b, a, x)
	VSHUFPS(U8(0xee), b, a, y)
	VADDPS(y, x, x)
	return x
}

func addStep(at Register) { ADDQ(param("step"), at) }

func param(name string) Mem {
	m, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return m.Addr
}

// next is what ask asks for.
var next Register

func loadNext(format string) {
	if format != "F32" {
		next = ptr("next")
	}
}

// ask has the next bytes brought into the second-level cache. Float32 rows are nearly always widened ones, which are in a cache.
func ask(format string) {
	if format != "F32" {
		PREFETCHT1(Mem{Base: next})
		ADDQ(param("nextStep"), next)
	}
}

// weigh adds rows, each times a query's weight, to the queries' outputs, a block of 32 elements at a time: 4 to 12 sums stay in
// registers while the rows pass, and each load of a row serves all queries.
func weigh(format string, heads int) {
	name := fmt.Sprintf("weigh%sx%dAVX2", format, heads)
	TEXT(name, NOSPLIT, "func(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int)")
	Doc(fmt.Sprintf("%s adds n weighted rows to %d outputs that are oStep bytes apart.", name, heads))
	Pragma("noescape")
	o, oStep, p, src, offs, blocks := ptr("o"), ptr("oStep"), ptr("p"), ptr("src"), ptr("offs"), ptr("blocks")
	n := ptr("n")
	loadNext(format)
	out := []Register{o}
	for h := 1; h < heads; h++ {
		r := GP64()
		LEAQ(Mem{Base: out[h-1], Index: oStep, Scale: 1}, r)
		out = append(out, r)
	}
	// A row's scale has no register left beside 12 sums: then half a block at a time.
	parts := 1
	if format == "Q8" && heads == 3 {
		parts = 2
	}
	Label("block")
	for part := range parts {
		acc := make([][]VecVirtual, heads)
		sum := func(h, e int) Mem { return Mem{Base: out[h], Disp: 32 * (part*4/parts + e)} }
		for h := range acc {
			for e := range 4 / parts {
				acc[h] = append(acc[h], YMM())
				VMOVUPS(sum(h, e), acc[h][e])
			}
		}
		j := GP64()
		XORQ(j, j)
		label := fmt.Sprintf("row%d", part)
		Label(label)
		if part == 0 {
			ask(format)
		}
		row := GP64()
		MOVQ(Mem{Base: offs, Index: j, Scale: 8}, row)
		m := Mem{Base: src, Index: row, Scale: 1}
		var scale VecVirtual
		if format == "Q8" {
			scale = blockScale(m, YMM)
		}
		var w []VecVirtual
		for h := range heads {
			x := YMM()
			VBROADCASTSS(Mem{Base: p, Index: j, Scale: 4, Disp: sBytes * h}, x)
			w = append(w, x)
		}
		for e := range 4 / parts {
			v := YMM()
			load(format, m, part*4/parts+e, 8, v)
			if format == "Q8" {
				VMULPS(scale, v, v)
			}
			for h := range heads {
				VFMADD231PS(v, w[h], acc[h][e])
			}
		}
		INCQ(j)
		CMPQ(j, n)
		JB(LabelRef(label))
		for h := range acc {
			for e := range acc[h] {
				VMOVUPS(acc[h][e], sum(h, e))
			}
		}
	}
	for h := range out {
		ADDQ(U32(128), out[h])
	}
	addStep(src)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

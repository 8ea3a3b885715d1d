package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Packed keys stand in tiles of 16 positions. A tile holds, for each of the 16 partial sums of a score in the order that scoresPacked makes them, the
// elements that it takes, and of each element the positions side by side: so a tile is read from its first byte to its last.
const (
	packBytes   = 4 * 16 // of one element of a tile
	packQueries = 3      // that share each load of keys
)

// pack writes tiles of packed keys from rows of a cache, 8 positions at a time.
func pack(format string) {
	TEXT("pack"+format+"AVX2", NOSPLIT, "func(dst *float32, src *byte, offs *int, halves, blocks, step int)")
	Doc("pack" + format + "AVX2 writes halves of tiles of 16 positions and blocks*32 elements.")
	Pragma("noescape")
	dst, offs := ptr("dst"), ptr("offs")
	left, half := AllocLocal(8), AllocLocal(8)
	MOVQ(U32(0), half)
	stride := ptr("blocks") // between two partial sums of the same half of 8
	SHLQ(U8(8), stride)
	Label("half")
	to := GP64()
	MOVQ(dst, to)
	{
		blocks := GP64()
		Load(Param("blocks"), blocks)
		MOVQ(blocks, left)
	}
	var row [8]Register
	for p := range row {
		row[p] = GP64()
		Load(Param("src"), row[p])
		ADDQ(Mem{Base: offs, Disp: 8 * p}, row[p])
	}
	Label("block")
	for g := range 4 {
		var x [8]VecVirtual
		for p := range x {
			x[p] = YMM()
			load(format, Mem{Base: row[p]}, g, 8, x[p])
			if format == "Q8" {
				VMULPS(blockScale(Mem{Base: row[p]}, YMM), x[p], x[p])
			}
		}
		// Elements 0 to 7 of 16 belong to partial sums at even places, the others to those at odd ones; 3 bits in reverse say which.
		base, third := to, GP64()
		if g%2 == 1 {
			base = GP64()
			MOVQ(stride, base)
			SHRQ(U8(1), base)
			ADDQ(to, base)
		}
		LEAQ(Mem{Base: base, Index: stride, Scale: 2}, third)
		ADDQ(stride, third)
		place := [8]Mem{{Base: base}, {Base: base, Index: stride, Scale: 1}, {Base: base, Index: stride, Scale: 2}, {Base: third},
			{Base: base, Index: stride, Scale: 4}, {Base: third, Index: stride, Scale: 2}, {}, {Base: third, Index: stride, Scale: 4}}
		y := transpose8(x)
		for e, v := range y {
			if u := e&1<<2 | e&2 | e&4>>2; u != 6 {
				VMOVUPS(v, place[u].Offset(packBytes*(g/2)))
			}
		}
		ADDQ(stride, third)
		VMOVUPS(y[3], Mem{Base: third, Index: stride, Scale: 2, Disp: packBytes * (g / 2)})
	}
	for p := range row {
		addStep(row[p])
	}
	ADDQ(U32(2*packBytes), to)
	DECQ(left)
	JNZ(LabelRef("block"))
	ADDQ(Imm(64), offs)
	// The second half of a tile stands beside the first, the next tile 8 strides on.
	ADDQ(Imm(32), dst)
	XORQ(Imm(1), half)
	JNZ(LabelRef("odd"))
	LEAQ(Mem{Base: dst, Index: stride, Scale: 8, Disp: -64}, dst)
	Label("odd")
	DECQ(param("halves"))
	JNZ(LabelRef("half"))
	VZEROUPPER()
	RET()
}

// transpose8 turns 8 rows of 8 into 8 columns.
func transpose8(x [8]VecVirtual) (y [8]VecVirtual) {
	var a, b [8]VecVirtual
	for i := 0; i < 8; i += 2 {
		a[i], a[i+1] = YMM(), YMM()
		VUNPCKLPS(x[i+1], x[i], a[i])
		VUNPCKHPS(x[i+1], x[i], a[i+1])
	}
	for i := 0; i < 8; i += 4 {
		for k := range 2 {
			b[i+2*k], b[i+2*k+1] = YMM(), YMM()
			VUNPCKLPD(a[i+2+k], a[i+k], b[i+2*k])
			VUNPCKHPD(a[i+2+k], a[i+k], b[i+2*k+1])
		}
	}
	for k := range 4 {
		y[k], y[k+4] = YMM(), YMM()
		VINSERTF128(U8(1), b[k+4].AsX(), b[k], y[k])
		VPERM2F128(U8(0x31), b[k+4], b[k], y[k+4])
	}
	return y
}

// scoresPacked multiplies queries with packed keys. Lanes are positions; the 16 partial sums of a score are made in an order that lets the tree of
// reduce16 grow from the left. Two are added in registers; what waits longer stands in the frame, seldom, since a vector stored costs as much as two products.
func scoresPacked() {
	TEXT("scoresPackedAVX2", 0, "func(s, q, k *float32, groups, blocks int)")
	Doc(fmt.Sprintf("scoresPackedAVX2 multiplies groups of %d queries of blocks*32 elements with 16 positions.", packQueries))
	Pragma("noescape")
	s, q, k, qSize, kSize := ptr("s"), ptr("q"), ptr("k"), GP64(), GP64()
	Load(Param("blocks"), qSize)
	MOVQ(qSize, kSize)
	SHLQ(U8(7), qSize)
	SHLQ(U8(7), kSize) // bytes of one partial sum's elements
	waiting := AllocLocal(3 * packQueries * 64)
	var sums [2][packQueries][2]VecVirtual
	for i := range sums {
		for a := range sums[i] {
			sums[i][a] = [2]VecVirtual{YMM(), YMM()}
		}
	}
	Label("group")
	kAt := GP64()
	MOVQ(k, kAt)
	level := 0
	for i := range 16 {
		l := i&1<<3 | i&2<<1 | i&4>>1 | i&8>>3 // 0 8 4 12 2 10 6 14 1 …
		sum := &sums[i&1]
		for a := range sum {
			for b := range sum[a] {
				VXORPS(sum[a][b], sum[a][b], sum[a][b])
			}
		}
		qAt, end := GP64(), GP64()
		LEAQ(Mem{Base: q, Disp: 4 * l}, qAt)
		LEAQ(Mem{Base: kAt, Index: kSize, Scale: 1}, end)
		label := fmt.Sprintf("sum%d", i)
		Label(label)
		for t := range 2 {
			x := [2]VecVirtual{YMM(), YMM()}
			VMOVUPS(Mem{Base: kAt, Disp: 64 * t}, x[0])
			VMOVUPS(Mem{Base: kAt, Disp: 64*t + 32}, x[1])
			for a := range sum {
				y := YMM()
				m := Mem{Base: qAt, Disp: 64 * t}
				if a > 0 {
					m.Index, m.Scale = qSize, uint8(a)
				}
				VBROADCASTSS(m, y)
				VFMADD231PS(x[0], y, sum[a][0])
				VFMADD231PS(x[1], y, sum[a][1])
			}
		}
		ADDQ(U32(128), qAt)
		SUBQ(I8(-128), kAt)
		CMPQ(kAt, end)
		JB(LabelRef(label))
		if i&1 == 0 {
			continue
		}
		at := func(level, a, b int) Mem { return waiting.Offset(((level*packQueries+a)*2 + b) * 32) }
		for a := range sum {
			for b := range sum[a] {
				VADDPS(sums[0][a][b], sum[a][b], sum[a][b])
			}
		}
		for done := i >> 1; done&1 == 1; done >>= 1 {
			level--
			for a := range sum {
				for b := range sum[a] {
					VADDPS(at(level, a, b), sum[a][b], sum[a][b])
				}
			}
		}
		for a := range sum {
			for b := range sum[a] {
				if i < 15 {
					VMOVUPS(sum[a][b], at(level, a, b))
				} else {
					VMOVUPS(sum[a][b], Mem{Base: s, Disp: sBytes*a + 32*b})
				}
			}
		}
		level++
	}
	ADDQ(U32(packQueries*sBytes), s)
	LEAQ(Mem{Base: q, Index: qSize, Scale: 1}, q)
	LEAQ(Mem{Base: q, Index: qSize, Scale: 2}, q)
	DECQ(param("groups"))
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}

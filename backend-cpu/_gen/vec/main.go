// Command vec writes the AVX2 kernels of internal/vec. Run it from backend-cpu/_gen:
//
//	GOWORK=off go run ./vec -out ../internal/vec/avx2_amd64.s -stubs ../internal/vec/avx2_amd64.go -pkg vec
package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64,!noasm")
	constants()
	add()
	sumSquares()
	norm()
	swiglu()
	rope()
	for _, f := range []string{"F32", "F16", "Q8"} {
		keys(f)
		values(f)
	}
	scores("scoresAVX2", 0)
	scores("scores64AVX2", 4)
	scores("scores128AVX2", 8)
	soft()
	weigh("weighAVX2", 1)
	weigh("weigh2AVX2", 2)
	merge()
	encodeF16()
	Generate()
}

var (
	cHigh, cLow, cLog2e, cMagic, cLn2High, cLn2Low, cOne, cInf, cNegInf, cSign, cBias, cLanes Mem
	cPoly                                                                                     []Mem
)

func vector(name string, bits uint32) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i := range 8 {
		DATA(4*i, U32(bits))
	}
	return m
}

func constants() {
	f := func(name string, x float32) Mem { return vector(name, math.Float32bits(x)) }
	cHigh, cLow = f("expHighV", 88.37), f("expLowV", -87.33)
	cLog2e, cMagic = f("log2eV", 1.44269504088896341), f("expMagicV", 12582912.0)
	cLn2High, cLn2Low = f("negLn2HighV", -0.693359375), f("negLn2LowV", 2.12194440e-4)
	for i, x := range []float32{1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1} {
		cPoly = append(cPoly, f("expC"+string(rune('6'-i))+"V", x))
	}
	cOne, cInf, cNegInf = f("oneV", 1), f("infV", float32(math.Inf(1))), f("negInfV", float32(math.Inf(-1)))
	cSign = vector("signV", 1<<31)
	cBias = vector("expBiasV", math.Float32bits(12582912.0)-127)
	cLanes = GLOBL("lanesV", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(uint32(i)))
	}
}

// exp replaces x by e^x: exp.go, step by step.
func exp(x VecVirtual) VecVirtual {
	t, n, r, p := YMM(), YMM(), YMM(), YMM()
	VMOVUPS(cMagic, t)
	VFMADD231PS(cLog2e, x, t)
	VSUBPS(cMagic, t, n)
	VMOVAPS(x, r)
	VFMADD231PS(cLn2High, n, r)
	VFMADD231PS(cLn2Low, n, r)
	VMOVUPS(cPoly[0], p)
	for _, c := range cPoly[1:] {
		VFMADD213PS(c, r, p)
	}
	VFMADD213PS(cOne, r, p)
	VPSUBD(cBias, t, t)
	VPSLLD(U8(23), t, t)
	y := YMM()
	VMULPS(t, p, y)
	mask, inf := YMM(), YMM()
	VCMPPS(U8(0x1e), cHigh, x, mask)
	VMOVUPS(cInf, inf)
	VBLENDVPS(mask, inf, y, y)
	VCMPPS(U8(0x11), cLow, x, mask)
	VANDNPS(y, mask, y)
	return y
}

// loop runs body for each step of n (a multiple of step, not 0) with the byte offset in i.
func loop(name string, n Register, step int, body func(i Register)) {
	i := GP64()
	XORQ(i, i)
	SHLQ(U8(2), n)
	Label(name)
	body(i)
	ADDQ(Imm(uint64(4*step)), i)
	CMPQ(i, n)
	JB(LabelRef(name))
}

func at(base Register, i Register) Mem { return Mem{Base: base, Index: i, Scale: 1} }

func ptr(name string) Register { return Load(Param(name), GP64()) }

func add() {
	TEXT("addAVX2", NOSPLIT, "func(y, a, b *float32, n int)")
	Doc("addAVX2 is y = a + b, n a multiple of 8.")
	Pragma("noescape")
	y, a, b, n := ptr("y"), ptr("a"), ptr("b"), ptr("n")
	loop("loop", n, 8, func(i Register) {
		v := YMM()
		VMOVUPS(at(a, i), v)
		VADDPS(at(b, i), v, v)
		VMOVUPS(v, at(y, i))
	})
	VZEROUPPER()
	RET()
}

// reduce sums 16 lanes, the first 8 in a, in the order of reduce16.
func reduce(a, b VecVirtual) VecVirtual {
	VADDPS(b, a, a)
	h, s := XMM(), XMM()
	VEXTRACTF128(U8(1), a, h)
	VADDPS(h, a.AsX(), s)
	VMOVHLPS(s, s, h)
	VADDPS(h, s, s)
	VMOVSHDUP(s, h)
	VADDSS(h, s, s)
	return s
}

func zero() VecVirtual {
	v := YMM()
	VXORPS(v, v, v)
	return v
}

func sumSquares() {
	TEXT("sumSquaresAVX2", NOSPLIT, "func(x *float32, n int) float32")
	Doc("sumSquaresAVX2 sums squares in 16 lanes, n a multiple of 16.")
	Pragma("noescape")
	x, n := ptr("x"), ptr("n")
	a, b := zero(), zero()
	loop("loop", n, 16, func(i Register) {
		v, w := YMM(), YMM()
		VMOVUPS(at(x, i), v)
		VMOVUPS(at(x, i).Offset(32), w)
		VFMADD231PS(v, v, a)
		VFMADD231PS(w, w, b)
	})
	s := reduce(a, b)
	VZEROUPPER()
	Store(s, ReturnIndex(0))
	RET()
}

func broadcast(param string) VecVirtual {
	m, err := Param(param).Resolve()
	if err != nil {
		panic(err)
	}
	v := YMM()
	VBROADCASTSS(m.Addr, v)
	return v
}

func norm() {
	TEXT("normAVX2", NOSPLIT, "func(y, x, w *float32, n int, inv float32)")
	Doc("normAVX2 is y = (x*inv)*w, n a multiple of 8.")
	Pragma("noescape")
	y, x, w, n := ptr("y"), ptr("x"), ptr("w"), ptr("n")
	inv := broadcast("inv")
	loop("loop", n, 8, func(i Register) {
		v := YMM()
		VMULPS(at(x, i), inv, v)
		VMULPS(at(w, i), v, v)
		VMOVUPS(v, at(y, i))
	})
	VZEROUPPER()
	RET()
}

func swiglu() {
	TEXT("swigluAVX2", NOSPLIT, "func(y, gate, up *float32, n int)")
	Doc("swigluAVX2 is y = gate/(1+exp(-gate))*up, n a multiple of 8.")
	Pragma("noescape")
	y, gate, up, n := ptr("y"), ptr("gate"), ptr("up"), ptr("n")
	loop("loop", n, 8, func(i Register) {
		g, x := YMM(), YMM()
		VMOVUPS(at(gate, i), g)
		VXORPS(cSign, g, x)
		e := exp(x)
		VADDPS(cOne, e, e)
		VDIVPS(e, g, g)
		VMULPS(at(up, i), g, g)
		VMOVUPS(g, at(y, i))
	})
	VZEROUPPER()
	RET()
}

func rope() {
	TEXT("ropeAVX2", NOSPLIT, "func(y0, x0, y1, x1, cos, sin *float32, n int)")
	Doc("ropeAVX2 rotates the pairs (x0, x1), n a multiple of 8.")
	Pragma("noescape")
	y0, x0, y1, x1, cos, sin, n := ptr("y0"), ptr("x0"), ptr("y1"), ptr("x1"), ptr("cos"), ptr("sin"), ptr("n")
	loop("loop", n, 8, func(i Register) {
		a, b, c, s := YMM(), YMM(), YMM(), YMM()
		VMOVUPS(at(x0, i), a)
		VMOVUPS(at(x1, i), b)
		VMOVUPS(at(cos, i), c)
		VMOVUPS(at(sin, i), s)
		p, q := YMM(), YMM()
		VMULPS(b, s, p)
		VMULPS(b, c, q)
		VFMSUB231PS(a, c, p)
		VFMADD231PS(a, s, q)
		VMOVUPS(p, at(y0, i))
		VMOVUPS(q, at(y1, i))
	})
	VZEROUPPER()
	RET()
}

// transpose turns 8 rows of 8 into 8 columns.
func transpose(r []VecVirtual) []VecVirtual {
	t := make([]VecVirtual, 8)
	for i := 0; i < 8; i += 2 {
		t[i], t[i+1] = YMM(), YMM()
		VUNPCKLPS(r[i+1], r[i], t[i])
		VUNPCKHPS(r[i+1], r[i], t[i+1])
	}
	u := make([]VecVirtual, 8)
	for i := 0; i < 8; i += 4 {
		for k := range 2 {
			u[i+2*k], u[i+2*k+1] = YMM(), YMM()
			VSHUFPS(U8(0x44), t[i+2+k], t[i+k], u[i+2*k])
			VSHUFPS(U8(0xee), t[i+2+k], t[i+k], u[i+2*k+1])
		}
	}
	out := make([]VecVirtual, 8)
	for i := range 4 {
		out[i], out[i+4] = YMM(), YMM()
		VPERM2F128(U8(0x20), u[i+4], u[i], out[i])
		VPERM2F128(U8(0x31), u[i+4], u[i], out[i+4])
	}
	return out
}

func keys(format string) {
	TEXT("keys"+format+"AVX2", NOSPLIT, "func(dst *float32, src *byte, offs *int, headDim int)")
	Doc("keys" + format + "AVX2 writes 8 rows as 8 lanes of a tile; headDim a multiple of 32.")
	Pragma("noescape")
	dst, src, offs, n := ptr("dst"), ptr("src"), ptr("offs"), ptr("headDim")
	rows := make([]Register, 8)
	for i := range rows {
		rows[i] = GP64()
		MOVQ(Mem{Base: offs, Disp: 8 * i}, rows[i])
		ADDQ(src, rows[i])
	}
	store := func(cols []VecVirtual, group int) {
		for i, c := range cols {
			VMOVUPS(c, Mem{Base: dst, Disp: (8*group + i) * 64})
		}
	}
	scale := AllocLocal(32)
	Label("loop")
	if format == "Q8" {
		x := XMM()
		VPXOR(x, x, x)
		for i, r := range rows {
			VPINSRW(U8(i), Mem{Base: r}, x, x)
		}
		y := YMM()
		VCVTPH2PS(x, y)
		VMOVUPS(y, scale)
	}
	for g := range 4 {
		r := make([]VecVirtual, 8)
		for i := range r {
			r[i] = YMM()
			switch format {
			case "F32":
				VMOVUPS(Mem{Base: rows[i], Disp: 32 * g}, r[i])
			case "F16":
				VCVTPH2PS(Mem{Base: rows[i], Disp: 16 * g}, r[i])
			case "Q8":
				VPMOVSXBD(Mem{Base: rows[i], Disp: 2 + 8*g}, r[i])
			}
		}
		c := transpose(r)
		if format == "Q8" {
			for _, v := range c {
				VCVTDQ2PS(v, v)
				VMULPS(scale, v, v)
			}
		}
		store(c, g)
	}
	step := map[string]uint64{"F32": 128, "F16": 64, "Q8": 34}[format]
	for _, r := range rows {
		ADDQ(Imm(step), r)
	}
	ADDQ(U32(32*64), dst)
	SUBQ(Imm(32), n)
	JHI(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func values(format string) {
	TEXT("values"+format+"AVX2", NOSPLIT, "func(dst *float32, src *byte, offs *int, n, headDim int)")
	Doc("values" + format + "AVX2 writes n rows to slices of 32 elements; headDim a multiple of 32.")
	Pragma("noescape")
	dst, src, offs, n, dim := ptr("dst"), ptr("src"), ptr("offs"), ptr("n"), ptr("headDim")
	Label("row")
	from, to, left := GP64(), GP64(), GP64()
	MOVQ(Mem{Base: offs}, from)
	ADDQ(src, from)
	MOVQ(dst, to)
	MOVQ(dim, left)
	Label("slice")
	scale := YMM()
	if format == "Q8" {
		x := XMM()
		VPXOR(x, x, x)
		VPINSRW(U8(0), Mem{Base: from}, x, x)
		VCVTPH2PS(x, x)
		VBROADCASTSS(x, scale)
	}
	for g := range 4 {
		v := YMM()
		switch format {
		case "F32":
			VMOVUPS(Mem{Base: from, Disp: 32 * g}, v)
		case "F16":
			VCVTPH2PS(Mem{Base: from, Disp: 16 * g}, v)
		case "Q8":
			VPMOVSXBD(Mem{Base: from, Disp: 2 + 8*g}, v)
			VCVTDQ2PS(v, v)
			VMULPS(scale, v, v)
		}
		VMOVUPS(v, Mem{Base: to, Disp: 32 * g})
	}
	ADDQ(Imm(map[string]uint64{"F32": 128, "F16": 64, "Q8": 34}[format]), from)
	ADDQ(U32(128*32*4), to)
	SUBQ(Imm(32), left)
	JHI(LabelRef("slice"))
	ADDQ(Imm(8), offs)
	ADDQ(Imm(128), dst)
	DECQ(n)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

// scores: two queries by 16 positions at a time; the 16 partial sums of each product one after the other, added in the
// order of reduce16. With groups known the loop over them is unrolled.
func scores(name string, groups int) {
	TEXT(name, NOSPLIT, "func(s, q, keys *float32, pairs, tiles, groups int)")
	Doc(name + " multiplies pairs of queries with tiles of 16 positions; a head has groups*16 elements.")
	Pragma("noescape")
	s, q, keys, pairs, tiles, grp := ptr("s"), ptr("q"), ptr("keys"), ptr("pairs"), ptr("tiles"), ptr("groups")
	qRow := GP64() // bytes of a query
	MOVQ(grp, qRow)
	SHLQ(U8(6), qRow)
	pending := AllocLocal(4 * 32)

	Label("tile")
	q0, s0, left := GP64(), GP64(), GP64()
	MOVQ(q, q0)
	MOVQ(s, s0)
	MOVQ(pairs, left)
	Label("pair")
	q1 := GP64()
	LEAQ(Mem{Base: q0, Index: qRow, Scale: 1}, q1)

	step := func(acc []VecVirtual, a, b, k Register, qOff, kOff int) {
		k0, k1, x := YMM(), YMM(), YMM()
		VMOVUPS(Mem{Base: k, Disp: kOff}, k0)
		VMOVUPS(Mem{Base: k, Disp: kOff + 32}, k1)
		VBROADCASTSS(Mem{Base: a, Disp: qOff}, x)
		VFMADD231PS(k0, x, acc[0])
		VFMADD231PS(k1, x, acc[1])
		y := YMM()
		VBROADCASTSS(Mem{Base: b, Disp: qOff}, y)
		VFMADD231PS(k0, y, acc[2])
		VFMADD231PS(k1, y, acc[3])
	}
	lane := func(l int) []VecVirtual {
		acc := []VecVirtual{zero(), zero(), zero(), zero()}
		if groups > 0 {
			for g := range groups {
				step(acc, q0, q1, keys, 64*g+4*l, 1024*g+64*l)
			}
			return acc
		}
		a, b, k, n := GP64(), GP64(), GP64(), GP64()
		MOVQ(q0, a)
		MOVQ(q1, b)
		MOVQ(keys, k)
		MOVQ(grp, n)
		label := "lane" + string(rune('a'+l))
		Label(label)
		step(acc, a, b, k, 4*l, 64*l)
		ADDQ(Imm(64), a)
		ADDQ(Imm(64), b)
		ADDQ(U32(1024), k)
		DECQ(n)
		JNZ(LabelRef(label))
		return acc
	}
	sum := func(a, b []VecVirtual) []VecVirtual {
		for i := range a {
			VADDPS(b[i], a[i], a[i])
		}
		return a
	}
	r := func(l int) []VecVirtual { return sum(lane(l), lane(l+8)) }
	// S(l) is r_l + r_{l+4}; what waits longest waits in memory.
	half := func(l int, out func(int) Mem) {
		x := sum(r(l), r(l+4))
		for i := range x {
			VMOVUPS(x[i], out(i))
		}
		y := sum(r(l+2), r(l+6))
		for i := range y {
			t := YMM()
			VMOVUPS(out(i), t)
			VADDPS(y[i], t, t)
			VMOVUPS(t, out(i))
		}
	}
	result := func(i int) Mem { return Mem{Base: s0, Disp: i/2*512 + i%2*32} }
	half(0, result)
	half(1, func(i int) Mem { return pending.Offset(32 * i) })
	for i := range 4 {
		t := YMM()
		VMOVUPS(result(i), t)
		VADDPS(pending.Offset(32*i), t, t)
		VMOVUPS(t, result(i))
	}
	LEAQ(Mem{Base: q1, Index: qRow, Scale: 1}, q0)
	ADDQ(U32(2*512), s0)
	DECQ(left)
	JNZ(LabelRef("pair"))
	ADDQ(Imm(64), s)
	tileBytes := GP64()
	MOVQ(grp, tileBytes)
	SHLQ(U8(10), tileBytes)
	ADDQ(tileBytes, keys)
	DECQ(tiles)
	JNZ(LabelRef("tile"))
	VZEROUPPER()
	RET()
}

func soft() {
	TEXT("softAVX2", NOSPLIT, "func(s *float32, n int, scale float32) (m, l float32)")
	Doc("softAVX2 is SoftChunk; it reads and clears up to the next multiple of 16.")
	Pragma("noescape")
	s, n := ptr("s"), ptr("n")
	scale := broadcast("scale")
	count, lanes := YMM(), YMM()
	{
		x := XMM()
		VMOVD(n.(GPVirtual).As32(), x)
		VPBROADCASTD(x, count)
	}
	VMOVUPS(cLanes, lanes)
	top, low := YMM(), YMM()
	VMOVUPS(cNegInf, top)
	VMOVUPS(cNegInf, low)
	eight := YMM()
	{
		e, x := GP32(), XMM()
		MOVL(U32(8), e)
		VMOVD(e, x)
		VPBROADCASTD(x, eight)
	}
	// Bytes of whole groups of 16.
	ADDQ(Imm(15), n)
	ANDQ(I8(-16), n)
	SHLQ(U8(2), n)
	i := GP64()
	XORQ(i, i)
	Label("scale")
	v, mask := YMM(), YMM()
	VMULPS(at(s, i), scale, v)
	VPCMPGTD(lanes, count, mask)
	VPADDD(eight, lanes, lanes)
	VBLENDVPS(mask, v, low, v)
	VMAXPS(top, v, top)
	VMOVUPS(v, at(s, i))
	ADDQ(Imm(32), i)
	CMPQ(i, n)
	JB(LabelRef("scale"))
	h, m := XMM(), YMM()
	VEXTRACTF128(U8(1), top, h)
	VMAXPS(h, top.AsX(), h)
	x := XMM()
	VMOVHLPS(h, h, x)
	VMAXPS(x, h, h)
	VMOVSHDUP(h, x)
	VMAXSS(x, h, h)
	VBROADCASTSS(h, m)
	Store(h, Return("m"))

	a, b := zero(), zero()
	XORQ(i, i)
	Label("exp")
	for k, acc := range []VecVirtual{a, b} {
		v := YMM()
		VMOVUPS(at(s, i).Offset(32*k), v)
		VSUBPS(m, v, v)
		y := exp(v)
		VADDPS(y, acc, acc)
		VMOVUPS(y, at(s, i).Offset(32*k))
	}
	ADDQ(Imm(64), i)
	CMPQ(i, n)
	JB(LabelRef("exp"))
	l := reduce(a, b)
	VZEROUPPER()
	Store(l, Return("l"))
	RET()
}

func weigh(name string, outs int) {
	sig := "func(o, p, values *float32, n int)"
	names := []string{"o", "p"}
	if outs == 2 {
		sig, names = "func(o0, o1, p0, p1, values *float32, n int)", []string{"o0", "o1", "p0", "p1"}
	}
	TEXT(name, NOSPLIT, sig)
	Doc(name + " adds n positions of a slice of 32 elements to an output's slice.")
	Pragma("noescape")
	var regs []Register
	for _, n := range names {
		regs = append(regs, ptr(n))
	}
	o, p := regs[:outs], regs[outs:]
	v, n := ptr("values"), ptr("n")
	acc := make([][4]VecVirtual, outs)
	for k := range acc {
		for e := range 4 {
			acc[k][e] = YMM()
			VMOVUPS(Mem{Base: o[k], Disp: 32 * e}, acc[k][e])
		}
	}
	Label("loop")
	w := make([]VecVirtual, outs)
	for k := range w {
		w[k] = YMM()
		VBROADCASTSS(Mem{Base: p[k]}, w[k])
	}
	for e := range 4 {
		x := YMM()
		VMOVUPS(Mem{Base: v, Disp: 32 * e}, x)
		for k := range w {
			VFMADD231PS(x, w[k], acc[k][e])
		}
	}
	for k := range p {
		ADDQ(Imm(4), p[k])
	}
	ADDQ(Imm(128), v)
	DECQ(n)
	JNZ(LabelRef("loop"))
	for k := range acc {
		for e := range 4 {
			VMOVUPS(acc[k][e], Mem{Base: o[k], Disp: 32 * e})
		}
	}
	VZEROUPPER()
	RET()
}

func merge() {
	TEXT("mergeAVX2", NOSPLIT, "func(o, oc *float32, n int, a, b float32)")
	Doc("mergeAVX2 is o = fma(oc, b, o*a), n a multiple of 8.")
	Pragma("noescape")
	o, oc, n := ptr("o"), ptr("oc"), ptr("n")
	a, b := broadcast("a"), broadcast("b")
	loop("loop", n, 8, func(i Register) {
		v := YMM()
		VMULPS(at(o, i), a, v)
		VFMADD231PS(at(oc, i), b, v)
		VMOVUPS(v, at(o, i))
	})
	VZEROUPPER()
	RET()
}

func encodeF16() {
	TEXT("encodeF16AVX2", NOSPLIT, "func(dst *byte, x *float32, n int)")
	Doc("encodeF16AVX2 rounds to float16, to nearest even; n a multiple of 8.")
	Pragma("noescape")
	dst, x, n := ptr("dst"), ptr("x"), ptr("n")
	loop("loop", n, 8, func(i Register) {
		v := YMM()
		VMOVUPS(at(x, i), v)
		VCVTPS2PH(U8(0), v, Mem{Base: dst})
		ADDQ(Imm(16), dst)
	})
	VZEROUPPER()
	RET()
}

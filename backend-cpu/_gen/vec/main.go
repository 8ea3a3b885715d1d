// Command vec writes the AVX2 kernels of internal/vec. Run it from backend-cpu/_gen:
//
//	GOWORK=off go run ./vec -out ../internal/vec/vec_amd64.s -stubs ../internal/vec/vec_amd64.go -pkg vec
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
		widen(f)
		pack(f)
		for heads := 1; heads <= 3; heads++ {
			scores(f, heads)
			weigh(f, heads)
			scores512(f, heads)
			weigh512(f, heads)
		}
	}
	scoresPacked()
	soft()
	merge()
	scale()
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
	y := expLow(x)
	mask, inf := YMM(), YMM()
	VCMPPS(U8(0x1e), cHigh, x, mask)
	VMOVUPS(cInf, inf)
	VBLENDVPS(mask, inf, y, y)
	return y
}

// expLow is exp of what isn't above its range.
func expLow(x VecVirtual) VecVirtual {
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
	mask := YMM()
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

// soft goes over a query's scores twice: for the largest, and for the weights. To scale them anew costs less than to store them in between.
func soft() {
	TEXT("softAVX2", NOSPLIT, "func(s *float32, valid *int, state *float32, queries int, scale float32)")
	Doc("softAVX2 is Soft; it clears up to the next multiple of 16.")
	Pragma("noescape")
	s, valid, state, queries := ptr("s"), ptr("valid"), ptr("state"), ptr("queries")
	scale := broadcast("scale")
	mask := [2]VecVirtual{YMM(), YMM()}
	scaled := func(m Mem, k int, part bool) VecVirtual {
		v := YMM()
		VMULPS(m.Offset(32*k), scale, v)
		if part {
			low := YMM()
			VMOVUPS(cNegInf, low)
			VBLENDVPS(mask[k], v, low, v)
		}
		return v
	}
	// groups runs body for each 16 scores, the last of them apart.
	last := GP64()
	groups := func(name string, body func(m Mem, part bool)) {
		i := GP64()
		XORQ(i, i)
		CMPQ(i, last)
		JAE(LabelRef(name + "Last"))
		Label(name)
		body(at(s, i), false)
		ADDQ(Imm(64), i)
		CMPQ(i, last)
		JB(LabelRef(name))
		Label(name + "Last")
		body(at(s, last), true)
	}

	Label("query")
	count := GP64()
	MOVQ(Mem{Base: valid}, count)
	MOVQ(count, last)
	DECQ(last)
	JL(LabelRef("next"))
	ANDQ(I8(-16), last)
	SUBQ(last, count)
	SHLQ(U8(2), last)
	counts := YMM()
	VMOVD(count.(GPVirtual).As32(), counts.AsX())
	VPBROADCASTD(counts.AsX(), counts)
	for k := range mask {
		VPCMPGTD(cLanes.Offset(32*k), counts, mask[k])
	}
	top := [2]VecVirtual{YMM(), YMM()}
	for k := range top {
		VMOVUPS(cNegInf, top[k])
	}
	groups("top", func(m Mem, part bool) {
		for k := range top {
			VMAXPS(top[k], scaled(m, k, part), top[k])
		}
	})
	VMAXPS(top[1], top[0], top[0])
	h, m := XMM(), YMM()
	VEXTRACTF128(U8(1), top[0], h)
	VMAXPS(h, top[0].AsX(), h)
	x := XMM()
	VMOVHLPS(h, h, x)
	VMAXPS(x, h, h)
	VMOVSHDUP(h, x)
	VMAXSS(x, h, h)
	VBROADCASTSS(h, m)
	VMOVSS(h, Mem{Base: state})

	sum := [2]VecVirtual{YMM(), YMM()}
	for k := range sum {
		VXORPS(sum[k], sum[k], sum[k])
	}
	groups("exp", func(at Mem, part bool) {
		for k := range sum {
			v := scaled(at, k, part)
			VSUBPS(m, v, v)
			y := expLow(v)
			VADDPS(y, sum[k], sum[k])
			VMOVUPS(y, at.Offset(32*k))
		}
	})
	VMOVSS(reduce(sum[0], sum[1]), Mem{Base: state, Disp: 4})
	Label("next")
	ADDQ(U32(sBytes), s)
	ADDQ(Imm(8), valid)
	ADDQ(Imm(8), state)
	DECQ(queries)
	JNZ(LabelRef("query"))
	VZEROUPPER()
	RET()
}

func merge() {
	TEXT("mergeAVX2", NOSPLIT, "func(s, o, c, oc *float32, n, queries int)")
	Doc("mergeAVX2 is Merge for outputs of n elements, a multiple of 8, not 0.")
	Pragma("noescape")
	s, o, c, oc, n, queries := ptr("s"), ptr("o"), ptr("c"), ptr("oc"), ptr("n"), ptr("queries")
	SHLQ(U8(2), n)
	Label("query")
	m, cm, top := XMM(), XMM(), XMM()
	VMOVSS(Mem{Base: s}, m)
	VMOVSS(Mem{Base: c}, cm)
	VMAXSS(m, cm, top) // m unless cm is larger
	VMOVSS(top, Mem{Base: s})
	x, t := YMM(), YMM()
	VUNPCKLPS(cm, m, x.AsX())
	VBROADCASTSS(top, t)
	VSUBPS(t, x, x)
	e := expLow(x) // lane 0: a, lane 1: b
	a, b := YMM(), YMM()
	VBROADCASTSS(e.AsX(), a)
	VMOVSHDUP(e.AsX(), b.AsX())
	VBROADCASTSS(b.AsX(), b)
	l := XMM()
	VMULSS(Mem{Base: s, Disp: 4}, a.AsX(), l)
	VFMADD231SS(Mem{Base: c, Disp: 4}, b.AsX(), l)
	VMOVSS(l, Mem{Base: s, Disp: 4})
	i := GP64()
	XORQ(i, i)
	Label("element")
	v := YMM()
	VMULPS(at(o, i), a, v)
	VFMADD231PS(at(oc, i), b, v)
	VMOVUPS(v, at(o, i))
	ADDQ(Imm(32), i)
	CMPQ(i, n)
	JB(LabelRef("element"))
	ADDQ(n, o)
	ADDQ(n, oc)
	ADDQ(Imm(8), s)
	ADDQ(Imm(8), c)
	DECQ(queries)
	JNZ(LabelRef("query"))
	VZEROUPPER()
	RET()
}

func scale() {
	TEXT("scaleAVX2", NOSPLIT, "func(y, x *float32, n int, f float32)")
	Doc("scaleAVX2 is y = x * f, n a multiple of 8.")
	Pragma("noescape")
	y, x, n := ptr("y"), ptr("x"), ptr("n")
	f := broadcast("f")
	loop("loop", n, 8, func(i Register) {
		v := YMM()
		VMULPS(at(x, i), f, v)
		VMOVUPS(v, at(y, i))
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

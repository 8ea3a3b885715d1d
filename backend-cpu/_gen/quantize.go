package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func quantizer() {
	order := GLOBL("packedOrder", RODATA|NOPTR)
	for i, v := range []uint32{0, 4, 1, 5, 2, 6, 3, 7} {
		DATA(4*i, U32(v))
	}
	TEXT("quantizeAVX2", NOSPLIT, "func(out *byte, x *float32, blocks int) (top uint32)")
	Doc("quantizeAVX2 rounds blocks of 32 activations and gives the bits of the largest magnitude.")
	out := Load(Param("out"), GP64()).(Register)
	x := Load(Param("x"), GP64()).(Register)
	n := Load(Param("blocks"), GP64()).(GPVirtual)
	top, sign, limit, low, ones8, ones16, perm := Y15, Y14, Y13, Y12, Y11, Y10, Y9
	VPXOR(top, top, top)
	dwords(0x7fffffff, sign)
	dwords(0x42fe0000, limit) // 127
	dwords(0xc2fe0000, low)   // -127
	bytes32(1, ones8)
	dwords(0x00010001, ones16)
	VMOVDQU(order, perm)
	v := []VecPhysical{Y0, Y1, Y2, Y3}
	Label("block")
	for i, y := range v {
		VMOVUPS(Mem{Base: x, Disp: 32 * i}, y)
		if i == 0 {
			VPAND(sign, y, Y4)
		} else {
			VPAND(sign, y, Y5)
			VPMAXSD(Y5, Y4, Y4)
		}
	}
	VPMAXSD(Y4, top, top)
	VPERM2I128(U8(1), Y4, Y4, Y5)
	VPMAXSD(Y5, Y4, Y4)
	VPSHUFD(U8(0x4e), Y4, Y5)
	VPMAXSD(Y5, Y4, Y4)
	VPSHUFD(U8(0xb1), Y4, Y5)
	VPMAXSD(Y5, Y4, Y4) // amax in every lane
	// As a rule the largest magnitude is finite and 127 divided by it too: then nothing is a NaN and nothing rounds to more than 127.
	bits := GP32()
	VMOVD(X4, bits)
	SUBL(U32(0x04000000), bits)
	CMPL(bits, U32(0x7f800000-0x04000000))
	JAE(LabelRef("any"))
	VDIVPS(Y4, limit, Y6)       // id
	VDIVPS(limit.AsX(), X4, X4) // d
	for _, y := range v {
		VMULPS(Y6, y, y)
		VCVTPS2DQ(y, y)
	}
	Label("rounded")
	VPACKSSDW(Y1, Y0, Y0)
	VPACKSSDW(Y3, Y2, Y2)
	VPACKSSWB(Y2, Y0, Y0)
	VPERMD(Y0, perm, Y0)
	VMOVDQU(Y0, Mem{Base: out})
	VPMADDUBSW(Y0, ones8, Y0)
	VPMADDWD(ones16, Y0, Y0)
	VPHADDD(Y0, Y0, Y0)
	VPHADDD(Y0, Y0, Y0)
	VEXTRACTI128(U8(1), Y0, X1)
	VPADDD(X0, X1, X1)
	VCVTDQ2PS(X1, X2)
	VMULSS(X4, X2, X2)
	VMOVSS(X4, Mem{Base: out, Disp: actD})
	VMOVSS(X2, Mem{Base: out, Disp: actDS})
	for i, y := range []VecPhysical{X1, X0} { // the sums times -128
		VPSLLD(U8(7), y, y)
		VPXOR(X3, X3, X3)
		VPSUBD(y, X3, y)
		VMOVD(y, Mem{Base: out, Disp: []int{actN32, actN16}[i]})
	}
	ADDQ(U8(actSize), out)
	SUBQ(I8(-128), x)
	DECQ(n)
	JNZ(LabelRef("block"))
	VPERM2I128(U8(1), top, top, Y5)
	VPMAXSD(Y5, top, top)
	VPSHUFD(U8(0x4e), top, Y5)
	VPMAXSD(Y5, top, top)
	VPSHUFD(U8(0xb1), top, Y5)
	VPMAXSD(Y5, top, top)
	g := GP32()
	VMOVD(top.AsX(), g)
	VZEROUPPER()
	Store(g, ReturnIndex(0))
	RET()

	Label("any")
	VXORPS(Y5, Y5, Y5)
	VCMPPS(U8(4), Y5, Y4, Y5) // amax != 0, or NaN
	VDIVPS(Y4, limit, Y6)
	VANDPS(Y5, Y6, Y6)          // id
	VDIVPS(limit.AsX(), X4, X4) // d
	for _, y := range v {
		VMULPS(Y6, y, y)
		VCMPPS(U8(7), y, y, Y5)
		VANDPS(Y5, y, y) // a NaN counts as 0
		VMINPS(limit, y, y)
		VMAXPS(low, y, y)
		VCVTPS2DQ(y, y)
	}
	JMP(LabelRef("rounded"))
}

// bothSigner writes tables of activations and of the same negated.
func bothSigner() {
	TEXT("bothSignsAVX2", NOSPLIT, "func(out, acts *byte, blocks int)")
	Doc("bothSignsAVX2 makes tables of rounded blocks: 8 activations, then the same negated, four times, and the scale.")
	out := Load(Param("out"), GP64()).(Register)
	acts := Load(Param("acts"), GP64()).(Register)
	n := Load(Param("blocks"), GP64()).(GPVirtual)
	VPXOR(Y3, Y3, Y3)
	d := GP32()
	Label("block")
	VMOVDQU(Mem{Base: acts}, Y0)
	VPSUBB(Y0, Y3, Y1)
	VPUNPCKHQDQ(Y1, Y0, Y2)
	VPUNPCKLQDQ(Y1, Y0, Y0)
	VMOVDQU(X0, Mem{Base: out})
	VMOVDQU(X2, Mem{Base: out, Disp: 16})
	VEXTRACTI128(U8(1), Y0, Mem{Base: out, Disp: 32})
	VEXTRACTI128(U8(1), Y2, Mem{Base: out, Disp: 48})
	MOVL(Mem{Base: acts, Disp: actD}, d)
	MOVL(d, Mem{Base: out, Disp: bothD})
	ADDQ(U8(actSize), acts)
	ADDQ(U8(bothSize), out)
	DECQ(n)
	JNZ(LabelRef("block"))
	VZEROUPPER()
	RET()
}

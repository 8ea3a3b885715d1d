package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// probes measure what the machine can do at best.
func probes() {
	TEXT("peakAVX2", NOSPLIT, "func(n int)")
	Doc("peakAVX2 does n times 10 multiply-add triples of 32 products, from registers only.")
	n := Load(Param("n"), GP64()).(GPVirtual)
	for i := range 16 {
		VPXOR(yreg(i), yreg(i), yreg(i))
	}
	Label("again")
	for i := range 10 {
		t := yreg(10 + i%4)
		VPMADDUBSW(Y15, Y14, t)
		VPMADDWD(Y15, t, t)
		VPADDD(t, yreg(i), yreg(i))
	}
	DECQ(n)
	JNZ(LabelRef("again"))
	VZEROUPPER()
	RET()

	TEXT("readAVX2", NOSPLIT, "func(p *byte, n int)")
	Doc("readAVX2 loads n bytes, a multiple of 256.")
	p := Load(Param("p"), GP64()).(Register)
	n = Load(Param("n"), GP64()).(GPVirtual)
	Label("again")
	for i := range 8 {
		if i%2 == 0 {
			PREFETCHT0(Mem{Base: p, Disp: 4096 + 32*i})
		}
		VMOVDQU(Mem{Base: p, Disp: 32 * i}, yreg(i))
	}
	ADDQ(U32(256), p)
	SUBQ(U32(256), n)
	JNZ(LabelRef("again"))
	VZEROUPPER()
	RET()
}

func probes512() {
	TEXT("peakVNNI", NOSPLIT, "func(n int)")
	Doc("peakVNNI does n times 16 vpdpbusd of 64 products, from registers only.")
	n := Load(Param("n"), GP64()).(GPVirtual)
	z := []VecPhysical{Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15}
	for _, r := range append(z, Z16, Z17) {
		VPXORD(r, r, r)
	}
	Label("again")
	for _, r := range z {
		VPDPBUSD(Z16, Z17, r)
	}
	DECQ(n)
	JNZ(LabelRef("again"))
	VZEROUPPER()
	RET()
}

func yreg(i int) VecPhysical {
	return []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}[i]
}

//go:build !noasm

#include "textflag.h"

// func dotAVX2(a, b *float32, n int) float32
// n is a multiple of 16. Lanes 0-7 in Y0, 8-15 in Y1.
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), DI
	MOVQ n+16(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
dot:
	VMOVUPS (SI), Y2
	VMOVUPS 32(SI), Y3
	VFMADD231PS (DI), Y2, Y0
	VFMADD231PS 32(DI), Y3, Y1
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $16, CX
	JNZ dot
	VADDPS Y1, Y0, Y0          // l + l+8
	VEXTRACTF128 $1, Y0, X1
	VADDPS X1, X0, X0          // + l+4
	VMOVHLPS X0, X0, X1
	VADDPS X1, X0, X0          // + l+2
	VMOVSHDUP X0, X1
	VADDSS X1, X0, X0
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func axpyAVX2(y *float32, a float32, x *float32, n int)
// n is a multiple of 8.
TEXT ·axpyAVX2(SB), NOSPLIT, $0-32
	MOVQ y+0(FP), DI
	VBROADCASTSS a+8(FP), Y0
	MOVQ x+16(FP), SI
	MOVQ n+24(FP), CX
axpy:
	VMOVUPS (DI), Y1
	VFMADD231PS (SI), Y0, Y1
	VMOVUPS Y1, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ axpy
	VZEROUPPER
	RET

// func halfAVX2(dst *float32, src *byte, n int)
// n is a multiple of 8.
TEXT ·halfAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
half:
	VCVTPH2PS (SI), Y0
	VMOVUPS Y0, (DI)
	ADDQ $16, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ half
	VZEROUPPER
	RET

// Constants of Exp (exp.go), eight times each where VBROADCASTSS can't read them.
DATA exps<>+0(SB)/4, $0xc2aeac50  // -87.33654
DATA exps<>+4(SB)/4, $0x42b17218  // 88.72283
DATA exps<>+8(SB)/4, $0x3fb8aa3b  // log2(e)
DATA exps<>+12(SB)/4, $0x4b400000 // 1.5 * 2^23
DATA exps<>+16(SB)/4, $0xbf318000 // -ln2Hi
DATA exps<>+20(SB)/4, $0x395e8083 // -ln2Lo
DATA exps<>+24(SB)/4, $0x3ab60b61 // 1/720
DATA exps<>+28(SB)/4, $0x3c088889 // 1/120
DATA exps<>+32(SB)/4, $0x3d2aaaab // 1/24
DATA exps<>+36(SB)/4, $0x3e2aaaab // 1/6
DATA exps<>+40(SB)/4, $0x3f000000 // 1/2
DATA exps<>+44(SB)/4, $0x3f800000 // 1
DATA exps<>+48(SB)/4, $0x7f800000 // +Inf
DATA exps<>+52(SB)/4, $0x0000007f // 127
DATA exps<>+56(SB)/4, $0x80000000 // sign
GLOBL exps<>(SB), RODATA|NOPTR, $64

// EXP replaces Y0 by its exponential. Uses Y1-Y6. R8 points to exps.
#define EXP \
	VMOVAPS Y0, Y6                \
	VBROADCASTSS 8(R8), Y1        \
	VBROADCASTSS 12(R8), Y2       \
	VFMADD213PS Y2, Y0, Y1        \
	VSUBPS Y2, Y1, Y1             \
	VBROADCASTSS 16(R8), Y2       \
	VFMADD231PS Y2, Y1, Y0 \
	VBROADCASTSS 20(R8), Y2       \
	VFMADD231PS Y2, Y1, Y0 \
	VBROADCASTSS 24(R8), Y2       \
	VBROADCASTSS 28(R8), Y3       \
	VFMADD213PS Y3, Y0, Y2        \
	VBROADCASTSS 32(R8), Y3       \
	VFMADD213PS Y3, Y0, Y2        \
	VBROADCASTSS 36(R8), Y3       \
	VFMADD213PS Y3, Y0, Y2        \
	VBROADCASTSS 40(R8), Y3       \
	VFMADD213PS Y3, Y0, Y2        \
	VBROADCASTSS 44(R8), Y3       \
	VFMADD213PS Y3, Y0, Y2        \
	VFMADD213PS Y3, Y0, Y2 \
	VCVTTPS2DQ Y1, Y1 \
	VPSRAD $1, Y1, Y3 \
	VPSUBD Y3, Y1, Y4 \
	VPBROADCASTD 52(R8), Y5       \
	VPADDD Y5, Y3, Y3             \
	VPADDD Y5, Y4, Y4             \
	VPSLLD $23, Y3, Y3            \
	VPSLLD $23, Y4, Y4            \
	VMULPS Y3, Y2, Y2             \
	VMULPS Y4, Y2, Y0             \
	VBROADCASTSS 4(R8), Y1        \
	VCMPPS $0x1e, Y1, Y6, Y2 \
	VBROADCASTSS 48(R8), Y3       \
	VBLENDVPS Y2, Y3, Y0, Y0      \
	VBROADCASTSS 0(R8), Y1        \
	VCMPPS $0x11, Y1, Y6, Y2 \
	VANDNPS Y0, Y2, Y0            \
	VCMPPS $3, Y6, Y6, Y2 \
	VBLENDVPS Y2, Y6, Y0, Y0

// func expAVX2(s *float32, m float32, n int)
// s = exp(s - m). n is a multiple of 8.
TEXT ·expAVX2(SB), NOSPLIT, $0-24
	MOVQ s+0(FP), DI
	VBROADCASTSS m+8(FP), Y8
	MOVQ n+16(FP), CX
	LEAQ exps<>(SB), R8
exploop:
	VMOVUPS (DI), Y0
	VSUBPS Y8, Y0, Y0
	EXP
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ exploop
	VZEROUPPER
	RET

// func swigluAVX2(y, gate, up *float32, n int)
// y = gate / (1 + exp(-gate)) * up. n is a multiple of 8.
TEXT ·swigluAVX2(SB), NOSPLIT, $0-32
	MOVQ y+0(FP), DI
	MOVQ gate+8(FP), SI
	MOVQ up+16(FP), DX
	MOVQ n+24(FP), CX
	LEAQ exps<>(SB), R8
swiglu:
	VMOVUPS (SI), Y7
	VBROADCASTSS 56(R8), Y1
	VXORPS Y1, Y7, Y0
	EXP
	VBROADCASTSS 44(R8), Y1
	VADDPS Y1, Y0, Y0
	VDIVPS Y0, Y7, Y0
	VMULPS (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ swiglu
	VZEROUPPER
	RET

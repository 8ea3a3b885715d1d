//go:build !noasm

#include "textflag.h"

#define LINE(ptr) \
	PREFETCHT0 1024(ptr) \
	VMOVDQU (ptr), Y0 \
	VMOVDQU 32(ptr), Y1 \
	ADDQ $64, ptr

// func read8(p *byte, stride, n int)
// Requires: AVX, SSE
TEXT ·read8(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), AX
	MOVQ stride+8(FP), BX
	MOVQ n+16(FP), CX
	LEAQ (AX)(BX*1), R8
	LEAQ (R8)(BX*1), R9
	LEAQ (R9)(BX*1), R10
	LEAQ (R10)(BX*1), R11
	LEAQ (R11)(BX*1), R12
	LEAQ (R12)(BX*1), R13
	LEAQ (R13)(BX*1), DI

loop:
	CMPQ CX, $64
	JLT  done
	LINE(AX)
	LINE(R8)
	LINE(R9)
	LINE(R10)
	LINE(R11)
	LINE(R12)
	LINE(R13)
	LINE(DI)
	SUBQ $64, CX
	JMP  loop

done:
	VZEROUPPER
	RET

package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// single describes the product of 8 weight rows with one row of activations, on the file's bytes: a register holds 32 levels of
// one row, and the 8 rows' sums are brought into the lanes of one register by a tree of horizontal additions.
type single struct {
	name         string
	size, blocks int // bytes and blocks of 32 a step
	signed       bool
	wide         bool // levels up to 63: products outgrow 16 bits after one addition
	shift        int
	min, halves  bool
	scales       func(r rows8, tmp Register)                     // once a step, into tmp as unpackers do; nil: scale at 0, minimum at 2
	levels       func(r rows8, row, block int, y, t VecPhysical) // 32 levels of one row to y; t is free
}

var (
	constMem = map[string]Mem{}
	// Registers that hold throughout: the sum, 16-bit ones, 15 in every byte.
	sum, ones16, nib = Y15, Y14, Y13
)

// repeat is a constant of 8 dwords.
func repeat(name string, v [8]uint32) Mem {
	m, ok := constMem[name]
	if !ok {
		m = GLOBL(name, RODATA|NOPTR)
		for i, d := range v {
			DATA(4*i, U32(d))
		}
		constMem[name] = m
	}
	return m
}

func all(v uint32) [8]uint32 { return [8]uint32{v, v, v, v, v, v, v, v} }

// nibbles32 spreads 16 bytes: low halves to the low lane, high halves to the high one.
func nibbles32(m Mem, y VecPhysical) {
	VBROADCASTI128(m, y)
	VPSRLVD(repeat("laneShift", [8]uint32{0, 0, 0, 0, 4, 4, 4, 4}), y, y)
	VPAND(nib, y, y)
}

// fifth adds the fifth bit of 32 levels, bit i of the dword at m for level i.
func fifth(m Mem, y, t VecPhysical) {
	VPBROADCASTD(m, t)
	VPSHUFB(repeat("bitByte", [8]uint32{0, 0, 0x01010101, 0x01010101, 0x02020202, 0x02020202, 0x03030303, 0x03030303}), t, t)
	bit := repeat("bitOfByte", [8]uint32{0x08040201, 0x80402010, 0x08040201, 0x80402010, 0x08040201, 0x80402010, 0x08040201, 0x80402010})
	VPAND(bit, t, t)
	VPCMPEQB(bit, t, t)
	VPAND(repeat("sixteens", all(0x10101010)), t, t)
	VPOR(t, y, y)
}

// halfBytes takes the low or high halves of 32 bytes.
func halfBytes(m Mem, high bool, y VecPhysical) {
	VMOVDQU(m, y)
	if high {
		VPSRLW(U8(4), y, y)
	}
	VPAND(nib, y, y)
}

func singles() {
	kScales := func(r rows8, tmp Register) { r.kScales(tmp) }
	for _, s := range []single{
		{name: "Q8_0", size: 34, signed: true, shift: -1,
			levels: func(r rows8, row, _ int, y, _ VecPhysical) { VMOVDQU(r.at(row, 2), y) }},
		{name: "Q4_0", size: 18, shift: 3,
			levels: func(r rows8, row, _ int, y, _ VecPhysical) { nibbles32(r.at(row, 2), y) }},
		{name: "Q4_1", size: 20, shift: -1, min: true,
			levels: func(r rows8, row, _ int, y, _ VecPhysical) { nibbles32(r.at(row, 4), y) }},
		{name: "Q5_0", size: 22, shift: 4,
			levels: func(r rows8, row, _ int, y, t VecPhysical) {
				nibbles32(r.at(row, 6), y)
				fifth(r.at(row, 2), y, t)
			}},
		{name: "Q5_1", size: 24, shift: -1, min: true,
			levels: func(r rows8, row, _ int, y, t VecPhysical) {
				nibbles32(r.at(row, 8), y)
				fifth(r.at(row, 4), y, t)
			}},
		{name: "Q4_K", size: 144, blocks: 8, shift: -1, min: true, scales: kScales,
			levels: func(r rows8, row, b int, y, _ VecPhysical) { halfBytes(r.at(row, 16+b/2*32), b%2 == 1, y) }},
		{name: "Q5_K", size: 176, blocks: 8, shift: -1, min: true, scales: kScales,
			levels: func(r rows8, row, b int, y, t VecPhysical) {
				halfBytes(r.at(row, 48+b/2*32), b%2 == 1, y)
				VMOVDQU(r.at(row, 16), t)
				if b != 4 {
					shiftTo(t, b-4, t)
				}
				VPAND(repeat("sixteens", all(0x10101010)), t, t)
				VPOR(t, y, y)
			}},
		{name: "Q6_K", size: 210, blocks: 8, shift: 5, wide: true, halves: true,
			scales: func(r rows8, tmp Register) { r.sixScales(tmp, Y12) },
			levels: func(r rows8, row, b int, y, t VecPhysical) {
				n, b := b/4, b%4
				halfBytes(r.at(row, 64*n+b%2*32), b >= 2, y)
				VMOVDQU(r.at(row, 128+32*n), t)
				if b != 2 {
					shiftTo(t, 2*b-4, t)
				}
				VPAND(repeat("fortyEights", all(0x30303030)), t, t)
				VPOR(t, y, y)
			}},
	} {
		s.write()
	}
}

func (s single) write() {
	TEXT("single"+s.name, NOSPLIT, "func(dst *float32, src *byte, stride int, acts *byte, steps, ahead int, tmp *byte)")
	Doc("single" + s.name + " multiplies 8 rows of " + s.name + " weights with one row of activations. It prefetches ahead bytes further on; tmp has 8 panel records.")
	dst := Load(Param("dst"), GP64()).(Register)
	src := Load(Param("src"), GP64()).(Register)
	stride := Load(Param("stride"), GP64()).(Register)
	a := Load(Param("acts"), GP64()).(Register)
	steps := Load(Param("steps"), GP64()).(GPVirtual)
	ahead := Load(Param("ahead"), GP64()).(GPVirtual)
	tmp := Load(Param("tmp"), GP64()).(Register)
	r := newRows8(src, stride)
	pf := rows8{lo: GP64(), hi: GP64(), s: r.s, s3: r.s3}
	VPCMPEQW(ones16, ones16, ones16)
	VPSRLW(U8(15), ones16, ones16)
	bytes32(15, nib)
	VXORPS(sum, sum, sum)
	Label("step")
	LEAQ(Mem{Base: r.lo, Index: ahead, Scale: 1}, pf.lo)
	LEAQ(Mem{Base: r.hi, Index: ahead, Scale: 1}, pf.hi)
	for line := 0; line < s.size; line += 64 {
		for i := range 8 {
			PREFETCHT0(pf.at(i, line))
		}
	}
	if s.scales != nil {
		s.scales(r, tmp)
	}
	for b := range max(s.blocks, 1) {
		s.block(r, a, tmp, b)
	}
	r.advance(s.size)
	ADDQ(U32(max(s.blocks, 1)*actSize), a)
	DECQ(steps)
	JNZ(LabelRef("step"))
	VMOVUPS(sum, Mem{Base: dst})
	VZEROUPPER()
	RET()
}

// product leaves 16 (or, signed, 8) partial sums of row times activations in y.
func (s single) product(r rows8, row, b int, x, y, t VecPhysical) {
	s.levels(r, row, b, y, t)
	if !s.signed {
		VPMADDUBSW(x, y, y)
		return
	}
	VPSIGNB(y, x, t)
	VPABSB(y, y)
	VPMADDUBSW(t, y, y)
	VPMADDWD(ones16, y, y)
}

func (s single) block(r rows8, a, tmp Register, b int) {
	x, t := Y12, Y11
	act := func(off int) Mem { return Mem{Base: a, Disp: b*actSize + off} }
	VMOVDQU(act(0), x)
	for q := range 2 { // rows 0 to 3 into Y0, 4 to 7 into Y1
		to := []VecPhysical{Y0, Y1}[q]
		for p := range 2 {
			for i := range 2 {
				s.product(r, 4*q+2*p+i, b, x, []VecPhysical{Y4, Y5}[i], t)
			}
			pair := []VecPhysical{to, Y6}[p]
			if s.signed {
				VPHADDD(Y5, Y4, pair)
			} else {
				VPHADDW(Y5, Y4, pair)
				if s.wide {
					VPMADDWD(ones16, pair, pair)
				}
			}
		}
		switch {
		case s.signed || s.wide:
			VPHADDD(Y6, to, to)
		default:
			VPHADDW(Y6, to, to)
			VPMADDWD(ones16, to, to)
		}
	}
	VPERM2I128(U8(0x31), Y1, Y0, Y2) // sums over the second 16 levels
	VPERM2I128(U8(0x20), Y1, Y0, Y0) // over the first
	parts := []VecPhysical{Y0, Y2}
	if !s.halves {
		VPADDD(Y2, Y0, Y0)
		parts = parts[:1]
	}
	VBROADCASTSS(act(actD), Y8)
	for h, y := range parts {
		if s.shift >= 0 {
			switch {
			case !s.halves:
				VPBROADCASTD(act(actN32), Y3)
			case h == 0:
				VPBROADCASTD(act(actN16), Y3)
			default:
				VPBROADCASTD(act(actN32), Y4)
				VPSUBD(Y3, Y4, Y3)
			}
			VPSRAD(U8(7-s.shift), Y3, Y5)
			VPADDD(Y5, y, y)
		}
		VCVTDQ2PS(y, y)
		if s.scales == nil {
			r.halves(0, Y7)
			VMULPS(Y7, Y8, Y7)
		} else {
			VMULPS(Mem{Base: tmp, Disp: b*recSize + []int{recScale, recScale2}[h]}, Y8, Y7)
		}
		VFMADD231PS(y, Y7, sum)
	}
	if s.min {
		VBROADCASTSS(act(actDS), Y8)
		if s.scales == nil {
			r.halves(2, Y7)
			VFMADD231PS(Y7, Y8, sum)
		} else {
			VFMADD231PS(Mem{Base: tmp, Disp: b*recSize + recMin}, Y8, sum)
		}
	}
}

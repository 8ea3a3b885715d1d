package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A single kernel is a direct one for one row of activations. A register holds 32 levels of one weight row, or 16 of two,
// and the rows' sums come into the lanes of one register by a tree of unpacks and additions.

// Registers of single kernels: the sum in Y15, 15 in every byte in Y14; x holds activations, the rest is free.
var (
	singleSum = Y15
	singleX   = [4]VecPhysical{Y10, Y11, Y12, Y13}
)

func (d *direct) single() {
	switch d.typ.name {
	case "Q8_0":
		d.single8()
	case "Q4_0":
		d.single4(2, 0, 3)
	case "Q4_1":
		d.single4(4, 2, -1)
	case "Q5_0":
		d.single5(6, 2, 0, 4)
	case "Q5_1":
		d.single5(8, 4, 2, -1)
	case "Q4_K":
		d.single4k()
	case "Q5_K":
		d.single5k()
	case "Q6_K":
		d.single6k()
	}
}

// fold adds neighbours of a and b, so that half as many sums of each are left, side by side: pairs of dwords the first time, of
// quadwords the second. The result is in a; t is free.
func fold(second, words bool, a, b, t VecPhysical) {
	if second {
		VPUNPCKLQDQ(b, a, t)
		VPUNPCKHQDQ(b, a, a)
	} else {
		VPUNPCKLDQ(b, a, t)
		VPUNPCKHDQ(b, a, a)
	}
	if words {
		VPADDW(t, a, a)
	} else {
		VPADDD(t, a, a)
	}
}

// lanes adds the halves of registers with the sums of rows 0 to 3 and 4 to 7.
func lanes(a, b, t VecPhysical) {
	VPERM2I128(U8(0x21), b, a, t)
	VPBLENDD(U8(0xf0), b, a, a)
	VPADDD(t, a, a)
}

// both loads 16 bytes of rows i and i+4.
func (d *direct) both(i, off int, y, t VecPhysical) {
	VMOVDQU(d.r.at(i, off), y.AsX())
	VBROADCASTI128(d.r.at(i+4, off), t)
	VPBLENDD(U8(0xf0), t, y, y)
}

// nibbles16 spreads 16 bytes over a register: low halves in the low lane, high halves in the high one.
func nibbles16(m Mem, y VecPhysical) {
	VBROADCASTI128(m, y)
	VPSRLVD(lanesConst("laneShift", [8]uint32{0, 0, 0, 0, 4, 4, 4, 4}), y, y)
	VPAND(nibReg, y, y)
}

// singleDone scales a block's integer sums in y and adds them to the sum. Scales of small types are gathered from offset 0, minimums from min.
func (d *direct) singleDone(y VecPhysical, shift, min int) {
	d.r.halves(0, Y8)
	var low Op
	if min > 0 {
		d.r.halves(min, Y9)
		low = Y9
	}
	d.centre(y, 0, 0, shift, -1, Y10, Y11)
	VCVTDQ2PS(y, y)
	d.scaled(y, 0, 0, Y8, low, Y10)
}

func (d *direct) single8() {
	x := singleX[0]
	VMOVDQU(d.act(0, 0, 0), x)
	for q := range 2 { // rows 0 to 3 into Y0, 4 to 7 into Y1
		for i := range 4 {
			w, y := Y8, []VecPhysical{[]VecPhysical{Y0, Y1}[q], Y3, Y4, Y5}[i]
			VMOVDQU(d.r.at(4*q+i, 2), w)
			VPSIGNB(w, x, Y9)
			VPABSB(w, w)
			VPMADDUBSW(Y9, w, y)
			VPMADDWD(ones(), y, y)
			if i == 1 {
				fold(false, false, []VecPhysical{Y0, Y1}[q], Y3, Y6)
			}
		}
		fold(false, false, Y4, Y5, Y6)
		fold(true, false, []VecPhysical{Y0, Y1}[q], Y4, Y6)
	}
	lanes(Y0, Y1, Y2)
	d.singleDone(Y0, -1, 0)
}

func (d *direct) single4(qs, min, shift int) {
	VBROADCASTI128(d.act(0, 0, 0), singleX[0])
	VBROADCASTI128(d.act(0, 0, 16), singleX[1])
	for i := range 4 {
		y := []VecPhysical{Y0, Y1, Y2, Y3}[i]
		d.both(i, qs, Y8, Y9)
		VPAND(nibReg, Y8, y)
		VPSRLW(U8(4), Y8, Y8)
		VPAND(nibReg, Y8, Y8)
		VPMADDUBSW(singleX[0], y, y)
		VPMADDUBSW(singleX[1], Y8, Y8)
		VPADDW(Y8, y, y)
	}
	fold(false, true, Y0, Y1, Y4)
	fold(false, true, Y2, Y3, Y5)
	fold(true, true, Y0, Y2, Y6)
	VPMADDWD(ones(), Y0, Y0)
	d.singleDone(Y0, shift, min)
}

func (d *direct) single5(qs, qh, min, shift int) {
	x := singleX[0]
	VMOVDQU(d.act(0, 0, 0), x)
	bit := lanesConst("bitOfByte", [8]uint32{0x08040201, 0x80402010, 0x08040201, 0x80402010, 0x08040201, 0x80402010, 0x08040201, 0x80402010})
	byteAt := lanesConst("bitByte", [8]uint32{0, 0, 0x01010101, 0x01010101, 0x02020202, 0x02020202, 0x03030303, 0x03030303})
	VMOVDQU(bit, Y12)
	VMOVDQU(byteAt, Y13)
	for q := range 2 {
		for i := range 4 {
			t, y := Y9, []VecPhysical{[]VecPhysical{Y0, Y1}[q], Y3, Y4, Y5}[i]
			nibbles16(d.r.at(4*q+i, qs), y)
			VPBROADCASTD(d.r.at(4*q+i, qh), t)
			VPSHUFB(Y13, t, t)
			VPAND(Y12, t, t)
			VPCMPEQB(Y12, t, t)
			VPAND(repeat("sixteens", 0x10101010), t, t)
			VPOR(t, y, y)
			VPMADDUBSW(x, y, y)
			if i == 1 {
				fold(false, true, []VecPhysical{Y0, Y1}[q], Y3, Y6)
			}
		}
		y := []VecPhysical{Y0, Y1}[q]
		fold(false, true, Y4, Y5, Y6)
		fold(true, true, y, Y4, Y6)
		VPMADDWD(ones(), y, y)
	}
	lanes(Y0, Y1, Y2)
	d.singleDone(Y0, shift, min)
}

func (d *direct) single4k() {
	d.aside(func() { d.r.kScales(d.tmp) })
	for j := range 4 {
		for i, x := range singleX {
			VBROADCASTI128(d.act(0, 2*j+i/2, i%2*16), x)
		}
		for i := range 4 {
			lo, hi := []VecPhysical{Y0, Y2, Y4, Y6}[i], []VecPhysical{Y1, Y3, Y5, Y7}[i]
			for h := range 2 {
				y := []VecPhysical{hi, Y8}[h]
				d.both(i, 16+32*j+16*h, y, Y9)
				VPAND(nibReg, y, Y9)
				VPSRLW(U8(4), y, y)
				VPAND(nibReg, y, y)
				VPMADDUBSW(singleX[2+h], y, y)
				if h == 0 {
					VPMADDUBSW(singleX[0], Y9, lo)
					continue
				}
				VPMADDUBSW(singleX[1], Y9, Y9)
				VPADDW(Y9, lo, lo)
				VPADDW(Y8, hi, hi)
			}
			if i%2 == 1 {
				fold(false, true, []VecPhysical{Y0, Y4}[i/2], lo, Y8)
				fold(false, true, []VecPhysical{Y1, Y5}[i/2], hi, Y9)
			}
		}
		for i, y := range []VecPhysical{Y0, Y1} {
			fold(true, true, y, []VecPhysical{Y4, Y5}[i], Y8)
			VPMADDWD(ones(), y, y)
			VCVTDQ2PS(y, y)
			d.scaled(y, 0, 2*j+i, d.scaleAt(2*j+i, recScale), d.scaleAt(2*j+i, recMin), Y9)
		}
	}
}

// pairK gives the levels of two blocks of a row of Q5_K or Q6_K: low halves of the bytes at low to a, high halves to b, with
// bits of those at high as far as mask has them. t is free.
func (d *direct) pairK(row, low, high, shiftA, shiftB int, mask Mem, a, b, t VecPhysical) {
	VMOVDQU(d.r.at(row, low), b)
	VPAND(nibReg, b, a)
	VPSRLW(U8(4), b, b)
	VPAND(nibReg, b, b)
	for i, y := range []VecPhysical{a, b} {
		VMOVDQU(d.r.at(row, high), t)
		if n := []int{shiftA, shiftB}[i]; n != 0 {
			shiftTo(t, n, t)
		}
		VPAND(mask, t, t)
		VPOR(t, y, y)
	}
}

func (d *direct) single5k() {
	d.aside(func() { d.r.kScales(d.tmp) })
	mask := repeat("sixteens", 0x10101010)
	for j := range 4 {
		VMOVDQU(d.act(0, 2*j, 0), Y12)
		VMOVDQU(d.act(0, 2*j+1, 0), Y13)
		for q := range 2 {
			to := [2]VecPhysical{[]VecPhysical{Y0, Y6}[q], []VecPhysical{Y1, Y7}[q]}
			for i := range 4 {
				a, b := []VecPhysical{to[0], Y2, Y4, Y8}[i], []VecPhysical{to[1], Y3, Y5, Y9}[i]
				d.pairK(4*q+i, 48+32*j, 16, 2*j-4, 2*j-3, mask, a, b, Y10)
				VPMADDUBSW(Y12, a, a)
				VPMADDUBSW(Y13, b, b)
				switch i {
				case 1:
					fold(false, true, to[0], a, Y10)
					fold(false, true, to[1], b, Y11)
				case 3:
					fold(false, true, Y4, a, Y10)
					fold(false, true, Y5, b, Y11)
				}
			}
			for i, y := range to {
				fold(true, true, y, []VecPhysical{Y4, Y5}[i], Y10)
				VPMADDWD(ones(), y, y)
			}
		}
		for i, y := range []VecPhysical{Y0, Y1} {
			lanes(y, []VecPhysical{Y6, Y7}[i], Y10)
			VCVTDQ2PS(y, y)
			d.scaled(y, 0, 2*j+i, d.scaleAt(2*j+i, recScale), d.scaleAt(2*j+i, recMin), Y9)
		}
	}
}

// single6k: the halves of a block are the lanes of a register. Blocks come out of order: 0 and 2, 1 and 3 of each 128.
func (d *direct) single6k() {
	d.aside(func() { d.r.sixScales(d.tmp, Y12) })
	mask := repeat("fortyEights", 0x30303030)
	wait := func(h int) Mem { return Mem{Base: d.tmp, Disp: tmpInts + 32*h} }
	for n := range 2 {
		for p := range 2 {
			first, second := 4*n+p, 4*n+p+2
			VMOVDQU(d.act(0, first, 0), Y12)
			VMOVDQU(d.act(0, second, 0), Y13)
			for q := range 2 {
				to := [2]VecPhysical{[]VecPhysical{Y0, Y6}[q], []VecPhysical{Y1, Y7}[q]}
				for i := range 4 {
					a, b := []VecPhysical{to[0], Y2, Y4, Y8}[i], []VecPhysical{to[1], Y3, Y5, Y9}[i]
					d.pairK(4*q+i, 64*n+32*p, 128+32*n, 2*p-4, 2*p, mask, a, b, Y10)
					VPMADDUBSW(Y12, a, a)
					VPMADDUBSW(Y13, b, b)
					if i%2 == 1 {
						for k, y := range [2]VecPhysical{[]VecPhysical{to[0], Y4}[i/2], []VecPhysical{to[1], Y5}[i/2]} {
							fold(false, true, y, []VecPhysical{a, b}[k], Y10)
							VPMADDWD(ones(), y, y)
						}
					}
				}
				for i, y := range to {
					fold(true, false, y, []VecPhysical{Y4, Y5}[i], Y10)
				}
			}
			for i, y := range []VecPhysical{Y0, Y1} {
				other, block := []VecPhysical{Y6, Y7}[i], []int{first, second}[i]
				VPERM2I128(U8(0x31), other, y, Y4) // second halves
				VPERM2I128(U8(0x20), other, y, y)  // first halves
				for h, z := range []VecPhysical{y, Y4} {
					d.centre(z, 0, block, 5, h, Y8, Y9)
					VCVTDQ2PS(z, z)
					if i == 1 && p == 0 {
						VMOVUPS(z, wait(h)) // block 2 comes after block 1
						continue
					}
					if i == 1 && h == 0 {
						for k := range 2 {
							VMOVUPS(wait(k), Y5)
							d.scaled(Y5, 0, 4*n+2, d.scaleAt(4*n+2, []int{recScale, recScale2}[k]), nil, Y9)
						}
					}
					d.scaled(z, 0, block, d.scaleAt(block, []int{recScale, recScale2}[h]), nil, Y9)
				}
			}
		}
	}
}

package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rows8 addresses 8 weight rows that lie a stride apart.
type rows8 struct {
	lo, hi, s, s3 Register // rows 0 and 4, the stride, three times the stride
	top           Register // row 8 where there are 12
}

func newRows8(base, stride Register) rows8 {
	r := rows8{lo: base, hi: GP64(), s: stride, s3: GP64()}
	LEAQ(Mem{Base: base, Index: stride, Scale: 4}, r.hi)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, r.s3)
	return r
}

func (r rows8) at(row, off int) Mem {
	m := Mem{Base: r.lo, Disp: off}
	switch row / 4 {
	case 1:
		m.Base = r.hi
	case 2:
		m.Base = r.top
	}
	switch row % 4 {
	case 1:
		m.Index, m.Scale = r.s, 1
	case 2:
		m.Index, m.Scale = r.s, 2
	case 3:
		m.Index, m.Scale = r.s3, 1
	}
	return m
}

func (r rows8) advance(n int) {
	ADDQ(U32(n), r.lo)
	ADDQ(U32(n), r.hi)
	if r.top != nil {
		ADDQ(U32(n), r.top)
	}
}

// more addresses 4 rows more.
func (r *rows8) more() {
	r.top = GP64()
	LEAQ(Mem{Base: r.hi, Index: r.s, Scale: 4}, r.top)
}

// transpose16 turns 16 bytes at off of each row into 4 vectors: vector k holds bytes 4k to 4k+3, a lane a row.
// It uses 8 registers from first on and returns the 4 that hold the result.
func (r rows8) transpose16(off int, t [8]VecPhysical) [4]VecPhysical {
	for i := range 4 {
		VMOVDQU(r.at(i, off), t[i].AsX())
		VBROADCASTI128(r.at(i+4, off), t[4+i]) // costs no shuffle, unlike vinserti128
		VPBLENDD(U8(0xf0), t[4+i], t[i], t[i])
	}
	VPUNPCKLDQ(t[1], t[0], t[4])
	VPUNPCKHDQ(t[1], t[0], t[5])
	VPUNPCKLDQ(t[3], t[2], t[6])
	VPUNPCKHDQ(t[3], t[2], t[7])
	VPUNPCKLQDQ(t[6], t[4], t[0])
	VPUNPCKHQDQ(t[6], t[4], t[1])
	VPUNPCKLQDQ(t[7], t[5], t[2])
	VPUNPCKHQDQ(t[7], t[5], t[3])
	return [4]VecPhysical{t[0], t[1], t[2], t[3]}
}

// halves gathers one float16 of each row and widens them.
func (r rows8) halves(off int, out VecPhysical) {
	x := out.AsX()
	VPXOR(x, x, x)
	for i := range 8 {
		VPINSRW(U8(i), r.at(i, off), x, x)
	}
	VCVTPH2PS(x, out)
}

var (
	work  = [8]VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}
	work2 = [8]VecPhysical{Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11}
)

// unpacker opens a function that takes 8 weight rows apart, steps blocks of size bytes each. dst points at the rows' place in
// the panel's first record. The lines that the next call will read are prefetched, ahead bytes further on.
func unpacker(name, doc string, size, recBytes int, consts func(), body func(r rows8, dst Register, arg Mem)) {
	TEXT(name, NOSPLIT, "func(dst, src *byte, stride, steps, ahead int, bias uint64)")
	Doc(name + " " + doc)
	dst := Load(Param("dst"), GP64()).(Register)
	src := Load(Param("src"), GP64()).(Register)
	stride := Load(Param("stride"), GP64()).(Register)
	steps := Load(Param("steps"), GP64()).(GPVirtual)
	ahead := Load(Param("ahead"), GP64()).(GPVirtual)
	bias, err := Param("bias").Resolve()
	if err != nil {
		panic(err)
	}
	r := newRows8(src, stride)
	pf := rows8{lo: GP64(), hi: GP64(), s: r.s, s3: r.s3}
	if consts != nil {
		consts()
	}
	Label("step")
	LEAQ(Mem{Base: r.lo, Index: ahead, Scale: 1}, pf.lo)
	LEAQ(Mem{Base: r.hi, Index: ahead, Scale: 1}, pf.hi)
	for line := 0; line < size; line += 64 {
		for i := range 8 {
			PREFETCHT0(pf.at(i, line))
		}
	}
	body(r, dst, bias.Addr)
	r.advance(size)
	ADDQ(U32(recBytes), dst)
	DECQ(steps)
	JNZ(LabelRef("step"))
	VZEROUPPER()
	RET()
}

func level(dst Register, rec, group int) Mem {
	return Mem{Base: dst, Disp: rec*recSize + recLevels + group*groupSize}
}

func bytes32(v uint8, y VecPhysical) {
	g := GP32()
	MOVL(U32(uint32(v)*0x01010101), g)
	VMOVD(g, y.AsX())
	VPBROADCASTD(y.AsX(), y)
}

func dwords(v uint32, y VecPhysical) {
	g := GP32()
	MOVL(U32(v), g)
	VMOVD(g, y.AsX())
	VPBROADCASTD(y.AsX(), y)
}

func unpackers() {
	// bias is 8 equal bytes that are added to the levels of types without minimums.
	unpacker("unpackQ8_0", "takes 8 rows of Q8_0 apart; bias is added to the levels.", 34, recSize, nil,
		func(r rows8, dst Register, bias Mem) {
			VPBROADCASTQ(bias, Y15)
			r.halves(0, Y14)
			VMOVUPS(Y14, Mem{Base: dst, Disp: recScale})
			for h := range 2 {
				for k, v := range r.transpose16(2+16*h, work) {
					VPADDB(v, Y15, v)
					VMOVDQU(v, level(dst, 0, 4*h+k))
				}
			}
		})
	unpacker("unpackSignedQ8_0", "takes 8 rows of Q8_0 apart, to a panel of magnitudes and places.", 34, signSize, func() {
		VPXOR(Y12, Y12, Y12)
		bytes32(8, Y11)
		dwords(0x03020100, Y14)
		dwords(0x07060504, Y15)
	}, func(r rows8, dst Register, _ Mem) {
		zero, eight, place := Y12, Y11, []VecPhysical{Y14, Y15}
		r.halves(0, Y13)
		VMOVUPS(Y13, Mem{Base: dst, Disp: signScale})
		for h := range 2 {
			for k, v := range r.transpose16(2+16*h, work) {
				VPCMPGTB(v, zero, Y8)
				VPABSB(v, Y9)
				VPAND(eight, Y8, Y8)
				VPOR(place[k%2], Y8, Y8) // groups 4h+k, two of them share a table
				VMOVDQU(Y8, Mem{Base: dst, Disp: (4*h + k) * signGroup})
				VMOVDQU(Y9, Mem{Base: dst, Disp: (4*h+k)*signGroup + groupSize})
			}
		}
	})
	small := func(name string, size, qs, qh, min int) {
		consts := func() {
			bytes32(15, Y15)
			if qh > 0 {
				bytes32(16, Y13)
				dwords(0x08040201, Y11)
				dwords(0x80402010, Y12)
			}
		}
		unpacker("unpack"+name, "takes 8 rows of "+name+" apart; bias is added to the levels of types without minimums.", size, recSize, consts,
			func(r rows8, dst Register, bias Mem) {
				if min == 0 {
					VPBROADCASTQ(bias, Y9)
				}
				r.halves(0, Y14)
				VMOVUPS(Y14, Mem{Base: dst, Disp: recScale})
				if min > 0 {
					r.halves(min, Y14)
					VMOVUPS(Y14, Mem{Base: dst, Disp: recMin})
				}
				if qh > 0 { // the fifth bits of a row's 32 levels
					x := Y14.AsX()
					VMOVD(r.at(0, qh), x)
					VMOVD(r.at(4, qh), X10)
					for i := 1; i < 4; i++ {
						VPINSRD(U8(i), r.at(i, qh), x, x)
						VPINSRD(U8(i), r.at(i+4, qh), X10, X10)
					}
					VINSERTI128(U8(1), X10, Y14, Y14)
				}
				for k, v := range r.transpose16(qs, work) {
					VPSRLW(U8(4), v, Y4)
					VPAND(Y15, v, v)
					VPAND(Y15, Y4, Y4)
					for half, y := range []VecPhysical{v, Y4} {
						g := 4*half + k
						if qh > 0 {
							// Byte g/2 of each row's bits to all 4 places, each place keeping its own bit.
							VPSHUFB(spread(g/2), Y14, Y5)
							one := Y11
							if g%2 == 1 {
								one = Y12
							}
							VPAND(one, Y5, Y5)
							VPCMPEQB(one, Y5, Y5)
							VPAND(Y13, Y5, Y5)
							VPOR(Y5, y, y)
						}
						if min == 0 {
							VPADDB(Y9, y, y)
						}
						VMOVDQU(y, level(dst, 0, g))
					}
				}
			})
	}
	small("Q4_0", 18, 2, 0, 0)
	small("Q4_1", 20, 4, 0, 2)
	small("Q5_0", 22, 6, 2, 0)
	small("Q5_1", 24, 8, 4, 2)

	unpacker("unpackQ4_K", "takes 8 rows of Q4_K superblocks apart.", 144, 8*recSize, func() { bytes32(15, Y15) },
		func(r rows8, dst Register, _ Mem) {
			r.kScales(dst)
			for j := range 4 {
				for h := range 2 {
					for k, v := range r.transpose16(16+32*j+16*h, work) {
						VPSRLW(U8(4), v, Y4)
						VPAND(Y15, v, v)
						VPAND(Y15, Y4, Y4)
						VMOVDQU(v, level(dst, 2*j, 4*h+k))
						VMOVDQU(Y4, level(dst, 2*j+1, 4*h+k))
					}
				}
			}
		})
	unpacker("unpackQ5_K", "takes 8 rows of Q5_K superblocks apart.", 176, 8*recSize, func() { bytes32(15, Y15); bytes32(16, Y14) },
		func(r rows8, dst Register, _ Mem) {
			r.kScales(dst)
			for h := range 2 {
				high := r.transpose16(16+16*h, work2)
				for k := range high { // keep them clear of the working registers
					VMOVDQA(high[k], []VecPhysical{Y8, Y9, Y10, Y11}[k])
				}
				for j := range 4 {
					for k, v := range r.transpose16(48+32*j+16*h, work) {
						hb := []VecPhysical{Y8, Y9, Y10, Y11}[k]
						VPSRLW(U8(4), v, Y4)
						VPAND(Y15, v, v)
						VPAND(Y15, Y4, Y4)
						for i, y := range []VecPhysical{v, Y4} {
							shiftTo(hb, 2*j+i-4, Y5)
							VPAND(Y14, Y5, Y5)
							VPOR(Y5, y, y)
							VMOVDQU(y, level(dst, 2*j+i, 4*h+k))
						}
					}
				}
			}
		})
	unpacker("unpackQ6_K", "takes 8 rows of Q6_K superblocks apart; bias is added to the levels.", 210, 8*recSize, func() { bytes32(15, Y15); bytes32(48, Y14) },
		func(r rows8, dst Register, bias Mem) {
			r.sixScales(dst, Y13)
			VPBROADCASTQ(bias, Y12)
			for n := range 2 {
				for h := range 2 {
					high := r.transpose16(128+32*n+16*h, work2)
					for k := range high {
						VMOVDQA(high[k], []VecPhysical{Y8, Y9, Y10, Y11}[k])
					}
					for q := range 2 { // low halves are blocks 0 and 1, high halves blocks 2 and 3 of each 128
						for k, v := range r.transpose16(64*n+32*q+16*h, work) {
							hb := []VecPhysical{Y8, Y9, Y10, Y11}[k]
							VPSRLW(U8(4), v, Y4)
							VPAND(Y15, v, v)
							VPAND(Y15, Y4, Y4)
							for i, y := range []VecPhysical{v, Y4} {
								shiftTo(hb, 2*q+4*i-4, Y5)
								VPAND(Y14, Y5, Y5)
								VPOR(Y5, y, y)
								VPADDB(Y12, y, y)
								VMOVDQU(y, level(dst, 4*n+q+2*i, 4*h+k))
							}
						}
					}
				}
			}
		})
}

// shiftTo shifts 16-bit lanes right by n (left when negative); bits of a neighbour are masked away afterwards.
func shiftTo(src VecPhysical, n int, out VecPhysical) {
	switch {
	case n > 0:
		VPSRLW(U8(n), src, out)
	case n < 0:
		VPSLLW(U8(-n), src, out)
	default:
		VMOVDQA(src, out)
	}
}

var spreads [4]*Mem

// spread is the shuffle that copies byte b of each dword over the whole dword.
func spread(b int) Mem {
	if spreads[b] == nil {
		m := GLOBL("spread"+string(rune('0'+b)), RODATA|NOPTR)
		for i := range 8 {
			at := uint32(i%4*4 + b)
			DATA(4*i, U32(at*0x01010101))
		}
		spreads[b] = &m
	}
	return *spreads[b]
}

// kScales writes the scales d*sc and minimums -(dmin*m) of a Q4_K or Q5_K superblock's 8 blocks.
func (r rows8) kScales(dst Register) {
	head := r.transpose16(0, work) // d and dmin; 12 bytes of 6-bit numbers
	mask := Y12
	dwords(0xffff, mask)
	VPAND(mask, head[0], Y4)
	VPSRLD(U8(16), head[0], Y5)
	VPACKUSDW(Y5, Y4, Y4)
	VPERMQ(U8(0b11011000), Y4, Y4)
	VEXTRACTI128(U8(1), Y4, X5)
	VCVTPH2PS(X4, Y8) // d
	VCVTPH2PS(X5, Y9) // dmin
	dwords(0x80000000, Y10)
	VXORPS(Y10, Y9, Y9)
	s0, s1, s2 := head[1], head[2], head[3]
	scLo, mnLo, scHi, mnHi := Y4, Y5, Y6, Y7
	bytes32(0x3f, mask)
	VPAND(mask, s0, scLo)
	VPAND(mask, s1, mnLo)
	bytes32(0x0f, mask)
	VPAND(mask, s2, scHi)
	VPSRLD(U8(4), s2, mnHi)
	VPAND(mask, mnHi, mnHi)
	bytes32(0x30, mask)
	VPSRLD(U8(2), s0, Y0)
	VPAND(mask, Y0, Y0)
	VPOR(Y0, scHi, scHi)
	VPSRLD(U8(2), s1, Y0)
	VPAND(mask, Y0, Y0)
	VPOR(Y0, mnHi, mnHi)
	for i, p := range [][3]VecPhysical{{scLo, Y8}, {scHi, Y8}, {mnLo, Y9}, {mnHi, Y9}} {
		at := recScale
		if i >= 2 {
			at = recMin
		}
		for j := range 4 {
			VPSHUFB(byteOf(j, 0), p[0], Y0)
			VCVTDQ2PS(Y0, Y0)
			VMULPS(Y0, p[1], Y0)
			VMOVUPS(Y0, Mem{Base: dst, Disp: (4*(i%2)+j)*recSize + at})
		}
	}
}

// sixScales writes the scales d*sc of a Q6_K superblock's 16 half blocks; d is free to use.
func (r rows8) sixScales(dst Register, d VecPhysical) {
	r.halves(208, d)
	VMULPS(repeat("twoToMinus24", math.Float32bits(0x1p-24)), d, d)
	scales := r.transpose16(192, work)
	for i, v := range scales {
		for j := range 4 {
			VPSHUFB(byteOf(j, 3), v, Y4) // the byte on top: 2^24 times the scale
			VCVTDQ2PS(Y4, Y4)
			VMULPS(Y4, d, Y4)
			at := recScale
			if j%2 == 1 {
				at = recScale2
			}
			VMOVUPS(Y4, Mem{Base: dst, Disp: (2*i+j/2)*recSize + at})
		}
	}
}

// byteOf is the shuffle that leaves byte b of each dword alone, as byte to.
func byteOf(b, to int) Mem {
	var v [8]uint32
	for i := range v {
		v[i] = 0x80808080&^(0xff<<(8*to)) | uint32(i%4*4+b)<<(8*to)
	}
	return lanesConst(fmt.Sprintf("byte%dto%d", b, to), v)
}

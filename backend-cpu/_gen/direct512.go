package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// directV is a direct kernel with VNNI: 16 weight rows, straight from the file's bytes, by up to 8 rows of activations. Weights are transposed
// as in direct; four products of each row and their sum are then one instruction, and activations are read by the same instruction. Levels
// are unsigned, and sums start at what the zero level adds too much, so it costs next to nothing. All sums have registers.
type directV struct {
	typ    directType
	tokens int
	r      rows16
	a      rows8 // activation rows
	tmp    Register
	move   Register // on its way from memory to memory
}

var directVTypes = map[string]func(d *directV){
	"Q8_0": (*directV).q8,
	"Q4_0": func(d *directV) { d.small(2, 0, 0, 3) },
	"Q4_1": func(d *directV) { d.small(4, 0, 2, -1) },
	"Q5_0": func(d *directV) { d.small(6, 2, 0, 4) },
	"Q5_1": func(d *directV) { d.small(8, 4, 2, -1) },
	"Q4_K": (*directV).q4k,
	"Q5_K": (*directV).q5k,
	"Q6_K": (*directV).q6k,
}

// directVTokens are the numbers of activation rows: 5 and 7 are sums of two of them. One row is a matter of memory, except for superblocks,
// whose scales cost more.
func (t directType) directVTokens() []int {
	n := []int{1, 2, 3, 4, 6, 8}
	if t.blocks == 1 {
		return n[1:]
	}
	return n
}

// Registers. Scales of superblocks are computed while integer sums are free.
var (
	vSums = [8]VecPhysical{Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23}
	vInts = [2][8]VecPhysical{{Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31}, {Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7}}
	vCols = [4]VecPhysical{Z8, Z9, Z10, Z11}
	vTemp = Z12
	vMore = Z13 // another temporary
	vMask = Z14 // 15 in every byte; Q8_0: 128
	vBits = Z15 // fifth bits of the rows, or the mask of a level's high bits
)

// Memory in tmp beside the records' scales and minimums, where a panel's levels would be.
const (
	vHalves = 0           // 16 float16 each of scales and minimums
	vFifths = 64          // 16 rows' fifth bits
	vHigh   = 3 * recSize // transposed high bits
	vWait   = 4 * recSize // integer sums that wait
)

func directs512() {
	for _, t := range directTypes {
		for _, n := range t.directVTokens() {
			(&directV{typ: t, tokens: n}).write()
		}
	}
}

func (d *directV) write() {
	t := d.typ
	directHead(fmt.Sprintf("directV%sx%d", t.name, d.tokens), t.name, 16, d.tokens)
	switch t.name {
	case "Q8_0":
		bytes64(128, vMask)
	case "Q5_K":
		bytes64(15, vMask)
		bytes64(16, vBits)
	case "Q6_K":
		bytes64(15, vMask)
		bytes64(48, vBits)
	default:
		bytes64(15, vMask)
	}
	Label("call")
	d.r = newRows16(Load(Param("src"), GP64()).(Register), Load(Param("stride"), GP64()).(Register))
	d.a = actRows(d.tokens)
	steps := Load(Param("steps"), GP64()).(GPVirtual)
	d.tmp = Load(Param("tmp"), GP64()).(Register)
	for i := range d.tokens {
		VPXORD(vSums[i], vSums[i], vSums[i])
	}
	Label("step")
	if t.size < 32 { // two blocks share a line
		TESTQ(U32(1), steps)
		JNZ(LabelRef("block"))
	}
	d.prefetch()
	Label("block")
	d.move = GP32()
	directVTypes[t.name](d)
	d.r.advance(t.size)
	ADDQ(U32(t.blocks*actSize), d.a.lo)
	if d.tokens > 4 {
		ADDQ(U32(t.blocks*actSize), d.a.hi)
	}
	DECQ(steps)
	JNZ(LabelRef("step"))
	dst := Load(Param("dst"), GP64()).(Register)
	for i := range d.tokens {
		VMOVUPS(vSums[i], Mem{Base: dst, Disp: 64 * i})
	}
	directNext()
}

// prefetch asks for a step's lines, ahead bytes further on.
func (d *directV) prefetch() {
	for i, base := range d.r.base {
		ahead := Load(Param("ahead"), GP64()).(Register)
		ADDQ(base, ahead)
		r := d.r
		r.base[i] = ahead
		for line := 0; line < d.typ.size; line += 64 {
			for k := range 4 {
				PREFETCHT0(r.at(4*i+k, line))
			}
		}
	}
}

// rows16 addresses 16 weight rows that lie a stride apart.
type rows16 struct {
	base  [4]Register // rows 0, 4, 8 and 12
	s, s3 Register    // the stride, three times the stride
}

func newRows16(base, stride Register) rows16 {
	r := rows16{s: stride, s3: GP64()}
	r.base[0] = base
	for i := 1; i < 4; i++ {
		r.base[i] = GP64()
		LEAQ(Mem{Base: r.base[i-1], Index: stride, Scale: 4}, r.base[i])
	}
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, r.s3)
	return r
}

func (r rows16) at(row, off int) Mem {
	return rows8{lo: r.base[row/4], s: r.s, s3: r.s3}.at(row%4, off)
}

func (r rows16) advance(n int) {
	for _, b := range r.base {
		ADDQ(U32(n), b)
	}
}

// transpose turns 16 bytes at off of each row into 4 columns: column k holds bytes 4k to 4k+3, a lane a row.
func (d *directV) transpose(off int) {
	c, x, y := vCols, vTemp, vMore
	for i := range 4 {
		VMOVDQU(d.r.at(i, off), c[i].AsX())
		for k := 1; k < 4; k++ {
			VINSERTI32X4(U8(k), d.r.at(4*k+i, off), c[i], c[i])
		}
	}
	VPUNPCKLDQ(c[1], c[0], x)
	VPUNPCKHDQ(c[1], c[0], c[0])
	VPUNPCKLDQ(c[3], c[2], y)
	VPUNPCKHDQ(c[3], c[2], c[2])
	VPUNPCKHQDQ(c[2], c[0], c[3])
	VPUNPCKLQDQ(c[2], c[0], c[2])
	VPUNPCKLQDQ(y, x, c[0])
	VPUNPCKHQDQ(y, x, c[1])
}

// gather copies 2 or 4 bytes at off of each row to tmp, through ports that no vector operation needs.
func (d *directV) gather(off, size, to int) {
	for i := range 16 {
		at := Mem{Base: d.tmp, Disp: to + size*i}
		if size == 2 {
			MOVWLZX(d.r.at(i, off), d.move)
			MOVW(d.move.(GPVirtual).As16(), at)
		} else {
			MOVL(d.r.at(i, off), d.move)
			MOVL(d.move, at)
		}
	}
}

// widen gives gathered float16 as float32.
func (d *directV) widen(at int, z VecPhysical) { VCVTPH2PS(Mem{Base: d.tmp, Disp: at}, z) }

func bytes64(v uint8, z VecPhysical) {
	g := GP32()
	MOVL(U32(uint32(v)*0x01010101), g)
	VPBROADCASTD(g, z)
}

// wide is a constant of 16 dwords, the same 4 over and over.
func wide(name string, v [4]uint32) Mem {
	m, ok := constMem[name]
	if !ok {
		m = GLOBL(name, RODATA|NOPTR)
		for i := range 16 {
			DATA(4*i, U32(v[i%4]))
		}
		constMem[name] = m
	}
	return m
}

// every is a constant of 16 equal dwords; its first is read by instructions that spread it.
func every(name string, v uint32) Mem { return wide(name, [4]uint32{v, v, v, v}) }

// wideByte is byteOf for 16 lanes: the shuffle that leaves byte b of each dword alone, as byte to.
func wideByte(b, to int) Mem {
	var v [4]uint32
	for i := range v {
		v[i] = 0x80808080&^(0xff<<(8*to)) | uint32(4*i+b)<<(8*to)
	}
	return wide(fmt.Sprintf("wideByte%dto%d", b, to), v)
}

// wideSpread is spread for 16 lanes: the shuffle that copies byte b of each dword over the whole dword.
func wideSpread(b int) Mem {
	var v [4]uint32
	for i := range v {
		v[i] = uint32(4*i+b) * 0x01010101
	}
	return wide(fmt.Sprintf("wideSpread%d", b), v)
}

func (d *directV) act(t, block, off int) Mem { return d.a.at(t, block*actSize+off) }

// zero begins the integer sums of a set: at -(1<<shift) times the activations' sum of a block or of its half 0 or 1, or at 0.
func (d *directV) zero(set, block, shift, half int) {
	for t := range d.tokens {
		y := vInts[set][t]
		switch {
		case shift < 0:
			VPXORD(y, y, y)
		case half == 0:
			VPSRAD_BCST(U8(7-shift), d.act(t, block, actN16), y)
		case half == 1:
			VPBROADCASTD(d.act(t, block, actN32), y)
			VPSUBD_BCST(d.act(t, block, actN16), y, y)
			VPSRAD(U8(7-shift), y, y)
		case shift == 7:
			VPBROADCASTD(d.act(t, block, actN32), y)
		default:
			VPSRAD_BCST(U8(7-shift), d.act(t, block, actN32), y)
		}
	}
}

// mac adds the products of a column of levels with columns 4g to 4g+3 of each activation row's block.
func (d *directV) mac(level VecPhysical, set, block, g int) {
	for t := range d.tokens {
		VPDPBUSD_BCST(d.act(t, block, 4*g), level, vInts[set][t])
	}
}

// finish adds a block's integer sums, in ints(t), times the scale to the rows' sums, and the minimum's part. Columns 2 and 3 are free then.
func (d *directV) finish(ints func(t int) Op, block int, scale, min Op) {
	scale = inReg(scale, vTemp)
	for t := range d.tokens {
		y, s := vInts[0][t], vCols[2+t%2]
		VCVTDQ2PS(ints(t), y)
		VMULPS_BCST(d.act(t, block, actD), scale, s)
		VFMADD231PS(y, s, vSums[t])
	}
	if min == nil {
		return
	}
	min = inReg(min, vMore)
	for t := range d.tokens {
		VFMADD231PS_BCST(d.act(t, block, actDS), min, vSums[t])
	}
}

// inReg loads what stands in memory to z.
func inReg(o Op, z VecPhysical) Op {
	if m, ok := o.(Mem); ok {
		VMOVUPS(m, z)
		return z
	}
	return o
}

func ints(set int) func(t int) Op { return func(t int) Op { return vInts[set][t] } }

func (d *directV) q8() {
	d.gather(0, 2, vHalves)
	d.zero(0, 0, 7, -1)
	for h := range 2 {
		d.transpose(2 + 16*h)
		for k, w := range vCols {
			VPXORD(vMask, w, w)
			d.mac(w, 0, 0, 4*h+k)
		}
	}
	d.widen(vHalves, vCols[0])
	d.finish(ints(0), 0, vCols[0], nil)
}

// low and high give the halves of column k's bytes; high in its place.
func (d *directV) low(k int) VecPhysical {
	VPANDD(vMask, vCols[k], vTemp)
	return vTemp
}

func (d *directV) high(k int) VecPhysical {
	VPSRLW(U8(4), vCols[k], vCols[k])
	VPANDD(vMask, vCols[k], vCols[k])
	return vCols[k]
}

// small does the types of 32 weights with 4-bit levels at qs, fifth bits at qh if there are any, a minimum at min likewise.
func (d *directV) small(qs, qh, min, shift int) {
	if qh > 0 {
		d.gather(qh, 4, vFifths)
	}
	d.gather(0, 2, vHalves)
	if min > 0 {
		d.gather(min, 2, vHalves+32)
	}
	// Eight products one after the other, each waiting for the sum before, would take longer than all else that few activation rows
	// need: there the high halves' have sums of their own.
	two := 0
	if d.tokens <= 4 {
		two = 1
		d.zero(two, 0, -1, -1)
	}
	d.zero(0, 0, shift, -1)
	d.transpose(qs)
	if qh > 0 {
		VMOVDQU32(Mem{Base: d.tmp, Disp: vFifths}, vBits)
	}
	for k := range vCols {
		d.mac(d.fifth(d.low(k), k, qh), 0, 0, k)
		d.mac(d.fifth(d.high(k), 4+k, qh), two, 0, 4+k)
	}
	if two > 0 {
		for t := range d.tokens {
			VPADDD(vInts[two][t], vInts[0][t], vInts[0][t])
		}
	}
	d.widen(vHalves, vCols[0])
	var low Op
	if min > 0 {
		d.widen(vHalves+32, vCols[1])
		low = vCols[1]
	}
	d.finish(ints(0), 0, vCols[0], low)
}

// fifth adds the fifth bits of columns 4g to 4g+3: byte g/2 of each row's bits to all 4 places, each testing its own.
func (d *directV) fifth(level VecPhysical, g, qh int) VecPhysical {
	if qh == 0 {
		return level
	}
	one := every("wideLow", 0x08040201)
	if g%2 == 1 {
		one = every("wideHigh", 0x80402010)
	}
	VPSHUFB(wideSpread(g/2), vBits, vMore)
	VPTESTMB(one, vMore, K1)
	VPADDB(every("wide16", 0x10101010), level, K1, level)
	return level
}

func (d *directV) scaleAt(block, off int) Mem { return Mem{Base: d.tmp, Disp: block*recSize + off} }

// scales writes the scales d*sc and minimums -(dmin*m) of the 8 blocks of Q4_K or Q5_K superblocks.
func (d *directV) scales() {
	d.transpose(0) // d and dmin; 12 bytes of 6-bit numbers
	s0, s1, s2 := vCols[1], vCols[2], vCols[3]
	VPMOVDW(vCols[0], Y0)
	VPSRLD(U8(16), vCols[0], Z1)
	VPMOVDW(Z1, Y1)
	VCVTPH2PS(Y0, Z0) // d
	VCVTPH2PS(Y1, Z1) // dmin
	VPXORD_BCST(every("wideSign", 0x80000000), Z1, Z1)
	scLo, mnLo, scHi, mnHi, t := Z2, Z3, Z4, Z5, Z6
	six, four, two := every("wide3f", 0x3f3f3f3f), every("wide0f", 0x0f0f0f0f), every("wide30", 0x30303030)
	VPANDD_BCST(six, s0, scLo)
	VPANDD_BCST(six, s1, mnLo)
	VPANDD_BCST(four, s2, scHi)
	VPSRLD(U8(4), s2, mnHi)
	VPANDD_BCST(four, mnHi, mnHi)
	VPSRLD(U8(2), s0, t)
	VPTERNLOGD_BCST(U8(orAnd), two, t, scHi)
	VPSRLD(U8(2), s1, t)
	VPTERNLOGD_BCST(U8(orAnd), two, t, mnHi)
	for i, p := range [][2]VecPhysical{{scLo, Z0}, {scHi, Z0}, {mnLo, Z1}, {mnHi, Z1}} {
		at := recScale
		if i >= 2 {
			at = recMin
		}
		for j := range 4 {
			z := vInts[0][j]
			VPSHUFB(wideByte(j, 0), p[0], z)
			VCVTDQ2PS(z, z)
			VMULPS(z, p[1], z)
			VMOVUPS(z, d.scaleAt(4*(i%2)+j, at))
		}
	}
}

// scales6 writes the scales d*sc of the 16 half blocks of Q6_K superblocks.
func (d *directV) scales6() {
	d.gather(208, 2, vHalves)
	d.transpose(192)
	z := Z0
	d.widen(vHalves, z)
	VMULPS_BCST(every("wideTwoToMinus24", 0x33800000), z, z)
	for i, v := range vCols {
		for j := range 4 {
			s := vInts[0][j]
			VPSHUFB(wideByte(j, 3), v, s) // the byte on top: 2^24 times the scale
			VCVTDQ2PS(s, s)
			VMULPS(s, z, s)
			VMOVUPS(s, d.scaleAt(2*i+j/2, []int{recScale, recScale2}[j%2]))
		}
	}
}

// finishBoth finishes two blocks of a superblock with minimums.
func (d *directV) finishBoth(first int) {
	for i := range 2 {
		d.finish(ints(i), first+i, d.scaleAt(first+i, recScale), d.scaleAt(first+i, recMin))
	}
}

func (d *directV) q4k() {
	d.scales()
	for j := range 4 {
		d.zero(0, 2*j, -1, -1)
		d.zero(1, 2*j+1, -1, -1)
		for h := range 2 {
			d.transpose(16 + 32*j + 16*h)
			for k := range vCols {
				d.mac(d.low(k), 0, 2*j, 4*h+k)
				d.mac(d.high(k), 1, 2*j+1, 4*h+k)
			}
		}
		d.finishBoth(2 * j)
	}
}

func (d *directV) highAt(i int) Mem { return Mem{Base: d.tmp, Disp: vHigh + 64*i} }

// keepHigh transposes 32 bytes of high bits of each row, for later.
func (d *directV) keepHigh(off int) {
	for h := range 2 {
		d.transpose(off + 16*h)
		for k, c := range vCols {
			VMOVDQU32(c, d.highAt(4*h+k))
		}
	}
}

// orAnd is the truth table of a | b&c.
const orAnd = 0xf8

// withHigh adds bits of the kept column i, shifted to the right by n, as far as vBits has them.
func (d *directV) withHigh(level VecPhysical, i, n int) VecPhysical {
	switch {
	case n > 0:
		VPSRLW(U8(n), d.highAt(i), vMore)
	case n < 0:
		VPSLLW(U8(-n), d.highAt(i), vMore)
	default:
		VMOVDQU32(d.highAt(i), vMore)
	}
	VPTERNLOGD(U8(orAnd), vBits, vMore, level)
	return level
}

func (d *directV) q5k() {
	d.scales()
	d.keepHigh(16)
	for j := range 4 {
		d.zero(0, 2*j, -1, -1)
		d.zero(1, 2*j+1, -1, -1)
		for h := range 2 {
			d.transpose(48 + 32*j + 16*h)
			for k := range vCols {
				g := 4*h + k
				d.mac(d.withHigh(d.low(k), g, 2*j-4), 0, 2*j, g)
				d.mac(d.withHigh(d.high(k), g, 2*j-3), 1, 2*j+1, g)
			}
		}
		d.finishBoth(2 * j)
	}
}

// q6k: half blocks come out of order, 0 with 2 and 1 with 3 of each 128: the integer sums of 2 and 3 wait in memory.
func (d *directV) q6k() {
	d.scales6()
	const shift = 5
	wait := func(q, h int) func(t int) Op {
		return func(t int) Op { return Mem{Base: d.tmp, Disp: vWait + (2*q+h)*recSize + 64*t} }
	}
	scale := func(block, h int) Mem { return d.scaleAt(block, []int{recScale, recScale2}[h]) }
	for n := range 2 {
		d.keepHigh(128 + 32*n)
		for q := range 2 {
			for h := range 2 {
				d.zero(0, 4*n+q, shift, h)
				d.zero(1, 4*n+q+2, shift, h)
				d.transpose(64*n + 32*q + 16*h)
				for k := range vCols {
					g := 4*h + k
					d.mac(d.withHigh(d.low(k), g, 2*q-4), 0, 4*n+q, g)
					d.mac(d.withHigh(d.high(k), g, 2*q), 1, 4*n+q+2, g)
				}
				d.finish(ints(0), 4*n+q, scale(4*n+q, h), nil)
				for t := range d.tokens {
					VMOVDQU32(vInts[1][t], wait(q, h)(t))
				}
			}
		}
		for q := range 2 {
			for h := range 2 {
				d.finish(wait(q, h), 4*n+q+2, scale(4*n+q+2, h), nil)
			}
		}
	}
}

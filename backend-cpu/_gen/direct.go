package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// A direct kernel multiplies 8 weight rows, straight from the file's bytes, with 1, 2, 4 or 8 rows of activations. 16 bytes of
// each row are transposed to columns of 4 bytes, a lane a row, so that no sum ever crosses lanes; the rows may
// lie far apart, each a stream of its own through memory.
type direct struct {
	typ    directType
	tokens int
	r      rows8
	a      rows8 // activation rows
	tmp    Register
}

type directType struct {
	name         string
	size, blocks int // bytes and blocks of 32 a step
	body         func(d *direct)
}

var directTypes = []directType{
	{"Q8_0", 34, 1, (*direct).q8},
	{"Q4_0", 18, 1, func(d *direct) { d.small(2, 0, 0, 3) }},
	{"Q4_1", 20, 1, func(d *direct) { d.small(4, 0, 2, -1) }},
	{"Q5_0", 22, 1, func(d *direct) { d.small(6, 2, 0, 4) }},
	{"Q5_1", 24, 1, func(d *direct) { d.small(8, 4, 2, -1) }},
	{"Q4_K", 144, 8, (*direct).q4k},
	{"Q5_K", 176, 8, (*direct).q5k},
	{"Q6_K", 210, 8, (*direct).q6k},
}

// Memory in tmp: records of scales and minimums as a panel has them; where a panel's levels would be stand the sums of
// rows (record 0), integer sums that wait (record 1 on), and transposed high bits (records 3 and 4).
const (
	tmpSums = 0
	tmpInts = recSize
	tmpHigh = 3 * recSize
)

var (
	columns  = [4]VecPhysical{Y8, Y9, Y10, Y11}
	levelReg = Y12
	actReg   = Y13
	nibReg   = Y14
	extraReg = Y15 // ones (Q8_0), fifth bits (Q5_0, Q5_1)
)

var constMem = map[string]Mem{}

// repeat is a constant of 8 equal dwords.
func repeat(name string, v uint32) Mem { return lanesConst(name, [8]uint32{v, v, v, v, v, v, v, v}) }

// lanesConst is a constant of 8 dwords.
func lanesConst(name string, v [8]uint32) Mem {
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

func directs() {
	for _, t := range directTypes {
		sizes := []int{1, 2, 4}
		if t.name == "Q8_0" || t.name == "Q4_0" { // other types' accumulators are too many, or their panels are faster
			sizes = append(sizes, 8)
		}
		for _, n := range sizes {
			(&direct{typ: t, tokens: n}).write()
		}
	}
}

func (d *direct) write() {
	t := d.typ
	name := fmt.Sprintf("direct%sx%d", t.name, d.tokens)
	directHead(name, t.name, 8, d.tokens)
	bytes32(15, nibReg)
	Label("call")
	src := Load(Param("src"), GP64()).(Register)
	d.r = newRows8(src, Load(Param("stride"), GP64()).(Register))
	d.a = actRows(d.tokens)
	steps := Load(Param("steps"), GP64()).(GPVirtual)
	ahead := Load(Param("ahead"), GP64()).(GPVirtual)
	d.tmp = Load(Param("tmp"), GP64()).(Register)
	pf := rows8{lo: GP64(), hi: GP64(), s: d.r.s, s3: d.r.s3}
	for i := range d.tokens {
		VXORPS(actReg, actReg, actReg)
		d.setSum(i, actReg)
	}
	Label("step")
	LEAQ(Mem{Base: d.r.lo, Index: ahead, Scale: 1}, pf.lo)
	LEAQ(Mem{Base: d.r.hi, Index: ahead, Scale: 1}, pf.hi)
	for line := 0; line < t.size; line += 64 {
		for i := range 8 {
			PREFETCHT0(pf.at(i, line))
		}
	}
	if d.tokens == 1 {
		d.single()
	} else {
		t.body(d)
	}
	d.r.advance(t.size)
	ADDQ(U32(t.blocks*actSize), d.a.lo)
	if d.tokens > 4 {
		ADDQ(U32(t.blocks*actSize), d.a.hi)
	}
	DECQ(steps)
	JNZ(LabelRef("step"))
	dst := Load(Param("dst"), GP64()).(Register)
	for i := range d.tokens {
		VMOVUPS(d.getSum(i, actReg), Mem{Base: dst, Disp: 32 * i})
	}
	directNext()
}

// directHead opens a direct kernel.
func directHead(name, typ string, rows, tokens int) {
	TEXT(name, NOSPLIT, "func(dst *float32, dstStride int, src *byte, rowBytes, stride int, acts *byte, actStride, steps, ahead int, tmp *byte, calls int)")
	Doc(fmt.Sprintf("%s multiplies %d rows of %s weights, stride bytes apart, with %d rows of activations, to dst [%d][%d]; calls times, "+
		"each with the weights rowBytes further on and dst dstStride bytes. It prefetches ahead bytes further on; tmp has 8 panel records.",
		name, rows, typ, tokens, tokens, rows))
}

// actRows loads where the rows of activations lie.
func actRows(tokens int) rows8 {
	a := rows8{lo: Load(Param("acts"), GP64()).(Register)}
	if tokens > 1 {
		a.s = Load(Param("actStride"), GP64()).(Register)
	}
	if tokens > 2 {
		a.s3 = GP64()
		LEAQ(Mem{Base: a.s, Index: a.s, Scale: 2}, a.s3)
	}
	if tokens > 4 {
		a.hi = GP64()
		LEAQ(Mem{Base: a.lo, Index: a.s, Scale: 4}, a.hi)
	}
	return a
}

// directNext goes on to the next call, or returns.
func directNext() {
	// The next call's pointers stand where this one's were.
	for _, next := range [][2]string{{"dst", "dstStride"}, {"src", "rowBytes"}} {
		g := Load(Param(next[0]), GP64()).(Register)
		ADDQ(argument(next[1]), g)
		MOVQ(g, argument(next[0]))
	}
	DECQ(argument("calls"))
	JNZ(LabelRef("call"))
	VZEROUPPER()
	RET()
}

// argument is where a parameter stands.
func argument(name string) Mem {
	b, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// sums of rows stand in registers if there are enough.
func (d *direct) sumsInRegs() bool { return d.tokens <= 2 }

func (d *direct) sumReg(t int) VecPhysical {
	if d.tokens == 1 {
		return singleSum
	}
	return []VecPhysical{Y7, Y6}[t]
}

func (d *direct) sumMem(t int) Mem { return Mem{Base: d.tmp, Disp: tmpSums + 32*t} }

func (d *direct) setSum(t int, y VecPhysical) {
	if d.sumsInRegs() {
		VMOVAPS(y, d.sumReg(t))
	} else {
		VMOVUPS(y, d.sumMem(t))
	}
}

func (d *direct) getSum(t int, y VecPhysical) VecPhysical {
	if d.sumsInRegs() {
		return d.sumReg(t)
	}
	VMOVUPS(d.sumMem(t), y)
	return y
}

// aside runs f, which may use every register but the constants, without losing the sums.
func (d *direct) aside(f func()) {
	if !d.sumsInRegs() {
		f()
		return
	}
	for t := range d.tokens {
		VMOVUPS(d.sumReg(t), d.sumMem(t))
	}
	f()
	for t := range d.tokens {
		VMOVUPS(d.sumMem(t), d.sumReg(t))
	}
}

func (d *direct) acc(i, t int) VecPhysical {
	return [8]VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}[i*d.tokens+t]
}

func (d *direct) act(t, block, off int) Mem { return d.a.at(t, block*actSize+off) }

// transpose turns 16 bytes at off of each row into columns.
func (d *direct) transpose(off int) {
	c, x, y := columns, levelReg, actReg
	for i := range 4 {
		VMOVDQU(d.r.at(i, off), c[i].AsX())
		VBROADCASTI128(d.r.at(i+4, off), x)
		VPBLENDD(U8(0xf0), x, c[i], c[i])
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

// spare gives a second register for products: one that the type has no use for.
func (d *direct) spare() VecPhysical {
	switch d.typ.name {
	case "Q8_0":
		return nibReg
	case "Q5_0", "Q5_1":
		return Y5 // they have no second accumulators
	}
	return extraReg
}

// mac adds the products of a column of levels with columns 4g to 4g+3 of each activation row's block to accumulator i. Two rows
// take each step together, as the two multipliers like it.
func (d *direct) mac(level VecPhysical, i, block, g int, first bool) {
	xs := []VecPhysical{actReg, d.spare()}
	for t := 0; t < d.tokens; t += 2 {
		for k, x := range xs {
			VPBROADCASTD(d.act(t+k, block, 4*g), x)
		}
		for k, x := range xs {
			if first {
				VPMADDUBSW(x, level, d.acc(i, t+k))
			} else {
				VPMADDUBSW(x, level, x)
			}
		}
		if first {
			continue
		}
		for k, x := range xs {
			VPADDW(x, d.acc(i, t+k), d.acc(i, t+k))
		}
	}
}

// lowHalves gives the low 4 bits of column k; highHalves the high ones, in the column's place.
func (d *direct) lowHalves(k int) VecPhysical {
	VPAND(nibReg, columns[k], levelReg)
	return levelReg
}

func (d *direct) highHalves(k int) VecPhysical {
	VPSRLW(U8(4), columns[k], columns[k])
	VPAND(nibReg, columns[k], columns[k])
	return columns[k]
}

func ones() Mem { return repeat("ones16", 0x00010001) }

// widen makes 32-bit sums of accumulator i's 16-bit ones.
func (d *direct) widen(i int) {
	for t := range d.tokens {
		VPMADDWD(ones(), d.acc(i, t), d.acc(i, t))
	}
}

// finish adds a block's integer sums in accumulator i, times the scale, to the rows' sums, and the minimum's part.
// A shift says which level stands for zero, 1<<shift; half is -1 for whole blocks.
func (d *direct) finish(i, block, shift, half int, scale, min Op) {
	for t := range d.tokens {
		acc := d.acc(i, t)
		d.centre(acc, t, block, shift, half, actReg, levelReg)
		VCVTDQ2PS(acc, acc)
		d.scaled(acc, t, block, scale, min, actReg)
	}
}

// centre takes what the zero level 1<<shift adds from the integer sums of a block or of its half 0 or 1. x and y are free.
func (d *direct) centre(acc VecPhysical, t, block, shift, half int, x, y VecPhysical) {
	if shift < 0 {
		return
	}
	switch half {
	case -1:
		VPBROADCASTD(d.act(t, block, actN32), x)
	case 0:
		VPBROADCASTD(d.act(t, block, actN16), x)
	case 1:
		VPBROADCASTD(d.act(t, block, actN32), x)
		VPBROADCASTD(d.act(t, block, actN16), y)
		VPSUBD(y, x, x)
	}
	VPSRAD(U8(7-shift), x, x)
	VPADDD(x, acc, acc)
}

// scaled adds a block's float sums in y to the sum of row t; x is free.
func (d *direct) scaled(y VecPhysical, t, block int, scale, min Op, x VecPhysical) {
	VBROADCASTSS(d.act(t, block, actD), x)
	VMULPS(scale, x, x)
	sum := y
	if d.sumsInRegs() {
		sum = d.sumReg(t)
		VFMADD231PS(y, x, sum)
	} else {
		VFMADD213PS(d.sumMem(t), x, y)
	}
	if min != nil {
		VBROADCASTSS(d.act(t, block, actDS), x)
		VFMADD231PS(min, x, sum)
	}
	if !d.sumsInRegs() {
		VMOVUPS(y, d.sumMem(t))
	}
}

// q8 has signed levels: their signs go to the activations, and products don't outgrow 16 bits only two by two.
func (d *direct) q8() {
	VMOVDQU(ones(), extraReg)
	for h := range 2 {
		d.transpose(2 + 16*h)
		for k, w := range columns {
			VPABSB(w, levelReg)
			xs := []VecPhysical{actReg, d.spare()}
			if d.tokens == 4 { // registers of sums that 4 rows don't take
				xs = append(xs, Y4, Y5)
			}
			for t := 0; t < d.tokens; t += len(xs) {
				for i, x := range xs {
					VPBROADCASTD(d.act(t+i, 0, 4*(4*h+k)), x)
				}
				for _, x := range xs {
					VPSIGNB(w, x, x)
				}
				for _, x := range xs {
					VPMADDUBSW(x, levelReg, x)
				}
				for i, x := range xs {
					if h+k == 0 {
						VPMADDWD(extraReg, x, d.acc(0, t+i))
					} else {
						VPMADDWD(extraReg, x, x)
					}
				}
				if h+k > 0 {
					for i, x := range xs {
						VPADDD(x, d.acc(0, t+i), d.acc(0, t+i))
					}
				}
			}
		}
	}
	d.r.halves(0, columns[0])
	d.finish(0, 0, -1, -1, columns[0], nil)
}

// small does the types of 32 weights with 4-bit levels at qs, fifth bits at qh if there are any, a minimum at min likewise.
func (d *direct) small(qs, qh, min, shift int) {
	if qh > 0 {
		x, y := extraReg.AsX(), levelReg.AsX()
		VMOVD(d.r.at(0, qh), x)
		VMOVD(d.r.at(4, qh), y)
		for i := 1; i < 4; i++ {
			VPINSRD(U8(i), d.r.at(i, qh), x, x)
			VPINSRD(U8(i), d.r.at(i+4, qh), y, y)
		}
		VINSERTI128(U8(1), y, extraReg, extraReg)
	}
	d.transpose(qs)
	for k := range columns {
		d.mac(d.withFifth(d.lowHalves(k), k, qh), 0, 0, k, k == 0)
	}
	high := 0 // accumulator of the high halves
	if qh > 0 {
		d.widen(0)
		high = 1
	}
	if d.tokens > 2 && qh > 0 { // no registers for two sums of each row
		high = 0
		for t := range d.tokens {
			VMOVDQU(d.acc(0, t), Mem{Base: d.tmp, Disp: tmpInts + 32*t})
		}
	}
	for k := range columns {
		d.mac(d.withFifth(d.highHalves(k), 4+k, qh), high, 0, 4+k, k == 0 && qh > 0)
	}
	d.widen(high)
	if qh > 0 {
		for t := range d.tokens {
			var other Op = d.acc(0, t)
			if high == 0 {
				other = Mem{Base: d.tmp, Disp: tmpInts + 32*t}
			}
			VPADDD(other, d.acc(high, t), d.acc(high, t))
		}
	}
	d.r.halves(0, columns[0])
	var low Op
	if min > 0 {
		d.r.halves(min, columns[1])
		low = columns[1]
	}
	d.finish(high, 0, shift, -1, columns[0], low)
}

// withFifth adds the fifth bits of columns 4g to 4g+3: byte g/2 of each row's bits to all 4 places, each keeping its own.
func (d *direct) withFifth(level VecPhysical, g, qh int) VecPhysical {
	if qh == 0 {
		return level
	}
	one := repeat("bitsLow", 0x08040201)
	if g%2 == 1 {
		one = repeat("bitsHigh", 0x80402010)
	}
	t := actReg
	VPSHUFB(spread(g/2), extraReg, t)
	VPAND(one, t, t)
	VPCMPEQB(one, t, t)
	VPAND(repeat("sixteens", 0x10101010), t, t)
	VPOR(t, level, level)
	return level
}

func (d *direct) scaleAt(block, off int) Mem {
	return Mem{Base: d.tmp, Disp: block*recSize + off}
}

func (d *direct) q4k() {
	d.aside(func() { d.r.kScales(d.tmp) })
	for j := range 4 {
		for h := range 2 {
			d.transpose(16 + 32*j + 16*h)
			for k := range columns {
				g, first := 4*h+k, h+k == 0
				d.mac(d.lowHalves(k), 0, 2*j, g, first)
				d.mac(d.highHalves(k), 1, 2*j+1, g, first)
			}
		}
		for i := range 2 {
			d.widen(i)
			d.finish(i, 2*j+i, -1, -1, d.scaleAt(2*j+i, recScale), d.scaleAt(2*j+i, recMin))
		}
	}
}

func (d *direct) high(i int) Mem { return Mem{Base: d.tmp, Disp: tmpHigh + 32*i} }

// keepHigh transposes 32 bytes of high bits of each row, for later.
func (d *direct) keepHigh(off int) {
	for h := range 2 {
		d.transpose(off + 16*h)
		for k, c := range columns {
			VMOVDQU(c, d.high(4*h+k))
		}
	}
}

// withHigh adds bits of the kept column i, shifted to the right by n, as far as mask has them.
func (d *direct) withHigh(level VecPhysical, i, n int, mask Mem) VecPhysical {
	VMOVDQU(d.high(i), actReg)
	if n != 0 {
		shiftTo(actReg, n, actReg)
	}
	VPAND(mask, actReg, actReg)
	VPOR(actReg, level, level)
	return level
}

func (d *direct) q5k() {
	d.aside(func() { d.r.kScales(d.tmp) })
	d.keepHigh(16)
	mask := repeat("sixteens", 0x10101010)
	wait := func(i, t int) Mem { return Mem{Base: d.tmp, Disp: tmpInts + 32*(i*d.tokens+t)} }
	for j := range 4 {
		for h := range 2 {
			d.transpose(48 + 32*j + 16*h)
			for k := range columns {
				g := 4*h + k
				d.mac(d.withHigh(d.lowHalves(k), g, 2*j-4, mask), 0, 2*j, g, k == 0)
				d.mac(d.withHigh(d.highHalves(k), g, 2*j-3, mask), 1, 2*j+1, g, k == 0)
			}
			for i := range 2 {
				d.widen(i)
				for t := range d.tokens {
					if h == 0 {
						VMOVDQU(d.acc(i, t), wait(i, t))
					} else {
						VPADDD(wait(i, t), d.acc(i, t), d.acc(i, t))
					}
				}
			}
		}
		for i := range 2 {
			d.finish(i, 2*j+i, -1, -1, d.scaleAt(2*j+i, recScale), d.scaleAt(2*j+i, recMin))
		}
	}
}

// q6k has levels up to 63: two products of each row fit 16 bits. Half blocks come out of order, and wait as floats.
func (d *direct) q6k() {
	d.aside(func() { d.r.sixScales(d.tmp, Y12) })
	mask := repeat("fortyEights", 0x30303030)
	wait := func(block, half, t int) Mem {
		i := block*2 + half
		return Mem{Base: d.tmp, Disp: []int{0, recSize}[i/4] + tmpInts + 32*(i%4*d.tokens+t)}
	}
	for n := range 2 {
		d.keepHigh(128 + 32*n)
		for h := range 2 {
			for q := range 2 {
				d.transpose(64*n + 32*q + 16*h)
				for i := range 2 {
					block := q + 2*i
					for k := range columns {
						level := d.lowHalves
						if i == 1 {
							level = d.highHalves
						}
						y := d.withHigh(level(k), 4*h+k, 2*q+4*i-4, mask)
						d.mac(y, k/2, 4*n+block, 4*h+k, k%2 == 0)
						if k%2 == 1 {
							d.widen(k / 2)
						}
					}
					for t := range d.tokens {
						acc := d.acc(0, t)
						VPADDD(d.acc(1, t), acc, acc)
						d.centre(acc, t, 4*n+block, 5, h, actReg, levelReg)
						VCVTDQ2PS(acc, acc)
						VMOVUPS(acc, wait(block, h, t))
					}
				}
			}
		}
		for block := range 4 {
			for h := range 2 {
				for t := range d.tokens {
					VMOVUPS(wait(block, h, t), levelReg)
					d.scaled(levelReg, t, 4*n+block, d.scaleAt(4*n+block, []int{recScale, recScale2}[h]), nil, actReg)
				}
			}
		}
	}
}

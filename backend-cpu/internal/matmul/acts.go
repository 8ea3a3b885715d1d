package matmul

import (
	"math"
)

const (
	blockLen  = 32 // activations rounded with one scale
	blockSize = 48 // bytes of a block, as the assembly steps over it
	bothSize  = 80 // likewise of a block of both signs
)

// block is 32 activations rounded to int8, x ≈ d*q, with what the kernels need of them. Assembly knows its layout.
type block struct {
	q   [blockLen]int8
	d   float32
	ds  float32 // d times the sum of q: what a weight block's minimum is multiplied with
	n32 int32   // -128 times the sum of q: what levels with 128 added give too much
	n16 int32   // -128 times the sum of the first 16 of q
}

// both is a block as tables for kernels that multiply magnitudes of weights: they look up activations by column and sign. Assembly
// knows its layout.
type both struct {
	q [4][2][8]int8 // 8 activations, and the same negated
	d float32
	_ [12]byte
}

// Acts holds activation rows rounded to int8 in blocks of 32. Its storage is reused from step to step.
type Acts struct {
	rows, k int
	blocks  []block // [rows][k/32]
	both    []both  // likewise, or nil: read by products for which Kernel.WantsBothSigns says so
	store   *Store  // where they lie, or nil: memory of its own
}

// Store is memory for Acts of any shapes, of which one at a time is in use. It grows to the largest.
type Store struct {
	blocks []block
	both   []both
}

// Acts gives rows of k values in the store, k a multiple of 32, with or without tables of both signs. Contents are undefined until Quantize
// fills them.
func (s *Store) Acts(rows, k int, bothSigns bool) *Acts {
	a := &Acts{store: s}
	a.Reset(rows, k)
	s.blocks = a.blocks[:cap(a.blocks)]
	if n := len(a.blocks); bothSigns {
		if len(s.both) < n {
			s.both = make([]both, n)
		}
		a.both = s.both[:n]
	}
	return a
}

// Fits reports whether rows of k values need no growth.
func (s *Store) Fits(rows, k int, bothSigns bool) bool {
	n := padRows(rows) * k / blockLen
	return n <= len(s.blocks) && (!bothSigns || n <= len(s.both))
}

// padRows is how many rows there is memory for: where one is missing to a number that kernels take at once, they may read another one, of
// any contents.
func padRows(rows int) int {
	if rows == 3 || rows == 7 {
		return rows + 1
	}
	return rows
}

// Bytes is the store's size.
func (s *Store) Bytes() int { return len(s.blocks)*blockSize + len(s.both)*bothSize }

// Refresh follows the store, which may have moved when others made it grow.
func (a *Acts) Refresh() {
	a.blocks = a.store.blocks[:len(a.blocks)]
	if a.both != nil {
		a.both = a.store.both[:len(a.blocks)]
	}
}

// Store is where the rows lie.
func (a *Acts) Store() *Store { return a.store }

// NewActs makes room for rows*k values; more is made by Reset when needed. Acts that have memory of their own always have tables of both
// signs.
func NewActs(rows, k int) *Acts {
	n := rows * k / blockLen
	return &Acts{blocks: make([]block, 0, n), both: make([]both, 0, n)}
}

// Reset sets the shape: rows of k values, k a multiple of 32. Contents are undefined until Quantize fills them.
func (a *Acts) Reset(rows, k int) {
	if k%blockLen != 0 || rows < 0 {
		panic("matmul: a row of activations must be a multiple of 32 long")
	}
	n := rows * k / blockLen
	if a.store != nil {
		a.blocks = a.store.blocks
	}
	if all := padRows(rows) * k / blockLen; cap(a.blocks) < all {
		a.blocks = make([]block, all)
	}
	a.rows, a.k, a.blocks = rows, k, a.blocks[:n]
	if a.store != nil { // which gives them to those who ask
		a.both = nil
		return
	}
	if cap(a.both) < n {
		a.both = make([]both, n)
	}
	a.both = a.both[:n]
}

// Rows and K give the shape.
func (a *Acts) Rows() int { return a.rows }

// K is the number of values a row.
func (a *Acts) K() int { return a.k }

// Quantize rounds columns [k0,k1) of rows [r0,r1) of x, whose row r starts at x[r*stride]; k0 and k1 are multiples of 32.
// Calls for disjoint ranges may run at the same time. It reports whether every value was finite: blocks with others get
// a NaN or infinite scale, so that the results they enter are NaN.
func (a *Acts) Quantize(p Path, x []float32, stride, r0, r1, k0, k1 int) (finite bool) {
	if k0%blockLen != 0 || k1%blockLen != 0 || k0 < 0 || k1 > a.k || r0 < 0 || r1 > a.rows {
		panic("matmul: range of activations outside the rows")
	}
	finite = true
	if k0 >= k1 {
		return finite
	}
	for r := r0; r < r1; r++ {
		if !a.Round(p, x[r*stride+k0:r*stride+k1], r, k0) {
			finite = false
		}
	}
	return finite
}

// Round is Quantize for some columns of one row: x holds those from k0 on, a multiple of 32 of them.
func (a *Acts) Round(p Path, x []float32, r, k0 int) (finite bool) {
	at, nb := (r*a.k+k0)/blockLen, len(x)/blockLen
	if len(x)%blockLen != 0 || k0%blockLen != 0 || k0 < 0 || k0+len(x) > a.k || nb == 0 {
		panic("matmul: part of a row of activations outside the row")
	}
	finite = quantizeRow(p, a.blocks[at:at+nb], x)
	if a.both != nil {
		bothSigns(p, a.both[at:at+nb], a.blocks[at:at+nb])
	}
	return finite
}

// quantizeGeneric rounds len(out)*32 values.
func quantizeGeneric(out []block, x []float32) (finite bool) {
	const inf = 0x7f800000
	finite = true
	for b := range out {
		v := x[b*blockLen:][:blockLen]
		// The largest magnitude is found on the bits, where NaN stands above infinity.
		top := uint32(0)
		for _, f := range v {
			top = max(top, math.Float32bits(f)&^(1<<31))
		}
		if top >= inf {
			finite = false
		}
		amax := math.Float32frombits(top)
		id := float32(0)
		if amax != 0 {
			id = 127 / amax
		}
		o := &out[b]
		var s16, s32 int32
		for i, f := range v {
			y := float32(f * id)
			switch {
			case y != y:
				y = 0
			case y > 127:
				y = 127
			case y < -127:
				y = -127
			}
			q := int32(math.RoundToEven(float64(y)))
			o.q[i] = int8(q)
			s32 += q
			if i < 16 {
				s16 += q
			}
		}
		o.d = amax / 127
		o.ds = o.d * float32(s32)
		o.n32, o.n16 = -128*s32, -128*s16
	}
	return finite
}

// bothSignsGeneric makes the tables of rounded blocks.
func bothSignsGeneric(out []both, blocks []block) {
	for i := range blocks {
		for j, q := range blocks[i].q {
			out[i].q[j/8][0][j%8], out[i].q[j/8][1][j%8] = q, -q
		}
		out[i].d = blocks[i].d
	}
}

package vec

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/minfer-go/minfer/backend-cpu/internal/f32"
	"github.com/minfer-go/minfer/kvformat"
	"github.com/minfer-go/minfer/quant"
)

// Attention works on chunks of a sequence's cells. Elements of a head stand in blocks of 32; heads of other lengths are padded with zeros
// in what these kernels read and write, but for the cache itself.
const (
	Chunk = 128 // cells
	Block = 32  // elements

	// maxGroup is the number of queries that share each load of a row.
	maxGroup = 3
	// directGroups bounds the groups of queries that widen an f16 row each for itself rather than have it widened once for all.
	directGroups = 6
	// maxDirectQ8 bounds a head's length: the kernel has room for so many scales.
	maxDirectQ8 = 256
)

// PadDim is a head's length in whole blocks.
func PadDim(headDim int) int { return (headDim + Block - 1) / Block * Block }

// Rows are one head's keys or values of a chunk's cells: block b of row j starts at Mem[At+Offs[j]+b*Step].
type Rows struct {
	Mem    []byte
	At     int
	Offs   []int // of Chunk rows; those past the sequence's end name any rows
	Format kvformat.Format
	Dim    int // elements of a row
	Step   int
}

// NewRows describes the first head of rows of a cache that take size bytes. It panics if an offset leads out of mem.
func NewRows(mem []byte, offs []int, size, headDim int, f kvformat.Format) Rows {
	offs = offs[:Chunk]
	low, high := offs[0], offs[0]
	for _, o := range offs {
		low, high = min(low, o), max(high, o)
	}
	mem = mem[:len(mem):len(mem)]
	_ = mem[low : high+size]
	return Rows{Mem: mem, Offs: offs, Format: f, Dim: headDim, Step: f.Type().RowBytes(Block)}
}

// Head gives the same rows of another head.
func (r Rows) Head(h int) Rows {
	r.At += h * r.Format.Type().RowBytes(r.Dim)
	return r
}

// Direct reports whether so many queries read rows of a cache best as they stand, rather than after Widen.
func (k Kernels) Direct(queries, headDim int, f kvformat.Format) bool {
	if !k.avx2 || headDim%Block != 0 {
		return false
	}
	if f == kvformat.Q8_0 {
		return queries <= maxGroup && headDim <= maxDirectQ8
	}
	return queries <= directGroups*maxGroup
}

// wideRows is how many rows a slice has room for: 1 KB more than a chunk's, because slices whose distance is a multiple of 4 KB get in each
// other's way in the first cache.
const wideRows = Chunk + 8

// Wide is memory for a chunk's rows in float32, by slices of a block: [headDim/32][wideRows][32].
type Wide struct {
	x    []float32
	offs []int
}

// NewWide makes room for heads up to this length.
func NewWide(headDim int) *Wide {
	w := &Wide{x: make([]float32, wideRows*PadDim(headDim)), offs: make([]int, Chunk)}
	for j := range w.offs {
		w.offs[j] = j * Block * 4
	}
	return w
}

// Rows are the widened rows of heads of headDim elements.
func (w *Wide) Rows(headDim int) Rows {
	x := w.x[:PadDim(headDim)*wideRows]
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
	return Rows{Mem: mem, Offs: w.offs, Format: kvformat.F32, Dim: PadDim(headDim), Step: 4 * wideRows * Block}
}

// Widen converts rows [from,to) to float32 in w; elements past headDim become 0. Meanwhile as many bytes from Mem[next] on are asked for
// from memory.
func (k Kernels) Widen(w *Wide, r Rows, from, to, next int) {
	if from >= to {
		return
	}
	x := w.x[:PadDim(r.Dim)*wideRows][from*Block:]
	if k.avx2 && r.Dim%Block == 0 {
		f := [...]func(dst *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int){
			kvformat.F32: widenF32AVX2, kvformat.F16: widenF16AVX2, kvformat.Q8_0: widenQ8AVX2}[r.Format]
		ahead, step := r.ask(next)
		f(&x[0], &r.Mem[r.At], &r.Offs[from], to-from, r.Dim/Block, r.Step, ahead, step)
		return
	}
	for j := range to - from {
		for e := range PadDim(r.Dim) {
			v := float32(0)
			if e < r.Dim {
				v = r.at(from+j, e)
			}
			x[e/Block*wideRows*Block+j*Block+e%Block] = v
		}
	}
}

// at is element e of row j.
func (r *Rows) at(j, e int) float32 {
	block := r.Mem[r.At+r.Offs[j]+e/Block*r.Step:]
	e %= Block
	switch r.Format {
	case kvformat.F32:
		return math.Float32frombits(binary.NativeEndian.Uint32(block[4*e:]))
	case kvformat.F16:
		return quant.F16ToF32(binary.LittleEndian.Uint16(block[2*e:]))
	}
	return float32(quant.F16ToF32(binary.LittleEndian.Uint16(block)) * float32(int8(block[2+e])))
}

// ask gives the kernels' last arguments: memory that is read soon, and how far a call goes on in it with each block of a row.
func (r *Rows) ask(next int) (*byte, int) { return &r.Mem[min(next, len(r.Mem)-1)], r.Step }

// group is how many of the queries that are left share the next call: 3, but no 1 where two of 2 would do.
func group(left int) int {
	if left == 4 {
		return 2
	}
	return min(left, maxGroup)
}

// Scores computes s[i*Chunk+j] = sum_e q[i*r.Dim+e] * r[j][e] for rows j of whole blocks in [from,to) and below valid[i]; from is a multiple of 8,
// and what stands past that in s means nothing. Meanwhile as many bytes from Mem[next] on are asked for from memory.
func (k Kernels) Scores(s, q []float32, r Rows, valid []int, from, to, next int) {
	queries := len(valid)
	if queries == 0 || from >= to {
		return
	}
	s, q = s[:queries*Chunk], q[:queries*r.Dim]
	if !k.avx2 {
		scores(s, q, &r, valid, from, to)
		return
	}
	ahead, step := r.ask(next)
	for i := 0; i < queries; {
		g := group(queries - i)
		if tiles := (min(to, slices.Max(valid[i:i+g])) - from + 7) / 8; tiles > 0 {
			k.scores(r.Format)[g-1](&s[i*Chunk+from], &q[i*r.Dim], &r.Mem[r.At], &r.Offs[from], tiles, r.Dim/Block, r.Step, ahead, step)
			step = 0
		}
		i += g
	}
}

func scores(s, q []float32, r *Rows, valid []int, from, to int) {
	for i, n := range valid {
		for j := from; j < min(n, to); j++ {
			var acc [16]float32
			for e, v := range q[i*r.Dim : (i+1)*r.Dim] {
				acc[e&15] = f32.FMA(v, r.at(j, e), acc[e&15])
			}
			s[i*Chunk+j] = f32.Reduce16(&acc)
		}
	}
}

type scoresFunc = func(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int)

func (k Kernels) scores(f kvformat.Format) *[maxGroup]scoresFunc {
	if k.avx512 {
		return &scoresAVX512[f]
	}
	return &scoresAVX2[f]
}

var scoresAVX512 = [...][maxGroup]scoresFunc{
	kvformat.F32:  {scoresF32x1AVX512, scoresF32x2AVX512, scoresF32x3AVX512},
	kvformat.F16:  {scoresF16x1AVX512, scoresF16x2AVX512, scoresF16x3AVX512},
	kvformat.Q8_0: {scoresQ8x1AVX512, scoresQ8x2AVX512, scoresQ8x3AVX512},
}

var scoresAVX2 = [...][maxGroup]scoresFunc{
	kvformat.F32:  {scoresF32x1AVX2, scoresF32x2AVX2, scoresF32x3AVX2},
	kvformat.F16:  {scoresF16x1AVX2, scoresF16x2AVX2, scoresF16x3AVX2},
	kvformat.Q8_0: {scoresQ8x1AVX2, scoresQ8x2AVX2, scoresQ8x3AVX2},
}

// Soft turns the products of queries with a chunk's positions into weights: s[i*Chunk+j] = exp(s[i*Chunk+j]*scale - M) for the first valid[i] positions j,
// with M of state[i] their largest scaled score and L the sum of weights in 16 lanes. Queries without a position keep their state.
func (k Kernels) Soft(s []float32, valid []int, scale float32, state []State) {
	if len(valid) == 0 {
		return
	}
	s, state = s[:len(valid)*Chunk], state[:len(valid)]
	if k.avx2 {
		softAVX2(&s[0], &valid[0], &state[0].M, len(valid), scale)
		return
	}
	for i, n := range valid {
		if n > 0 {
			state[i] = soft(s[i*Chunk:][:n], scale)
		}
	}
}

func soft(s []float32, scale float32) State {
	for j := range s {
		s[j] *= scale
	}
	m := s[0]
	for _, v := range s {
		if v > m {
			m = v
		}
	}
	var acc [16]float32
	for j, v := range s {
		s[j] = Exp(v - m)
		acc[j&15] += s[j]
	}
	return State{m, f32.Reduce16(&acc)}
}

// Weigh adds weighted rows to outputs: o[i*r.Dim+e] = fma(p[i*Chunk+j], r[j][e], o[i*r.Dim+e]), j ascending in [from,to) and below
// valid[i]. Meanwhile as many bytes from Mem[next] on are asked for from memory.
func (k Kernels) Weigh(o, p []float32, r Rows, valid []int, from, to, next int) {
	if len(valid) == 0 || from >= to {
		return
	}
	o, p = o[:len(valid)*r.Dim], p[:len(valid)*Chunk]
	if !k.avx2 {
		weigh(o, p, &r, valid, from, to)
		return
	}
	// A block of widened rows fills half of the first cache: it stays there while all queries pass.
	blocks, f := r.Dim/Block, &weighAVX2[r.Format]
	one := 1
	if k.avx512 && blocks%2 == 0 {
		one, f = 2, &weighAVX512[r.Format]
	}
	if r.Step > Block*4 {
		blocks = one
	}
	ahead, step := r.ask(next)
	for b := 0; b < r.Dim/Block; b += blocks {
		for i := 0; i < len(valid); {
			g := group(len(valid) - i)
			weighGroup(o[i*r.Dim+b*Block:], p[i*Chunk:], &r, valid[i:i+g], b, blocks, from, to, ahead, step, f)
			i, step = i+g, 0
		}
	}
}

// weighGroup does some blocks of rows [from,to) for up to maxGroup queries; rows that not all of them see come last, one by one.
func weighGroup(o, p []float32, r *Rows, valid []int, block, blocks, from, to int, next *byte, step int, f *[maxGroup]weighFunc) {
	common := to
	for _, v := range valid {
		common = min(common, v)
	}
	src := &r.Mem[r.At+block*r.Step]
	if from < common {
		f[len(valid)-1](&o[0], 4*r.Dim, &p[from], src, &r.Offs[from], common-from, blocks, r.Step, next, step)
	}
	from = max(from, common)
	for i, v := range valid {
		if v = min(v, to); from < v {
			f[0](&o[i*r.Dim], 4*r.Dim, &p[i*Chunk+from], src, &r.Offs[from], v-from, blocks, r.Step, next, 0)
		}
	}
}

func weigh(o, p []float32, r *Rows, valid []int, from, to int) {
	for i, n := range valid {
		out := o[i*r.Dim:][:r.Dim]
		for j := from; j < min(n, to); j++ {
			w := p[i*Chunk+j]
			for e := range out {
				out[e] = f32.FMA(w, r.at(j, e), out[e])
			}
		}
	}
}

type weighFunc = func(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int)

var weighAVX512 = [...][maxGroup]weighFunc{
	kvformat.F32:  {weighF32x1AVX512, weighF32x2AVX512, weighF32x3AVX512},
	kvformat.F16:  {weighF16x1AVX512, weighF16x2AVX512, weighF16x3AVX512},
	kvformat.Q8_0: {weighQ8x1AVX512, weighQ8x2AVX512, weighQ8x3AVX512},
}

var weighAVX2 = [...][maxGroup]weighFunc{
	kvformat.F32:  {weighF32x1AVX2, weighF32x2AVX2, weighF32x3AVX2},
	kvformat.F16:  {weighF16x1AVX2, weighF16x2AVX2, weighF16x3AVX2},
	kvformat.Q8_0: {weighQ8x1AVX2, weighQ8x2AVX2, weighQ8x3AVX2},
}

// State is what attention keeps of the chunks merged so far.
type State struct{ M, L float32 }

// Merge adds a chunk's states and outputs oc to those of as many queries; outputs of all queries have the same length.
func (k Kernels) Merge(s []State, o []float32, c []State, oc []float32) {
	if len(s) == 0 {
		return
	}
	c, oc = c[:len(s)], oc[:len(o)]
	n := len(o) / len(s)
	if k.avx2 && n > 0 && n%8 == 0 {
		mergeAVX2(&s[0].M, &o[0], &c[0].M, &oc[0], n, len(s))
		return
	}
	for i := range s {
		merge(&s[i], o[i*n:][:n], c[i], oc[i*n:])
	}
}

func merge(s *State, o []float32, c State, oc []float32) {
	m := s.M
	if c.M > m {
		m = c.M
	}
	a, b := Exp(s.M-m), Exp(c.M-m)
	s.M, s.L = m, f32.FMA(c.L, b, float32(s.L*a))
	for e := range o {
		o[e] = f32.FMA(oc[e], b, float32(o[e]*a))
	}
}

// Encode writes one head's row of a KV cache.
func (k Kernels) Encode(dst []byte, x []float32, f kvformat.Format) {
	switch {
	case f == kvformat.F32 && len(x) > 0:
		copy(dst, unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x)))
	case f == kvformat.F16 && k.avx2 && len(x) > 0 && len(x)%8 == 0 && len(dst) >= 2*len(x):
		encodeF16AVX2(&dst[0], &x[0], len(x))
	default:
		f.Encode(dst, x)
	}
}

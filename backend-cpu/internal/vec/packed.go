package vec

import "github.com/minfer-go/minfer/kvformat"

// Many queries: a chunk's keys are packed so that lanes are positions, and its products add nothing across lanes.
const (
	// PackQueries is the number of queries that share each load of packed keys: they come in whole groups of it.
	PackQueries = 3
	// packTile is the number of positions side by side.
	packTile = 16
	// manyQueries is from how many on packing pays.
	manyQueries = 24
)

// Packed is memory for a chunk's keys in float32: [Chunk/16][16 partial sums, in the order they are made][headDim/16][16 positions].
type Packed struct{ x []float32 }

// NewPacked makes room for heads up to this length.
func NewPacked(headDim int) *Packed { return &Packed{make([]float32, Chunk*PadDim(headDim))} }

// Packs reports whether so many queries are multiplied by ScoresPacked rather than by Scores.
func (k Kernels) Packs(queries int) bool { return k.avx2 && !k.avx512 && queries >= manyQueries }

// Pack converts the first n rows; elements past headDim become 0.
func (k Kernels) Pack(p *Packed, r Rows, n int) {
	tiles := (n + packTile - 1) / packTile
	if tiles == 0 {
		return
	}
	padded := PadDim(r.Dim)
	x := p.x[:tiles*packTile*padded]
	if k.avx2 && r.Dim%Block == 0 {
		f := [...]func(dst *float32, src *byte, offs *int, halves, blocks, step int){
			kvformat.F32: packF32AVX2, kvformat.F16: packF16AVX2, kvformat.Q8_0: packQ8AVX2}[r.Format]
		f(&x[0], &r.Mem[r.At], &r.Offs[0], 2*tiles, r.Dim/Block, r.Step)
		return
	}
	for j := range tiles * packTile {
		for e := range padded {
			v := float32(0)
			if e < r.Dim {
				v = r.at(j, e)
			}
			sum := e&1<<3 | e&2<<1 | e&4>>1 | e&8>>3
			x[(j/packTile*padded+sum*(padded/16)+e/16)*packTile+j%packTile] = v
		}
	}
}

// ScoresPacked is Scores with packed keys of heads of headDim, for as many queries as valid has: what stands in s from valid[i] on means nothing.
// s and q have room for whole groups of PackQueries. It needs a vector path.
func (k Kernels) ScoresPacked(s, q []float32, p *Packed, headDim int, valid []int) {
	groups, padded := (len(valid)+PackQueries-1)/PackQueries, PadDim(headDim)
	s, q = s[:groups*PackQueries*Chunk], q[:groups*PackQueries*padded]
	first := 0
	for from := 0; from < Chunk; from += packTile {
		for first < groups && !reach(valid[first*PackQueries:min(len(valid), (first+1)*PackQueries)], from) {
			first++ // rows ascend: the first ones don't see so far
		}
		if first == groups {
			return
		}
		scoresPackedAVX2(&s[first*PackQueries*Chunk+from], &q[first*PackQueries*padded], &p.x[from*padded], groups-first, padded/Block)
	}
}

// reach reports whether any of the rows sees position at.
func reach(valid []int, at int) bool {
	for _, v := range valid {
		if v > at {
			return true
		}
	}
	return false
}

package kernelscuda

// Weight types by their number in GGUF files, for which there are products.
const (
	F32  = 0
	F16  = 1
	Q4_0 = 2
	Q4_1 = 3
	Q5_0 = 6
	Q5_1 = 7
	Q8_0 = 8
	Q4_K = 12
	Q5_K = 13
	Q6_K = 14
	BF16 = 30
)

// format is a weight type's geometry: elements and bytes of a block in the file, bytes of levels, head and tail of a group of 256
// weights, as cu/quant.cuh has them.
type format struct{ elements, bytes, data, head, tail int }

// groupLen is the weights of a group, chunkLen those with one activation scale, tileRows the rows of a tile.
const (
	groupLen = 256
	chunkLen = 32
	tileRows = 16
)

var formats = map[int32]format{
	F32: {elements: 1, bytes: 4}, F16: {elements: 1, bytes: 2}, BF16: {elements: 1, bytes: 2},
	Q4_0: {32, 18, 128, 16, 0}, Q4_1: {32, 20, 128, 32, 0}, Q5_0: {32, 22, 128, 48, 0}, Q5_1: {32, 24, 128, 64, 0}, Q8_0: {32, 34, 256, 16, 0},
	Q4_K: {256, 144, 128, 16, 0}, Q5_K: {256, 176, 128, 48, 0}, Q6_K: {256, 210, 128, 80, 2},
}

// formatOf checks that a type is known and rows of k weights can be of it.
func formatOf(t int32, k int) (format, error) {
	f, ok := formats[t]
	if !ok {
		return f, shape("weight type %d", t)
	}
	if k <= 0 || k%f.elements != 0 {
		return f, shape("rows of %d weights of type %d, whose blocks have %d", k, t, f.elements)
	}
	return f, nil
}

// weightBytes is the file's bytes of a weight; 0 for an unknown type.
func weightBytes(t, rows, k int32) int64 {
	f := formats[t]
	return int64(rows) * int64(k) / int64(max(f.elements, 1)) * int64(f.bytes)
}

// RawStride is the bytes from one row of k weights to the next in layout raw: the file's bytes, rounded up to 16.
func RawStride(t int32, k int) (int64, error) {
	f, err := formatOf(t, k)
	if err != nil {
		return 0, err
	}
	return (int64(k/f.elements)*int64(f.bytes) + 15) &^ 15, nil
}

// MatvecParts is how many partial sums a row of a weight [rows, k] of a quantised type is added up from, in every decode product: a function of
// the weight's shape alone (of the first one's, for stacked weights), so that a result doesn't depend on columns or layout. Two parts are a warp, and a tile of 16
// rows has parts/2 warps: as many as there are pairs of groups up to 10, else as few as read the row in equally many rounds; half
// as many where the tiles alone fill the device.
func MatvecParts(rows, k int) int {
	pairs := max(1, ceil(ceil(k, groupLen), 2))
	rounds := ceil(pairs, 10)
	if rows >= 512*tileRows {
		rounds = max(rounds, min(2, pairs))
	}
	return 2 * ceil(pairs, rounds)
}

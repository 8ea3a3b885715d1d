// Package stream reads memory in a way that some processors do faster than one stretch after the other: from eight far places at
// once, as the matrix kernels read eight rows of weights.
package stream

// streams is the number of places.
const streams = 8

// Read reads data from eight places at once, all but a rest of less than 512 bytes. It reports false, having read nothing, where
// that has no kernel.
func Read(data []byte) bool {
	if !vector {
		return false
	}
	if part := len(data) / streams &^ 63; part > 0 {
		read8(&data[0], part, part)
	}
	return true
}

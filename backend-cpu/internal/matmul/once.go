package matmul

// ReadOnce reads data once, as fast as a thread can: for a caller that keeps the time over several threads.
func ReadOnce(data []byte) {
	if n := len(data) &^ 255; n > 0 {
		readAll(data[:n])
	}
}

// PeakOnce gives the loop behind PeakInt8, and the products that one call of it adds up.
func PeakOnce(p Path) (work func(), products float64) { return peakLoop(p) }

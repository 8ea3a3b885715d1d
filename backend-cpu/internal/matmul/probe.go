package matmul

import "time"

// PeakInt8 measures how many int8 products a second one thread can add up on path p when all operands are in registers: the
// limit of prefill. The pure Go path is measured by its own inner loop. It takes about 10 ms.
func PeakInt8(p Path) float64 {
	work, products := peakLoop(p)
	return bestRate(products, work)
}

// ReadBandwidth measures the bytes a second at which one thread reads data, best of a few passes. To measure memory and not
// a cache, data must be far larger than the caches and have been
// written or mapped from a file; run it on as many threads as the figure is for, each with its own part.
func ReadBandwidth(data []byte) float64 {
	n := len(data) &^ 255
	if n == 0 {
		return 0
	}
	return bestRate(float64(n), func() { readAll(data[:n]) })
}

// bestRate is the highest rate of 8 calls.
func bestRate(amount float64, f func()) (rate float64) {
	for range 8 {
		start := time.Now()
		f()
		rate = max(rate, amount/time.Since(start).Seconds())
	}
	return rate
}

func peakGeneric() (work func(), products float64) {
	const n = 20_000
	w, x := make([]int8, blockLen), new([blockLen]int8)
	return func() {
		for range n {
			lo, hi := intDot(w, x)
			x[0] = int8(lo + hi)
		}
	}, n * blockLen
}

func readGeneric(data []byte) {
	var sum byte
	for i := 0; i < len(data); i += 64 {
		sum += data[i]
	}
	readSink = sum
}

var readSink byte

//go:build amd64 && !noasm

package matmul

func peakLoop(p Path) (work func(), products float64) {
	const n = 100_000
	switch p {
	case AVX2:
		return func() { peakAVX2(n) }, n * 10 * 32
	case AVX512:
		return func() { peakVNNI(n) }, n * 16 * 64
	}
	return peakGeneric()
}

func readAll(data []byte) {
	if Best() == Generic {
		readGeneric(data)
		return
	}
	readAVX2(&data[0], len(data))
}

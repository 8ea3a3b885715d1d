package plain

import (
	"encoding/binary"

	"github.com/minfer-go/minfer/quant"
)

// Halves widens float16 values, little-endian, exactly.
func Halves(dst []float32, src []byte) {
	n := 0
	if useAVX2 {
		if n = len(dst) &^ 7; n > 0 {
			_ = src[2*n-1]
			halfAVX2(&dst[0], &src[0], n)
		}
	}
	for i := n; i < len(dst); i++ {
		dst[i] = quant.F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

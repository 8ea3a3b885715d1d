//go:build amd64 && !noasm

package matmul

import (
	"unsafe"

	"github.com/minfer-go/minfer/quant"
)

type dotFunc func(dst *float32, stride int, w *byte, wStride int, x *float32, xStride, groups int)

// mulFloatVector takes 4 weight rows at once for a single activation row, 2 by 2 otherwise.
func mulFloatVector(_ Path, dst []float32, stride int, w Weight, x []float32, xStride, rows, o0, o1 int, s *Scratch) bool {
	if w.Cols%16 != 0 || w.Rows < 4 {
		return false
	}
	four, two := dotF32x4x1, dotF32x2x2
	switch w.Type {
	case quant.F16:
		four, two = dotF16x4x1, dotF16x2x2
	case quant.BF16:
		four, two = dotBF16x4x1, dotBF16x2x2
	}
	r := 0
	for ; r+2 <= rows; r += 2 {
		floatRows(two, s.panel.out[:4], 2, 2, dst[r*stride:], stride, w, x[r*xStride:], xStride, o0, o1)
	}
	if r < rows {
		floatRows(four, s.panel.out[:4], 4, 1, dst[r*stride:], stride, w, x[r*xStride:], xStride, o0, o1)
	}
	return true
}

// floatRows runs a kernel that takes n weight rows over the outputs [o0,o1), by way of out [tokens, n]. The last call overlaps rows before it.
func floatRows(f dotFunc, out []float32, n, tokens int, dst []float32, stride int, w Weight, x []float32, xStride, o0, o1 int) {
	rowBytes := w.Type.RowBytes(w.Cols)
	for o := o0; o < o1; o += n {
		from := min(o, w.Rows-n)

		src := (*byte)(unsafe.Pointer(&w.Data[from*rowBytes]))
		f(&out[0], 4*n, src, rowBytes, &x[0], 4*xStride, w.Cols/16)
		for t := range tokens {
			copy(dst[t*stride+o:t*stride+min(o+n, o1)], out[t*n+o-from:])
		}
	}
}

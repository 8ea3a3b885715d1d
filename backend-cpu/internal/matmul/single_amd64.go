//go:build amd64 && !noasm

package matmul

import (
	"unsafe"

	"github.com/minfer-go/minfer/quant"
)

const singleRows = 8 // weight rows that a kernel for one row of activations takes at once

type singleFunc func(dst *float32, src *byte, stride int, acts *byte, steps, ahead int, tmp *byte)

func singleOf(t quant.Type) singleFunc {
	switch t {
	case quant.Q8_0:
		return singleQ8_0
	case quant.Q4_0:
		return singleQ4_0
	case quant.Q4_1:
		return singleQ4_1
	case quant.Q5_0:
		return singleQ5_0
	case quant.Q5_1:
		return singleQ5_1
	case quant.Q4_K:
		return singleQ4_K
	case quant.Q5_K:
		return singleQ5_K
	default:
		return singleQ6_K
	}
}

// mulSingle multiplies with one row of activations: every weight is read once, straight from the file's bytes.
func (p *panel) mulSingle(f singleFunc, dst []float32, w Weight, a *Acts, o0, o1 int) {
	rowBytes, steps := w.Type.RowBytes(w.Cols), w.Cols/w.Type.BlockElems()
	acts := (*byte)(unsafe.Pointer(&a.blocks[0]))
	for o := o0; o < o1; o += singleRows {
		from, n := min(o, w.Rows-singleRows), min(singleRows, o1-o)
		to := &p.out[0]
		if from == o && n == singleRows {
			to = &dst[o]
		}
		f(to, &w.Data[from*rowBytes], rowBytes, acts, steps, singleRows*rowBytes, &p.levels[0])
		if to == &p.out[0] {
			copy(dst[o:o+n], p.out[o-from:])
		}
	}
}

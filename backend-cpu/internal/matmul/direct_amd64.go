//go:build amd64 && !noasm

package matmul

import (
	"unsafe"

	"github.com/minfer-go/minfer/quant"
)

const (
	directRows  = 8   // weight rows that a direct kernel takes at once
	streamAhead = 512 // bytes that it prefetches ahead in each of them
)

type directFunc func(dst *float32, src *byte, stride int, acts *byte, actStride, steps, ahead int, tmp *byte)

// directOf gives the kernels for 1, 2 and 4 activation rows.
func directOf(t quant.Type) *[3]directFunc {
	switch t {
	case quant.Q8_0:
		return &[...]directFunc{directQ8_0x1, directQ8_0x2, directQ8_0x4}
	case quant.Q4_0:
		return &[...]directFunc{directQ4_0x1, directQ4_0x2, directQ4_0x4}
	case quant.Q4_1:
		return &[...]directFunc{directQ4_1x1, directQ4_1x2, directQ4_1x4}
	case quant.Q5_0:
		return &[...]directFunc{directQ5_0x1, directQ5_0x2, directQ5_0x4}
	case quant.Q5_1:
		return &[...]directFunc{directQ5_1x1, directQ5_1x2, directQ5_1x4}
	case quant.Q4_K:
		return &[...]directFunc{directQ4_Kx1, directQ4_Kx2, directQ4_Kx4}
	case quant.Q5_K:
		return &[...]directFunc{directQ5_Kx1, directQ5_Kx2, directQ5_Kx4}
	default:
		return &[...]directFunc{directQ6_Kx1, directQ6_Kx2, directQ6_Kx4}
	}
}

// mulDirect multiplies with few rows of activations: every weight is read from memory once. The 8 rows of a call lie far apart, so that
// memory is read as 8 long streams: short rows side by side would end before a prefetcher knows them.
func (p *panel) mulDirect(f *[3]directFunc, dst []float32, stride int, w Weight, a *Acts, o0, o1 int) {
	rowBytes := w.Type.RowBytes(w.Cols)
	n := apart((o1-o0)/directRows, rowBytes)
	for i := range n {
		p.direct(f, w, a, o0+i, n*rowBytes)
		for t := range a.rows {
			out, to := p.sums[t*directRows:][:directRows], dst[t*stride+o0+i:]
			for l, v := range out {
				to[l*n] = v
			}
		}
	}
	for o := o0 + directRows*n; o < o1; o += directRows {
		from := min(o, w.Rows-directRows)
		p.direct(f, w, a, from, rowBytes)
		for t := range a.rows {
			copy(dst[t*stride+o:t*stride+o1], p.sums[t*directRows+o-from:(t+1)*directRows])
		}
	}
}

// direct computes the products of 8 weight rows with all activation rows.
func (p *panel) direct(f *[3]directFunc, w Weight, a *Acts, row, stride int) {
	nb, steps := a.k/blockLen, w.Cols/w.Type.BlockElems()
	src := unsafe.Pointer(&w.Data[row*w.Type.RowBytes(w.Cols)])
	for t := 0; t < a.rows; {
		size := 2
		for 1<<size > a.rows-t {
			size--
		}
		f[size](&p.sums[t*directRows], (*byte)(src), stride, (*byte)(unsafe.Pointer(&a.blocks[t*nb])), nb*blockSize, steps, streamAhead, &p.levels[0])
		t += 1 << size
	}
}

// apart is how many rows streams should lie apart: q, or a few less if 8 streams would then share the lines of the first cache.
func apart(q, rowBytes int) int {
	const page = 4096
	best, bestGap := q, -1
	for n := q; n > max(0, q-8); n-- {
		gap := page
		for l := 1; l < directRows; l++ {
			d := n * rowBytes * l % page
			gap = min(gap, d, page-d)
		}
		if gap > bestGap {
			best, bestGap = n, gap
		}
	}
	return best
}

//go:build amd64 && !noasm

package matmul

import (
	"unsafe"

	"github.com/minfer-go/minfer/quant"
)

const (
	directRows  = 8   // weight rows that a direct kernel takes at once
	spreadRows  = 8   // groups of rows whose results are brought to their places together
	streamAhead = 384 // bytes that it prefetches ahead in each of them
)

// directMax is the number of activation rows up to which direct kernels are faster than panels, which have to be written and read back.
// VNNI makes more of panels.
func directMax(p Path, t quant.Type) int {
	switch {
	case p == AVX512:
		return 1
	case t == quant.Q8_0, t == quant.Q4_0: // the types with kernels for 8 rows
		return FewRows
	}
	return 2
}

type directFunc func(dst *float32, dstStride int, src *byte, rowBytes, stride int, acts *byte, actStride, steps, ahead int, tmp *byte, calls int)

// directOf gives the kernels for 1, 2, 4 and, where there is one, 8 activation rows.
func directOf(t quant.Type) []directFunc {
	switch t {
	case quant.Q8_0:
		return directQ8_0[:]
	case quant.Q4_0:
		return directQ4_0[:]
	case quant.Q4_1:
		return directQ4_1[:]
	case quant.Q5_0:
		return directQ5_0[:]
	case quant.Q5_1:
		return directQ5_1[:]
	case quant.Q4_K:
		return directQ4_K[:]
	case quant.Q5_K:
		return directQ5_K[:]
	default:
		return directQ6_K[:]
	}
}

var (
	directQ8_0 = [...]directFunc{directQ8_0x1, directQ8_0x2, directQ8_0x4, directQ8_0x8}
	directQ4_0 = [...]directFunc{directQ4_0x1, directQ4_0x2, directQ4_0x4, directQ4_0x8}
	directQ4_1 = [...]directFunc{directQ4_1x1, directQ4_1x2, directQ4_1x4}
	directQ5_0 = [...]directFunc{directQ5_0x1, directQ5_0x2, directQ5_0x4}
	directQ5_1 = [...]directFunc{directQ5_1x1, directQ5_1x2, directQ5_1x4}
	directQ4_K = [...]directFunc{directQ4_Kx1, directQ4_Kx2, directQ4_Kx4}
	directQ5_K = [...]directFunc{directQ5_Kx1, directQ5_Kx2, directQ5_Kx4}
	directQ6_K = [...]directFunc{directQ6_Kx1, directQ6_Kx2, directQ6_Kx4}
)

// streams is the product of weights with few rows of activations.
type streams struct {
	kernels         []directFunc
	w               Weight
	a               *Acts
	rowBytes, steps int
	tmp             *byte
}

// mulDirect reads every weight from memory once. The 8 rows of a group lie far apart, so that memory is read as 8 long streams: short
// rows side by side would end before a prefetcher knows them.
func (p *panel) mulDirect(dst []float32, stride int, w Weight, a *Acts, o0, o1 int) {
	s := streams{directOf(w.Type), w, a, w.Type.RowBytes(w.Cols), w.Cols / w.Type.BlockElems(), &p.levels[0]}
	n := apart((o1-o0)/directRows, directRows, s.rowBytes)
	size := a.rows * directRows // results of a group
	for i := 0; i < n; i += spreadRows {
		m := min(spreadRows, n-i)
		s.groups(p.sums[:m*size], o0+i, n*s.rowBytes, m)
		for t := range a.rows {
			spread(dst[t*stride+o0+i:], n, p.sums[t*directRows:], size, m)
		}
	}
	for o := o0 + directRows*n; o < o1; o += directRows {
		from := min(o, w.Rows-directRows)
		s.groups(p.sums[:size], from, s.rowBytes, 1)
		for t := range a.rows {
			copy(dst[t*stride+o:t*stride+o1], p.sums[t*directRows+o-from:(t+1)*directRows])
		}
	}
}

// groups computes the products of m groups of 8 weight rows with all activation rows: out [m][rows][8]. The rows of a group lie stride bytes
// apart, the groups begin with neighbouring rows.
func (s *streams) groups(out []float32, row, stride, m int) {
	n := s.a.rows
	if size := s.largest(n); 1<<size == n {
		s.call(size, out, row, stride, 0, m)
		return
	}
	for i := range m { // a group at a time, which the first cache holds
		for t := 0; t < n; {
			size := s.largest(n - t)
			s.call(size, out[(i*n+t)*directRows:], row+i, stride, t, 1)
			t += 1 << size
		}
	}
}

// largest is the kernel for the most activation rows up to n: 1<<largest.
func (s *streams) largest(n int) (size int) {
	for size = len(s.kernels) - 1; 1<<size > n; size-- {
	}
	return size
}

// call has the kernel for 1<<size activation rows, from row t on, multiply m groups.
func (s *streams) call(size int, out []float32, row, stride, t, m int) {
	nb := s.a.k / blockLen
	acts := (*byte)(unsafe.Pointer(&s.a.blocks[t*nb]))
	_ = out[(m-1)*s.a.rows*directRows+directRows<<size-1]
	s.kernels[size](&out[0], 4*s.a.rows*directRows, &s.w.Data[row*s.rowBytes], s.rowBytes, stride, acts, nb*blockSize, s.steps, streamAhead, s.tmp, m)
}

// spread brings the results of m groups, up to spreadRows, to their places: value l of group i, at src[i*size+l], to dst[l*n+i].
func spread(dst []float32, n int, src []float32, size, m int) {
	if m == spreadRows {
		_, _ = dst[(directRows-1)*n+spreadRows-1], src[(spreadRows-1)*size+directRows-1]
		spread8(&dst[0], 4*n, &src[0], 4*size)
		return
	}
	for i := range m {
		for l, v := range src[i*size:][:directRows] {
			dst[l*n+i] = v
		}
	}
}

// apart is how many rows streams should lie apart: q, or a few less if their lines would then share sets of the first cache.
func apart(q, streams, rowBytes int) int {
	const page = 4096
	best, bestGap := q, -1
	for n := q; n > max(0, q-8); n-- {
		gap := page
		for l := 1; l < streams; l++ {
			d := n * rowBytes * l % page
			gap = min(gap, d, page-d)
		}
		if gap > bestGap {
			best, bestGap = n, gap
		}
	}
	return best
}

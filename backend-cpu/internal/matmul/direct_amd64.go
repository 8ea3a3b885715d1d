//go:build amd64 && !noasm

package matmul

import (
	"unsafe"

	"github.com/minfer-go/minfer/quant"
)

const (
	spreadRows  = 8   // groups of rows whose results are brought to their places together
	streamAhead = 384 // bytes that a direct kernel prefetches ahead in each row
)

// directMax is the number of activation rows up to which direct kernels are faster than panels, which have to be written and read back.
func directMax(p Path, t quant.Type) int {
	switch {
	case p == AVX512, t == quant.Q8_0, t == quant.Q4_0: // the types with kernels for 8 rows
		return FewRows
	}
	return 2
}

type directFunc func(dst *float32, dstStride int, src *byte, rowBytes, stride int, acts *byte, actStride, steps, ahead int, tmp *byte, calls int)

// directSet is the direct kernels of a path for a type: how many weight rows they take at once, and one kernel for each of some numbers of
// activation rows.
type directSet struct {
	rows    int
	sizes   []int
	kernels []directFunc
}

// directOf gives the kernels for a number of activation rows.
func directOf(p Path, t quant.Type, rows int) directSet {
	if p == AVX512 {
		kernels := directOf512(t)
		if s := (directSet{16, directSizes512[len(directSizes512)-len(kernels):], kernels}); rows >= s.sizes[0] {
			return s
		}
	}
	return directSet{8, directSizes[:], directOf2(t)}
}

var (
	directSizes    = [...]int{1, 2, 4, 8}
	directSizes512 = [...]int{1, 2, 3, 4, 6, 8} // the first for some types only: one row is a matter of memory
)

// directOf2 gives the AVX2 kernels of a type, up to 4 activation rows or 8.
func directOf2(t quant.Type) []directFunc {
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

func directOf512(t quant.Type) []directFunc {
	switch t {
	case quant.Q8_0:
		return directVQ8_0[:]
	case quant.Q4_0:
		return directVQ4_0[:]
	case quant.Q4_1:
		return directVQ4_1[:]
	case quant.Q5_0:
		return directVQ5_0[:]
	case quant.Q5_1:
		return directVQ5_1[:]
	case quant.Q4_K:
		return directVQ4_K[:]
	case quant.Q5_K:
		return directVQ5_K[:]
	default:
		return directVQ6_K[:]
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

	directVQ8_0 = [...]directFunc{directVQ8_0x2, directVQ8_0x3, directVQ8_0x4, directVQ8_0x6, directVQ8_0x8}
	directVQ4_0 = [...]directFunc{directVQ4_0x2, directVQ4_0x3, directVQ4_0x4, directVQ4_0x6, directVQ4_0x8}
	directVQ4_1 = [...]directFunc{directVQ4_1x2, directVQ4_1x3, directVQ4_1x4, directVQ4_1x6, directVQ4_1x8}
	directVQ5_0 = [...]directFunc{directVQ5_0x2, directVQ5_0x3, directVQ5_0x4, directVQ5_0x6, directVQ5_0x8}
	directVQ5_1 = [...]directFunc{directVQ5_1x2, directVQ5_1x3, directVQ5_1x4, directVQ5_1x6, directVQ5_1x8}
	directVQ4_K = [...]directFunc{directVQ4_Kx1, directVQ4_Kx2, directVQ4_Kx3, directVQ4_Kx4, directVQ4_Kx6, directVQ4_Kx8}
	directVQ5_K = [...]directFunc{directVQ5_Kx1, directVQ5_Kx2, directVQ5_Kx3, directVQ5_Kx4, directVQ5_Kx6, directVQ5_Kx8}
	directVQ6_K = [...]directFunc{directVQ6_Kx1, directVQ6_Kx2, directVQ6_Kx3, directVQ6_Kx4, directVQ6_Kx6, directVQ6_Kx8}
)

// streams is the product of weights with few rows of activations.
type streams struct {
	directSet
	w               Weight
	a               *Acts
	n               int // activation rows to multiply with
	rowBytes, steps int
	tmp             *byte
}

// mulDirect reads every weight from memory once. The 8 or 16 rows of a group lie far apart, so that memory is read as so many long streams:
// short rows side by side would end before a prefetcher knows them.
func (p *panel) mulDirect(path Path, dst []float32, stride int, w Weight, a *Acts, o0, o1 int) {
	s := streams{directOf(path, w.Type, a.rows), w, a, a.rows, w.Type.RowBytes(w.Cols), w.Cols / w.Type.BlockElems(), &p.levels[0]}
	if path == AVX2 { // the types that come here with so many have kernels for 4 and 8
		s.n = padRows(a.rows)
	}
	n := apart((o1-o0)/s.rows, s.rows, s.rowBytes)
	size := s.n * s.rows // results of a group
	for i := 0; i < n; i += spreadRows {
		m := min(spreadRows, n-i)
		s.groups(p.sums[:m*size], o0+i, n*s.rowBytes, m)
		for t := range a.rows {
			for l := 0; l < s.rows; l += 8 {
				spread(dst[t*stride+o0+i+l*n:], n, p.sums[t*s.rows+l:], size, m)
			}
		}
	}
	for o := o0 + s.rows*n; o < o1; o += s.rows {
		from := min(o, w.Rows-s.rows)
		s.groups(p.sums[:size], from, s.rowBytes, 1)
		for t := range a.rows {
			copy(dst[t*stride+o:t*stride+o1], p.sums[t*s.rows+o-from:(t+1)*s.rows])
		}
	}
}

// groups computes the products of m groups of weight rows with all activation rows: out [m][activation rows][weight rows]. The rows of a group
// lie stride bytes apart, the groups begin with neighbouring rows.
func (s *streams) groups(out []float32, row, stride, m int) {
	n := s.n
	if i := s.next(n); s.sizes[i] == n {
		s.call(i, out, row, stride, 0, m)
		return
	}
	for g := range m { // a group at a time, which the first cache holds
		for t := 0; t < n; {
			i := s.next(n - t)
			s.call(i, out[(g*n+t)*s.rows:], row+g, stride, t, 1)
			t += s.sizes[i]
		}
	}
}

// next is the kernel for the most of n activation rows that leaves none or enough for another.
func (s *streams) next(n int) (i int) {
	for i = len(s.kernels) - 1; s.sizes[i] > n || n-s.sizes[i] > 0 && n-s.sizes[i] < s.sizes[0]; i-- {
	}
	return i
}

// call has kernel i multiply m groups with activation rows from t on.
func (s *streams) call(i int, out []float32, row, stride, t, m int) {
	nb := s.a.k / blockLen
	acts := (*byte)(unsafe.Pointer(&s.a.blocks[t*nb : (t+s.sizes[i])*nb][0])) // which may reach into memory beyond the rows, see padRows
	_ = out[((m-1)*s.n+s.sizes[i])*s.rows-1]
	s.kernels[i](&out[0], 4*s.n*s.rows, &s.w.Data[row*s.rowBytes], s.rowBytes, stride, acts, nb*blockSize, s.steps, streamAhead, s.tmp, m)
}

// spread brings 8 results of each of m groups, up to spreadRows, to their places: value l of group i, at src[i*size+l], to dst[l*n+i].
func spread(dst []float32, n int, src []float32, size, m int) {
	const rows = 8
	if m == spreadRows {
		_, _ = dst[(rows-1)*n+spreadRows-1], src[(spreadRows-1)*size+rows-1]
		spread8(&dst[0], 4*n, &src[0], 4*size)
		return
	}
	for i := range m {
		for l, v := range src[i*size:][:rows] {
			dst[l*n+i] = v
		}
	}
}

// apart is how many rows streams should lie apart: q, or a little less if their lines would then share sets of the first cache. Rows that
// are left over are read three times as slowly as streams, so they must be few.
func apart(q, streams, rowBytes int) int {
	const page, line = 4096, 64
	best, bestGap := q, -1
	for n := q; n >= q-q/32; n-- {
		gap := page
		for l := 1; l < streams; l++ {
			d := n * rowBytes * l % page
			gap = min(gap, d, page-d)
		}
		if gap >= line {
			return n
		}
		if gap > bestGap {
			best, bestGap = n, gap
		}
	}
	return best
}

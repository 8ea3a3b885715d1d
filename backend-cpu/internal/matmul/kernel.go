package matmul

import (
	"fmt"
	"slices"

	"github.com/minfer-go/minfer/quant"
)

// Weight is a matrix of Rows rows of Cols values, row after row, as the file has it. Data needs no alignment.
type Weight struct {
	Type       quant.Type
	Rows, Cols int
	Data       []byte
}

// Supported reports whether Mul (quantised types) or MulFloat (F32, F16, BF16) takes weights of this type.
func Supported(t quant.Type) bool { return IsFloat(t) || isQuantised(t) }

// IsFloat reports whether MulFloat, not Mul, takes weights of this type.
func IsFloat(t quant.Type) bool { return t == quant.F32 || t == quant.F16 || t == quant.BF16 }

func isQuantised(t quant.Type) bool {
	switch t {
	case quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K:
		return true
	}
	return false
}

func (w Weight) check(x int) {
	if w.Cols != x {
		panic(fmt.Sprintf("matmul: weights of %d columns, activations of %d", w.Cols, x))
	}
	if need := w.Rows * w.Type.RowBytes(w.Cols); len(w.Data) < need {
		panic(fmt.Sprintf("matmul: %s weights of %dx%d need %d bytes, got %d", w.Type, w.Rows, w.Cols, need, len(w.Data)))
	}
}

// row gives the bytes of row o.
func (w Weight) row(o int) []byte {
	n := w.Type.RowBytes(w.Cols)
	return w.Data[o*n : (o+1)*n]
}

// SplitRows is the number of weight rows that kernels take at once: splits of outputs at multiples of it waste nothing.
const SplitRows = 32

// FewRows is the number of activation rows up to which Mul reads each weight once, straight from the file's bytes. It then reads the
// more like memory wants it the more outputs a call has.
const FewRows = 8

// Kernel multiplies by one path.
type Kernel struct{ path Path }

// New gives the kernels of a path; an error if this machine or build can't run it.
func New(p Path) (*Kernel, error) {
	if !slices.Contains(Available(), p) {
		return nil, fmt.Errorf("matmul: path %s isn't available here, only %v", p, Available())
	}
	return &Kernel{p}, nil
}

// Path is the path in use.
func (k *Kernel) Path() Path { return k.path }

// WantsBothSigns reports whether Mul of so many rows of activations by weights of type t needs tables of both signs in them.
func (k *Kernel) WantsBothSigns(t quant.Type, rows int) bool { return wantsBoth(k.path, t, rows) }

// Scratch is one worker's memory. The zero value is ready; it grows on first use and is then reused.
type Scratch struct {
	row   levels
	panel panel
	asked uint64
}

// Asked counts the bytes of the weights that products were called for with this scratch: all of a weight once where each of its outputs was
// computed once.
func (s *Scratch) Asked() uint64 { return s.asked }

func (s *Scratch) ask(w Weight, outputs int) { s.asked += uint64(outputs * w.Type.RowBytes(w.Cols)) }

// Mul computes dst[r*stride+o] = sum over c of w[o][c] * x[r][c] for outputs o in [o0,o1) and all rows r of acts, by the formula of
// w's type. Calls for disjoint outputs may run at the same time, each with a Scratch of its own.
// Shapes: w [Rows, Cols], acts [rows, Cols], dst [rows, ≥ Rows] with rows stride apart. It panics when they don't fit.
func (k *Kernel) Mul(dst []float32, stride int, w Weight, acts *Acts, o0, o1 int, s *Scratch) {
	w.check(acts.k)
	if !isQuantised(w.Type) {
		panic(fmt.Sprintf("matmul: Mul doesn't take %s weights", w.Type))
	}
	if o0 < 0 || o1 > w.Rows || acts.rows > 0 && o0 < o1 && len(dst) < (acts.rows-1)*stride+o1 {
		panic("matmul: outputs outside the weight's rows or dst")
	}
	if o0 >= o1 || acts.rows == 0 {
		return
	}
	s.ask(w, o1-o0)
	if k.path == Generic || !mulVector(k.path, dst, stride, w, acts, o0, o1, s) {
		mulGeneric(dst, stride, w, acts, o0, o1, s)
	}
}

// MulFloat is Mul for F32, F16 and BF16 weights and float32 activations: x [rows, Cols] with rows xStride apart.
func (k *Kernel) MulFloat(dst []float32, stride int, w Weight, x []float32, xStride, rows, o0, o1 int, s *Scratch) {
	w.check(w.Cols)
	if !IsFloat(w.Type) {
		panic(fmt.Sprintf("matmul: MulFloat doesn't take %s weights", w.Type))
	}
	if o0 < 0 || o1 > w.Rows || rows > 0 && o0 < o1 && (len(dst) < (rows-1)*stride+o1 || len(x) < (rows-1)*xStride+w.Cols) {
		panic("matmul: outputs outside the weight's rows, dst or x")
	}
	if o0 >= o1 || rows == 0 {
		return
	}
	s.ask(w, o1-o0)
	if k.path == Generic || !mulFloatVector(k.path, dst, stride, w, x, xStride, rows, o0, o1, s) {
		mulFloatGeneric(dst, stride, w, x, xStride, rows, o0, o1)
	}
}

// Package matmul multiplies activations by the weight matrices of a model, straight from the bytes of its file.
//
// Every path (pure Go, AVX2, AVX-512) computes the formulas of docs/adr/0001-one-arithmetic.md bit for bit, so results depend
// neither on the path nor on how rows and outputs are split over calls.
package matmul

import "fmt"

// Path is an instruction set that kernels are written for.
type Path uint8

// The paths, slowest first.
const (
	Generic Path = iota // pure Go
	AVX2                // AVX2, FMA, F16C
	AVX512              // AVX-512 F, BW, VL, DQ and VNNI
)

// String gives the path's name as users read it.
func (p Path) String() string {
	switch p {
	case Generic:
		return "generic"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512-vnni"
	}
	return fmt.Sprintf("path(%d)", uint8(p))
}

// Available lists the paths that this machine and this build can run, slowest first.
func Available() []Path { return append([]Path{Generic}, vectorPaths()...) }

// Best is the fastest path that this machine and this build can run.
func Best() Path {
	all := Available()
	return all[len(all)-1]
}

//go:build !amd64 || noasm

package matmul

import "github.com/minfer-go/minfer/quant"

type panel struct{}

func vectorPaths() []Path { return nil }

func quantizeRow(_ Path, out []block, x []float32) bool { return quantizeGeneric(out, x) }

func wantsBoth(Path, quant.Type, int) bool { return false }

func bothSigns(_ Path, out []both, blocks []block) { bothSignsGeneric(out, blocks) }

func mulVector(Path, []float32, int, Weight, *Acts, int, int, *Scratch) bool { return false }

func mulFloatVector(Path, []float32, int, Weight, []float32, int, int, int, int, *Scratch) bool {
	return false
}

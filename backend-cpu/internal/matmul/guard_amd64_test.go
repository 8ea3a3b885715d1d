//go:build amd64 && !noasm

package matmul

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/quant"
)

// TestGuardVectorKernels: on a path of vector instructions, products of any type and number of rows of activations are its kernels' work. A fall
// back to pure Go would have the same bits and a fiftieth of the speed.
//
// Seen failing with mulVector and mulFloatVector giving up at once.
func TestGuardVectorKernels(t *testing.T) {
	rng := rand.New(rand.NewSource(3))
	const rows, cols = SplitRows, 256
	for _, p := range vectorPaths() {
		for n := 1; n <= 2*FewRows; n++ {
			dst := make([]float32, n*rows)
			for _, typ := range quantised {
				var acts Acts
				acts.Reset(n, cols)
				require.True(t, mulVector(p, dst, rows, weights(rng, typ, rows, cols, ordinary), &acts, 0, rows, new(Scratch)), "%s %s, %d rows", p, typ, n)
			}
			for _, typ := range []quant.Type{quant.F32, quant.F16, quant.BF16} {
				require.True(t, mulFloatVector(p, dst, rows, floatWeights(rng, typ, rows, cols), make([]float32, n*cols), cols, n, 0, rows, new(Scratch)), "%s %s, %d rows", p, typ, n)
			}
		}
	}
}

package backendcpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/graph/graphtest"
)

// Every op on every path this machine has, against the reference of the op table, each row alone and in company.
func TestConformance(t *testing.T) {
	for _, path := range Paths() {
		for _, threads := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d threads", path, threads), func(t *testing.T) {
				newBackend := func() graph.Backend {
					b, err := New(Options{Threads: threads, Path: path})
					require.NoError(t, err)
					require.Equal(t, path, b.Stats().Path)
					return b
				}
				graphtest.Run(t, newBackend, graphtest.Options{RowInvariant: true, Tolerance: tolerance, Skip: func(c graphtest.Case) string {
					if c.Op == graph.OpSample {
						return "the logits are in the host's memory: engine/sample draws from them there"
					}
					return ""
				}})
			})
		}
	}
}

// tolerance allows a block of layers to round an activation to the neighbouring int8 step where the float64 reference
// falls on the other side of a tie: one step of 1/127 in one of some hundred products.
func tolerance(c graphtest.Case) float64 {
	if c.Op == graph.OpQkvBiasRopeStore || c.Op == graph.OpFusedQkvNorm {
		return 1e-3
	}
	return graphtest.DefaultTolerance(c)
}

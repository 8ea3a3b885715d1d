package backendcpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
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

func TestPathNames(t *testing.T) {
	all := []matmul.Path{matmul.Generic, matmul.AVX2, matmul.AVX512}
	for name, want := range map[string]matmul.Path{"generic": matmul.Generic, "AVX2": matmul.AVX2, "avx512-vnni": matmul.AVX512, "avx512": matmul.AVX512} {
		got, ok := findPath(name, all)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	_, ok := findPath("avx512", all[:2])
	require.False(t, ok, "it isn't there")
	_, ok = findPath("avx", all)
	require.False(t, ok)
}

// tolerance allows a block of layers to round an activation to the neighbouring int8 step where the float64 reference
// falls on the other side of a tie: one step of 1/127 in one of some hundred products.
func tolerance(c graphtest.Case) float64 {
	if c.Op == graph.OpQkvBiasRopeStore || c.Op == graph.OpFusedQkvNorm {
		return 1e-3
	}
	return graphtest.DefaultTolerance(c)
}

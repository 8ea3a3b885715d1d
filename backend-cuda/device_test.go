package backendcuda

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/graph/graphtest"
	"github.com/minfer-go/minfer/quant"
)

// onDevice makes a backend on the machine's GPU, or skips the test with the reason why there is none.
func onDevice(t testing.TB, o Options) *Backend {
	t.Helper()
	b, err := New(o)
	if errors.Is(err, ErrUnavailable) {
		t.Skipf("no GPU to test on: %v", err)
	}
	require.NoError(t, err)
	return b
}

// tolerance is graphtest's where a kernel is of the bitwise class, else what its tolerance says.
func tolerance(c graphtest.Case) float64 {
	t := graphtest.DefaultTolerance(c)
	if c.Params.Rows <= floatRows || c.Params.Rows <= decodeRows && (c.Op == graph.OpAttn || quantised(c.Type)) {
		return t
	}
	switch c.Op {
	case graph.OpMatMul, graph.OpFusedQKV, graph.OpFusedFFN, graph.OpQkvBiasRopeStore, graph.OpFusedQkvNorm, graph.OpAttn:
		if c.Op != graph.OpAttn && c.Type == quant.F32 {
			return t
		}
		return 0.02
	}
	return t
}

func TestConformance(t *testing.T) {
	for name, o := range map[string]Options{"tiles": {}, "raw": {NoTiles: true}} {
		t.Run(name, func(t *testing.T) {
			onDevice(t, o).Close()
			graphtest.Run(t, func() graph.Backend { return onDevice(t, o) }, graphtest.Options{RowInvariant: true, Tolerance: tolerance})
		})
	}
}

func BenchmarkOps(b *testing.B) {
	onDevice(b, Options{}).Close()
	graphtest.Speed(b, func() graph.Backend { return onDevice(b, Options{}) }, graphtest.SpeedOptions{})
}

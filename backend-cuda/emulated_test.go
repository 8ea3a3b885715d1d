package backendcuda

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/graph/graphtest"
	"github.com/minfer-go/minfer/kernels-cuda/kernelstest"
	"github.com/minfer-go/minfer/quant"
)

var emulated = flag.Bool("emulated", false, "run the whole op table on the emulator")

// TestEmulatedOpTable is TestConformance on machines without a device: the kernels' sources compute it on the CPU.
func TestEmulatedOpTable(t *testing.T) {
	if !*emulated {
		t.Skip("takes ten minutes: -emulated")
	}
	driver := cudart.NewDriver(kernelstest.Emulate(t, "../kernels-cuda"))
	for name, o := range map[string]Options{"tiles": {}, "raw": {NoTiles: true}} {
		o.Driver, o.Kernels, o.NoGraph = driver, kernelstest.Image, true
		t.Run(name, func(t *testing.T) {
			open := func() graph.Backend {
				b, err := New(o)
				require.NoError(t, err)
				return b
			}
			graphtest.Run(t, open, graphtest.Options{RowInvariant: true, Tolerance: tolerance})
		})
	}
}

// TestEmulatedModel runs a small model, a prompt and then token by token, and holds its logits against the reference backend's: every
// launch of a step with its operands, of decoding and of tensor cores.
func TestEmulatedModel(t *testing.T) {
	weights, build := small("m")
	rng := rand.New(rand.NewPCG(1, 2))
	data := map[string][]byte{}
	for _, w := range weights {
		vals := make([]float32, w.Shape.Elems())
		for i := range vals {
			vals[i] = float32(rng.NormFloat64()) / 8
		}
		data[w.Name] = make([]byte, w.Bytes())
		require.NoError(t, quant.Quantize(w.Type, data[w.Name], vals))
	}
	logits := func(b graph.Backend) (all [][]float32) {
		for _, w := range weights {
			require.NoError(t, b.RegisterWeight(w, data[w.Name]))
		}
		e, err := graph.NewExecutor([]graph.Backend{b}, smallKV, graph.Options{})
		require.NoError(t, err)
		at := 0
		for _, rows := range []int{20, 1, 3, 1} {
			p := smallParams(rows)
			c, err := e.Compile(p, build)
			require.NoError(t, err)
			for in := range graph.NumInputs {
				vals := make([]int32, p.InputShape(in).Elems())
				for i := range vals {
					switch in {
					case graph.InTokens:
						vals[i] = int32((at + i) * 7 % 50)
					case graph.InPositions:
						vals[i] = int32(at + i)
					case graph.InCells: // as InRuns has them
						vals[i] = int32((at + i + 30) % 64)
					case graph.InLengths:
						vals[i] = int32(at + i + 1)
					case graph.InOutputs:
						vals[i] = int32(rows - 1)
					}
				}
				switch in {
				case graph.InSeqRuns:
					vals[1] = 1
				case graph.InRuns:
					vals[0], vals[1] = 30, 34
				}
				require.NoError(t, c.SetInput(in, vals))
			}
			require.NoError(t, c.Run())
			out := make([]float32, 50)
			require.NoError(t, c.ReadOutput(0, 0, out))
			all = append(all, out)
			at += rows
		}
		require.NoError(t, e.Close())
		require.NoError(t, b.Close())
		return all
	}
	want := logits(graphtest.NewReference(graphtest.ReferenceOptions{}))
	driver := cudart.NewDriver(kernelstest.Emulate(t, "../kernels-cuda"))
	for name, o := range map[string]Options{"tiles": {}, "raw": {NoTiles: true}, "no tensor cores": {NoPrefillGEMM: true}} {
		o.Driver, o.Kernels, o.NoGraph = driver, kernelstest.Image, true
		b, err := New(o)
		require.NoError(t, err)
		tolerance := 0.02 // of the largest, after a prompt on tensor cores
		if o.NoPrefillGEMM {
			tolerance = 1e-5
		}
		for i, got := range logits(b) {
			top, off := 0.0, 0.0
			for j := range got {
				top = max(top, math.Abs(float64(want[i][j])))
				off = max(off, math.Abs(float64(got[j]-want[i][j])))
			}
			require.LessOrEqual(t, off, tolerance*top, "%s, step %d", name, i)
		}
	}
}

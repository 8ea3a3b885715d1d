package kernelscuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
)

// TestCards: on every card that `make kernels` builds for, whatever shared memory it gives a block, there is a form of every product for
// every shape, and only kernels that Why says so are left out.
func TestCards(t *testing.T) {
	for name, c := range map[string]struct{ major, minor, shared, processors int }{
		"A100":     {8, 0, 163 << 10, 108},
		"RTX 3090": {8, 6, 99 << 10, 82},
		"RTX 4090": {8, 9, 99 << 10, 128},
		"H200":     {9, 0, 227 << 10, 132},
		"RTX 5090": {12, 0, 99 << 10, 170},
		"more shared memory than any kernel asks for": {9, 0, 512 << 10, 132},
	} {
		t.Run(name, func(t *testing.T) {
			o := cudatest.Options{Attributes: map[int]int{sys.AttrComputeMajor: c.major, sys.AttrComputeMinor: c.minor,
				sys.AttrMaxSharedPerBlockOpt: c.shared, sys.AttrMaxSharedPerSM: c.shared + 1<<10, sys.AttrMultiprocessors: c.processors}}
			within(t, o, "", func(_ *cudatest.Fake, b *cudart.Bound) {
				k, err := Load(b, []byte("image"))
				require.NoError(t, err)
				for _, m := range []int32{17, 64, 512, 2048, 8192} {
					for _, n := range []int32{128, 3584, 18944, 37888, 152064} {
						for _, bf16 := range []bool{true, false} {
							r := &recorder{}
							p := &GemmParams{A: 16, B: 16, Y: 16, Scales: 16, M: m, N: n, K: 64, AStride: 64, BStride: 64, YStride: n}
							require.NoError(t, k.Gemm(r, bf16, p), "%d rows of %d", m, n)
							require.Len(t, r.cfg, 1)
							require.LessOrEqual(t, int(r.cfg[0].SharedBytes), c.shared)
						}
					}
				}
				for ty, f := range formats {
					for _, shape := range [][2]int32{{1024, 1024}, {4608, 3584}, {3584, 18944}, {5120, 27648}, {8192, 8192}, {152064, 5120}} {
						for _, n := range []int32{1, 3, 8, 9, 33, 64} {
							if f.data == 0 {
								continue
							}
							r := &recorder{}
							p := &MatvecTileParams{Segments: 1, K: shape[1], Columns: n}
							p.Type[0], p.Rows[0] = ty, shape[0]
							require.NoError(t, k.MatvecTile(r, p), "type %d, %v, %d columns", ty, shape, n)
							require.NoError(t, k.MatvecSwiglu(r, ty, &MatvecSwigluParams{Y: 16, Rows: shape[0], K: shape[1], Columns: n}), "type %d, %v, %d columns", ty, shape, n)
							for i, cfg := range r.cfg {
								require.LessOrEqual(t, int(cfg.SharedBytes), min(c.shared, max(staticLimit, table[r.info[i].ID].shared)), r.name[i])
								require.LessOrEqual(t, cfg.BlockX, uint32(640))
							}
						}
					}
				}
				for id := range NumKernels {
					if (table[id].shared <= c.shared || table[id].elastic) && table[id].only == "" {
						require.NoError(t, k.Why(id))
					}
				}
				require.NoError(t, k.Close(b))
			})
		})
	}
}

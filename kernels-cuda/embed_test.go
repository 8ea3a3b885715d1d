package kernelscuda

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGatherRows(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(9, 10))
	const n = 9
	ids := []int32{8, 0, 3, 3}
	for _, width := range []int{1, 6, 64, 1030} {
		stride := width + 3
		x := random(r, n*stride, 1)
		y := e.alloc(4 * len(ids) * width)
		require.NoError(t, e.GatherRowsF32(e, &GatherRowsParams{X: put(e, x), Ids: put(e, ids), Y: y, Rows: int32(len(ids)),
			Width: int32(width), XStride: int32(stride), YStride: int32(width)}))
		got := get[float32](e, y, len(ids)*width)
		for i, id := range ids {
			require.Equal(t, x[int(id)*stride:][:width], got[i*width:][:width])
		}
	}
}

func TestKvMove(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(11, 12))
	const cells = 40
	for _, row := range []int{2, 6, 34, 68, 136, 256} {
		for _, m := range [][3]int{{0, 1, 39}, {1, 0, 39}, {0, 20, 20}, {20, 0, 20}, {3, 10, 25}, {10, 3, 25}, {5, 5, 7}, {38, 2, 1}, {7, 8, 0}, {0, 13, 27}} {
			data := make([]byte, cells*row)
			for i := range data {
				data[i] = byte(r.Uint32())
			}
			at := e.bytes(data)
			require.NoError(t, e.KvMove(e, &KvMoveParams{Region: at, Row: int64(row), Dst: int32(m[0]), Src: int32(m[1]), Count: int32(m[2])}))
			copy(data[m[0]*row:], data[m[1]*row:(m[1]+m[2])*row])
			require.Equal(t, data, e.read(at, len(data)), "rows of %d: %v", row, m)
		}
	}
}

func TestBatchMatmul(t *testing.T) {
	e := emulate(t)
	r := rand.New(rand.NewPCG(13, 14))
	const batch, m, n, k = 2, 3, 11, 37
	a, b := random(r, batch*m*k+5, 1), random(r, batch*n*k, 1)
	y := e.alloc(4 * batch * m * n)
	require.NoError(t, e.BatchMatmulF32(e, &BatchMatmulParams{A: put(e, a), B: put(e, b), Y: y, AStride: m*k + 5, BStride: n * k, Batch: batch, M: m, N: n, K: k}))
	want := make([]float64, batch*m*n)
	for i := range want {
		for j := range k {
			want[i] += float64(a[i/(m*n)*(m*k+5)+i/n%m*k+j]) * float64(b[i/(m*n)*n*k+i%n*k+j])
		}
	}
	near(t, want, get[float32](e, y, len(want)), 1e-6)
}

package backendcuda

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

func TestFootprint(t *testing.T) {
	w := func(t quant.Type, shape ...int) *graph.Weight { return &graph.Weight{Name: "w", Type: t, Shape: shape} }
	weights := []*graph.Weight{w(quant.Q4_K, 32, 512), w(quant.Q4_K, 20, 256), w(quant.F32, 10), w(quant.F16, 3, 12), w(quant.F32, 4)}
	f, err := Options{}.Footprint(weights)
	require.NoError(t, err)
	assert.Equal(t, []PlaneSum{
		{"Q4_K", "tile16", 2, 32*2*144 + 20*144, 32*2*144 + 32*144}, // 20 rows are padded to two tiles
		{"F16", "raw", 1, 3 * 24, 3 * 32},                           // rows begin at multiples of 16 bytes
		{"F32", "raw", 2, 56, 48 + 16},
	}, f.Planes)
	raw, err := Options{NoTiles: true}.Footprint(weights)
	require.NoError(t, err)
	assert.Equal(t, f.File, raw.File)
	assert.Equal(t, PlaneSum{"Q4_K", "raw", 2, 32*2*144 + 20*144, 32*2*144 + 20*144}, raw.Planes[0])
	for _, bad := range []*graph.Weight{w(quant.IQ2_XS, 8, 256), w(quant.Q4_K, 8, 100)} {
		_, err := Options{}.Footprint([]*graph.Weight{bad})
		require.ErrorIs(t, err, graph.ErrUnsupported)
		require.ErrorContains(t, err, `"w"`)
	}
}

// What is foretold is what a device holds.
func TestFootprintIsWhatIsRegistered(t *testing.T) {
	for _, o := range []Options{{}, {NoTiles: true}} {
		f := newFake(cudatest.Options{})
		b := onFake(t, f, "", o)
		weights, _ := small("m")
		want, err := o.Footprint(weights)
		require.NoError(t, err)
		require.NoError(t, register(b, weights))
		assert.Equal(t, want.Bytes, b.Stats().WeightBytes)
		require.NoError(t, b.Close())
		clean(t, f)
	}
}

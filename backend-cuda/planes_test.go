package backendcuda

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

func TestLayoutFor(t *testing.T) {
	tiled := func(t quant.Type, cols int) bool { return t == quant.Q4_K }
	layout := func(t quant.Type, payload int64, shape ...int) (Layout, error) {
		return layoutFor(&graph.Weight{Name: "w", Type: t, Shape: shape}, payload, tiled)
	}
	for _, c := range []struct {
		t       quant.Type
		payload int64
		shape   []int
		want    Layout
	}{
		{quant.Q4_K, 3 * 144, []int{3, 256}, LayoutTile16},
		{quant.Q8_0, 3 * 34, []int{3, 32}, LayoutRaw},
		{quant.F32, 40, []int{10}, LayoutRaw},
		{quant.BF16, 2 * 10 * 2, []int{2, 10}, LayoutRaw},
	} {
		got, err := layout(c.t, c.payload, c.shape...)
		require.NoError(t, err)
		assert.Equal(t, c.want, got, "%s %v", c.t, c.shape)
	}
	// A Q4_0 payload has exactly the bytes of a Q4_K one: the type decides, the length is checked to the byte.
	got, err := layout(quant.Q4_0, 3*144, 3, 256)
	require.NoError(t, err)
	assert.Equal(t, LayoutRaw, got)
	for _, payload := range []int64{0, 3*144 - 1, 3*144 + 1, 3 * 34 * 8} {
		_, err := layout(quant.Q4_K, payload, 3, 256)
		assert.ErrorContains(t, err, `"w"`, payload)
	}
	for _, c := range []struct {
		t     quant.Type
		shape []int
	}{{quant.IQ2_XS, []int{1, 256}}, {quant.Q4_K, []int{1, 128}}, {quant.F32, nil}, {quant.F32, []int{1, 2, 3}}, {quant.F32, []int{0}}} {
		_, err := layout(c.t, 0, c.shape...)
		assert.ErrorIs(t, err, graph.ErrUnsupported, "%s %v", c.t, c.shape)
	}
}

func TestRawRowBytes(t *testing.T) {
	assert.Equal(t, int64(48), rawRowBytes(quant.Q8_0, 32), "34 bytes, padded")
	assert.Equal(t, int64(144), rawRowBytes(quant.Q4_K, 256))
	assert.Equal(t, int64(16), rawRowBytes(quant.F16, 5))
	for t2, per := range map[quant.Type]int64{quant.F16: 2, quant.BF16: 2} { // two bytes an element, no more
		assert.Equal(t, per*1024, rawRowBytes(t2, 1024), t2)
	}
}

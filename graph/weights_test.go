package graph

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/quant"
)

func TestWeights(t *testing.T) {
	var s Weights[int]
	n := &Node{Op: OpMatMul, Name: "blk.3.up"}
	w := func(model, name string) *Weight {
		return &Weight{Model: model, Name: name, Type: quant.Q8_0, Shape: Shape{4, 32}}
	}
	_, err := s.Find("cpu", n, w("a", "up"))
	require.ErrorContains(t, err, `weight "up" of model "a" isn't registered`)
	require.ErrorContains(t, err, "blk.3.up")
	for i, x := range []*Weight{w("a", "up"), w("a", "down"), w("b", "up")} {
		require.False(t, s.Has(x))
		s.Add(x, i+1)
		require.True(t, s.Has(x))
		x.Shape[0] = 5 // the caller's
	}
	got, err := s.Find("cpu", n, w("b", "up"))
	require.NoError(t, err)
	assert.Equal(t, 3, got)
	for _, other := range []*Weight{{Model: "a", Name: "up", Type: quant.Q4_0, Shape: Shape{4, 32}}, {Model: "a", Name: "up", Type: quant.Q8_0, Shape: Shape{32, 4}}} {
		_, err := s.Find("cuda", n, other)
		require.ErrorContains(t, err, `cuda: weight "up" is registered as Q8_0 [4 32], not `+other.Type.String())
	}
	kept := s.Release("a")
	slices.Sort(kept)
	assert.Equal(t, []int{1, 2}, kept)
	assert.False(t, s.Has(w("a", "down")))
	assert.True(t, s.Has(w("b", "up")))
	assert.Equal(t, []int{3}, s.ReleaseAll())
	assert.Empty(t, s.ReleaseAll())
	assert.False(t, s.Has(w("b", "up")))
}

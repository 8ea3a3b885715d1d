package graph

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/quant"
)

// What a backend refuses it refuses by name, with the reason.
func TestSupport(t *testing.T) {
	s := Support{Backend: "here", Without: []Op{OpSample}, Products: func(t quant.Type) bool { return t == quant.Q4_K || t == quant.F32 }}
	matrix := func(t quant.Type, cols int) *Weight { return &Weight{Name: "w", Type: t, Shape: Shape{8, cols}} }
	vector := &Weight{Name: "v", Type: quant.F32, Shape: Shape{8}}
	half := &Weight{Name: "v", Type: quant.F16, Shape: Shape{8}}
	kv := func(t quant.Type) *Node { return &Node{Op: OpKvcacheLoad, Type: t} }
	for _, c := range []struct {
		n    Node
		want string // "": it runs
	}{
		{Node{Op: OpMatMul, Weights: []*Weight{matrix(quant.Q4_K, 256), nil}}, ""},
		{Node{Op: OpMatMul, Weights: []*Weight{matrix(quant.Q4_K, 256), vector}}, ""},
		{Node{Op: OpMatMul, Weights: []*Weight{matrix(quant.Q4_K, 256), half}}, `weight "v" of type F16 and shape [8]: want an F32 vector`},
		{Node{Op: OpMatMul, Weights: []*Weight{matrix(quant.Q4_K, 40), nil}}, `weight "w" with rows of 40, no whole blocks of Q4_K`},
		{Node{Op: OpFusedQKV, Weights: []*Weight{matrix(quant.F32, 4), matrix(quant.F32, 4), matrix(quant.Q8_0, 32), nil, nil, nil}}, `weight "w" of type Q8_0`},
		{Node{Op: OpFusedFFN, Weights: []*Weight{matrix(quant.F32, 4), matrix(quant.Q8_0, 32)}}, `weight "w" of type Q8_0`},
		{Node{Op: OpRmsNorm, Weights: []*Weight{matrix(quant.F32, 4)}}, `weight "w" of type F32 and shape [8 4]`},
		{Node{Op: OpGetRows, Weights: []*Weight{matrix(quant.Q8_0, 32)}}, ""},
		{Node{Op: OpGetRows, Weights: []*Weight{matrix(quant.IQ2_XS, 256)}}, "a table of type IQ2_XS"},
		{Node{Op: OpGetRows}, ""},
		{Node{Op: OpKvcacheStore, Type: quant.Q8_0}, ""},
		{Node{Op: OpKvcacheStore, Type: quant.Q4_0}, "a KV cache of type Q4_0"},
		{Node{Op: OpAttn, In: []*Node{nil, kv(quant.F16), kv(quant.F32)}}, ""},
		{Node{Op: OpAttn, In: []*Node{nil, kv(quant.F16), kv(quant.BF16)}}, "a KV cache of type BF16"},
		{Node{Op: OpSample}, "this op"},
		{Node{Op: numOps}, "this op"},
	} {
		c.n.Name = "node"
		err := s.Op(&c.n)
		if c.want == "" {
			assert.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrUnsupported)
		assert.ErrorContains(t, err, `"node": here: `+c.want)
	}
}

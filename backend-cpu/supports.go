package backendcpu

import (
	"fmt"

	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
	"github.com/minfer-go/minfer/quant"
)

// SupportsOp is nil, or why the backend can't run n. Reasons wrap graph.ErrUnsupported.
func (b *Backend) SupportsOp(n *graph.Node) error {
	switch n.Op {
	case graph.OpInput, graph.OpView, graph.OpReshape, graph.OpAdd, graph.OpMul, graph.OpSilu, graph.OpSwiGLU, graph.OpScale,
		graph.OpSoftmax, graph.OpPermute, graph.OpBatchMatMul, graph.OpRoPE:
		return nil
	case graph.OpRmsNorm, graph.OpQkNorm:
		return vectors(n, n.Weights...)
	case graph.OpMatMul:
		return products(n, n.Weights[:1], n.Weights[1:])
	case graph.OpFusedQKV:
		return products(n, n.Weights[:3], n.Weights[3:])
	case graph.OpFusedFFN:
		return products(n, n.Weights, nil)
	case graph.OpGetRows:
		if len(n.Weights) > 0 && !n.Weights[0].Type.Supported() {
			return unsupported(n, "a table of type %s", n.Weights[0].Type)
		}
		return nil
	case graph.OpKvcacheStore, graph.OpKvcacheLoad:
		return cacheType(n, n.Type)
	case graph.OpAttn:
		for _, kv := range n.In[1:3] {
			if err := cacheType(n, kv.Type); err != nil {
				return err
			}
		}
		return nil
	case graph.OpQkvBiasRopeStore, graph.OpFusedQkvNorm:
		return vectors(n, n.Weights...)
	}
	return unsupported(n, "this op")
}

// SupportsFused takes every fusion whose parts it can run.
func (b *Backend) SupportsFused(n *graph.Node) bool { return b.SupportsOp(n) == nil }

func products(n *graph.Node, weights, biases []*graph.Weight) error {
	for _, w := range weights {
		switch {
		case !matmul.Supported(w.Type):
			return unsupported(n, "weight %q of type %s", w.Name, w.Type)
		case w.Shape[len(w.Shape)-1]%w.Type.BlockElems() != 0:
			return unsupported(n, "weight %q with rows of %d, no whole blocks of %s", w.Name, w.Shape[len(w.Shape)-1], w.Type)
		}
	}
	return vectors(n, biases...)
}

func vectors(n *graph.Node, weights ...*graph.Weight) error {
	for _, w := range weights {
		if w != nil && (w.Type != quant.F32 || len(w.Shape) != 1) {
			return unsupported(n, "weight %q of type %s and shape %s: want an F32 vector", w.Name, w.Type, w.Shape)
		}
	}
	return nil
}

func cacheType(n *graph.Node, t quant.Type) error {
	if _, err := kvformat.FromType(t); err != nil {
		return unsupported(n, "a KV cache of type %s", t)
	}
	return nil
}

func unsupported(n *graph.Node, format string, args ...any) error {
	return n.Errorf("cpu: %s: %w", fmt.Sprintf(format, args...), graph.ErrUnsupported)
}

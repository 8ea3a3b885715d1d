package graph

import (
	"fmt"
	"slices"

	"github.com/minfer-go/minfer/quant"
)

// Support says what a backend has code for: SupportsOp of one that runs every op but some, with norms and biases in F32 and all KV
// formats.
type Support struct {
	Backend  string                // its name, for reasons
	Without  []Op                  // ops that it doesn't run
	Products func(quant.Type) bool // types of matrices that it multiplies with
}

// Op is nil, or why the backend can't run n. Reasons wrap ErrUnsupported.
func (s Support) Op(n *Node) error {
	if n.Op >= numOps || slices.Contains(s.Without, n.Op) {
		return s.unsupported(n, "this op")
	}
	switch n.Op {
	case OpRmsNorm, OpQkNorm, OpQkvBiasRopeStore, OpFusedQkvNorm:
		return s.vectors(n, n.Weights...)
	case OpMatMul:
		return s.products(n, n.Weights[:1], n.Weights[1:])
	case OpFusedQKV:
		return s.products(n, n.Weights[:3], n.Weights[3:])
	case OpFusedFFN:
		return s.products(n, n.Weights, nil)
	case OpGetRows:
		if len(n.Weights) > 0 && !n.Weights[0].Type.Supported() {
			return s.unsupported(n, "a table of type %s", n.Weights[0].Type)
		}
	case OpKvcacheStore, OpKvcacheLoad:
		return s.cache(n, n.Type)
	case OpAttn:
		for _, kv := range n.In[1:3] {
			if err := s.cache(n, kv.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s Support) products(n *Node, weights, biases []*Weight) error {
	for _, w := range weights {
		cols := w.Shape[len(w.Shape)-1]
		switch {
		case !s.Products(w.Type):
			return s.unsupported(n, "weight %q of type %s", w.Name, w.Type)
		case cols%w.Type.BlockElems() != 0:
			return s.unsupported(n, "weight %q with rows of %d, no whole blocks of %s", w.Name, cols, w.Type)
		}
	}
	return s.vectors(n, biases...)
}

func (s Support) vectors(n *Node, weights ...*Weight) error {
	for _, w := range weights {
		if w != nil && (w.Type != quant.F32 || len(w.Shape) != 1) {
			return s.unsupported(n, "weight %q of type %s and shape %s: want an F32 vector", w.Name, w.Type, w.Shape)
		}
	}
	return nil
}

func (s Support) cache(n *Node, t quant.Type) error {
	if !kvFormat(t) {
		return s.unsupported(n, "a KV cache of type %s", t)
	}
	return nil
}

func (s Support) unsupported(n *Node, format string, args ...any) error {
	return n.Errorf("%s: %s: %w", s.Backend, fmt.Sprintf(format, args...), ErrUnsupported)
}

package backendcuda

import (
	"fmt"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// productTypes have kernels for products and lookups.
var productTypes = map[quant.Type]bool{quant.F32: true, quant.F16: true, quant.BF16: true, quant.Q4_0: true, quant.Q4_1: true,
	quant.Q5_0: true, quant.Q5_1: true, quant.Q8_0: true, quant.Q4_K: true, quant.Q5_K: true, quant.Q6_K: true}

var support = graph.Support{Backend: "cuda", Products: func(t quant.Type) bool { return productTypes[t] }}

// SupportsOp is nil, or why the backend can't run n. Reasons wrap graph.ErrUnsupported.
func (b *Backend) SupportsOp(n *graph.Node) error { return support.Op(n) }

// SupportsFused takes every fusion whose parts it can run.
func (b *Backend) SupportsFused(n *graph.Node) bool { return b.SupportsOp(n) == nil }

// Admit says whether the device takes a whole model beside rest bytes of KV cache and buffers: nil, or the first reason
// why not. It is asked before anything is loaded: a model runs on the device as a whole or not at all.
func (b *Backend) Admit(weights []*graph.Weight, rest int64) error {
	var need int64
	for _, w := range weights {
		layout, err := layoutFor(w, w.Bytes(), b.tiled)
		if err != nil {
			return err
		}
		if len(w.Shape) == 2 && !productTypes[w.Type] {
			return fmt.Errorf("backendcuda: tensor %q: no kernels for type %s: %w", w.Name, w.Type, graph.ErrUnsupported)
		}
		need += planeBytes(w, layout)
	}
	var free, total int64
	err := b.do(func(bd *cudart.Bound) (err error) { free, total, err = bd.MemInfo(); return err })
	if err != nil {
		return err
	}
	const context = 256 << 20 // kernels, scratch, staging
	if need+rest+context > free {
		return fmt.Errorf("backendcuda: %s has %d MiB free of %d; the weights take %d, KV cache and buffers %d, the rest about %d: choose a smaller context or model, or --backend cpu: %w",
			b.dev.info.Name, free>>20, total>>20, need>>20, rest>>20, context>>20, graph.ErrOutOfMemory)
	}
	return nil
}

func planeBytes(w *graph.Weight, l Layout) int64 {
	rows, cols := 1, w.Shape[len(w.Shape)-1]
	if len(w.Shape) == 2 {
		rows = w.Shape[0]
	}
	if l == LayoutTile16 {
		return tilePlanes(w.Type, rows, cols).Bytes()
	}
	return int64(rows) * rawRowBytes(w.Type, cols)
}

package backendcuda

import (
	"fmt"

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
	f, err := b.opts.Footprint(weights)
	if err != nil {
		return err
	}
	free, total, err := b.Memory()
	if err != nil {
		return err
	}
	if f.Bytes+rest+Overhead > free {
		return fmt.Errorf("backendcuda: %s has %d MiB free of %d; the weights take %d, KV cache and buffers %d, the rest about %d: choose a smaller context or model, or --backend cpu: %w",
			b.dev.info.Name, free>>20, total>>20, f.Bytes>>20, rest>>20, Overhead>>20, graph.ErrOutOfMemory)
	}
	return nil
}

package backendcpu

import (
	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/graph"
)

// support leaves OpSample out: the logits are in the host's memory, where engine/sample draws from them.
var support = graph.Support{Backend: "cpu", Without: []graph.Op{graph.OpSample}, Products: matmul.Supported}

// SupportsOp is nil, or why the backend can't run n. Reasons wrap graph.ErrUnsupported.
func (b *Backend) SupportsOp(n *graph.Node) error { return support.Op(n) }

// SupportsFused takes every fusion whose parts it can run.
func (b *Backend) SupportsFused(n *graph.Node) bool { return b.SupportsOp(n) == nil }

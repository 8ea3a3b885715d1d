package backendcuda

import (
	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

const maxHeadDim = 256

func (b *Backend) CopyCells(r graph.KVRegion, dst, src, n int) error { return nil }
func tilesOf(t quant.Type, cols int) bool                           { return false }
func tileBytes(t quant.Type, rows, cols int) int64                  { return 0 }
func tileParts(t quant.Type, rows, cols int) (int64, int64)         { return 0, 0 }
func (d *device) repack(b *cudart.Bound, s *cudart.Stream, p *plane, raw cudart.Ptr, rows, cols int, stride int64) error {
	return nil
}
func (c *compiler) tiles(n *graph.Node, w *weight, in *activations, bias cudart.Ptr, rows int32, dst, residual mat) {
}
func (c *compiler) attention(n *graph.Node)   {  }
func (c *compiler) batchMatMul(n *graph.Node) {  }

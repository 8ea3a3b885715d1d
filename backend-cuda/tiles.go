package backendcuda

import (
	"slices"
	"unsafe"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/quant"
)

// tilesOf reports whether products of a type have kernels for tiles, with rows of that many elements.
func tilesOf(t quant.Type, cols int) bool { return quantised(t) && productTypes[t] && cols%32 == 0 }

// tiled is tilesOf under the options.
func (o Options) tiled(t quant.Type, cols int) bool { return !o.NoTiles && tilesOf(t, cols) }

// tilePlanes is the geometry of a matrix in tiles. Only for types that tilesOf knows.
func tilePlanes(t quant.Type, rows, cols int) kernelscuda.Planes {
	p, err := kernelscuda.Tile16Planes(int32(t), rows, cols)
	if err != nil { // tilesOf has said yes
		panic(err)
	}
	return p
}

// parts are the addresses of a plane's areas: levels, heads and tails of tiles; the raw layout has one.
func (p *plane) parts() (data, head, tail cudart.Ptr) {
	data = p.ptr()
	if p.key.layout == LayoutRaw {
		return data, 0, 0
	}
	planes := tilePlanes(p.typ, p.shape[0], p.shape[1])
	head = data + cudart.Ptr(planes.Data)
	return data, head, head + cudart.Ptr(planes.Head)
}

// streamQueue launches at once, outside programs.
type streamQueue struct {
	b *cudart.Bound
	s *cudart.Stream
}

func (q streamQueue) Launch(k *cudart.Kernel, cfg cudart.LaunchConfig, params unsafe.Pointer, n uintptr, _ kernelscuda.KernelInfo) error {
	return q.b.Launch(q.s, k, &cfg, params, n)
}

// repack queues the move of a matrix from raw rows into tiles.
func (d *device) repack(b *cudart.Bound, s *cudart.Stream, p *plane, raw cudart.Ptr, rows, cols int, stride int64) error {
	data, head, tail := p.parts()
	return d.kernels.Repack(streamQueue{b, s}, int32(p.typ), &kernelscuda.RepackParams{W: raw, Data: data, Head: head, Tail: tail, WStride: stride,
		Rows: int32(rows), K: int32(cols)})
}

// stack queues products of one input with up to three weights in one launch, if there is a kernel for such a set.
func (c *compiler) stack(n *graph.Node, weights, biases []*graph.Weight, x, y mat) bool {
	var types []int32
	for _, w := range weights {
		r := c.weight(n, w)
		if r == nil || r.plane.key.layout != LayoutTile16 || c.b.form(int(x.rows), w.Type) != formQ8 {
			return false
		}
		types = append(types, int32(w.Type))
	}
	if !kernelscuda.Stackable(types...) {
		return false
	}
	in := c.input(n, x, formQ8)
	if c.err != nil {
		return true
	}
	p := kernelscuda.MatvecTileParams{Q8: in.vals.ptr, Records: in.extra.ptr, Segments: int32(len(weights)), K: x.width, Columns: x.rows}
	at := y.ptr
	for i, w := range weights {
		p.Data[i], p.Head[i], p.Tail[i] = c.weight(n, w).plane.parts()
		p.Bias[i], p.Type[i], p.Rows[i] = c.vector(n, biases[i]), types[i], int32(w.Shape[0])
		p.Y[i], p.YStride[i] = at, y.stride
		at += cudart.Ptr(4 * w.Shape[0])
	}
	c.queue(c.b.dev.kernels.MatvecTile(c, &p))
	return true
}

// tiles queues one product with a weight in tiles.
func (c *compiler) tiles(w *weight, in *activations, bias cudart.Ptr, rows int32, dst, residual mat) {
	p := kernelscuda.MatvecTileParams{Q8: in.vals.ptr, Records: in.extra.ptr, Segments: 1, K: int32(w.meta.Shape[1]), Columns: rows}
	p.Data[0], p.Head[0], p.Tail[0] = w.plane.parts()
	p.Bias[0], p.Type[0], p.Rows[0] = bias, int32(w.meta.Type), int32(w.meta.Shape[0])
	p.Y[0], p.YStride[0], p.Residual[0], p.ResidualStride[0] = dst.ptr, dst.stride, residual.ptr, residual.stride
	c.queue(c.b.dev.kernels.MatvecTile(c, &p))
}

// swiglu queues gate, up and their product in one launch, rounded for the product that comes next; false if there is no such
// kernel for these weights.
func (c *compiler) swiglu(n *graph.Node, x, y mat) bool {
	gate, up := c.weight(n, n.Weights[0]), c.weight(n, n.Weights[1])
	if c.err != nil {
		return true
	}
	if gate.meta.Type != up.meta.Type || c.b.form(int(x.rows), gate.meta.Type) != formQ8 ||
		slices.ContainsFunc([]*weight{gate, up}, func(w *weight) bool { return w.plane.key.layout != LayoutTile16 }) {
		return false
	}
	in := c.input(n, x, formQ8)
	if c.err != nil {
		return true
	}
	p := kernelscuda.MatvecSwigluParams{Q8: in.vals.ptr, Records: in.extra.ptr, Y: y.ptr, Rows: y.width, K: x.width, Columns: x.rows, YStride: y.stride}
	p.Data[0], p.Head[0], p.Tail[0] = gate.plane.parts()
	p.Data[1], p.Head[1], p.Tail[1] = up.plane.parts()
	p.Y8, p.YRecords = c.q8(n)
	if p.Y8 != 0 && c.only(n, formQ8) {
		p.Y = 0
	}
	c.queue(c.b.dev.kernels.MatvecSwiglu(c, int32(gate.meta.Type), &p))
	return true
}

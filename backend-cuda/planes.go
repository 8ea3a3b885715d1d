package backendcuda

import (
	"fmt"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// Layout says how a weight's bytes lie on the device.
type Layout uint8

const (
	// LayoutRaw is the file's bytes, a row after the other, each row begun at a multiple of 16 bytes.
	LayoutRaw Layout = iota
	// LayoutTile16 holds quantised matrices in tiles of 16 rows, so that a warp's loads are full vectors of 16 bytes
	// (kernels-cuda/README.md). It has as many bytes as the file, rows padded to a multiple of 16.
	LayoutTile16
)

func (l Layout) String() string {
	if l == LayoutTile16 {
		return "tile16"
	}
	return "raw"
}

// rowAlign is the alignment of raw rows: kernels load 16 bytes at a time.
const rowAlign = 16

// rawRowBytes is the distance of raw rows on the device.
func rawRowBytes(t quant.Type, cols int) int64 {
	return (int64(t.RowBytes(cols)) + rowAlign - 1) &^ (rowAlign - 1)
}

// layoutFor is the one rule of how a tensor is registered: pure, from its metadata and the exact length of its payload. tiled
// reports whether kernels exist for tiles of a type with rows of that many elements. One layout serves products, lookups and
// expansion for the tensor cores, so that no weight is on the device twice.
func layoutFor(w *graph.Weight, payload int64, tiled func(t quant.Type, cols int) bool) (Layout, error) {
	if !w.Type.Supported() {
		return 0, fmt.Errorf("backendcuda: tensor %q: type %s: %w", w.Name, w.Type, graph.ErrUnsupported)
	}
	if len(w.Shape) == 0 || len(w.Shape) > 2 || w.Shape.Elems() <= 0 || w.Shape[len(w.Shape)-1]%w.Type.BlockElems() != 0 {
		return 0, fmt.Errorf("backendcuda: tensor %q: shape %s for %s: want [n] or [rows cols] with whole blocks of %d: %w",
			w.Name, w.Shape, w.Type, w.Type.BlockElems(), graph.ErrUnsupported)
	}
	if want := w.Bytes(); payload != want {
		return 0, fmt.Errorf("backendcuda: tensor %q: %d bytes, %s of shape %s has exactly %d", w.Name, payload, w.Type, w.Shape, want)
	}
	if len(w.Shape) == 2 && tiled(w.Type, w.Shape[1]) {
		return LayoutTile16, nil
	}
	return LayoutRaw, nil
}

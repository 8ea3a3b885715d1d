package backendcuda

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// Overhead is what a backend takes on the device beside weights, KV cache and the buffers of graphs, about: kernels, scratch, staging.
const Overhead = 256 << 20

// Footprint is what weights take on a device.
type Footprint struct {
	File   int64      `json:"file_bytes"` // their bytes in the file
	Bytes  int64      `json:"bytes"`      // on the device
	Planes []PlaneSum `json:"planes"`     // by type and layout, the largest first
}

// PlaneSum is all planes of one type in one layout. What Bytes has beyond File is padding: no weight is on the device twice.
type PlaneSum struct {
	Type    string `json:"type"`
	Layout  string `json:"layout"`
	Tensors int    `json:"tensors"`
	File    int64  `json:"file_bytes"`
	Bytes   int64  `json:"bytes"`
}

// Footprint says what a model's weights take on a device with these options, or which the backend has no kernels for. It needs neither
// a device nor the weights' bytes.
func (o Options) Footprint(weights []*graph.Weight) (f Footprint, err error) {
	type key struct {
		t quant.Type
		l Layout
	}
	sums := map[key]*PlaneSum{}
	for _, w := range weights {
		layout, err := layoutFor(w, w.Bytes(), o.tiled)
		if err != nil {
			return Footprint{}, err
		}
		if len(w.Shape) == 2 && !productTypes[w.Type] {
			return Footprint{}, fmt.Errorf("backendcuda: tensor %q: no kernels for type %s: %w", w.Name, w.Type, graph.ErrUnsupported)
		}
		s := sums[key{w.Type, layout}]
		if s == nil {
			s = &PlaneSum{Type: w.Type.String(), Layout: layout.String()}
			sums[key{w.Type, layout}] = s
		}
		n := planeBytes(w, layout)
		s.Tensors++
		s.File, s.Bytes = s.File+w.Bytes(), s.Bytes+n
		f.File, f.Bytes = f.File+w.Bytes(), f.Bytes+n
	}
	for _, s := range sums {
		f.Planes = append(f.Planes, *s)
	}
	slices.SortFunc(f.Planes, func(x, y PlaneSum) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Type, y.Type), cmp.Compare(x.Layout, y.Layout))
	})
	return f, nil
}

// planeBytes is the size of a weight on the device, rows padded as its layout wants.
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

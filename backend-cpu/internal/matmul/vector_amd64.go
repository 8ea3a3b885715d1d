//go:build amd64 && !noasm

package matmul

import (
	"unsafe"

	"github.com/klauspost/cpuid/v2"

	"github.com/minfer-go/minfer/quant"
)

const (
	panelRows = 16
	recSize   = 640 // bytes of 32 columns of a panel: levels, scales, minimums; see _gen/panel.go
	tileRows  = 12  // the most activation rows that a tile takes
	maxPanels = 4
	wideCols  = 2048 // columns of a panel: 4 panels stay in a 512 KiB second-level cache
)

func vectorPaths() (paths []Path) {
	if !cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C) {
		return nil
	}
	paths = append(paths, AVX2)
	if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512VL, cpuid.AVX512DQ, cpuid.AVX512VNNI) {
		paths = append(paths, AVX512)
	}
	return paths
}

// panel is the scratch memory of the vector paths: weight rows taken apart and transposed, so that a lane is a weight row.
type panel struct {
	mem    []byte
	levels []byte                        // aligned part of mem: up to maxPanels panels
	tmp    []byte                        // aligned: accumulators of a tile
	out    [tileRows * panelRows]float32 // results of a tile that overlaps its neighbours
	sums   [FewRows * directRows]float32 // results of a direct kernel
}

func (p *panel) reserve() {
	const size = maxPanels * wideCols / blockLen * recSize
	if p.mem == nil {
		p.mem = make([]byte, size+1024+64)
		at := int(-uintptr(unsafe.Pointer(&p.mem[0])) & 63)
		p.levels, p.tmp = p.mem[at:at+size], p.mem[at+size:at+size+1024]
	}
}

type (
	unpackFunc func(dst, src *byte, stride, steps, ahead int, bias uint64)
	tileFunc   func(dst *float32, stride int, panel, acts *byte, actStride, blocks int, tmp *byte)
)

// recipe is how a path multiplies weights of a type: how rows become a panel, and the tiles by number of activation rows.
type recipe struct {
	unpack unpackFunc
	bias   uint64
	tiles  []tileFunc // by index into tileSizes
}

func recipeOf(p Path, t quant.Type) recipe {
	if p == AVX512 {
		return recipe512(t)
	}
	switch t {
	case quant.Q8_0:
		return recipe{unpackQ8_0, 0, tilesS8[:]}
	case quant.Q4_0:
		return recipe{unpackQ4_0, 0, tilesU4[:]}
	case quant.Q4_1:
		return recipe{unpackQ4_1, 0, tilesU4Min[:]}
	case quant.Q5_0:
		return recipe{unpackQ5_0, 0, tilesU5[:]}
	case quant.Q5_1:
		return recipe{unpackQ5_1, 0, tilesU5Min[:]}
	case quant.Q4_K:
		return recipe{unpackQ4_K, 0, tilesU4Min[:]}
	case quant.Q5_K:
		return recipe{unpackQ5_K, 0, tilesU5Min[:]}
	default:
		return recipe{unpackQ6_K, 0, tilesU6[:]}
	}
}

func recipe512(t quant.Type) recipe {
	rc := recipeOf(AVX2, t)
	switch {
	case hasMin(t):
		rc.tiles = tilesVMin[:]
	case t == quant.Q6_K:
		rc.tiles = tilesVHalf[:]
	default:
		rc.tiles = tilesV[:]
	}
	const each = 0x0101010101010101
	switch t { // level 128 stands for zero
	case quant.Q8_0:
		rc.bias = 128 * each
	case quant.Q4_0:
		rc.bias = (128 - 8) * each
	case quant.Q5_0:
		rc.bias = (128 - 16) * each
	case quant.Q6_K:
		rc.bias = (128 - 32) * each
	}
	return rc
}

// tileSizes are the numbers of activation rows that tiles are written for; AVX2 has the first three.
var tileSizes = [...]int{1, 2, 4, 8, tileRows}

var (
	tilesS8    = [...]tileFunc{tileS8x1, tileS8x2, tileS8x4}
	tilesU4    = [...]tileFunc{tileU4x1, tileU4x2, tileU4x4}
	tilesU5    = [...]tileFunc{tileU5x1, tileU5x2, tileU5x4}
	tilesU4Min = [...]tileFunc{tileU4Minx1, tileU4Minx2, tileU4Minx4}
	tilesU5Min = [...]tileFunc{tileU5Minx1, tileU5Minx2, tileU5Minx4}
	tilesV     = [...]tileFunc{tileVx1, tileVx2, tileVx4, tileVx8, tileVx12}
	tilesVMin  = [...]tileFunc{tileVMinx1, tileVMinx2, tileVMinx4, tileVMinx8, tileVMinx12}
	tilesVHalf = [...]tileFunc{tileVHalfx1, tileVHalfx2, tileVHalfx4, tileVHalfx8, tileVHalfx12}
	tilesU6    = [...]tileFunc{tileU6x1, tileU6x2, tileU6x4}
)

func mulVector(p Path, dst []float32, stride int, w Weight, a *Acts, o0, o1 int, s *Scratch) bool {
	if w.Rows < panelRows {
		return false
	}
	s.panel.reserve()
	if a.rows <= FewRows {
		s.panel.mulDirect(directOf(w.Type), dst, stride, w, a, o0, o1)
		return true
	}
	s.panel.mul(recipeOf(p, w.Type), dst, stride, w, a, o0, o1)
	return true
}

// mul goes through the columns in chunks whose panels stay in cache. Between chunks the sums stand in dst.
func (p *panel) mul(rc recipe, dst []float32, stride int, w Weight, a *Acts, o0, o1 int) {
	const panels, cols = maxPanels, wideCols
	rowBytes, elems, size := w.Type.RowBytes(w.Cols), w.Type.BlockElems(), w.Type.BlockBytes()
	for r := range a.rows {
		clear(dst[r*stride+o0 : r*stride+o1])
	}
	for o := o0; o < o1; o += panels * panelRows {
		n := min(o1-o, panels*panelRows)
		for c := 0; c < w.Cols; c += cols {
			width := min(cols, w.Cols-c)
			chunk := width / elems * size
			ahead := chunk // the same rows' next chunk, or the next rows' first
			if c+width == w.Cols {
				ahead = n*rowBytes - c/elems*size
			}
			for i := 0; i < n; i += panelRows {
				src := unsafe.Pointer(unsafe.SliceData(w.Data[p.first(w, o+i)*rowBytes+c/elems*size:]))
				to := unsafe.Pointer(&p.levels[i/panelRows*width/blockLen*recSize])
				rc.unpack((*byte)(to), (*byte)(src), rowBytes, width/elems, ahead, rc.bias)
				rc.unpack((*byte)(unsafe.Add(to, 32)), (*byte)(unsafe.Add(src, 8*rowBytes)), rowBytes, width/elems, ahead, rc.bias)
			}
			p.tiles(rc, dst, stride, w, a, o, n, c, width)
		}
	}
}

// first is the first row of the panel for rows from o on: the last panel of a matrix overlaps the one before.
func (p *panel) first(w Weight, o int) int { return min(o, w.Rows-panelRows) }

// tiles multiplies the panels of n outputs from o on, columns [c,c+width), with all activation rows.
func (p *panel) tiles(rc recipe, dst []float32, stride int, w Weight, a *Acts, o, n, c, width int) {
	nb := a.k / blockLen
	for r := 0; r < a.rows; {
		size := len(rc.tiles) - 1
		for tileSizes[size] > a.rows-r {
			size--
		}
		rows := tileSizes[size]
		acts := (*byte)(unsafe.Pointer(&a.blocks[r*nb+c/blockLen]))
		for i := 0; i < n; i += panelRows {
			levels := &p.levels[i/panelRows*width/blockLen*recSize]
			from, count := p.first(w, o+i), min(panelRows, n-i)
			if from == o+i && count == panelRows {
				rc.tiles[size](&dst[r*stride+from], 4*stride, levels, acts, nb*blockSize, width/blockLen, &p.tmp[0])
				continue
			}
			skip := o + i - from // outputs of the tile that belong to others
			clear(p.out[:])
			for t := range rows {
				copy(p.out[t*panelRows+skip:][:count], dst[(r+t)*stride+o+i:])
			}
			rc.tiles[size](&p.out[0], 4*panelRows, levels, acts, nb*blockSize, width/blockLen, &p.tmp[0])
			for t := range rows {
				copy(dst[(r+t)*stride+o+i:][:count], p.out[t*panelRows+skip:])
			}
		}
		r += rows
	}
}

func quantizeRow(p Path, out []block, x []float32) bool {
	if p == Generic {
		return quantizeGeneric(out, x)
	}
	return quantizeAVX2((*byte)(unsafe.Pointer(&out[0])), &x[0], len(out)) < 0x7f800000
}

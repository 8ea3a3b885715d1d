//go:build amd64 && !noasm

package matmul

import (
	"unsafe"

	"github.com/klauspost/cpuid/v2"

	"github.com/minfer-go/minfer/quant"
)

const (
	panelRows = 16
	recSize   = 640  // bytes of 32 columns of a panel: levels, scales, minimums; see _gen/panel.go
	wideSize  = 1088 // likewise of one with levels of 16 bits
	wideAct   = 80   // bytes of an activation block of 16 bits
	tileRows  = 12   // the most activation rows that a tile takes
	wideRows  = 4    // likewise one of 16 bits
	thinCols  = 512  // columns of a panel for few activation rows: it stays near the first-level cache
	maxPanels = 8    // that activations pass at a time; fewer of wide ones
	wideCols  = 2048 // columns of a panel: 4 panels of 16 bits stay in a 512 KiB second-level cache
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
	levels []byte                                    // aligned part of mem: up to maxPanels panels
	tmp    []byte                                    // aligned: accumulators of a tile
	wide   []byte                                    // aligned: activations of a tile, of 16 bits
	out    [tileRows * panelRows]float32             // results of a tile that overlaps its neighbours
	sums   [spreadRows * FewRows * panelRows]float32 // results of direct kernels
}

func (p *panel) reserve() {
	const (
		size = 4 * wideCols / blockLen * wideSize
		wide = wideRows * wideCols / blockLen * wideAct
	)
	if p.mem == nil {
		p.mem = make([]byte, size+wide+1024+64)
		rest := p.mem[-uintptr(unsafe.Pointer(&p.mem[0]))&63:]
		p.levels, p.wide, p.tmp = rest[:size], rest[size:size+wide], rest[size+wide:size+wide+1024]
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
	wide   bool       // levels and activations of 16 bits
}

func (rc *recipe) recSize() int {
	if rc.wide {
		return wideSize
	}
	return recSize
}

func recipeOf(p Path, t quant.Type) recipe {
	if p == AVX512 {
		return recipe512(t)
	}
	switch t {
	case quant.Q8_0:
		return recipe{unpack: unpackWideQ8_0, tiles: tilesS16[:], wide: true}
	case quant.Q4_0:
		return recipe{unpack: unpackQ4_0, tiles: tilesU4[:]}
	case quant.Q4_1:
		return recipe{unpack: unpackQ4_1, tiles: tilesU4Min[:]}
	case quant.Q5_0:
		return recipe{unpack: unpackQ5_0, tiles: tilesU5[:]}
	case quant.Q5_1:
		return recipe{unpack: unpackQ5_1, tiles: tilesU5Min[:]}
	case quant.Q4_K:
		return recipe{unpack: unpackQ4_K, tiles: tilesU4Min[:]}
	case quant.Q5_K:
		return recipe{unpack: unpackQ5_K, tiles: tilesU5Min[:]}
	default:
		return recipe{unpack: unpackQ6_K, tiles: tilesU6[:]}
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
		rc.unpack, rc.wide, rc.bias = unpackQ8_0, false, 128*each
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
	tilesS16   = [...]tileFunc{tileS16x1, tileS16x2, tileS16x4}
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
	if a.rows <= directMax(p, w.Type) {
		s.panel.mulDirect(dst, stride, w, a, o0, o1)
		return true
	}
	rc := recipeOf(p, w.Type)
	if a.rows <= FewRows { // which is no more than tileRows
		o0 = s.panel.mulStreams(rc, dst, stride, w, a, o0, o1)
	}
	if o0 < o1 {
		s.panel.mul(rc, dst, stride, w, a, o0, o1)
	}
	return true
}

// mul goes through the columns in chunks whose panels stay in cache. Between chunks the sums stand in dst.
func (p *panel) mul(rc recipe, dst []float32, stride int, w Weight, a *Acts, o0, o1 int) {
	cols := min(wideCols, w.Cols)
	panels := min(len(p.levels)/(cols/blockLen*rc.recSize()), maxPanels)
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
				to := unsafe.Pointer(&p.levels[i/panelRows*width/blockLen*rc.recSize()])
				rc.unpack((*byte)(to), (*byte)(src), rowBytes, width/elems, ahead, rc.bias)
				rc.unpack((*byte)(unsafe.Add(to, 32)), (*byte)(unsafe.Add(src, 8*rowBytes)), rowBytes, width/elems, ahead, rc.bias)
			}
			p.tiles(rc, dst, stride, w, a, o, n, c, width)
		}
	}
}

// mulStreams is mul for so few rows of activations that weights come from memory at its speed: the 16 rows of a panel lie far apart, see
// mulDirect. It returns the first output that it has left.
func (p *panel) mulStreams(rc recipe, dst []float32, stride int, w Weight, a *Acts, o0, o1 int) int {
	rowBytes, elems, size := w.Type.RowBytes(w.Cols), w.Type.BlockElems(), w.Type.BlockBytes()
	n := apart((o1-o0)/panelRows, panelRows, rowBytes)
	count := a.rows * panelRows // results of a panel
	for i := range n {
		out := p.sums[i%spreadRows*count:][:count]
		clear(out)
		for c := 0; c < w.Cols; c += thinCols {
			width := min(thinCols, w.Cols-c)
			chunk := width / elems * size // a row's next one, or the next row's first, is prefetched
			src := unsafe.Pointer(unsafe.SliceData(w.Data[(o0+i)*rowBytes+c/elems*size:]))
			to := unsafe.Pointer(&p.levels[0])
			rc.unpack((*byte)(to), (*byte)(src), n*rowBytes, width/elems, chunk, rc.bias)
			rc.unpack((*byte)(unsafe.Add(to, 32)), (*byte)(unsafe.Add(src, 8*n*rowBytes)), n*rowBytes, width/elems, chunk, rc.bias)
			for r := 0; r < a.rows; {
				size, acts, actStride := p.tile(rc, a, r, c, width)
				rc.tiles[size](&out[r*panelRows], 4*panelRows, (*byte)(to), acts, actStride, width/blockLen, &p.tmp[0])
				r += tileSizes[size]
			}
		}
		if m := i%spreadRows + 1; m == spreadRows || i == n-1 {
			for t := range a.rows {
				to := dst[t*stride+o0+i+1-m:]
				spread(to, n, p.sums[t*panelRows:], count, m)
				spread(to[directRows*n:], n, p.sums[t*panelRows+directRows:], count, m)
			}
		}
	}
	return o0 + n*panelRows
}

// tile gives the size (by index) of the tile that begins at activation row r, and its activations for columns [c,c+width).
func (p *panel) tile(rc recipe, a *Acts, r, c, width int) (size int, acts *byte, actStride int) {
	nb := a.k / blockLen
	for size = len(rc.tiles) - 1; tileSizes[size] > a.rows-r; size-- {
	}
	if !rc.wide {
		return size, (*byte)(unsafe.Pointer(&a.blocks[r*nb+c/blockLen])), nb * blockSize
	}
	actStride = width / blockLen * wideAct
	for t := range tileSizes[size] {
		widenActs(&p.wide[t*actStride], (*byte)(unsafe.Pointer(&a.blocks[(r+t)*nb+c/blockLen])), width/blockLen)
	}
	return size, &p.wide[0], actStride
}

// first is the first row of the panel for rows from o on: the last panel of a matrix overlaps the one before.
func (p *panel) first(w Weight, o int) int { return min(o, w.Rows-panelRows) }

// tiles multiplies the panels of n outputs from o on, columns [c,c+width), with all activation rows.
func (p *panel) tiles(rc recipe, dst []float32, stride int, w Weight, a *Acts, o, n, c, width int) {
	for r := 0; r < a.rows; {
		size, acts, actStride := p.tile(rc, a, r, c, width)
		rows := tileSizes[size]
		for i := 0; i < n; i += panelRows {
			levels := &p.levels[i/panelRows*width/blockLen*rc.recSize()]
			from, count := p.first(w, o+i), min(panelRows, n-i)
			if from == o+i && count == panelRows {
				rc.tiles[size](&dst[r*stride+from], 4*stride, levels, acts, actStride, width/blockLen, &p.tmp[0])
				continue
			}
			skip := o + i - from // outputs of the tile that belong to others
			clear(p.out[:])
			for t := range rows {
				copy(p.out[t*panelRows+skip:][:count], dst[(r+t)*stride+o+i:])
			}
			rc.tiles[size](&p.out[0], 4*panelRows, levels, acts, actStride, width/blockLen, &p.tmp[0])
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

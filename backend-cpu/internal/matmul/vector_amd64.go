//go:build amd64 && !noasm

package matmul

import (
	"unsafe"

	"github.com/klauspost/cpuid/v2"

	"github.com/minfer-go/minfer/quant"
)

const (
	panelRows  = 16
	recSize    = 640  // bytes of 32 columns of a panel: levels, scales, minimums; see _gen/panel.go
	signedSize = 1088 // likewise of one of magnitudes and places
	pairRows   = 6    // activation rows that a tile of two panels takes
	tileRows   = 12   // the most activation rows that a tile takes
	thinCols   = 512  // columns of a panel for few activation rows
	fatCols    = 1024 // for many: it stays in a 32 KiB first-level cache, beside the activations that pass (a signed one just doesn't)
	pairCols   = 768  // likewise of one of two: processors with VNNI have 48 KiB
	maxPanels  = 8    // that are unpacked at a time
	passRows   = 48   // activation rows that pass them at a time: all of it stays in a 512 KiB second-level cache
	tmpSize    = 1536 // bytes that a tile keeps its sums in
	levelsSize = maxPanels * fatCols / blockLen * max(recSize, signedSize)
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
	out    [passRows * panelRows]float32             // results of a panel that overlaps its neighbour
	sums   [spreadRows * FewRows * panelRows]float32 // results of direct kernels
}

func (p *panel) reserve() {
	if p.mem == nil {
		p.mem = make([]byte, levelsSize+tmpSize+64)
		rest := p.mem[-uintptr(unsafe.Pointer(&p.mem[0]))&63:]
		p.levels, p.tmp = rest[:levelsSize], rest[levelsSize:levelsSize+tmpSize]
	}
}

type (
	unpackFunc func(dst, src *byte, stride, steps, ahead int, bias uint64)
	// tileFunc takes times as many activation rows as the tile is written for.
	tileFunc func(dst *float32, stride int, panel, acts *byte, actStride, blocks, times, fresh int, tmp *byte)
)

// recipe is how a path multiplies weights of a type: how rows become a panel, and the tiles by number of activation rows.
type recipe struct {
	unpack unpackFunc
	bias   uint64
	tiles  []tileFunc // by index into tileSizes
	pair   tileFunc   // of pairRows activation rows and two panels side by side, or nil
	quad   tileFunc   // likewise of four panels
	signed bool       // panels of magnitudes and places: see bothSigns
}

func (rc *recipe) recSize() int {
	if rc.signed {
		return signedSize
	}
	return recSize
}

// cols is the number of columns of a panel: cols in about equal parts that fit the first-level cache.
func (rc *recipe) cols(cols, elems int) int {
	most := fatCols
	if rc.pair != nil {
		most = pairCols
	}
	parts := (cols + most - 1) / most
	return ((cols+parts-1)/parts + elems - 1) / elems * elems
}

func recipeOf(p Path, t quant.Type) recipe {
	if p == AVX512 {
		return recipe512(t)
	}
	switch t {
	case quant.Q8_0:
		return recipe{unpack: unpackSignedQ8_0, tiles: tilesS8[:], signed: true}
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
		rc.tiles, rc.pair, rc.quad = tilesVMin[:], tileVMinPair, tileVMinQuad
	case t == quant.Q6_K:
		rc.tiles, rc.pair, rc.quad = tilesVHalf[:], tileVHalfPair, tileVHalfQuad
	default:
		rc.tiles, rc.pair, rc.quad = tilesV[:], tileVPair, tileVQuad
	}
	const each = 0x0101010101010101
	switch t { // level 128 stands for zero
	case quant.Q8_0:
		rc.unpack, rc.signed, rc.bias = unpackQ8_0, false, 128*each
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
	tilesU6    = [...]tileFunc{tileU6x1, tileU6x2, tileU6x4}
	tilesV     = [...]tileFunc{tileVx1, tileVx2, tileVx4, tileVx8, tileVx12}
	tilesVMin  = [...]tileFunc{tileVMinx1, tileVMinx2, tileVMinx4, tileVMinx8, tileVMinx12}
	tilesVHalf = [...]tileFunc{tileVHalfx1, tileVHalfx2, tileVHalfx4, tileVHalfx8, tileVHalfx12}
)

func mulVector(p Path, dst []float32, stride int, w Weight, a *Acts, o0, o1 int, s *Scratch) bool {
	if w.Rows < panelRows {
		return false
	}
	s.panel.reserve()
	if a.rows <= directMax(p, w.Type) {
		s.panel.mulDirect(p, dst, stride, w, a, o0, o1)
		return true
	}
	rc := recipeOf(p, w.Type)
	if rc.signed && a.both == nil {
		panic("matmul: activations without tables of both signs")
	}
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
	rowBytes, elems, size := w.Type.RowBytes(w.Cols), w.Type.BlockElems(), w.Type.BlockBytes()
	cols := rc.cols(w.Cols, elems)
	for o := o0; o < o1; o += maxPanels * panelRows {
		n := min(o1-o, maxPanels*panelRows)
		for c := 0; c < w.Cols; c += cols {
			width := min(cols, w.Cols-c)
			chunk := width / elems * size
			ahead := chunk // the same rows' next chunk, or the next rows' first
			if c+width == w.Cols {
				ahead = n*rowBytes - c/elems*size
			}
			for i := 0; i < n; i += panelRows {
				src := unsafe.Pointer(unsafe.SliceData(w.Data[p.first(w, o+i)*rowBytes+c/elems*size:]))
				to := unsafe.Pointer(p.at(rc, i, width))
				rc.unpack((*byte)(to), (*byte)(src), rowBytes, width/elems, ahead, rc.bias)
				rc.unpack((*byte)(unsafe.Add(to, 32)), (*byte)(unsafe.Add(src, 8*rowBytes)), rowBytes, width/elems, ahead, rc.bias)
			}
			for r := 0; r < a.rows; r += passRows {
				p.panels(rc, dst, stride, w, a, r, min(passRows, a.rows-r), o, n, c, width)
			}
		}
	}
}

// panels multiplies the panels of n outputs from o on, columns [c,c+width), with m activation rows from r on.
func (p *panel) panels(rc recipe, dst []float32, stride int, w Weight, a *Acts, r, m, o, n, c, width int) {
	for i := 0; i < n; {
		tile, count, done := rc.pair, 1, 0
		switch {
		case rc.pair == nil:
		case i+4*panelRows <= n:
			tile, count, done = rc.quad, 4, m-m%pairRows
		case i+2*panelRows <= n:
			count, done = 2, m-m%pairRows
		}
		if done > 0 {
			p.call(tile, false, dst[r*stride+o+i:], stride, a, r, done/pairRows, p.at(rc, i, width), c, width)
		}
		for range count {
			if done < m {
				p.pass(rc, dst[(r+done)*stride:], stride, w, a, r+done, m-done, o+i, min(panelRows, n-i), p.at(rc, i, width), c, width)
			}
			i += panelRows
		}
	}
}

// at is the place of the panel of a call's outputs from i on.
func (p *panel) at(rc recipe, i, width int) *byte {
	return &p.levels[i/panelRows*width/blockLen*rc.recSize()]
}

// mulStreams is mul for so few rows of activations that weights come from memory at its speed: the 16 rows of a panel lie far apart, see
// mulDirect. It returns the first output that it has left.
func (p *panel) mulStreams(rc recipe, dst []float32, stride int, w Weight, a *Acts, o0, o1 int) int {
	rowBytes, elems, size := w.Type.RowBytes(w.Cols), w.Type.BlockElems(), w.Type.BlockBytes()
	n := apart((o1-o0)/panelRows, panelRows, rowBytes)
	count := a.rows * panelRows // results of a panel
	for i := range n {
		out := p.sums[i%spreadRows*count:][:count]
		for c := 0; c < w.Cols; c += thinCols {
			width := min(thinCols, w.Cols-c)
			chunk := width / elems * size // a row's next one, or the next row's first, is prefetched
			src := unsafe.Pointer(unsafe.SliceData(w.Data[(o0+i)*rowBytes+c/elems*size:]))
			to := unsafe.Pointer(&p.levels[0])
			rc.unpack((*byte)(to), (*byte)(src), n*rowBytes, width/elems, chunk, rc.bias)
			rc.unpack((*byte)(unsafe.Add(to, 32)), (*byte)(unsafe.Add(src, 8*n*rowBytes)), n*rowBytes, width/elems, chunk, rc.bias)
			p.rows(rc, out, panelRows, a, 0, a.rows, (*byte)(to), c, width)
		}
		if m := i%spreadRows + 1; m == spreadRows || i == n-1 {
			for t := range a.rows {
				to := dst[t*stride+o0+i+1-m:]
				spread(to, n, p.sums[t*panelRows:], count, m)
				spread(to[8*n:], n, p.sums[t*panelRows+8:], count, m)
			}
		}
	}
	return o0 + n*panelRows
}

// first is the first row of the panel for rows from o on: the last panel of a matrix overlaps the one before.
func (p *panel) first(w Weight, o int) int { return min(o, w.Rows-panelRows) }

// pass multiplies the panel of count outputs from o on, columns [c,c+width), with n activation rows from r on, whose results begin at dst.
func (p *panel) pass(rc recipe, dst []float32, stride int, w Weight, a *Acts, r, n, o, count int, levels *byte, c, width int) {
	from := p.first(w, o)
	if from == o && count == panelRows {
		p.rows(rc, dst[o:], stride, a, r, n, levels, c, width)
		return
	}
	skip := o - from // outputs of the panel that belong to others
	if c > 0 {
		for t := range n {
			copy(p.out[t*panelRows+skip:][:count], dst[t*stride+o:])
		}
	}
	p.rows(rc, p.out[:], panelRows, a, r, n, levels, c, width)
	for t := range n {
		copy(dst[t*stride+o:][:count], p.out[t*panelRows+skip:])
	}
}

// rows multiplies a panel with n activation rows from r on.
func (p *panel) rows(rc recipe, dst []float32, stride int, a *Acts, r, n int, levels *byte, c, width int) {
	at := 0
	for i := len(rc.tiles) - 1; at < n; i-- {
		if times := (n - at) / tileSizes[i]; times > 0 {
			p.call(rc.tiles[i], rc.signed, dst[at*stride:], stride, a, r+at, times, levels, c, width)
			at += times * tileSizes[i]
		}
	}
}

// call runs a tile for activation rows from r on. Columns from 0 on set dst, others add to it.
func (p *panel) call(tile tileFunc, signed bool, dst []float32, stride int, a *Acts, r, times int, levels *byte, c, width int) {
	nb, fresh, size := a.k/blockLen, 0, blockSize
	if c == 0 {
		fresh = 1
	}
	acts := unsafe.Pointer(&a.blocks[r*nb+c/blockLen])
	if signed {
		acts, size = unsafe.Pointer(&a.both[r*nb+c/blockLen]), bothSize
	}
	tile(&dst[0], 4*stride, levels, (*byte)(acts), nb*size, width/blockLen, times, fresh, &p.tmp[0])
}

// wantsBoth reports whether products of so many rows of activations by weights of type t read them from tables of both signs.
func wantsBoth(p Path, t quant.Type, rows int) bool {
	return p == AVX2 && rows > directMax(p, t) && recipeOf(p, t).signed
}

func bothSigns(p Path, out []both, blocks []block) {
	if p == Generic {
		bothSignsGeneric(out, blocks)
		return
	}
	bothSignsAVX2((*byte)(unsafe.Pointer(&out[0])), (*byte)(unsafe.Pointer(&blocks[0])), len(blocks))
}

func quantizeRow(p Path, out []block, x []float32) bool {
	if p == Generic {
		return quantizeGeneric(out, x)
	}
	return quantizeAVX2((*byte)(unsafe.Pointer(&out[0])), &x[0], len(out)) < 0x7f800000
}

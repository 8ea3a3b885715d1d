// Package attn runs attention over a paged KV cache: which worker does which chunks of which rows, and in what order the
// parts are merged (docs/adr/0001-one-arithmetic.md, Attention). Results don't depend on the split.
package attn

import "github.com/minfer-go/minfer/backend-cpu/internal/vec"

// Inputs are the step's run tables and row data (graph.Params' inputs of those names). Rows of length 0 are padding.
type Inputs struct {
	Lengths, Seqs, SeqRuns, Runs []int32
}

// block is a range of consecutive rows of one sequence: they share the conversion of a chunk to float32.
type block struct {
	row, rows int
	seq       int
	length    int // of the longest row
}

// Plan says how the rows of one step are cut into blocks. It is rebuilt each step, without allocation, and serves all layers.
type Plan struct {
	in      Inputs
	maxRows int // of a block
	blocks  []block
	chunks  int    // of the longest row
	builds  uint64 // 32 bits: which build this is
	Cells   int64  // cells that the blocks read, each once a block
}

// NewPlan makes a plan for steps with these inputs (read anew by each Build) and rows of so many query heads a KV head.
func NewPlan(in Inputs, group int) *Plan {
	return &Plan{in: in, maxRows: max(1, blockQueries/group), blocks: make([]block, 0, len(in.Lengths))}
}

// blockQueries bounds the query heads of a block and KV head: enough to pay for the conversion of a chunk, few enough
// for their scores to stay in the second-level cache.
const blockQueries = 128

// Build cuts the rows into blocks.
func (p *Plan) Build() {
	p.blocks, p.chunks, p.Cells, p.builds = p.blocks[:0], 0, 0, uint64(uint32(p.builds)+1)
	for r, n := range p.in.Lengths {
		length, seq := int(n), int(p.in.Seqs[r])
		if length <= 0 {
			continue
		}
		last := len(p.blocks) - 1
		if last >= 0 && p.blocks[last].seq == seq && p.blocks[last].row+p.blocks[last].rows == r && p.blocks[last].rows < p.maxRows {
			p.blocks[last].rows++
			p.blocks[last].length = max(p.blocks[last].length, length)
		} else {
			p.blocks = append(p.blocks, block{row: r, rows: 1, seq: seq, length: length})
		}
		p.chunks = max(p.chunks, chunksOf(length))
	}
	for i := range p.blocks {
		p.Cells += int64(p.blocks[i].length)
	}
}

// prompt reports whether the rows begin with a full block, of which a worker does one KV head at a time.
func (p *Plan) prompt() bool {
	return p.maxRows > 1 && len(p.blocks) > 0 && p.blocks[0].rows == p.maxRows
}

func chunksOf(length int) int { return (length + vec.Chunk - 1) / vec.Chunk }

// offsets finds the bytes of n cells of a sequence from position first on: offs[j] = cell(first+j)*rowBytes + at.
func (p *Plan) offsets(offs []int, seq, first, n, rowBytes, at int) {
	run := int(p.in.SeqRuns[2*seq])
	for skip := first; n > 0; run++ {
		cell, cells := int(p.in.Runs[2*run]), int(p.in.Runs[2*run+1])
		if skip >= cells {
			skip -= cells
			continue
		}
		cell, cells = cell+skip, min(cells-skip, n)
		skip = 0
		for j := range cells {
			offs[j] = (cell+j)*rowBytes + at
		}
		offs, n = offs[cells:], n-cells
	}
}

package graph

import (
	"fmt"
	"math"
)

// inputs holds a compiled graph's step inputs on the host until a run brings them to the backends.
type inputs struct {
	vals  [NumInputs][]int32 // nil: the graph has no such input
	max   [NumInputs]int32   // largest value allowed
	set   [NumInputs]bool
	dirty [NumInputs]bool
	dst   [NumInputs][]inputDst
	cells []int32 // scratch: cells in all of each sequence
}

type inputDst struct {
	backend int
	buffer  Buffer
	mem     []byte // where the host may write; nil else
}

func (in *inputs) init(c *Compiled) {
	p := c.params
	for _, n := range c.graph.Nodes {
		if n.Op != OpInput {
			continue
		}
		i := n.Attr.(InputAttr).Input
		in.vals[i] = make([]int32, n.Shape.Elems())
		in.max[i] = math.MaxInt32
		for b := range c.plan.At {
			if s := c.plan.At[b][n.ID]; s >= 0 {
				in.dst[i] = append(in.dst[i], inputDst{b, c.buffers[s], hostBytes(c.buffers[s])})
			}
		}
	}
	in.max[InSeqs] = int32(p.Seqs - 1)
	in.max[InLengths] = int32(p.Cells)
	in.max[InCells] = int32(p.Cells - 1)
	in.max[InOutputs] = int32(p.Rows - 1)
	for _, n := range c.graph.Nodes { // row indices stay inside every table that they look up
		if n.Op != OpGetRows {
			continue
		}
		rows := n.In[0].Shape[0]
		if len(n.Weights) > 0 {
			rows = n.Weights[0].Shape[0]
		}
		ids := n.In[len(n.In)-1].Attr.(InputAttr).Input
		in.max[ids] = min(in.max[ids], int32(min(rows-1, math.MaxInt32)))
	}
	in.cells = make([]int32, p.Seqs)
}

// SetInput gives the values of a step input; vals is copied. All inputs of a graph must be set once before the first Run and
// keep their values until set again; an input that the graph does not have is ignored. Errors name the value that is
// out of range: a token beyond the vocabulary, a cell or run beyond its table.
func (c *Compiled) SetInput(i Input, vals []int32) error {
	if c.closed {
		return errClosed
	}
	if i >= NumInputs {
		return fmt.Errorf("graph: there is no input %d", i)
	}
	in := &c.in
	if in.vals[i] == nil {
		return nil
	}
	if len(vals) != len(in.vals[i]) {
		return fmt.Errorf("graph: input %s: %d values, want %s", i, len(vals), c.params.InputShape(i))
	}
	lo := int32(0)
	if i == InCells {
		lo = -1
	}
	if i == InSampling { // bits of numbers
		copy(in.vals[i], vals)
		in.set[i], in.dirty[i] = true, true
		return nil
	}
	for j, v := range vals {
		if v < lo || v > in.max[i] {
			return fmt.Errorf("graph: input %s: entry %d is %d, want %d to %d", i, j, v, lo, in.max[i])
		}
	}
	if limit, ok := map[Input]int{InSeqRuns: c.params.Runs, InRuns: c.params.Cells}[i]; ok {
		for j := 0; j < len(vals); j += 2 {
			if int64(vals[j])+int64(vals[j+1]) > int64(limit) {
				return fmt.Errorf("graph: input %s: entry %d is %d and %d more, beyond the %d there are", i, j/2, vals[j], vals[j+1], limit)
			}
		}
	}
	copy(in.vals[i], vals)
	in.set[i], in.dirty[i] = true, true
	return nil
}

// flush checks the inputs against each other and brings those that changed to the backends.
func (in *inputs) flush(c *Compiled) error {
	for i := range NumInputs {
		if in.vals[i] != nil && !in.set[i] {
			return fmt.Errorf("graph: input %s was never set", i)
		}
	}
	if err := in.checkLengths(); err != nil {
		return err
	}
	for i := range NumInputs {
		if !in.dirty[i] {
			continue
		}
		src := bytesOf(in.vals[i])
		for _, d := range in.dst[i] {
			if d.mem != nil {
				if err := c.exec.sync(d.backend); err != nil {
					return err
				}
				copy(d.mem, src)
				continue
			}
			c.exec.busy[d.backend] = true
			if err := c.exec.backends[d.backend].Write(d.buffer, 0, src); err != nil {
				return fmt.Errorf("graph: input %s: %w", i, err)
			}
		}
		in.dirty[i] = false
	}
	return nil
}

// checkLengths refuses rows that attend to more cells than the runs of their sequence have.
func (in *inputs) checkLengths() error {
	if in.vals[InLengths] == nil || !(in.dirty[InLengths] || in.dirty[InSeqs] || in.dirty[InSeqRuns] || in.dirty[InRuns]) {
		return nil
	}
	runs, seqRuns := in.vals[InRuns], in.vals[InSeqRuns]
	for s := range in.cells {
		total := int64(0)
		for r := seqRuns[2*s]; r < seqRuns[2*s]+seqRuns[2*s+1]; r++ {
			total += int64(runs[2*r+1])
		}
		in.cells[s] = int32(min(total, math.MaxInt32))
	}
	for r, n := range in.vals[InLengths] {
		if s := in.vals[InSeqs][r]; n > in.cells[s] {
			return fmt.Errorf("graph: input %s: row %d attends to %d cells, the runs of its sequence %d have %d", InLengths, r, n, s, in.cells[s])
		}
	}
	return nil
}

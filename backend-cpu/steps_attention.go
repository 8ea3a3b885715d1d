package backendcpu

import (
	"github.com/minfer-go/minfer/backend-cpu/internal/attn"
	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/backend-cpu/internal/vec"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
)

// ropeStep rotates the heads of each row.
type ropeStep struct {
	y, x        mat
	heads, dim  int
	table       *ropeTable
	interleaved bool
	vec         vec.Kernels
}

func (s *ropeStep) Run(worker, n int) error {
	lo, hi := pool.Split(s.y.rows*s.heads, 1, worker, n)
	for i := lo; i < hi; i++ {
		r, at := i/s.heads, i%s.heads*s.dim
		cos, sin := s.table.row(r)
		s.vec.Rope(s.y.row(r)[at:at+s.dim], s.x.row(r)[at:at+s.dim], cos, sin, s.interleaved)
	}
	return nil
}

// region is a KV region as bytes.
type region struct {
	mem      []byte
	rowBytes int
	format   kvformat.Format
}

// head is where a cell's row of one KV head lies, of heads ones.
func (g *region) head(cell, head, heads int) []byte {
	n := g.rowBytes / heads
	return g.mem[cell*g.rowBytes+head*n:][:n]
}

// store encodes rows into a region.
type store struct {
	x          mat
	heads, dim int
	cells      []int32
	region     region
	vec        vec.Kernels
}

func (s *store) Run(worker, n int) error {
	lo, hi := pool.Split(s.x.rows*s.heads, 1, worker, n)
	for i := lo; i < hi; i++ {
		r, h := i/s.heads, i%s.heads
		if cell := int(s.cells[r]); cell >= 0 {
			s.vec.Encode(s.region.head(cell, h, s.heads), s.x.row(r)[h*s.dim:][:s.dim], s.region.format)
		}
	}
	return nil
}

// qkvStore does what stands between the products and attention: bias or norm, rotation, storing.
type qkvStore struct {
	b            *Backend
	y, q, k, v   mat
	attr         graph.QkvAttr
	bias         [3][]float32 // or nil
	norm         [2][]float32 // of q and k, or nil
	table        *ropeTable
	cells        []int32
	keys, values region
}

func (s *qkvStore) Run(worker, n int) error {
	a, v, prof := &s.attr, s.b.vec, s.b.prof
	dim, all := a.HeadDim, a.Heads+2*a.KVHeads
	tmp := s.b.scratch.floats[worker][:dim]
	inter := a.Rope.Style == graph.RopeInterleaved
	lo, hi := pool.Split(s.y.rows*all, 1, worker, n)
	for i := lo; i < hi; i++ {
		r, h := i/all, i%all
		cell := int(s.cells[r])
		cos, sin := s.table.row(r)
		switch {
		case h < a.Heads:
			x := s.shift(worker, tmp, s.q.row(r), h, 0)
			v.Rope(s.y.row(r)[h*dim:][:dim], x, cos, sin, inter)
			prof.lap(worker, kindRope)
		case h < a.Heads+a.KVHeads && cell >= 0:
			h -= a.Heads
			v.Rope(tmp, s.shift(worker, tmp, s.k.row(r), h, 1), cos, sin, inter)
			prof.lap(worker, kindRope)
			v.Encode(s.keys.head(cell, h, a.KVHeads), tmp, s.keys.format)
			prof.lap(worker, kindStore)
		case h >= a.Heads+a.KVHeads && cell >= 0:
			h -= a.Heads + a.KVHeads
			v.Encode(s.values.head(cell, h, a.KVHeads), s.shift(worker, tmp, s.v.row(r), h, 2), s.values.format)
			prof.lap(worker, kindStore)
		}
	}
	return nil
}

// shift gives head h of a row of q, k or v (part 0, 1, 2) with its bias or norm applied, in tmp or as it stands.
func (s *qkvStore) shift(worker int, tmp, row []float32, h, part int) []float32 {
	dim := len(tmp)
	x := row[h*dim:][:dim]
	switch {
	case s.bias[part] != nil:
		s.b.vec.Add(tmp, x, s.bias[part][h*dim:][:dim])
		s.b.prof.lap(worker, kindAdd)
		return tmp
	case part < 2 && s.norm[part] != nil:
		s.b.vec.RmsNorm(tmp, x, s.norm[part], s.attr.Eps)
		s.b.prof.lap(worker, kindNorm)
		return tmp
	}
	return x
}

// chunksStep and combine are the two steps of attention; one worker needs only the first.
type (
	chunksStep struct{ *attn.Job }
	combine    struct{ *attn.Job }
)

func (s chunksStep) Run(worker, n int) error { s.Chunks(worker, n); return nil }
func (s combine) Run(worker, n int) error    { s.Combine(worker, n); return nil }

package graph

import (
	"context"

	"github.com/minfer-go/minfer/quant"
)

// Buffer is memory of a backend.
type Buffer interface {
	Bytes() int64
}

// HostBuffer is a Buffer whose bytes the host may read and write in place (between Sync and the next Run).
type HostBuffer interface {
	Buffer
	HostBytes() []byte
}

// KVSpec is the geometry of a KV cache: for each layer a K and a V region of Cells rows of KVHeads*HeadDim elements.
type KVSpec struct {
	Layers, Cells, KVHeads, HeadDim int
	KeyType, ValueType              quant.Type
}

// KVRegion is one layer's K or V.
type KVRegion struct {
	Buffer   Buffer
	Type     quant.Type
	RowBytes int64 // of a cell, all KV heads
	Cells    int
}

// Tensor is where a node's result lies: element (r, c) of a [rows, width] tensor at byte
// Offset + r*RowStride + c*size. Contiguous tensors have RowStride = width*size.
type Tensor struct {
	Buffer    Buffer
	Offset    int64
	RowStride int64 // bytes
	Type      quant.Type
	Shape     Shape
}

// Unit is what a backend compiles: the nodes of one split, in execution order, and where everything lies. Input, View,
// Reshape and KvcacheLoad nodes are not in Nodes: they only place tensors (Op.Places).
type Unit struct {
	Params  Params
	Nodes   []*Node
	Tensors []Tensor   // by node ID, for every node of the graph that this unit reads or writes
	Wanted  []bool     // by node ID: read from outside this unit, or a graph output; the other results need not be stored
	Keys    []KVRegion // by layer; zero for layers of another backend
	Values  []KVRegion

	// Traced: values or times are taken after each node, so the program must really run every time, never be replayed.
	Traced bool
}

// Program is a compiled Unit. Run queues or executes it; it allocates nothing. Results may be read after Backend.Sync.
type Program interface {
	Run() error
	Close() error
}

// ContextProgram is a Program that can be given up while it runs: a long one need not be waited for.
type ContextProgram interface {
	Program
	// RunContext is Run that ends with ctx's error soon after ctx ends. What it wrote until then is as after any failed Run: nothing
	// may rely on it, and the next Run gives the bits that it would have given without.
	RunContext(ctx context.Context) error
}

// Backend runs graphs on one kind of device. Its methods are called from one goroutine at a time.
type Backend interface {
	Name() string

	// SupportsOp is nil if the backend runs n as it stands, or the reason why not.
	SupportsOp(n *Node) error
	// SupportsFused reports whether the fusion pass should replace its pattern by the fused node n.
	SupportsFused(n *Node) bool

	// RegisterWeight makes a tensor's bytes known; data stays valid and unchanged until ReleaseModel. Registering the
	// same (Model, Name) again is a no-op.
	RegisterWeight(w *Weight, data []byte) error
	// ReleaseModel forgets a model's weights. No program that uses them may run afterwards.
	ReleaseModel(model string)

	Alloc(bytes int64) (Buffer, error) // zeroed; errors wrap ErrOutOfMemory
	Free(Buffer)
	Write(dst Buffer, offset int64, src []byte) error // ordered before later Runs
	Read(dst []byte, src Buffer, offset int64) error  // ordered after earlier Runs; waits

	// CopyCells moves n rows of a region from cell src to cell dst; the ranges may overlap.
	CopyCells(r KVRegion, dst, src, n int) error

	Compile(u *Unit) (Program, error)
	Sync() error
	Close() error
}

package graph

import (
	"fmt"
	"strings"

	"github.com/minfer-go/minfer/quant"
)

// Op names what a node computes. The contract of each is documented at its builder (build.go).
type Op uint8

// The operations of the IR. Fused ones are made by the fusion pass, never by a model.
const (
	OpInput Op = iota
	OpAdd
	OpMul
	OpSilu
	OpSwiGLU
	OpRmsNorm
	OpQkNorm
	OpMatMul
	OpAttn
	OpKvcacheStore
	OpKvcacheLoad
	OpView
	OpReshape
	OpPermute
	OpGetRows
	OpRoPE
	OpScale
	OpSoftmax
	OpBatchMatMul
	OpSample
	OpFusedQKV
	OpQkvBiasRopeStore
	OpFusedQkvNorm
	OpFusedFFN
	numOps
)

var opNames = [numOps]string{"Input", "Add", "Mul", "Silu", "SwiGLU", "RmsNorm", "QkNorm", "MatMul", "Attn",
	"KvcacheStore", "KvcacheLoad", "View", "Reshape", "Permute", "GetRows", "RoPE", "Scale", "Softmax", "BatchMatMul",
	"Sample", "FusedQKV", "QkvBiasRopeStore", "FusedQkvNorm", "FusedFFN"}

func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Shape is row-major, slowest dimension first: [tokens, heads, dim].
type Shape []int

// Elems is the number of elements.
func (s Shape) Elems() int {
	n := 1
	for _, d := range s {
		n *= d
	}
	return n
}

func (s Shape) String() string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = fmt.Sprint(d)
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// Weight is the metadata of a model tensor. Building a graph touches nothing else of it: its bytes are given to a
// backend once, with Backend.RegisterWeight, and are found again by (Model, Name).
type Weight struct {
	Model string // fingerprint of the model file, so that two models of one shape never share bytes
	Name  string // as in the file: "blk.0.attn_q.weight"
	Type  quant.Type
	Shape Shape // [rows, cols] (out features, in features), or [n] for vectors
}

// Bytes is the exact payload length.
func (w *Weight) Bytes() int64 {
	return int64(w.Shape.Elems()) / int64(w.Type.BlockElems()) * int64(w.Type.BlockBytes())
}

// Node is one operation and its result. Nodes are immutable once built; passes make new graphs.
type Node struct {
	ID      int
	Op      Op
	Name    string // for messages, traces and goldens: "blk.0.attn_q"
	Type    quant.Type
	Shape   Shape
	In      []*Node   // tensor operands
	Weights []*Weight // weight operands; nil entries are absent optional ones (biases)
	Attr    any       // the op's attributes: one of the *Attr structs by value, or nil
	Layer   int       // transformer block, -1 outside
}

// Errorf makes an error that names the node.
func (n *Node) Errorf(format string, args ...any) error {
	return fmt.Errorf("graph: node %d %s %q: %w", n.ID, n.Op, n.Name, fmt.Errorf(format, args...))
}

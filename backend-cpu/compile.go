package backendcpu

import (
	"fmt"
	"unsafe"

	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// mat is a resolved tensor: rows of width floats, row r at data[r*stride].
type mat struct {
	data                []float32
	rows, width, stride int
}

func (m mat) row(r int) []float32 { return m.data[r*m.stride : r*m.stride+m.width] }

// program is a compiled unit: a flat list of steps that all workers walk together.
type program struct {
	b     *Backend
	steps []pool.Step
}

func (p *program) Run() error   { return p.b.pool.Run(p.steps) }
func (p *program) Close() error { return nil }

// compiler turns a unit's nodes into steps.
type compiler struct {
	b       *Backend
	u       *graph.Unit
	steps   []pool.Step
	acts    map[[2]int]*rounded // by rows and columns
	scratch []matmul.Scratch    // by worker
	tables  map[graph.RopeAttr]*ropeTable
}

// rounded is activation storage and what it holds at this point of the program.
type rounded struct {
	acts *matmul.Acts
	of   graph.Tensor
	gen  *graph.Node
}

// SupportsOp reports why a node can't run here, or nil.
func (b *Backend) SupportsOp(n *graph.Node) error {
	switch n.Op {
	case graph.OpBatchMatMul, graph.OpFusedQKV, graph.OpQkvBiasRopeStore, graph.OpFusedQkvNorm, graph.OpFusedFFN:
		return fmt.Errorf("backendcpu: %s: %w", n.Op, graph.ErrUnsupported)
	case graph.OpMatMul:
		if t := n.Weights[0].Type; !matmul.Supported(t) {
			return fmt.Errorf("backendcpu: weights of type %s: %w", t, graph.ErrUnsupported)
		}
	}
	return nil
}

// SupportsFused: activations are rounded once an input anyway, so the plain nodes are as good.
func (b *Backend) SupportsFused(*graph.Node) bool { return false }

// Compile resolves a unit.
func (b *Backend) Compile(u *graph.Unit) (graph.Program, error) {
	c := &compiler{b: b, u: u, acts: map[[2]int]*rounded{}, scratch: make([]matmul.Scratch, b.Threads()), tables: map[graph.RopeAttr]*ropeTable{}}
	for _, n := range u.Nodes {
		if err := c.node(n); err != nil {
			return nil, n.Errorf("%w", err)
		}
	}
	return &program{b, c.steps}, nil
}

func (c *compiler) add(s pool.Step) { c.steps = append(c.steps, s) }

// mat resolves a node's F32 tensor as rows of everything after the first dimension.
func (c *compiler) mat(n *graph.Node) mat {
	t := c.u.Tensors[n.ID]
	mem := t.Buffer.(*buffer).mem
	all := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/4)
	rows := n.Shape[0]
	m := mat{rows: rows, width: n.Shape[1:].Elems(), stride: int(t.RowStride) / 4}
	if rows > 0 {
		at := int(t.Offset) / 4
		m.data = all[at : at+(rows-1)*m.stride+m.width]
	}
	return m
}

// ints resolves a step input.
func (c *compiler) ints(n *graph.Node) []int32 {
	t := c.u.Tensors[n.ID]
	mem := t.Buffer.(*buffer).mem[t.Offset:]
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(mem))), n.Shape.Elems())
}

func (c *compiler) floats(w *graph.Weight) ([]float32, error) {
	data, err := c.b.weight(w)
	if err != nil {
		return nil, err
	}
	out := make([]float32, w.Shape.Elems())
	return out, quant.Dequantize(w.Type, out, data)
}

func (c *compiler) node(n *graph.Node) error {
	switch n.Op {
	case graph.OpMatMul:
		return c.matmul(n)
	case graph.OpRmsNorm, graph.OpQkNorm:
		w, err := c.floats(n.Weights[0])
		if err != nil {
			return err
		}
		c.add(&norm{c.mat(n), c.mat(n.In[0]), w, n.Attr.(graph.NormAttr).Eps})
	case graph.OpGetRows:
		return c.getRows(n)
	case graph.OpAdd, graph.OpMul, graph.OpSwiGLU:
		c.add(&binary{n.Op, c.mat(n), c.mat(n.In[0]), c.mat(n.In[1])})
	case graph.OpSilu:
		c.add(&unary{n.Op, 0, c.mat(n), c.mat(n.In[0])})
	case graph.OpScale:
		c.add(&unary{n.Op, n.Attr.(graph.ScaleAttr).Factor, c.mat(n), c.mat(n.In[0])})
	case graph.OpSoftmax:
		c.add(&softmax{c.mat(n), c.mat(n.In[0]), n.Shape[len(n.Shape)-1]})
	case graph.OpPermute:
		c.add(&permute{c.mat(n), c.mat(n.In[0]), n.In[0].Shape, n.Attr.(graph.PermuteAttr)})
	case graph.OpRoPE:
		a := n.Attr.(graph.RopeAttr)
		c.add(&rope{c.mat(n), c.mat(n.In[0]), c.table(a, n.In[1]), n.Shape[2]})
	case graph.OpKvcacheStore:
		return c.store(n)
	case graph.OpAttn:
		return c.attn(n)
	default:
		return graph.ErrUnsupported
	}
	return nil
}

func (c *compiler) matmul(n *graph.Node) error {
	data, err := c.b.weight(n.Weights[0])
	if err != nil {
		return err
	}
	w := matmul.Weight{Type: n.Weights[0].Type, Rows: n.Weights[0].Shape[0], Cols: n.Weights[0].Shape[1], Data: data}
	p := product{b: c.b, y: c.mat(n), x: c.mat(n.In[0]), w: w, scratch: c.scratch}
	if bias := n.Weights[1]; bias != nil {
		if p.bias, err = c.floats(bias); err != nil {
			return err
		}
	}
	if !matmul.IsFloat(w.Type) {
		p.acts = c.round(n.In[0])
	}
	c.add(&p)
	return nil
}

// round makes sure that the 8-bit form of x is there: one rounding serves all products of the same input.
func (c *compiler) round(x *graph.Node) *matmul.Acts {
	m := c.mat(x)
	key := [2]int{m.rows, m.width}
	a := c.acts[key]
	if a == nil {
		a = &rounded{acts: matmul.NewActs(m.rows, m.width)}
		a.acts.Reset(m.rows, m.width)
		c.acts[key] = a
	}
	root, _, _ := x.Layout()
	if t := c.u.Tensors[x.ID]; a.gen != root || a.of.Offset != t.Offset || a.of.Buffer != t.Buffer {
		a.gen, a.of = root, t
		c.add(&rounding{c.b, a.acts, m})
	}
	return a.acts
}

func (c *compiler) getRows(n *graph.Node) error {
	g := &getRows{y: c.mat(n)}
	if len(n.Weights) > 0 && n.Weights[0] != nil {
		data, err := c.b.weight(n.Weights[0])
		if err != nil {
			return err
		}
		g.ids, g.typ, g.table = c.ints(n.In[0]), n.Weights[0].Type, data
	} else {
		g.x, g.ids = c.mat(n.In[0]), c.ints(n.In[1])
	}
	c.add(g)
	return nil
}

func (c *compiler) store(n *graph.Node) error {
	at := n.Attr.(graph.KVAttr)
	r := c.u.Keys[at.Layer]
	if at.Value {
		r = c.u.Values[at.Layer]
	}
	f, err := format(r.Type)
	if err != nil {
		return err
	}
	c.add(&store{c.mat(n.In[0]), c.ints(n.In[1]), r.Buffer.(*buffer).mem, int(r.RowBytes), f})
	return nil
}

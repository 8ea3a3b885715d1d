package graph

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/minfer-go/minfer/quant"
)

// Compiled is a graph ready to run: SetInput, Run, then Output or ReadOutput.
type Compiled struct {
	exec    *Executor
	params  Params
	graph   *Graph
	assign  Assignment
	plan    *Plan
	buffers []Buffer // by slot
	steps   []step
	outputs []output
	in      inputs
	trace   *Trace
	closed  bool
	ok      bool // the last Run succeeded
}

// step is one split: what to bring from other backends, then the program.
type step struct {
	backend int
	nodes   []*Node
	copies  []copyOp
	program Program
	stops   ContextProgram // the program, if it can be given up while it runs
}

type copyOp struct {
	from           int
	src, dst       Buffer
	srcMem, dstMem []byte // the same, where the host may touch it; nil else
	bounce         []byte // on the way between two devices that the host cannot touch
}

type output struct {
	backend int
	at      Tensor
	mem     []byte
}

func hostBytes(b Buffer) []byte {
	if h, ok := b.(HostBuffer); ok {
		return h.HostBytes()
	}
	return nil
}

// compile runs the pipeline for one graph.
func (e *Executor) compile(g *Graph) (c *Compiled, err error) {
	a, err := Assign(g, e.backends, e.opts.Layers)
	if err != nil {
		return nil, err
	}
	if g.Params.Features&FeatureNoFuse == 0 {
		g, a = Fuse(g, a, e.backends)
	}
	if err := e.checkKV(g); err != nil {
		return nil, err
	}
	splits := Splits(g, a, e.trace != nil)
	c = &Compiled{exec: e, params: g.Params, graph: g, assign: a, trace: e.trace, plan: Alloc(g, splits, len(e.backends))}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
			c = nil
		}
	}()
	var need int64
	for _, s := range c.plan.Slots {
		need += s.Bytes
	}
	if err := e.makeRoom(need); err != nil {
		return c, err
	}
	for _, s := range c.plan.Slots {
		b, err := e.pools[s.Backend].get(s.Bytes)
		if err != nil {
			return c, fmt.Errorf("graph: buffers for %d rows on %s: %w", g.Params.Rows, e.backends[s.Backend].Name(), err)
		}
		c.buffers = append(c.buffers, b)
	}
	for i, s := range splits {
		st := step{backend: s.Backend, nodes: s.Nodes}
		for _, cp := range s.Copies {
			op := copyOp{from: cp.From, src: c.buffers[c.plan.At[cp.From][cp.Node.ID]], dst: c.buffers[c.plan.At[s.Backend][cp.Node.ID]]}
			op.srcMem, op.dstMem = hostBytes(op.src), hostBytes(op.dst)
			if n := cp.Node.Bytes(); op.srcMem == nil && op.dstMem == nil {
				op.bounce = make([]byte, n)
			}
			st.copies = append(st.copies, op)
		}
		st.program, err = e.backends[s.Backend].Compile(c.unit(s))
		if err != nil {
			return c, fmt.Errorf("graph: split %d (%d nodes from %q) on %s: %w", i, len(s.Nodes), s.Nodes[0].Name, e.backends[s.Backend].Name(), err)
		}
		st.stops, _ = st.program.(ContextProgram)
		c.steps = append(c.steps, st)
	}
	for _, n := range g.Outputs {
		b := a[n.ID]
		at := c.tensor(b, n)
		c.outputs = append(c.outputs, output{backend: b, at: at, mem: hostBytes(at.Buffer)})
	}
	c.in.init(c)
	return c, nil
}

// checkKV compares the regions that a graph stores into with those that exist.
func (e *Executor) checkKV(g *Graph) error {
	if g.Params.Cells != e.kv.Cells && e.kv.Layers > 0 {
		return fmt.Errorf("graph: params say %d KV cells, the cache has %d", g.Params.Cells, e.kv.Cells)
	}
	for _, n := range g.Nodes {
		if n.Op != OpKvcacheStore && n.Op != OpKvcacheLoad {
			continue
		}
		at := n.Attr.(KVAttr)
		want := e.kv.KeyType
		if at.Value {
			want = e.kv.ValueType
		}
		if n.Type != want || n.Shape[1] != e.kv.KVHeads || n.Shape[2] != e.kv.HeadDim {
			return n.Errorf("it is %s %s, the KV cache has %d heads of %d as %s", n.Type, n.Shape, e.kv.KVHeads, e.kv.HeadDim, want)
		}
	}
	return nil
}

// unit is what a backend gets to compile for a split.
func (c *Compiled) unit(s Split) *Unit {
	e := c.exec
	u := &Unit{Params: c.params, Nodes: s.Nodes, Tensors: make([]Tensor, len(c.graph.Nodes)), Traced: c.trace != nil,
		Keys: make([]KVRegion, e.kv.Layers), Values: make([]KVRegion, e.kv.Layers), Wanted: c.wanted(s)}
	for i, b := range e.opts.Layers {
		if b == s.Backend {
			u.Keys[i], u.Values[i] = e.keys[i], e.values[i]
		}
	}
	for _, n := range s.Nodes {
		u.Tensors[n.ID] = c.tensor(s.Backend, n)
		for _, in := range n.In {
			for u.Tensors[in.ID] = c.tensor(s.Backend, in); in.Op == OpView || in.Op == OpReshape; {
				in = in.In[0]
				u.Tensors[in.ID] = c.tensor(s.Backend, in)
			}
		}
	}
	return u
}

// wanted marks what is read from outside a split: by nodes of others, or as an output. Views count for what they show.
func (c *Compiled) wanted(s Split) []bool {
	inside := make([]bool, len(c.graph.Nodes))
	for _, n := range s.Nodes {
		inside[n.ID] = true
	}
	w := make([]bool, len(c.graph.Nodes))
	mark := func(n *Node) {
		for w[n.ID] = true; n.Op == OpView || n.Op == OpReshape; w[n.ID] = true {
			n = n.In[0]
		}
	}
	for _, n := range c.graph.Outputs {
		mark(n)
	}
	for _, n := range c.graph.Nodes {
		if inside[n.ID] || n.Op.Places() {
			continue
		}
		for _, in := range n.In {
			mark(in)
		}
	}
	return w
}

// tensor is where a node's result lies on a backend.
func (c *Compiled) tensor(b int, n *Node) Tensor {
	root, offset, stride := n.Layout()
	t := Tensor{Offset: offset, RowStride: stride, Type: n.Type, Shape: n.Shape}
	if root.Op.InRegion() {
		at := root.Attr.(KVAttr)
		if at.Value {
			t.Buffer = c.exec.values[at.Layer].Buffer
		} else {
			t.Buffer = c.exec.keys[at.Layer].Buffer
		}
		return t
	}
	t.Buffer = c.buffers[c.plan.At[b][root.ID]]
	return t
}

// Graph is the graph as it runs, after fusion, and Assignment its nodes' backends.
func (c *Compiled) Graph() (*Graph, Assignment) { return c.graph, c.assign }

// Splits is the number of ranges that the graph was cut into.
func (c *Compiled) Splits() int { return len(c.steps) }

// Run executes the graph on the inputs set last. It allocates nothing. On asynchronous backends it may return before the work is
// done; reading an output waits. After an error the outputs cannot be read, and which of the step's KV rows were stored
// is unknown: the caller must not count them as valid.
func (c *Compiled) Run() error { return c.RunContext(context.Background()) }

// RunContext is Run that is given up when ctx ends, with an error that wraps ctx's: between splits, and within those whose backend
// can (ContextProgram). Work that an asynchronous backend has been given is done all the same.
func (c *Compiled) RunContext(ctx context.Context) error {
	c.ok = false
	if c.closed {
		return errClosed
	}
	if err := c.in.flush(c); err != nil {
		return err
	}
	for i := range c.steps {
		s := &c.steps[i]
		if err := ctx.Err(); err != nil {
			return c.stepError(i, err)
		}
		for j := range s.copies {
			if err := c.copy(s, &s.copies[j]); err != nil {
				return c.stepError(i, err)
			}
		}
		c.exec.busy[s.backend] = true
		if c.trace != nil {
			if err := c.traced(s); err != nil {
				return c.stepError(i, err)
			}
		} else if err := s.run(ctx); err != nil {
			return c.stepError(i, err)
		}
	}
	c.ok = true
	return nil
}

func (s *step) run(ctx context.Context) error {
	if s.stops != nil {
		return s.stops.RunContext(ctx)
	}
	return s.program.Run()
}

var errClosed = errors.New("graph: this compiled graph was evicted or closed: ask Compile again")

func (c *Compiled) stepError(i int, err error) error {
	s := c.steps[i]
	return fmt.Errorf("graph: split %d (from %q) on %s: %w", i, s.nodes[0].Name, c.exec.backends[s.backend].Name(), err)
}

// copy brings one value across a border.
func (c *Compiled) copy(s *step, op *copyOp) error {
	e := c.exec
	if op.dstMem != nil { // the receiver may still be reading what the last step left there
		if err := e.sync(s.backend); err != nil {
			return err
		}
		return e.backends[op.from].Read(op.dstMem, op.src, 0)
	}
	mem := op.srcMem
	if mem != nil {
		if err := e.sync(op.from); err != nil {
			return err
		}
	} else {
		mem = op.bounce
		if err := e.backends[op.from].Read(mem, op.src, 0); err != nil {
			return err
		}
	}
	e.busy[s.backend] = true
	return e.backends[s.backend].Write(op.dst, 0, mem)
}

func (c *Compiled) readable(i int) (*output, error) {
	switch {
	case c.closed:
		return nil, errClosed
	case i < 0 || i >= len(c.outputs):
		return nil, fmt.Errorf("graph: output %d of %d", i, len(c.outputs))
	case !c.ok:
		return nil, fmt.Errorf("graph: output %q: no run has succeeded since the last failure", c.graph.Outputs[i].Name)
	}
	return &c.outputs[i], nil
}

// OutputShape is the shape of the i-th output.
func (c *Compiled) OutputShape(i int) Shape { return c.graph.Outputs[i].Shape }

// Output waits and gives the i-th output without copying; it is valid until the next Run. Only for backends whose
// memory the host can touch, else an error wrapping ErrUnsupported: use ReadOutput.
func (c *Compiled) Output(i int) ([]float32, error) {
	o, err := c.readable(i)
	if err != nil {
		return nil, err
	}
	if o.at.Type != quant.F32 {
		return nil, fmt.Errorf("graph: output %q is %s: use ReadTokens", c.graph.Outputs[i].Name, o.at.Type)
	}
	if o.mem == nil {
		return nil, fmt.Errorf("graph: output %q: %s keeps it in memory of its own: %w",
			c.graph.Outputs[i].Name, c.exec.backends[o.backend].Name(), ErrUnsupported)
	}
	if err := c.exec.sync(o.backend); err != nil {
		return nil, err
	}
	return floats(o.mem[o.at.Offset:], o.at.Shape.Elems()), nil
}

// ReadOutput waits and copies len(dst) elements of the i-th output, from the start of a row on.
func (c *Compiled) ReadOutput(i, row int, dst []float32) error {
	o, err := c.readable(i)
	if err != nil {
		return err
	}
	if o.at.Type != quant.F32 {
		return fmt.Errorf("graph: output %q is %s: use ReadTokens", c.graph.Outputs[i].Name, o.at.Type)
	}
	width := o.at.Shape[1:].Elems()
	if row < 0 || row >= o.at.Shape[0] || len(dst) > o.at.Shape.Elems()-row*width {
		return fmt.Errorf("graph: output %q is %s: it has no %d elements from row %d on", c.graph.Outputs[i].Name, o.at.Shape, len(dst), row)
	}
	if len(dst) == 0 {
		return nil
	}
	err = c.exec.backends[o.backend].Read(bytesOf(dst), o.at.Buffer, o.at.Offset+int64(row*width)*4)
	if err != nil {
		return fmt.Errorf("graph: output %q: %w", c.graph.Outputs[i].Name, err)
	}
	return nil
}

// ReadTokens waits and copies the first len(dst) tokens of the i-th output, a Sample's.
func (c *Compiled) ReadTokens(i int, dst []int32) error {
	o, err := c.readable(i)
	if err != nil {
		return err
	}
	if o.at.Type != quant.I32 || len(dst) > o.at.Shape[0] {
		return fmt.Errorf("graph: output %q is %s %s: it has no %d tokens", c.graph.Outputs[i].Name, o.at.Type, o.at.Shape, len(dst))
	}
	if len(dst) == 0 {
		return nil
	}
	if err := c.exec.backends[o.backend].Read(bytesOf(dst), o.at.Buffer, o.at.Offset); err != nil {
		return fmt.Errorf("graph: output %q: %w", c.graph.Outputs[i].Name, err)
	}
	return nil
}

// close waits for the backends, closes the programs and returns the buffers to the pools.
func (c *Compiled) close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	errs := []error{c.exec.Sync()}
	for _, s := range c.steps {
		errs = append(errs, s.program.Close())
	}
	for i, b := range c.buffers {
		c.exec.pools[c.plan.Slots[i].Backend].put(b, c.plan.Slots[i].Bytes)
	}
	c.buffers, c.steps = nil, nil
	return errors.Join(errs...)
}

// Memory of tensors is little-endian, as are all machines that minfer supports.

func floats(mem []byte, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(mem[:n*quant.F32.BlockBytes()]))), n)
}

func bytesOf[T float32 | int32](v []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*4)
}

package backendcpu

import (
	"slices"

	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/graph"
)

// compiler turns a unit into a program.
type compiler struct {
	b    *Backend
	u    *graph.Unit
	p    *program
	prep *prepare

	last   map[int]int          // by node whose rounded rows are wanted: index of the last node that wants them
	acts   map[int]*matmul.Acts // those rounded already
	both   map[int]bool         // by node: some product wants its rounded result in tables of both signs
	tables map[graph.RopeAttr]*ropeTable
	plans  map[int]int // by query heads a KV head: index into program.plans
	floats int         // scratch floats a worker needs
	err    error
}

// Compile resolves a unit to steps. Errors name the node or the tensor.
func (b *Backend) Compile(u *graph.Unit) (graph.Program, error) {
	c := &compiler{b: b, u: u, p: &program{b: b, phase: u.Params.Phase()}, prep: &prepare{prof: b.prof}, last: map[int]int{}, both: map[int]bool{}, acts: map[int]*matmul.Acts{},
		tables: map[graph.RopeAttr]*ropeTable{}, plans: map[int]int{}}
	for i, n := range u.Nodes {
		if rounds(n) {
			id := source(n.In[0]).ID
			c.last[id] = i
			c.both[id] = c.both[id] || slices.ContainsFunc(factors(n), func(w *graph.Weight) bool { return b.kernel.WantsBothSigns(w.Type, n.In[0].Shape[0]) })
		}
	}
	for i := 0; i < len(u.Nodes) && c.err == nil; i++ {
		n := u.Nodes[i]
		if err := b.SupportsOp(n); err != nil {
			return nil, err
		}
		var next *graph.Node
		if i+1 < len(u.Nodes) {
			next = u.Nodes[i+1]
		}
		joined := c.node(n, next)
		for id, a := range c.acts {
			if c.last[id] <= i {
				delete(c.acts, id)
				b.putActs(a)
			}
		}
		if joined {
			i++
		}
	}
	for _, a := range c.acts { // after an error
		b.putActs(a)
	}
	if c.err != nil {
		return nil, c.err
	}
	if len(c.prep.plans)+len(c.prep.tables) > 0 {
		c.step(kindRope, c.prep)
		last := len(c.p.steps) - 1
		c.p.steps = slices.Insert(c.p.steps[:last], 0, c.p.steps[last])
	}
	for w, f := range b.scratch.floats {
		if len(f) < c.floats {
			b.scratch.floats[w] = make([]float32, c.floats)
		}
	}
	return c.p, nil
}

// rounds reports whether n wants its input rounded to 8 bits.
func rounds(n *graph.Node) bool {
	return slices.ContainsFunc(factors(n), func(w *graph.Weight) bool { return !matmul.IsFloat(w.Type) })
}

// roundsOnly reports whether that is all that n wants of it.
func roundsOnly(n *graph.Node) bool {
	return rounds(n) && !slices.ContainsFunc(factors(n), func(w *graph.Weight) bool { return matmul.IsFloat(w.Type) })
}

// factors are the matrices that n multiplies its first input by.
func factors(n *graph.Node) []*graph.Weight {
	switch n.Op {
	case graph.OpMatMul:
		return n.Weights[:1]
	case graph.OpFusedQKV:
		return n.Weights[:3]
	case graph.OpFusedFFN:
		return n.Weights
	}
	return nil
}

// readAsIs reports whether somebody wants n's result as it is, and not only rounded to 8 bits.
func (c *compiler) readAsIs(n *graph.Node) bool {
	if c.u.Traced || c.u.Wanted[n.ID] {
		return true
	}
	for _, m := range c.u.Nodes {
		for i, in := range m.In {
			if behind(in) == n && !(i == 0 && source(in) == n && roundsOnly(m)) {
				return true
			}
		}
	}
	return false
}

// behind is the node whose memory n's is.
func behind(n *graph.Node) *graph.Node {
	for n.Op == graph.OpReshape || n.Op == graph.OpView {
		n = n.In[0]
	}
	return n
}

// source is the node whose rows n's are: n, or what it only reshapes.
func source(n *graph.Node) *graph.Node {
	for n.Op == graph.OpReshape && n.In[0].Shape[0] == n.Shape[0] {
		n = n.In[0]
	}
	return n
}

// node appends the steps of n. If next is done with it, it reports so.
func (c *compiler) node(n, next *graph.Node) (joined bool) {
	b, v := c.b, c.b.vec
	switch n.Op {
	case graph.OpAdd, graph.OpMul, graph.OpSwiGLU:
		f, k := v.Add, kindAdd
		if n.Op == graph.OpMul {
			f, k = v.Mul, kindElse
		} else if n.Op == graph.OpSwiGLU {
			f, k = v.SwiGLU, kindSwiGLU
		}
		c.op(k, &elementwise{c.mat(n), c.mat(n.In[0]), c.mat(n.In[1]), f})
	case graph.OpSilu:
		c.op(kindElse, &elementwise{c.mat(n), c.mat(n.In[0]), c.mat(n.In[0]), func(y, x, _ []float32) { v.Silu(y, x) }})
	case graph.OpScale:
		factor := n.Attr.(graph.ScaleAttr).Factor
		c.op(kindElse, &elementwise{c.mat(n), c.mat(n.In[0]), c.mat(n.In[0]), func(y, x, _ []float32) { v.Scale(y, x, factor) }})
	case graph.OpSoftmax:
		c.op(kindElse, &rowwise{y: c.mat(n), x: c.mat(n.In[0]), n: n.Shape[len(n.Shape)-1], f: v.Softmax})
	case graph.OpRmsNorm, graph.OpQkNorm:
		w, eps := c.vector(n, n.Weights[0]), n.Attr.(graph.NormAttr).Eps
		s := &rowwise{y: c.mat(n), x: c.mat(n.In[0]), n: n.Shape[len(n.Shape)-1], path: b.kernel.Path(), prof: b.prof}
		s.f = func(y, x []float32) { v.RmsNorm(y, x, w, eps) }
		if s.acts = c.provide(n); s.acts != nil {
			c.count(kindRounding)
		}
		c.op(kindNorm, s)
	case graph.OpMatMul:
		s := &productsStep{b: b, in: c.operand(n)}
		c.part(s, n, n.Weights[0], n.Weights[1], c.mat(n))
		joined = c.residual(s, n, next)
		c.shared(s, &s.claim)
	case graph.OpFusedQKV:
		s := &productsStep{b: b, in: c.operand(n)}
		y, at := c.mat(n), 0
		for i, w := range n.Weights[:3] {
			dst := y
			dst.p, dst.width = y.p[at:], w.Shape[0]
			c.part(s, n, w, n.Weights[3+i], dst)
			at += w.Shape[0]
		}
		c.shared(s, &s.claim)
	case graph.OpFusedFFN:
		s := &ffn{b: b, in: c.operand(n), gate: c.product(n, n.Weights[0], nil, mat{}), up: c.product(n, n.Weights[1], nil, mat{})}
		c.count(kindSwiGLU)
		if s.acts = c.provide(n); s.acts != nil {
			c.count(kindRounding)
		}
		if c.readAsIs(n) {
			s.y = c.mat(n)
		}
		c.floats = max(c.floats, 2*blockFloats(n.Shape[0], n.Shape[1]))
		c.shared(s, &s.claim)
	case graph.OpGetRows:
		ids := c.ints(n.In[len(n.In)-1])
		if len(n.Weights) == 0 {
			c.op(kindLookup, &selectRows{c.mat(n), c.mat(n.In[0]), ids})
			break
		}
		if w := c.weight(n, n.Weights[0]); w != nil {
			typ := n.Weights[0].Type
			bytes := len(ids) * typ.RowBytes(n.Shape[1])
			c.p.weightBytes += uint64(bytes)
			c.counted(kindLookup, sum{bytes: int64(bytes)})
			c.op(kindLookup, &gather{c.mat(n), ids, typ, w.data})
		}
	case graph.OpRoPE:
		a := n.Attr.(graph.RopeAttr)
		c.op(kindRope, &ropeStep{y: c.mat(n), x: c.mat(n.In[0]), heads: n.Shape[1], dim: n.Shape[2], table: c.table(a, n.In[1]),
			interleaved: a.Style == graph.RopeInterleaved, vec: v})
	case graph.OpKvcacheStore:
		x := n.In[0]
		c.op(kindStore, &store{x: c.mat(x), heads: x.Shape[1], dim: x.Shape[2], cells: c.ints(n.In[1]),
			region: c.region(n, n.Attr.(graph.KVAttr)), vec: v})
	case graph.OpQkvBiasRopeStore, graph.OpFusedQkvNorm:
		c.qkvStore(n)
	case graph.OpAttn:
		c.attention(n)
	case graph.OpPermute:
		c.permute(n)
	case graph.OpBatchMatMul:
		c.op(kindElse, &batch{y: c.mat(n), a: c.mat(n.In[0]), b: c.mat(n.In[1]), m: n.Shape[1], n: n.Shape[2], k: n.In[0].Shape[2], vec: v})
	default:
		c.fail(n.Errorf("cpu: %w", graph.ErrUnsupported))
	}
	return joined
}

// step appends one whose time, but for what it books itself, is of kind k in a profile.
func (c *compiler) step(k kind, s pool.Step) {
	if c.b.prof != nil {
		s = timed{s, c.b.prof, k}
		c.count(kindWaiting)
	}
	c.p.steps = append(c.p.steps, s)
}

// op appends a step that is a call of kind k by itself.
func (c *compiler) op(k kind, s pool.Step) {
	c.count(k)
	c.step(k, s)
}

// count notes for a profile that a run has a call of kind k.
func (c *compiler) count(k kind) { c.counted(k, sum{calls: 1}) }

// counted notes for a profile what a run does of kind k.
func (c *compiler) counted(k kind, x sum) {
	if c.b.prof == nil {
		return
	}
	for len(c.p.work) <= int(k) {
		c.p.work = append(c.p.work, sum{})
	}
	c.p.work[k].add(x)
}

// shared appends a step whose outputs go to whichever worker is free.
func (c *compiler) shared(s pool.Step, claim *claim) {
	c.step(kindElse, s)
	c.p.claims = append(c.p.claims, claim)
}

func (c *compiler) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

func (c *compiler) product(n *graph.Node, w, bias *graph.Weight, dst mat) product {
	rows := n.In[0].Shape[0]
	p := product{dst: dst, bias: c.vector(n, bias), kind: c.b.prof.product(w.Type, rows)}
	c.counted(p.kind, sum{calls: 1, bytes: w.Bytes(), macs: int64(rows) * int64(w.Shape.Elems())})
	if bias != nil {
		c.count(kindAdd)
	}
	if r := c.weight(n, w); r != nil {
		p.w = matmul.Weight{Type: w.Type, Rows: w.Shape[0], Cols: w.Shape[1], Data: r.data}
		c.p.weightBytes += uint64(len(r.data))
	}
	return p
}

func (c *compiler) part(s *productsStep, n *graph.Node, w, bias *graph.Weight, dst mat) {
	s.parts = append(s.parts, c.product(n, w, bias, dst))
	s.total += w.Shape[0]
	if dst.rows > matmul.FewRows {
		c.floats = max(c.floats, blockFloats(dst.rows, dst.width))
	}
}

// provide gives acts that n's step fills with its rounded result, or nil if nobody wants them.
func (c *compiler) provide(n *graph.Node) *matmul.Acts {
	if _, wanted := c.last[n.ID]; !wanted {
		return nil
	}
	a := c.takeActs(n.Shape[0], n.Shape[1:].Elems(), c.both[n.ID])
	c.acts[n.ID] = a
	return a
}

// operand gives the input of n's products, rounded in a step of its own if its producer didn't.
func (c *compiler) operand(n *graph.Node) operand {
	in := operand{x: c.mat(n.In[0])}
	if !rounds(n) {
		return in
	}
	from := source(n.In[0])
	if in.acts = c.acts[from.ID]; in.acts == nil && c.err == nil {
		in.acts = c.provide(from)
		c.op(kindRounding, &round{in.x, in.acts, c.b.kernel.Path()})
	}
	return in
}

// residual lets a product add the other operand of an Add that follows it at once. The sum may lie where the product's
// input was, so that must have been copied (rounded).
func (c *compiler) residual(s *productsStep, n, next *graph.Node) bool {
	if next == nil || next.Op != graph.OpAdd || c.u.Traced || s.in.acts == nil || c.err != nil {
		return false
	}
	other := next.In[0]
	if other == n {
		other = next.In[1]
	} else if next.In[1] != n {
		return false
	}
	if other == n || c.wantsRounded(next) {
		return false
	}
	s.sum, s.other = c.mat(next), c.mat(other)
	c.count(kindAdd)
	return true
}

func (c *compiler) wantsRounded(n *graph.Node) bool {
	_, ok := c.last[n.ID]
	return ok
}

// takeActs gives rows of activations in a store that nobody uses until putActs: the smallest that they fit in, or else the largest.
func (c *compiler) takeActs(rows, k int, both bool) *matmul.Acts {
	free := c.b.scratch.acts
	best := -1
	for i, s := range free {
		if best < 0 || s.Fits(rows, k, both) && (!free[best].Fits(rows, k, both) || s.Bytes() < free[best].Bytes()) || !free[best].Fits(rows, k, both) && s.Bytes() > free[best].Bytes() {
			best = i
		}
	}
	store := new(matmul.Store)
	if best >= 0 {
		store = free[best]
		c.b.scratch.acts = slices.Delete(free, best, best+1)
	}
	a := store.Acts(rows, k, both)
	c.p.acts = append(c.p.acts, a)
	return a
}

func (b *Backend) putActs(a *matmul.Acts) { b.scratch.acts = append(b.scratch.acts, a.Store()) }

func (c *compiler) permute(n *graph.Node) {
	x, in := c.mat(n.In[0]), n.In[0].Shape
	s := &permute{y: c.mat(n).p, x: x.p, dims: [4]int{1, 1, 1, 1}}
	strides := make([]int, len(in))
	at := 1
	for i := len(in) - 1; i > 0; i-- {
		strides[i] = at
		at *= in[i]
	}
	strides[0] = x.stride
	a := n.Attr.(graph.PermuteAttr)
	for i, d := range n.Shape {
		s.dims[i], s.strides[i] = d, strides[a.Dims[i]]
	}
	c.op(kindElse, s)
}

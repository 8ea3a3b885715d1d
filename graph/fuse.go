package graph

import "slices"

// The fused operations. They are never built by a model: Fuse puts them in the place of a pattern, where the backend's
// SupportsFused says yes to the candidate.
//
// FusedQKV: three products of one input, packed into one row q|k|v of Heads*HeadDim + 2*KVHeads*HeadDim columns:
//
//	y[r] = x[r]*wq' + bq | x[r]*wk' + bk | x[r]*wv' + bv
//	In: x [rows, …]. Weights: wq, wk, wv, bq, bk, bv (biases may be nil). Attr: QkvAttr (Layer, Heads, KVHeads, HeadDim).
//	y [rows, width]; its users read it through Views.
//
// QkvBiasRopeStore (Qwen2): biases, RoPE on q and k, and both KV stores:
//
//	q' = rope(q + bq); key region[cells[r]] = encode(rope(k + bk)); value region[cells[r]] = encode(v + bv)
//	In: q [rows, Heads, HeadDim], k and v [rows, KVHeads, HeadDim] (views of a FusedQKV as a rule, so with a row
//	stride), positions, cells. Weights: bq, bk, bv (may be nil). Attr: QkvAttr (all but Eps). y = q' [rows, Heads, HeadDim].
//
// FusedQkvNorm (Qwen3): q and k norm per head, RoPE, both stores:
//
//	q' = rope(qkNorm(q, wqn)); key region[cells[r]] = encode(rope(qkNorm(k, wkn))); value region[cells[r]] = encode(v)
//	In: as QkvBiasRopeStore. Weights: wqn, wkn [HeadDim]. Attr: QkvAttr (all). y = q'.
//
// FusedFFN: y = silu(x*gate') * (x*up').  In: x [rows, …]. Weights: gate, up [ff, in] of one shape. y [rows, ff].
//
// Each formula is exactly that of the nodes it replaces, roundings included where the backend's class is bitwise. Padding rows
// (cells[r] == -1) are computed and not stored.

// Fuse replaces patterns by fused nodes, where the backend that all of a pattern's nodes are assigned to wants them. A
// result inside a pattern must have no other reader and be no output. It makes a new graph and its assignment. Pure.
func Fuse(g *Graph, a Assignment, backends []Backend) (*Graph, Assignment) {
	// Rope and store first: it takes the biases away from the products that FusedQKV then joins.
	for _, pattern := range []func(*fuser, *Node){(*fuser).ropeStore, (*fuser).qkv, (*fuser).ffn} {
		f := &fuser{g: g, backends: backends, users: g.users(), output: g.isOutput(), replace: map[*Node]*Node{}, on: map[*Node]int{}}
		for _, n := range g.Nodes {
			f.on[n] = a[n.ID]
		}
		f.list = slices.Clone(g.Nodes)
		for _, n := range g.Nodes {
			pattern(f, n)
		}
		var from []*Node
		g, from = rewrite(g.Params, f.list, g.Outputs, f.replace)
		a = make(Assignment, len(from))
		for i, n := range from {
			a[i] = f.on[n]
		}
	}
	return g, a
}

type fuser struct {
	g        *Graph
	backends []Backend
	users    []int // by ID
	output   []bool
	list     []*Node
	replace  map[*Node]*Node
	on       map[*Node]int // backend
}

// inner reports whether n is a node of the given op that only the pattern reads.
func (f *fuser) inner(n *Node, op Op) bool {
	return n.Op == op && f.users[n.ID] == 1 && !f.output[n.ID]
}

func (f *fuser) together(nodes ...*Node) bool {
	for _, n := range nodes {
		if f.on[n] != f.on[nodes[0]] {
			return false
		}
	}
	return true
}

// put makes n take the place of old: it is assigned where old is, and old's readers read it.
func (f *fuser) put(old, n *Node) {
	n.ID, n.Layer = old.ID, old.Layer
	f.list[old.ID], f.replace[old], f.on[n] = n, n, f.on[old]
}

// attention is what stands before an Attn node.
type attention struct {
	at                 AttnAttr
	keyStore, valStore *Node
	qRope, kRope       *Node
	q, k, v            *Node // operands of the ropes, and of the value store
}

// before finds the ropes and stores before an Attn, as the models build them.
func (f *fuser) before(n *Node) (p attention, ok bool) {
	if n.Op != OpAttn || !f.inner(n.In[0], OpRoPE) || !f.inner(n.In[1], OpKvcacheLoad) || !f.inner(n.In[2], OpKvcacheLoad) {
		return p, false
	}
	p.at, p.qRope = n.Attr.(AttnAttr), n.In[0]
	p.keyStore, p.valStore = n.In[1].In[0], n.In[2].In[0]
	if !f.inner(p.keyStore, OpKvcacheStore) || !f.inner(p.valStore, OpKvcacheStore) || !f.inner(p.keyStore.In[0], OpRoPE) {
		return p, false
	}
	p.kRope = p.keyStore.In[0]
	p.q, p.k, p.v = p.qRope.In[0], p.kRope.In[0], p.valStore.In[0]
	return p, p.qRope.Attr == p.kRope.Attr && f.together(n, p.keyStore, p.valStore, p.qRope, p.kRope)
}

// ropeStore makes FusedQkvNorm or QkvBiasRopeStore.
func (f *fuser) ropeStore(n *Node) {
	p, ok := f.before(n)
	if !ok {
		return
	}
	attr := QkvAttr{Layer: p.at.Layer, Heads: p.at.Heads, KVHeads: p.at.KVHeads, HeadDim: p.at.HeadDim, Rope: p.qRope.Attr.(RopeAttr)}
	fused := &Node{Op: OpQkvBiasRopeStore, Name: p.qRope.Name, Type: p.qRope.Type, Shape: p.qRope.Shape,
		In: []*Node{p.q, p.k, p.v, p.qRope.In[1], p.keyStore.In[1]}, Weights: []*Weight{nil, nil, nil}, Attr: attr, Layer: p.qRope.Layer}

	bare := map[*Node]*Node{} // products whose bias moves into the fused node, without it
	if f.inner(p.q, OpQkNorm) && f.inner(p.k, OpQkNorm) && p.q.Attr == p.k.Attr && f.together(n, p.q, p.k) {
		attr.Eps = p.q.Attr.(NormAttr).Eps
		fused.Op, fused.Attr, fused.Weights = OpFusedQkvNorm, attr, []*Weight{p.q.Weights[0], p.k.Weights[0]}
		fused.In[0], fused.In[1] = p.q.In[0], p.k.In[0]
	} else if products, ok := f.products(p.q, p.k, p.v); ok && f.together(append(products[:], n)...) {
		for i, m := range products {
			fused.Weights[i] = m.Weights[1]
			if m.Weights[1] == nil {
				continue
			}
			c := *m
			c.Weights = []*Weight{m.Weights[0], nil}
			bare[m] = &c
		}
	}
	b := f.backends[f.on[n]]
	for _, c := range bare {
		if b.SupportsOp(c) != nil {
			return
		}
	}
	if !b.SupportsFused(fused) {
		return
	}
	for m, c := range bare {
		f.put(m, c)
	}
	f.put(p.qRope, fused)
	f.replace[p.keyStore], f.replace[p.valStore] = fused, fused
}

// products finds the MatMul behind each of three activations, through reshapes, norms and ropes that nothing else reads.
func (f *fuser) products(nodes ...*Node) (m [3]*Node, ok bool) {
	for i, n := range nodes {
		for f.inner(n, OpReshape) || f.inner(n, OpQkNorm) || f.inner(n, OpRoPE) {
			n = n.In[0]
		}
		if !f.inner(n, OpMatMul) {
			return m, false
		}
		m[i] = n
	}
	return m, true
}

// qkv makes FusedQKV of the products before an attention, fused with its ropes and stores or not.
func (f *fuser) qkv(n *Node) {
	var q, k, v *Node
	var attr QkvAttr
	switch {
	case n.Op == OpQkvBiasRopeStore || n.Op == OpFusedQkvNorm:
		q, k, v, attr = n.In[0], n.In[1], n.In[2], n.Attr.(QkvAttr)
	case n.Op == OpAttn && n.In[1].In[0].Op == OpKvcacheStore && n.In[2].In[0].Op == OpKvcacheStore:
		q, k, v = n.In[0], n.In[1].In[0].In[0], n.In[2].In[0].In[0]
		at := n.Attr.(AttnAttr)
		attr = QkvAttr{Layer: at.Layer, Heads: at.Heads, KVHeads: at.KVHeads, HeadDim: at.HeadDim}
	default:
		return
	}
	m, ok := f.products(q, k, v)
	if !ok || m[0].In[0] != m[1].In[0] || m[0].In[0] != m[2].In[0] || !f.together(m[:]...) {
		return
	}
	attr.Eps, attr.Rope = 0, RopeAttr{}
	heads := []int{attr.Heads, attr.KVHeads, attr.KVHeads}
	fused := &Node{Op: OpFusedQKV, Name: m[0].Name + "kv", Type: m[0].Type, In: m[0].In, Weights: make([]*Weight, 6), Attr: attr, Layer: m[0].Layer}
	width := 0
	for i := range m {
		if m[i].Shape[1] != heads[i]*attr.HeadDim { // a reshape in between took only a part
			return
		}
		fused.Weights[i], fused.Weights[3+i] = m[i].Weights[0], m[i].Weights[1]
		width += m[i].Shape[1]
	}
	fused.Shape = Shape{m[0].Shape[0], width}
	if !f.backends[f.on[m[0]]].SupportsFused(fused) {
		return
	}
	fused.ID, f.on[fused] = m[0].ID, f.on[m[0]]
	offset := 0
	for i := range m {
		f.put(m[i], &Node{Op: OpView, Name: m[i].Name, Type: m[i].Type, Shape: m[i].Shape, In: []*Node{fused}, Attr: ViewAttr{offset}})
		offset += m[i].Shape[1]
	}
}

// ffn makes FusedFFN.
func (f *fuser) ffn(n *Node) {
	if n.Op != OpSwiGLU {
		return
	}
	gate, up := n.In[0], n.In[1]
	if !f.inner(gate, OpMatMul) || !f.inner(up, OpMatMul) || gate.In[0] != up.In[0] || !f.together(n, gate, up) ||
		gate.Weights[1] != nil || up.Weights[1] != nil {
		return
	}
	fused := &Node{ID: n.ID, Op: OpFusedFFN, Name: n.Name, Type: n.Type, Shape: n.Shape, In: gate.In[:1],
		Weights: []*Weight{gate.Weights[0], up.Weights[0]}, Layer: n.Layer}
	if f.backends[f.on[n]].SupportsFused(fused) {
		f.put(n, fused)
	}
}

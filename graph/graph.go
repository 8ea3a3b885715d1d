package graph

// Graph is an immutable list of nodes in execution order: a node's ID is its index and its operands stand before it.
// Passes read a graph and make a new one.
type Graph struct {
	Params  Params
	Nodes   []*Node
	Outputs []*Node
}

// Places reports whether an op only says where a tensor lies: such nodes are never executed.
func (o Op) Places() bool {
	return o == OpInput || o == OpView || o == OpReshape || o == OpKvcacheLoad
}

// InRegion reports whether an op's result is a persistent KV region and not a buffer of the plan.
func (o Op) InRegion() bool { return o == OpKvcacheStore || o == OpKvcacheLoad }

// Layout resolves views: n's rows begin at offset in the buffer of root, each stride bytes after the one before. Root
// is the node whose result owns the buffer.
func (n *Node) Layout() (root *Node, offset, stride int64) {
	switch n.Op {
	case OpReshape:
		root, offset, stride = n.In[0].Layout()
		if n.Shape[0] != n.In[0].Shape[0] { // only contiguous tensors change their rows (Builder.Reshape)
			stride = n.rowBytes()
		}
		return root, offset, stride
	case OpView:
		root, offset, stride = n.In[0].Layout()
		return root, offset + int64(n.Attr.(ViewAttr).Offset)*int64(n.Type.BlockBytes()), stride
	}
	return n, 0, n.rowBytes()
}

// Bytes is the size of n's result when contiguous.
func (n *Node) Bytes() int64 { return int64(n.Shape[0]) * n.rowBytes() }

func (n *Node) rowBytes() int64 {
	return int64(n.Shape[1:].Elems()) / int64(n.Type.BlockElems()) * int64(n.Type.BlockBytes())
}

func (n *Node) contiguous() bool {
	_, _, stride := n.Layout()
	return n.Shape[0] == 1 || stride == n.rowBytes()
}

// users counts, by node ID, how often a result is an operand.
func (g *Graph) users() []int {
	u := make([]int, len(g.Nodes))
	for _, n := range g.Nodes {
		for _, in := range n.In {
			u[in.ID]++
		}
	}
	return u
}

// isOutput marks output nodes by ID.
func (g *Graph) isOutput() []bool {
	o := make([]bool, len(g.Nodes))
	for _, n := range g.Outputs {
		o[n.ID] = true
	}
	return o
}

// rewrite makes the graph of the nodes in list, in that order but for nodes that move up to stand before their users.
// Operands are remapped through replace (old node to the node that takes its place); nodes that are replaced or
// reach neither an output nor a KV store are dropped. It returns the graph and, by new ID, the node in list that each came from.
func rewrite(p Params, list []*Node, outputs []*Node, replace map[*Node]*Node) (*Graph, []*Node) {
	at := func(n *Node) *Node {
		for r := replace[n]; r != nil; r = replace[n] {
			n = r
		}
		return n
	}
	live := make(map[*Node]bool, len(list))
	var mark func(*Node)
	mark = func(n *Node) {
		if n = at(n); live[n] {
			return
		}
		live[n] = true
		for _, in := range n.In {
			mark(in)
		}
	}
	for _, n := range outputs {
		mark(n)
	}
	for _, n := range list {
		if n.stores() {
			mark(n)
		}
	}

	g := &Graph{Params: p}
	var from []*Node
	made := make(map[*Node]*Node, len(list))
	var emit func(*Node) *Node
	emit = func(n *Node) *Node {
		n = at(n)
		if c := made[n]; c != nil {
			return c
		}
		c := *n
		c.In = make([]*Node, len(n.In))
		for i, in := range n.In {
			c.In[i] = emit(in)
		}
		c.ID = len(g.Nodes)
		made[n] = &c
		g.Nodes = append(g.Nodes, &c)
		from = append(from, n)
		return &c
	}
	for _, n := range list {
		if live[n] {
			emit(n)
		}
	}
	for _, n := range outputs {
		g.Outputs = append(g.Outputs, emit(n))
	}
	return g, from
}

// stores reports whether the node writes to a KV region: it is kept even if nothing reads it.
func (n *Node) stores() bool {
	return n.Op == OpKvcacheStore || n.Op == OpQkvBiasRopeStore || n.Op == OpFusedQkvNorm
}

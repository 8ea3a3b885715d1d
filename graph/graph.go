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

// rewrite makes the graph of the nodes in list (execution order), remapping operands through replace (old node to the
// node that takes its place) and numbering anew; nodes that reach neither an output nor a KV store are dropped. It
// returns the graph and, by new ID, the index in list that each node came from.
func rewrite(p Params, list []*Node, outputs []*Node, replace map[*Node]*Node) (*Graph, []int) {
	at := func(n *Node) *Node {
		for {
			r, ok := replace[n]
			if !ok {
				return n
			}
			n = r
		}
	}
	live := make(map[*Node]bool, len(list))
	for _, n := range outputs {
		live[at(n)] = true
	}
	for i := len(list) - 1; i >= 0; i-- {
		n := list[i]
		if !live[n] && !n.stores() {
			continue
		}
		live[n] = true
		for _, in := range n.In {
			live[at(in)] = true
		}
	}
	g := &Graph{Params: p}
	var from []int
	made := make(map[*Node]*Node, len(list))
	for i, n := range list {
		if !live[n] {
			continue
		}
		c := *n
		c.ID = len(g.Nodes)
		c.In = make([]*Node, len(n.In))
		for j, in := range n.In {
			c.In[j] = made[at(in)]
		}
		made[n] = &c
		g.Nodes = append(g.Nodes, &c)
		from = append(from, i)
	}
	for _, n := range outputs {
		g.Outputs = append(g.Outputs, made[at(n)])
	}
	return g, from
}

// stores reports whether the node writes to a KV region: it is kept even if nothing reads it.
func (n *Node) stores() bool {
	return n.Op == OpKvcacheStore || n.Op == OpQkvBiasRopeStore || n.Op == OpFusedQkvNorm
}

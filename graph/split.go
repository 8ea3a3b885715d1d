package graph

// Split is a maximal range of nodes, in execution order, of one backend.
type Split struct {
	Backend int
	Nodes   []*Node // without those that only place tensors
	Copies  []Copy  // to be done before the nodes run
}

// Copy brings the result of Node, as a whole, from the backend that made it to the split's.
type Copy struct {
	Node *Node
	From int
}

// Splits cuts a graph at the borders between backends; with single, into one split a node (for traces). A value that
// crosses a border is copied once for each receiving backend, whatever the number of its users there; step inputs are
// written to each backend that needs them and never cross. Pure.
func Splits(g *Graph, a Assignment, single bool) []Split {
	var splits []Split
	type arrival struct{ node, backend int }
	arrived := map[arrival]bool{}
	for _, n := range g.Nodes {
		if n.Op.Places() {
			continue
		}
		b := a[n.ID]
		if len(splits) == 0 || single || splits[len(splits)-1].Backend != b {
			splits = append(splits, Split{Backend: b})
		}
		s := &splits[len(splits)-1]
		s.Nodes = append(s.Nodes, n)
		for _, in := range n.In {
			root, _, _ := in.Layout()
			from := a[root.ID]
			if from == b || root.Op == OpInput || root.Op.InRegion() || arrived[arrival{root.ID, b}] {
				continue
			}
			arrived[arrival{root.ID, b}] = true
			s.Copies = append(s.Copies, Copy{Node: root, From: from})
		}
	}
	return splits
}

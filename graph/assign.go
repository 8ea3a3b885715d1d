package graph

import (
	"fmt"
	"strings"
)

// Assignment says, by node ID, which backend (an index into the list) a node belongs to.
type Assignment []int

// Assign gives each node to the first backend whose SupportsOp says yes. Views and reshapes go where their operand is;
// inputs to their first user; nodes that touch a KV region (store, load, attention) to layers[i], the backend that owns
// layer i's regions. A node that nobody runs is an error with every backend's reason, wrapping ErrUnsupported. Pure.
func Assign(g *Graph, backends []Backend, layers []int) (Assignment, error) {
	a := make(Assignment, len(g.Nodes))
	for _, n := range g.Nodes {
		a[n.ID] = -1
		switch {
		case n.Op == OpInput:
			continue
		case n.Op == OpView || n.Op == OpReshape:
			a[n.ID] = a[n.In[0].ID]
			continue
		}
		from, to := 0, len(backends)
		if layer, ok := kvLayer(n); ok {
			if layer >= len(layers) || layers[layer] < 0 || layers[layer] >= len(backends) {
				return nil, n.Errorf("layer %d has no backend: the KV cache has %d layers", layer, len(layers))
			}
			from, to = layers[layer], layers[layer]+1
		}
		var reasons []string
		for i := from; i < to && a[n.ID] < 0; i++ {
			if n.Op == OpKvcacheLoad {
				a[n.ID] = i
			} else if err := backends[i].SupportsOp(n); err == nil {
				a[n.ID] = i
			} else {
				reasons = append(reasons, fmt.Sprintf("%s: %v", backends[i].Name(), err))
			}
		}
		if a[n.ID] < 0 {
			return nil, n.Errorf("no backend runs it: %s: %w", strings.Join(reasons, "; "), ErrUnsupported)
		}
	}
	for _, n := range g.Nodes {
		for _, in := range n.In {
			if a[in.ID] < 0 {
				a[in.ID] = a[n.ID]
			}
		}
	}
	return a, nil
}

// kvLayer is the layer whose regions a node reads or writes, if any.
func kvLayer(n *Node) (int, bool) {
	switch at := n.Attr.(type) {
	case KVAttr:
		return at.Layer, true
	case AttnAttr:
		return at.Layer, true
	case QkvAttr:
		return at.Layer, n.Op != OpFusedQKV
	}
	return 0, false
}

package graph

// SlotKind says what a buffer of a plan is for; only scratch slots hold several results one after the other.
type SlotKind uint8

const (
	SlotScratch SlotKind = iota // results, reused when their last reader has run
	SlotInput                   // a step input
	SlotOutput                  // a graph output
	SlotStaging                 // a value from another backend
)

// Slot is one buffer of a plan.
type Slot struct {
	Backend int
	Bytes   int64
	Kind    SlotKind
}

// Plan says in which slot each result lies. KV regions are persistent and no part of it.
type Plan struct {
	Slots []Slot
	// At[backend][node ID] is the slot that holds a node's result on a backend, -1 if none does. Only nodes that own
	// their memory have one: views and reshapes lie in the slot of their root (Node.Layout).
	At [][]int
}

// Alloc plans buffers by liveness over the execution order. A node's result gets a free scratch slot of its backend with
// exactly its length, else a new one; the slot is free again after the last node that reads the result, through
// whatever views. So no node writes a buffer that it reads. Inputs, outputs and staged values have slots of their own, which
// stay theirs for the whole execution. Pure.
func Alloc(g *Graph, splits []Split, backends int) *Plan {
	p := &Plan{At: make([][]int, backends)}
	for b := range p.At {
		p.At[b] = make([]int, len(g.Nodes))
		for i := range p.At[b] {
			p.At[b][i] = -1
		}
	}
	add := func(b int, n *Node, kind SlotKind) {
		p.At[b][n.ID] = len(p.Slots)
		p.Slots = append(p.Slots, Slot{Backend: b, Bytes: n.Bytes(), Kind: kind})
	}

	last := make([]int, len(g.Nodes)) // by root: the last node, in execution order, that needs it
	for i := range last {
		last[i] = i
	}
	for _, s := range splits {
		for _, c := range s.Copies {
			add(s.Backend, c.Node, SlotStaging)
			last[c.Node.ID] = max(last[c.Node.ID], s.Nodes[0].ID)
		}
		for _, n := range s.Nodes {
			for _, in := range n.In {
				root, _, _ := in.Layout()
				if root.Op == OpInput && p.At[s.Backend][root.ID] < 0 {
					add(s.Backend, root, SlotInput)
				}
				if p.At[s.Backend][root.ID] < 0 { // made here; what was staged needs its original no longer
					last[root.ID] = max(last[root.ID], n.ID)
				}
			}
		}
	}
	output := make([]bool, len(g.Nodes))
	for _, n := range g.Outputs {
		root, _, _ := n.Layout()
		output[root.ID] = true
	}

	type key struct {
		backend int
		bytes   int64
	}
	free := map[key][]int{}
	ends := make([][]*Node, len(g.Nodes)) // by node: scratch results that it is the last to need
	for _, s := range splits {
		for _, n := range s.Nodes {
			k := key{s.Backend, n.Bytes()}
			switch {
			case n.Op.InRegion():
			case output[n.ID]:
				add(s.Backend, n, SlotOutput)
			case len(free[k]) > 0:
				f := free[k]
				p.At[s.Backend][n.ID], free[k] = f[len(f)-1], f[:len(f)-1]
				ends[last[n.ID]] = append(ends[last[n.ID]], n)
			default:
				add(s.Backend, n, SlotScratch)
				ends[last[n.ID]] = append(ends[last[n.ID]], n)
			}
			for _, e := range ends[n.ID] {
				for b := range p.At {
					if slot := p.At[b][e.ID]; slot >= 0 && p.Slots[slot].Kind == SlotScratch {
						k := key{b, p.Slots[slot].Bytes}
						free[k] = append(free[k], slot)
					}
				}
			}
		}
	}
	return p
}

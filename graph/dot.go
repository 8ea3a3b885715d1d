package graph

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteDOT writes g in Graphviz's language: a box a node with its name, op, type and shape, and its weights; views,
// reshapes, loads and inputs dashed; fused nodes with a double border; blocks as clusters; the colour is the backend's, if an
// assignment and its backends are given.
func WriteDOT(w io.Writer, g *Graph, a Assignment, backends []Backend) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "digraph minfer {\n  rankdir=TB;\n  node [shape=box, style=filled, fillcolor=white, fontname=\"monospace\", fontsize=10];\n")
	fmt.Fprintf(out, "  label=%q;\n", fmt.Sprintf("rows %d, outputs %d, KV %s/%s", g.Params.Rows, g.Params.Outputs, g.Params.KeyType, g.Params.ValueType))
	layer := -1
	for _, n := range g.Nodes {
		if n.Layer != layer {
			if layer >= 0 {
				fmt.Fprintln(out, "  }")
			}
			if layer = n.Layer; layer >= 0 {
				fmt.Fprintf(out, "  subgraph cluster_%d_%d {\n  label=\"block %d\"; color=gray;\n", layer, n.ID, layer)
			}
		}
		writeDOTNode(out, n, a, backends)
	}
	if layer >= 0 {
		fmt.Fprintln(out, "  }")
	}
	for _, n := range g.Nodes {
		for i, in := range n.In {
			style := ""
			if in.Op.InRegion() {
				style = " [style=bold]" // memory that lives on from step to step
			} else if i > 0 && in.Op == OpInput {
				style = " [style=dotted]"
			}
			fmt.Fprintf(out, "  n%d -> n%d%s;\n", in.ID, n.ID, style)
		}
	}
	for i, n := range g.Outputs {
		fmt.Fprintf(out, "  out%d [label=\"output %d\", shape=ellipse];\n  n%d -> out%d;\n", i, i, n.ID, i)
	}
	fmt.Fprintln(out, "}")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("graph: DOT: %w", err)
	}
	return nil
}

var dotColours = []string{"#d7e9d0", "#cfe0f5", "#f5e3cf", "#e6d3ee"}

func writeDOTNode(out io.Writer, n *Node, a Assignment, backends []Backend) {
	label := []string{n.Name, fmt.Sprintf("%s %s %s", n.Op, n.Type, n.Shape)}
	for _, w := range n.Weights {
		if w != nil {
			label = append(label, fmt.Sprintf("%s %s %s", w.Name, w.Type, w.Shape))
		}
	}
	attrs := ""
	if n.Op.Places() {
		attrs = ", style=\"filled,dashed\""
	} else if n.Op >= OpFusedQKV {
		attrs = ", peripheries=2"
	}
	if len(a) > n.ID && a[n.ID] >= 0 && a[n.ID] < len(backends) {
		label = append(label, "on "+backends[a[n.ID]].Name())
		attrs += fmt.Sprintf(", fillcolor=%q", dotColours[a[n.ID]%len(dotColours)])
	}
	fmt.Fprintf(out, "  n%d [label=\"%s\"%s];\n", n.ID, dotEscape.Replace(strings.Join(label, "\x00")), attrs)
}

// Names come from files: nothing in them may end the label.
var dotEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\x00", `\n`)

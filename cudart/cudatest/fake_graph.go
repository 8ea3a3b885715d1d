package cudatest

import (
	"slices"
	"unsafe"

	"github.com/minfer-go/minfer/cudart/sys"
)

type node struct {
	h    sys.GraphNode
	op   *op
	deps []*node
}

type graph struct {
	dev       *device
	nodes     []*node
	destroyed bool
}

func (g *graph) find(h sys.GraphNode) *node {
	for _, n := range g.nodes {
		if n.h == h {
			return n
		}
	}
	return nil
}

// order sorts the nodes so that each comes after those it depends on, by age where they leave a choice; false if they
// make a ring.
func (g *graph) order() ([]*node, bool) {
	var out []*node
	done := map[*node]bool{}
	for len(out) < len(g.nodes) {
		before := len(out)
		for _, x := range g.nodes {
			if !done[x] && !slices.ContainsFunc(x.deps, func(dep *node) bool { return !done[dep] }) {
				done[x] = true
				out = append(out, x)
			}
		}
		if len(out) == before {
			return nil, false
		}
	}
	return out, true
}

// exec is a graph made executable: its work in an order that its edges allow.
type exec struct {
	from *graph
	at   map[sys.GraphNode]int // in work
	work []*op
}

func (f *Fake) graphCreate() (sys.Graph, sys.Result) {
	defer f.mu.Unlock()
	d, r := f.enter("GraphCreate")
	if r != sys.Success {
		return 0, r
	}
	h := sys.Graph(f.handle())
	f.graphs[h] = &graph{dev: d}
	return h, r
}

// graph is enter for calls about a graph.
func (f *Fake) graph(name string, h sys.Graph) (*graph, sys.Result) {
	_, r := f.enter(name)
	g := f.graphs[h]
	if r == sys.Success && g == nil {
		f.violate("%s: no graph %#x", name, h)
		r = sys.InvalidHandle
	}
	return g, r
}

// exec is enter for calls about an executable graph.
func (f *Fake) exec(name string, h sys.GraphExec) (*device, *exec, sys.Result) {
	d, r := f.enter(name)
	e := f.execs[h]
	if r == sys.Success && e == nil {
		f.violate("%s: no executable graph %#x", name, h)
		r = sys.InvalidHandle
	}
	return d, e, r
}

func (f *Fake) graphDestroy(h sys.Graph) sys.Result {
	defer f.mu.Unlock()
	g, r := f.graph("GraphDestroy", h)
	if r == sys.Success {
		g.destroyed = true
		delete(f.graphs, h)
	}
	return r
}

func (f *Fake) graphAddKernel(h sys.Graph, deps []sys.GraphNode, k sys.Kernel, cfg *sys.LaunchConfig, params unsafe.Pointer, n uint64) (sys.GraphNode, sys.Result) {
	defer f.mu.Unlock()
	g, r := f.graph("GraphAddKernel", h)
	if r != sys.Success {
		return 0, r
	}
	o, r := f.kernelOp(k, cfg, params, n)
	if r != sys.Success {
		return 0, r
	}
	x := &node{h: sys.GraphNode(f.handle()), op: o}
	for _, dep := range deps {
		from := g.find(dep)
		if from == nil {
			return 0, sys.InvalidValue
		}
		x.deps = append(x.deps, from)
	}
	g.nodes = append(g.nodes, x)
	return x.h, r
}

func (f *Fake) graphAddEdge(h sys.Graph, from, to sys.GraphNode) sys.Result {
	defer f.mu.Unlock()
	g, r := f.graph("GraphAddEdgesProg", h)
	if r != sys.Success {
		return r
	}
	a, b := g.find(from), g.find(to)
	if a == nil || b == nil || a == b || a.op.kernel == nil || b.op.kernel == nil || slices.Contains(b.deps, a) {
		return sys.InvalidValue
	}
	b.deps = append(b.deps, a)
	return r
}

func (f *Fake) graphNodeCount(h sys.Graph) (int, sys.Result) {
	defer f.mu.Unlock()
	g, r := f.graph("GraphNodeCount", h)
	if r != sys.Success {
		return 0, r
	}
	return len(g.nodes), r
}

func (f *Fake) graphInstantiate(h sys.Graph) (sys.GraphExec, sys.Result) {
	defer f.mu.Unlock()
	g, r := f.graph("GraphInstantiate", h)
	if r != sys.Success {
		return 0, r
	}
	order, ok := g.order()
	if !ok {
		return 0, sys.InvalidValue
	}
	e := &exec{from: g, at: map[sys.GraphNode]int{}}
	for i, x := range order {
		e.at[x.h] = i
		e.work = append(e.work, x.op)
	}
	eh := sys.GraphExec(f.handle())
	f.execs[eh] = e
	return eh, r
}

// graphExecUpdate takes a graph with as many nodes of the same kinds in the same order.
func (f *Fake) graphExecUpdate(eh sys.GraphExec, gh sys.Graph) (int, sys.Result) {
	const topologyChanged = 2
	defer f.mu.Unlock()
	_, e, r := f.exec("GraphExecUpdate", eh)
	g := f.graphs[gh]
	switch {
	case r != sys.Success:
		return 0, r
	case g == nil:
		return 0, sys.InvalidHandle
	}
	order, ok := g.order()
	if !ok || len(order) != len(e.work) {
		return topologyChanged, sys.GraphExecUpdateFailure
	}
	for i, x := range order {
		if (x.op.kernel == nil) != (e.work[i].kernel == nil) || x.op.kernel == nil && x.op.what != e.work[i].what {
			return topologyChanged, sys.GraphExecUpdateFailure
		}
	}
	for i, x := range order {
		e.work[i] = x.op
	}
	return 0, r
}

func (f *Fake) graphExecSetNode(eh sys.GraphExec, nh sys.GraphNode, k sys.Kernel, cfg *sys.LaunchConfig, params unsafe.Pointer, n uint64) sys.Result {
	defer f.mu.Unlock()
	_, e, r := f.exec("GraphExecSetNode", eh)
	if r != sys.Success {
		return r
	}
	i, ok := e.at[nh]
	if !ok || e.from.destroyed || e.work[i].kernel == nil {
		f.violate("GraphExecSetNode: no such kernel node, or its graph has been destroyed")
		return sys.InvalidValue
	}
	o, r := f.kernelOp(k, cfg, params, n)
	if r == sys.Success {
		e.work[i] = o
	}
	return r
}

func (f *Fake) graphLaunch(eh sys.GraphExec, sh sys.Stream) sys.Result {
	defer f.mu.Unlock()
	d, e, r := f.exec("GraphLaunch", eh)
	if r != sys.Success {
		return r
	}
	for _, o := range e.work {
		if r = f.push(d, sh, o); r != sys.Success {
			return r
		}
	}
	return r
}

func (f *Fake) graphUpload(eh sys.GraphExec, sh sys.Stream) sys.Result {
	defer f.mu.Unlock()
	d, _, r := f.exec("GraphUpload", eh)
	if r == sys.Success {
		_, r = f.on(d, sh)
	}
	return r
}

func (f *Fake) graphExecDestroy(eh sys.GraphExec) sys.Result {
	defer f.mu.Unlock()
	_, _, r := f.exec("GraphExecDestroy", eh)
	if r == sys.Success {
		delete(f.execs, eh)
	}
	return r
}

package cudart

import (
	"fmt"
	"unsafe"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Graph is work with its order, captured or built node by node; Instantiate makes it executable. For one goroutine at a time.
type Graph struct {
	c *Context
	h sys.Graph
}

// Node is a node of a Graph.
type Node = sys.GraphNode

// NewGraph makes an empty graph.
func (b *Bound) NewGraph() (*Graph, error) {
	if err := b.outside("creating a graph"); err != nil {
		return nil, err
	}
	h, r := b.t.GraphCreate()
	if r != sys.Success {
		return nil, b.c.fail("GraphCreate", r, "creating a graph")
	}
	return &Graph{c: b.c, h: h}, nil
}

func (g *Graph) of(b *Bound, doing string) error {
	if err := b.outside(doing); err != nil {
		return err
	}
	switch {
	case g == nil || g.h == 0:
		return closed(doing)
	case g.c != b.c:
		return invalid("%s: the graph belongs to another context", doing)
	}
	return nil
}

// AddKernel adds a kernel that runs after deps; arguments as for Bound.Launch. With cfg.Programmatic the edges from deps
// are programmatic ones: the kernel may start before deps (kernels all) have ended and waits itself
// (griddepcontrol.wait). Where driver or device don't have these, edges are normal.
func (g *Graph) AddKernel(b *Bound, deps []Node, k *Kernel, cfg *LaunchConfig, params unsafe.Pointer, n uintptr) (Node, error) {
	if err := g.of(b, "adding a kernel to a graph"); err != nil {
		return 0, err
	}
	if err := b.arguments(k, cfg, params, n); err != nil {
		return 0, err
	}
	after := deps
	programmatic := b.args.cfg.Programmatic != 0 && b.t.GraphAddEdgesProg != nil
	if programmatic {
		after = nil
	}
	b.args.cfg.Programmatic = 0
	node, r := b.t.GraphAddKernel(g.h, after, k.h, &b.args.cfg, unsafe.Pointer(&b.args.params), uint64(n))
	if r != sys.Success {
		return 0, b.c.fail("GraphAddKernel", r, "adding to a graph "+describeLaunch(k, &b.args.cfg))
	}
	if programmatic {
		for _, from := range deps {
			if err := g.AddDependencyProgrammatic(b, from, node); err != nil {
				return 0, err
			}
		}
	}
	return node, nil
}

// AddDependencyProgrammatic orders two kernel nodes by a programmatic edge (see AddKernel). ErrUnsupported if the driver
// (before CUDA 12.3) or the device (before sm_90) doesn't have them.
func (g *Graph) AddDependencyProgrammatic(b *Bound, from, to Node) error {
	if err := g.of(b, "adding an edge to a graph"); err != nil {
		return err
	}
	if b.t.GraphAddEdgesProg == nil || b.c.info.Major < 9 {
		return fmt.Errorf("cudart: programmatic edges on %s: %w", b.c.info.Name, ErrUnsupported)
	}
	if r := b.t.GraphAddEdgesProg(g.h, from, to); r != sys.Success {
		return b.c.fail("GraphAddEdgesProg", r, "adding a programmatic edge to a graph")
	}
	return nil
}

// Len is the number of its nodes.
func (g *Graph) Len(b *Bound) (int, error) {
	if err := g.of(b, "counting a graph's nodes"); err != nil {
		return 0, err
	}
	n, r := b.t.GraphNodeCount(g.h)
	if r != sys.Success {
		return 0, b.c.fail("GraphNodeCount", r, "counting a graph's nodes")
	}
	return n, nil
}

// Destroy ends the graph; its Execs live on, but their SetKernel needs the graph's nodes. A second call is ErrClosed.
func (g *Graph) Destroy(b *Bound) error {
	if err := g.of(b, "destroying a graph"); err != nil {
		return err
	}
	h := g.h
	g.h = 0
	if r := b.t.GraphDestroy(h); r != sys.Success {
		return b.c.fail("GraphDestroy", r, "destroying a graph")
	}
	return nil
}

// Exec is an executable graph. For one goroutine at a time; launches of one Exec run one after another.
type Exec struct {
	c *Context
	h sys.GraphExec
}

// Instantiate makes an executable copy of the graph.
func (g *Graph) Instantiate(b *Bound) (*Exec, error) {
	if err := g.of(b, "instantiating a graph"); err != nil {
		return nil, err
	}
	h, r := b.t.GraphInstantiate(g.h)
	if r != sys.Success {
		return nil, b.c.fail("GraphInstantiate", r, "instantiating a graph")
	}
	return &Exec{c: b.c, h: h}, nil
}

func (e *Exec) of(b *Bound, doing string) error {
	if err := b.check(); err != nil {
		return err
	}
	switch {
	case e == nil || e.h == 0:
		return closed(doing)
	case e.c != b.c:
		return invalid("%s: the graph belongs to another context", doing)
	}
	return nil
}

// Launch puts the whole graph on the stream. It allocates nothing.
func (e *Exec) Launch(b *Bound, s *Stream) error {
	if err := b.on(s); err != nil {
		return err
	}
	if err := e.of(b, "launching a graph"); err != nil {
		return err
	}
	if r := b.t.GraphLaunch(e.h, s.h); r != sys.Success {
		return b.c.fail("GraphLaunch", r, "launching a graph")
	}
	return nil
}

// Upload brings the graph to the device ahead of its first launch, in the order of s; nothing happens where the driver
// can't.
func (e *Exec) Upload(b *Bound, s *Stream) error {
	if err := b.on(s); err != nil {
		return err
	}
	if err := b.outside("uploading a graph"); err != nil {
		return err
	}
	if err := e.of(b, "uploading a graph"); err != nil {
		return err
	}
	if b.t.GraphUpload == nil {
		return nil
	}
	if r := b.t.GraphUpload(e.h, s.h); r != sys.Success {
		return b.c.fail("GraphUpload", r, "uploading a graph")
	}
	return nil
}

// SetKernel changes a kernel node of the graph that e was made from, for later launches: parameters, grid, block and
// shared memory. Its cluster shape stays. It allocates nothing.
func (e *Exec) SetKernel(b *Bound, node Node, k *Kernel, cfg *LaunchConfig, params unsafe.Pointer, n uintptr) error {
	if err := e.of(b, "changing a graph's kernel"); err != nil {
		return err
	}
	if err := b.arguments(k, cfg, params, n); err != nil {
		return err
	}
	b.args.cfg.Programmatic = 0
	if r := b.t.GraphExecSetNode(e.h, node, k.h, &b.args.cfg, unsafe.Pointer(&b.args.params), uint64(n)); r != sys.Success {
		return b.c.fail("GraphExecSetNode", r, "changing in a graph "+describeLaunch(k, &b.args.cfg))
	}
	return nil
}

// Update gives e the parameters of a graph of the same shape. One of another shape is ErrUpdate: instantiate it.
func (e *Exec) Update(b *Bound, g *Graph) error {
	if err := g.of(b, "updating an executable graph"); err != nil {
		return err
	}
	if err := e.of(b, "updating an executable graph"); err != nil {
		return err
	}
	detail, r := b.t.GraphExecUpdate(e.h, g.h)
	if r != sys.Success {
		return b.c.fail("GraphExecUpdate", r, fmt.Sprintf("updating an executable graph (reason %d)", detail))
	}
	return nil
}

// Destroy ends the executable graph. Wait for its launches first. A second call is ErrClosed.
func (e *Exec) Destroy(b *Bound) error {
	if err := b.releasing("destroying an executable graph"); err != nil {
		return err
	}
	if err := e.of(b, "destroying an executable graph"); err != nil {
		return err
	}
	h := e.h
	e.h = 0
	if r := b.t.GraphExecDestroy(h); r != sys.Success {
		return b.c.fail("GraphExecDestroy", r, "destroying an executable graph")
	}
	return nil
}

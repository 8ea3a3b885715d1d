package backendcuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/minfer-go/minfer/cudart"
)

// capture makes a CUDA graph of the program and launches it, so that this run has its results too. Inside the window there are
// launches only: kernels are loaded, scratch and tables are there since Compile. If the graph cannot be made, replay is
// switched off for this backend with one line, and the run goes on kernel by kernel: nothing of it has run yet. A
// launch that fails is an error of this run.
func (p *program) capture(bd *cudart.Bound) error {
	b := p.b
	var failed error // of a launch
	var g *cudart.Graph
	var err error
	if b.opts.Explicit {
		g, err = p.explicit(bd)
	} else {
		g, err = bd.Capture(b.stream, captureModes[b.opts.Capture], func() error {
			failed = p.launch(bd)
			return failed
		})
	}
	if err == nil {
		p.exec, err = g.Instantiate(bd)
		err = errors.Join(err, g.Destroy(bd))
	}
	if err != nil {
		b.noGraph = true
		b.opts.Notice(fmt.Sprintf("CUDA: no more replay of steps, kernels are launched one by one, slower: %s: %v", p.name, err))
		if p.exec != nil {
			err = p.exec.Destroy(bd)
			p.exec = nil
		}
		if failed != nil {
			return failed
		}
		if errors.Is(err, cudart.ErrSticky) {
			return err
		}
		return p.direct(bd)
	}
	b.stats.Captured++
	b.stats.Execs++
	return p.exec.Launch(bd, b.stream)
}

// explicit makes the graph node by node: no window, and no thread that it belongs to.
func (p *program) explicit(bd *cudart.Bound) (*cudart.Graph, error) {
	g, err := bd.NewGraph()
	if err != nil {
		return nil, err
	}
	var last cudart.Node
	for i := range p.launches {
		l := &p.launches[i]
		var deps []cudart.Node
		if i > 0 {
			deps = []cudart.Node{last}
		}
		last, err = g.AddKernel(bd, deps, l.kernel, &l.cfg, unsafe.Pointer(unsafe.SliceData(l.params)), l.n)
		if err != nil {
			return nil, errors.Join(l.node.Errorf("kernel %s as a graph node: %w", l.info.ID, err), g.Destroy(bd))
		}
	}
	return g, nil
}

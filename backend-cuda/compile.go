package backendcuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/quant"
)

// compiler turns a unit into a program. It goes over the nodes twice: first to learn how much scratch the program needs, then,
// with the scratch in place, to record the launches.
type compiler struct {
	b *Backend
	u *graph.Unit
	p *program

	recording bool
	scratch   scratchPlan
	base      cudart.Ptr // of the scratch, when recording

	counterBytes int64      // that attention counts its blocks in: zeros, which every launch leaves as zeros
	counters     cudart.Ptr // when recording

	node    *graph.Node                   // that launches are recorded for
	readers []int                         // by node that owns memory: how many of the unit's nodes read it
	last    map[rounding]int              // rows that products want in a form: index of the last node that wants them
	ropes   map[graph.RopeAttr]cudart.Ptr // tables of cosines and sines made already
	acts    map[rounding]*activations     // those in their form already
	err     error
}

// Compile resolves a unit to launches. It waits for weights on their way to the device. Errors name the node or the tensor.
func (b *Backend) Compile(u *graph.Unit) (graph.Program, error) {
	for _, n := range u.Nodes {
		if err := b.SupportsOp(n); err != nil {
			return nil, err
		}
	}
	p := &program{b: b, phase: u.Params.Phase(), name: fmt.Sprintf("the step of %d rows from %q on", u.Params.Rows, u.Nodes[0].Name)}
	p.step = p.run
	p.replays = !u.Traced && (u.Params.Outputs == 1 && u.Params.Rows == 1 || !b.opts.NoPrefillCapture)
	err := b.do(func(bd *cudart.Bound) error {
		if err := b.dev.registry.settle(bd); err != nil {
			return err
		}
		plan := &compiler{b: b, u: u, p: p}
		if err := plan.pass(bd); err != nil {
			return err
		}
		arena, err := b.arenaFor(bd, plan.scratch.size)
		if err != nil {
			return fmt.Errorf("backendcuda: %d bytes of scratch: %w", plan.scratch.size, err)
		}
		p.arena = arena
		record := &compiler{b: b, u: u, p: p, recording: true}
		if n := plan.counterBytes; n > 0 {
			if p.counters, err = b.buffer(bd, n); err != nil {
				return err
			}
			if err := bd.Memset8(b.stream, p.counters.Ptr(), 0, n); err != nil {
				return err
			}
			record.counters = p.counters.Ptr()
		}
		if arena != nil {
			record.base = arena.mem.Ptr()
		}
		if err := record.pass(bd); err != nil {
			return err
		}
		if record.scratch.size != plan.scratch.size {
			return fmt.Errorf("backendcuda: a bug: %d bytes of scratch planned, %d used", plan.scratch.size, record.scratch.size)
		}
		return nil
	})
	b.stats.Programs++
	if err != nil {
		return nil, errors.Join(outOfMemory(err), p.Close())
	}
	return p, nil
}

func (c *compiler) pass(bd *cudart.Bound) error {
	c.last, c.acts, c.ropes = map[rounding]int{}, map[rounding]*activations{}, map[graph.RopeAttr]cudart.Ptr{}
	c.readers = make([]int, len(c.u.Tensors))
	for i, n := range c.u.Nodes {
		for _, w := range productWeights(n) {
			if f := c.b.form(n.In[0].Shape[0], w.Type); f != formF32 {
				c.last[rounding{source(n.In[0]).ID, f}] = i
			}
		}
		for _, in := range n.In {
			root, _, _ := in.Layout()
			c.readers[root.ID]++
		}
	}
	for i := 0; i < len(c.u.Nodes) && c.err == nil; i++ {
		n := c.u.Nodes[i]
		var next *graph.Node
		if i+1 < len(c.u.Nodes) && !c.u.Traced {
			next = c.u.Nodes[i+1]
		}
		c.node = n
		joined := c.op(bd, n, next)
		c.done(i)
		if joined {
			i++
		}
	}
	return c.err
}

// done gives back the scratch of rows that no node after the i-th wants, in a fixed order: both passes must plan alike.
func (c *compiler) done(i int) {
	var keys []rounding
	for key := range c.acts {
		if c.last[key] <= i {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(x, y rounding) int { return cmp.Or(cmp.Compare(x.node, y.node), cmp.Compare(x.form, y.form)) })
	for _, key := range keys {
		c.acts[key].give(c)
		delete(c.acts, key)
	}
}

// Launch records a kernel: compiler is the queue that launchers are given.
func (c *compiler) Launch(k *cudart.Kernel, cfg cudart.LaunchConfig, params unsafe.Pointer, n uintptr, info kernelscuda.KernelInfo) error {
	if !c.recording {
		return nil
	}
	words := make([]uint64, (n+7)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n), unsafe.Slice((*byte)(params), n))
	if len(c.p.launches) > 0 { // the first one follows copies of inputs
		cfg.Programmatic = 1
	}
	c.p.launches = append(c.p.launches, launch{kernel: k, cfg: cfg, params: words, n: n, info: info, node: c.node})
	return nil
}

// queue takes a launcher's error.
func (c *compiler) queue(err error) {
	if err != nil {
		c.fail(c.node.Errorf("cuda: %w", err))
	}
}

func (c *compiler) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// mat is a float32 tensor: rows of width elements, stride elements apart.
type mat struct {
	ptr                 cudart.Ptr
	rows, width, stride int32
}

func (c *compiler) mat(n *graph.Node) mat {
	t := &c.u.Tensors[n.ID]
	m := mat{rows: int32(n.Shape[0]), width: int32(n.Shape[1:].Elems()), stride: int32(t.RowStride / 4)}
	bytes := int64(m.rows-1)*t.RowStride + int64(m.width)*4
	var err error
	m.ptr, err = span(t.Buffer, t.Offset, bytes)
	if err != nil || n.Type != quant.F32 || t.RowStride%4 != 0 {
		c.fail(n.Errorf("cuda: place of the %s tensor: %w", n.Type, errors.Join(err, graph.ErrUnsupported)))
	}
	return m
}

// ints places a step input.
func (c *compiler) ints(n *graph.Node) cudart.Ptr {
	t := &c.u.Tensors[n.ID]
	p, err := span(t.Buffer, t.Offset, int64(n.Shape.Elems())*4)
	if err != nil {
		c.fail(n.Errorf("cuda: place of the step input: %w", err))
	}
	return p
}

func (c *compiler) weight(n *graph.Node, w *graph.Weight) *weight {
	r, err := c.b.weights.Find("cuda", n, w)
	if err != nil {
		c.fail(err)
	}
	return r
}

// vector is the address of a norm's or a bias's elements, 0 for none.
func (c *compiler) vector(n *graph.Node, w *graph.Weight) cudart.Ptr {
	if w == nil {
		return 0
	}
	r := c.weight(n, w)
	if r == nil {
		return 0
	}
	return r.plane.ptr()
}

// region is where a layer's keys or values lie.
type region struct {
	ptr      cudart.Ptr
	rowBytes int64
	typ      quant.Type
}

func (c *compiler) region(n *graph.Node, a graph.KVAttr) region {
	list := c.u.Keys
	if a.Value {
		list = c.u.Values
	}
	if a.Layer < 0 || a.Layer >= len(list) || list[a.Layer].Buffer == nil {
		c.fail(n.Errorf("cuda: no KV region for layer %d, value %v", a.Layer, a.Value))
		return region{}
	}
	k := &list[a.Layer]
	p, err := span(k.Buffer, 0, k.RowBytes*int64(k.Cells))
	if err != nil {
		c.fail(n.Errorf("cuda: KV region of layer %d: %w", a.Layer, err))
	}
	return region{p, k.RowBytes, k.Type}
}

// take gives n bytes of scratch; give returns them for later nodes.
type scratchRange struct {
	ptr            cudart.Ptr
	offset, length int64
}

func (c *compiler) take(n int64) scratchRange {
	offset, length := c.scratch.take(n)
	return scratchRange{c.base + cudart.Ptr(offset), offset, length}
}

func (c *compiler) give(r scratchRange) { c.scratch.give(r.offset, r.length) }

// op records n's launches. If the node after it is done with them too, it reports so.
func (c *compiler) op(bd *cudart.Bound, n, next *graph.Node) (joined bool) {
	switch n.Op {
	case graph.OpAdd, graph.OpMul, graph.OpSilu, graph.OpSwiGLU, graph.OpScale:
		c.elementwise(n)
	case graph.OpRmsNorm, graph.OpQkNorm:
		c.rmsNorm(n)
	case graph.OpSoftmax:
		c.softmax(n)
	case graph.OpPermute:
		c.permute(n)
	case graph.OpGetRows:
		c.getRows(n)
	case graph.OpMatMul:
		return c.matMul(n, next)
	case graph.OpFusedQKV:
		c.qkv(n)
	case graph.OpFusedFFN:
		c.ffn(n)
	case graph.OpRoPE:
		c.rope(bd, n)
	case graph.OpKvcacheStore:
		c.store(n)
	case graph.OpQkvBiasRopeStore, graph.OpFusedQkvNorm:
		c.qkvStore(bd, n)
	case graph.OpAttn:
		c.attention(n)
	case graph.OpBatchMatMul:
		c.batchMatMul(n)
	case graph.OpSample:
		c.sample(n)
	default:
		c.fail(n.Errorf("cuda: %w", graph.ErrUnsupported))
	}
	return false
}

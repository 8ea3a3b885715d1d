package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/minfer-go/minfer/quant"
)

// Builder makes a graph, one node a call. Every call checks its operands; the first fault sticks, names its node and is
// returned by Graph, and later calls do nothing. Only metadata is read: no weight bytes, no device.
//
// Common rules. Activations are F32, step inputs I32. Shapes are row-major; the first dimension is that of the step's
// rows wherever there is one. Operands may be views (rows with a stride); results are contiguous. Accumulation
// is at least float32; its order, and so the last bits, belong to the backend's class (docs/adr/0001). Ops neither
// refuse nor hide NaN and infinities.
type Builder struct {
	*building
	name string // for the nodes that are made through this value
}

type building struct {
	params Params
	nodes  []*Node
	out    []*Node
	inputs [NumInputs]*Node
	stored map[KVAttr]bool
	names  map[string]int
	layer  int
	err    error
	bad    *Node // stands for results after a fault
}

// NewBuilder starts a graph for the given parameters.
func NewBuilder(p Params) *Builder {
	return &Builder{building: &building{
		params: p, err: p.Validate(), layer: -1,
		stored: map[KVAttr]bool{}, names: map[string]int{},
		bad: &Node{ID: -1, Name: "(after a fault)", Shape: Shape{1, 1, 1, 1}},
	}}
}

// Params are those that the graph is built for.
func (b *Builder) Params() Params { return b.params }

// Err is the first fault, or nil.
func (b *Builder) Err() error { return b.err }

// Fail records a fault that the caller found; the first one sticks.
func (b *Builder) Fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// SetLayer says which transformer block the next nodes belong to, -1 for none. Their names get the prefix "blk.N.".
func (b *Builder) SetLayer(i int) { b.layer = i }

// As gives the same builder with a name for the node made through it: b.As("ffn_out").Add(x, y). Without it a node is named after
// its weight ("blk.0.attn_q.weight" gives blk.0.attn_q) or its op. A name that occurs again gets "#2", "#3" …
func (b *Builder) As(name string) *Builder { return &Builder{b.building, name} }

// Input is a step input: I32 of Params.InputShape(in). Asking again gives the same node.
func (b *Builder) Input(in Input) *Node {
	if b.err != nil {
		return b.bad
	}
	if in >= NumInputs {
		b.err = fmt.Errorf("graph: there is no input %d", in)
		return b.bad
	}
	if n := b.inputs[in]; n != nil {
		return n
	}
	n := b.add(&Node{Op: OpInput, Name: in.String(), Type: quant.I32, Shape: b.params.InputShape(in), Attr: InputAttr{in}, Layer: -1})
	if b.err == nil {
		b.inputs[in] = n
	}
	return n
}

// Output marks n as a result of the graph; Compiled.Output(i) reads the i-th one marked. F32 and contiguous, or the
// tokens of Sample, which ReadTokens reads.
func (b *Builder) Output(n *Node) {
	if b.err != nil {
		return
	}
	if err := b.operand(n); err != nil {
		b.err = fmt.Errorf("graph: output %d: %w", len(b.out), err)
		return
	}
	switch {
	case n.Op == OpSample:
		b.out = append(b.out, n)
	case n.Type != quant.F32 || n.Op.InRegion():
		b.err = n.Errorf("an output must be an F32 activation, this is %s", n.Type)
	case !n.contiguous():
		b.err = n.Errorf("an output must be contiguous, this is a view with a row stride")
	default:
		b.out = append(b.out, n)
	}
}

// Graph gives the finished graph, without nodes that reach neither an output nor a KV store, or the first fault.
func (b *Builder) Graph() (*Graph, error) {
	if b.err != nil {
		return nil, b.err
	}
	if len(b.out) == 0 && len(b.stored) == 0 {
		return nil, errors.New("graph: nothing to compute: no output is marked and no KV row stored")
	}
	g, _ := rewrite(b.params, b.nodes, b.out, nil)
	return g, nil
}

// GetRows looks rows of a weight table up: y[r] = w[ids[r]], widened to F32.
//
//	w [n, width] any weight type; ids an I32 input; y [len(ids), width]
//
// Ids outside 0..n-1 are refused when the step begins (Compiled.Run), so kernels need no check of their own.
func (b *Builder) GetRows(w *Weight, ids *Node) *Node {
	return b.make(&Node{Op: OpGetRows, In: []*Node{ids}, Weights: []*Weight{w}}, func(n *Node) error {
		if err := matrix(w); err != nil {
			return err
		}
		if ids.Op != OpInput {
			return errors.New("row indices must be a step input")
		}
		n.Shape = Shape{ids.Shape.Elems(), w.Shape[1]}
		return nil
	})
}

// SelectRows is GetRows of an activation: y[r] = x[ids[r]] (op GetRows with In = x, ids and no weight).
//
//	x [rows, …] F32; ids an I32 input, each 0..rows-1, refused when the step begins if not; y [len(ids), …]
func (b *Builder) SelectRows(x, ids *Node) *Node {
	return b.make(&Node{Op: OpGetRows, In: []*Node{x, ids}}, func(n *Node) error {
		if ids.Op != OpInput {
			return errors.New("row indices must be a step input")
		}
		n.Shape = append(Shape{ids.Shape.Elems()}, x.Shape[1:]...)
		return f32(x)
	})
}

// RmsNorm normalises over the last dimension (Zhang, Sennrich 2019: Root Mean Square Layer Normalization):
//
//	y[…, i] = x[…, i] / sqrt(mean_i(x[…, i]²) + eps) * w[i]
//
// x [rows, …, n] F32; w [n] F32; y as x.
func (b *Builder) RmsNorm(x *Node, w *Weight, eps float32) *Node {
	return b.make(&Node{Op: OpRmsNorm, In: []*Node{x}, Weights: []*Weight{w}, Attr: NormAttr{eps}}, func(n *Node) error {
		n.Shape = x.Shape
		return norm(x, w, eps)
	})
}

// QkNorm is RmsNorm of each head by one weight vector (Qwen3's q_norm, k_norm):
//
//	y[r, h, i] = x[r, h, i] / sqrt(mean_i(x[r, h, i]²) + eps) * w[i]
//
// x [rows, heads, head_dim] F32; w [head_dim] F32; y as x.
func (b *Builder) QkNorm(x *Node, w *Weight, eps float32) *Node {
	return b.make(&Node{Op: OpQkNorm, In: []*Node{x}, Weights: []*Weight{w}, Attr: NormAttr{eps}}, func(n *Node) error {
		n.Shape = x.Shape
		if len(x.Shape) != 3 {
			return fmt.Errorf("operand %q is %s, want [rows heads head_dim]", x.Name, x.Shape)
		}
		return norm(x, w, eps)
	})
}

// MatMul multiplies by a weight matrix stored a row an output feature (as GGUF files do), and adds a bias if there is one:
//
//	y[r, o] = sum_k x[r, k] * w[o, k] + bias[o]
//
// x [rows, …] F32 with k running over everything after the rows; w [out, in] any weight type; bias [out] F32 or nil;
// y [rows, out]. Backends may round activations to 8 bits for quantised weights, in one way for all batch sizes. The bias
// is added once, after the sum.
func (b *Builder) MatMul(x *Node, w, bias *Weight) *Node {
	return b.make(&Node{Op: OpMatMul, In: []*Node{x}, Weights: []*Weight{w, bias}}, func(n *Node) error {
		if err := errors.Join(f32(x), matrix(w)); err != nil {
			return err
		}
		if in := x.Shape[1:].Elems(); len(x.Shape) < 2 || in != w.Shape[1] {
			return fmt.Errorf("operand %q is %s, weight %q wants %d features a row", x.Name, x.Shape, w.Name, w.Shape[1])
		}
		n.Shape = Shape{x.Shape[0], w.Shape[0]}
		if bias == nil {
			return nil
		}
		return vector(bias, w.Shape[0])
	})
}

// View takes columns of each row: y[r] = x[r][offset : offset+width] with width the product of shape after its
// first dimension, which is x's. x is [rows, n] in this sense: its dimensions after the first count as one. No data moves.
func (b *Builder) View(x *Node, offset int, shape ...int) *Node {
	return b.make(&Node{Op: OpView, In: []*Node{x}, Shape: slices.Clone(shape), Attr: ViewAttr{offset}}, func(n *Node) error {
		if err := errors.Join(f32(x), dims(n.Shape)); err != nil {
			return err
		}
		width, have := n.Shape[1:].Elems(), x.Shape[1:].Elems()
		if n.Shape[0] != x.Shape[0] || offset < 0 || offset > have-width {
			return fmt.Errorf("columns [%d, %d) as %s are not within operand %q, %s", offset, offset+width, n.Shape, x.Name, x.Shape)
		}
		return nil
	})
}

// Reshape gives the same elements another shape. A view whose rows have a stride must keep its first dimension. No data
// moves.
func (b *Builder) Reshape(x *Node, shape ...int) *Node {
	return b.make(&Node{Op: OpReshape, In: []*Node{x}, Shape: slices.Clone(shape)}, func(n *Node) error {
		if err := errors.Join(f32(x), dims(n.Shape)); err != nil {
			return err
		}
		if n.Shape.Elems() != x.Shape.Elems() {
			return fmt.Errorf("operand %q is %s: %d elements cannot be %s", x.Name, x.Shape, x.Shape.Elems(), n.Shape)
		}
		if !x.contiguous() && n.Shape[0] != x.Shape[0] {
			return fmt.Errorf("operand %q is a view with a row stride: it must keep its %d rows, not become %s", x.Name, x.Shape[0], n.Shape)
		}
		return nil
	})
}

// Permute reorders dimensions: dimension i of y is dimension perm[i] of x, y[j_0, …] = x[…] with j_i = index of x's
// dimension perm[i]. x has at most 4 dimensions. The result is a contiguous copy.
func (b *Builder) Permute(x *Node, perm ...int) *Node {
	a := PermuteAttr{}
	return b.make(&Node{Op: OpPermute, In: []*Node{x}}, func(n *Node) error {
		if err := f32(x); err != nil {
			return err
		}
		if len(perm) != len(x.Shape) || len(perm) > len(a.Dims) {
			return fmt.Errorf("permutation %v does not fit operand %q, %s (at most 4 dimensions)", perm, x.Name, x.Shape)
		}
		seen := [len(a.Dims)]bool{}
		for i, d := range perm {
			if d < 0 || d >= len(perm) || seen[d] {
				return fmt.Errorf("%v is not a permutation", perm)
			}
			seen[d], a.Dims[i] = true, int8(d)
			n.Shape = append(n.Shape, x.Shape[d])
		}
		n.Attr = a
		return nil
	})
}

// RoPE rotates pairs of each head's first a.Dims elements by angles that grow with the row's position (Su et al. 2021:
// RoFormer; YaRN: Peng et al. 2023, as llama.cpp computes it). For pair i of Dims/2, at elements (i, i+Dims/2) for
// RopeNeox or (2i, 2i+1) for RopeInterleaved:
//
//	extrap = position * Base^(-2i/Dims); interp = FreqScale * extrap
//	theta  = interp                                   if ExtFactor == 0
//	       = interp*(1-mix) + extrap*mix              else, mix = ramp(i)*ExtFactor
//	m      = AttnFactor                               if ExtFactor == 0
//	       = AttnFactor * (1 + 0.1*ln(1/FreqScale))   else
//	y0 = x0*m*cos(theta) - x1*m*sin(theta);  y1 = x0*m*sin(theta) + x1*m*cos(theta)
//
//	ramp(i) = 1 - clamp((i - low)/max(0.001, high-low), 0, 1)
//	low     = max(0, floor(c(BetaFast))), high = min(Dims-1, ceil(c(BetaSlow)))
//	c(beta) = Dims * ln(OrigCtx/(beta*2*pi)) / (2*ln(Base))
//
// Elements from Dims on are copied. x [rows, heads, head_dim] F32; positions the I32 input [rows]; y as x.
func (b *Builder) RoPE(x, positions *Node, a RopeAttr) *Node {
	return b.make(&Node{Op: OpRoPE, In: []*Node{x, positions}, Attr: a}, func(n *Node) error {
		n.Shape = x.Shape
		if len(x.Shape) != 3 {
			return fmt.Errorf("operand %q is %s, want [rows heads head_dim]", x.Name, x.Shape)
		}
		return errors.Join(f32(x), input(positions, InPositions), x.haveRows(b.params.Rows), a.check(x.Shape[2]))
	})
}

// KvcacheStore writes rows into a KV region, each encoded in the region's row format head by head: region[cells[r]] =
// encode(x[r]). Rows with cells[r] == -1 (padding) are skipped; the caller gives each other row a cell of its own.
//
//	x [rows, kv_heads, head_dim] F32; cells the I32 input [rows]
//
// The result stands for the region after the store, [cells, kv_heads, head_dim] of Params.KeyType or ValueType: give
// it to KvcacheLoad. A region is stored at most once in a graph.
func (b *Builder) KvcacheStore(x, cells *Node, a KVAttr) *Node {
	return b.make(&Node{Op: OpKvcacheStore, In: []*Node{x, cells}, Attr: a}, func(n *Node) error {
		if len(x.Shape) != 3 {
			return fmt.Errorf("operand %q is %s, want [rows kv_heads head_dim]", x.Name, x.Shape)
		}
		if err := errors.Join(f32(x), input(cells, InCells), x.haveRows(b.params.Rows)); err != nil {
			return err
		}
		n.Type = b.params.kvType(a)
		if d := x.Shape[2]; d%n.Type.BlockElems() != 0 {
			return fmt.Errorf("head_dim %d is not a multiple of %d, the block of KV format %s: choose F16 or F32: %w",
				d, n.Type.BlockElems(), n.Type, ErrUnsupported)
		}
		if a.Layer < 0 || b.stored[a] {
			return fmt.Errorf("layer %d is negative or its region is stored twice", a.Layer)
		}
		b.stored[a] = true
		n.Shape = Shape{b.params.Cells, x.Shape[1], x.Shape[2]}
		return nil
	})
}

// KvcacheLoad is a KV region as a tensor for Attn, [cells, kv_heads, head_dim] in the region's format. Its operand is
// the node that stores this step's rows: so the order store, load, attention is part of the data flow. No data moves.
func (b *Builder) KvcacheLoad(store *Node) *Node {
	return b.make(&Node{Op: OpKvcacheLoad, In: []*Node{store}}, func(n *Node) error {
		if store.Op != OpKvcacheStore {
			return fmt.Errorf("operand %q is %s, want a KvcacheStore", store.Name, store.Op)
		}
		n.Attr, n.Type, n.Shape = store.Attr, store.Type, store.Shape
		return nil
	})
}

// Attn is causal grouped-query attention over cached rows (Vaswani et al. 2017; Ainslie et al. 2023: GQA). Row r attends
// to cells 0 … lengths[r]-1 of sequence s = seqs[r], its own among them. A sequence's cells lie in runs:
//
//	cell(s, j): for run in runs[seqRuns[s][0] : seqRuns[s][0]+seqRuns[s][1]] in order:
//	              if j < run[1]: return run[0]+j;  j -= run[1]
//	g = h / (Heads/KVHeads)
//	score_j     = Scale * sum_e q[r,h,e] * k[cell(s,j),g,e]
//	y[r,h,e]    = sum_j softmax_j(score) * v[cell(s,j),g,e]
//
// q [rows, Heads, HeadDim] F32; k, v KvcacheLoad [cells, KVHeads, HeadDim]; lengths, seqs I32 [rows]; seqRuns I32 [seqs, 2];
// runs I32 [runs, 2]; y [rows, Heads, HeadDim]. Sums are float32 whatever the cache's format; scores are never rounded
// to 16 bits. A row of length 0 (padding) gives zeros.
func (b *Builder) Attn(q, k, v, lengths, seqs, seqRuns, runs *Node, a AttnAttr) *Node {
	return b.make(&Node{Op: OpAttn, In: []*Node{q, k, v, lengths, seqs, seqRuns, runs}, Attr: a}, func(n *Node) error {
		n.Shape = q.Shape
		if err := errors.Join(f32(q), q.haveRows(b.params.Rows), input(lengths, InLengths), input(seqs, InSeqs),
			input(seqRuns, InSeqRuns), input(runs, InRuns)); err != nil {
			return err
		}
		if a.Heads <= 0 || a.KVHeads <= 0 || a.HeadDim <= 0 || a.Heads%a.KVHeads != 0 {
			return fmt.Errorf("%d heads are no multiple of %d KV heads of %d", a.Heads, a.KVHeads, a.HeadDim)
		}
		if !(a.Scale > 0) || math.IsInf(float64(a.Scale), 0) {
			return fmt.Errorf("scale %v is not a positive number", a.Scale)
		}
		if want := (Shape{b.params.Rows, a.Heads, a.HeadDim}); !slices.Equal(q.Shape, want) {
			return fmt.Errorf("operand %q is %s, want %s", q.Name, q.Shape, want)
		}
		for i, kv := range []*Node{k, v} {
			at := KVAttr{Layer: a.Layer, Value: i == 1}
			if kv.Op != OpKvcacheLoad || kv.Attr != at {
				return fmt.Errorf("operand %q is not the KvcacheLoad of layer %d, value %v", kv.Name, a.Layer, at.Value)
			}
			if want := (Shape{b.params.Cells, a.KVHeads, a.HeadDim}); !slices.Equal(kv.Shape, want) {
				return fmt.Errorf("operand %q is %s, want %s", kv.Name, kv.Shape, want)
			}
		}
		return nil
	})
}

// Add is y = x0 + x1, element by element, of equal shapes, F32.
func (b *Builder) Add(x0, x1 *Node) *Node { return b.elementwise(OpAdd, nil, x0, x1) }

// Mul is y = x0 * x1, element by element, of equal shapes, F32.
func (b *Builder) Mul(x0, x1 *Node) *Node { return b.elementwise(OpMul, nil, x0, x1) }

// Silu is y = x / (1 + exp(-x)), F32 (Elfwing et al. 2017).
func (b *Builder) Silu(x *Node) *Node { return b.elementwise(OpSilu, nil, x) }

// SwiGLU is y = silu(gate) * up, of equal shapes, F32 (Shazeer 2020).
func (b *Builder) SwiGLU(gate, up *Node) *Node { return b.elementwise(OpSwiGLU, nil, gate, up) }

// Scale is y = x * factor, F32.
func (b *Builder) Scale(x *Node, factor float32) *Node {
	return b.elementwise(OpScale, ScaleAttr{factor}, x)
}

// Softmax is over the last dimension, F32: y[…, i] = exp(x[…, i] - max) / sum_j exp(x[…, j] - max). A row whose largest
// element is -Inf or NaN gives NaN.
func (b *Builder) Softmax(x *Node) *Node { return b.elementwise(OpSoftmax, nil, x) }

// BatchMatMul multiplies two activations, the second stored like a weight (a row an output feature):
//
//	y[i, m, n] = sum_k x0[i, m, k] * x1[i, n, k]
//
// x0 [batch, M, K], x1 [batch, N, K], y [batch, M, N], F32.
func (b *Builder) BatchMatMul(x0, x1 *Node) *Node {
	return b.make(&Node{Op: OpBatchMatMul, In: []*Node{x0, x1}}, func(n *Node) error {
		if len(x0.Shape) != 3 || len(x1.Shape) != 3 || x0.Shape[0] != x1.Shape[0] || x0.Shape[2] != x1.Shape[2] {
			return fmt.Errorf("operands %s and %s are not [batch m k] and [batch n k]", x0.Shape, x1.Shape)
		}
		n.Shape = Shape{x0.Shape[0], x0.Shape[1], x1.Shape[1]}
		return errors.Join(f32(x0), f32(x1))
	})
}

// Sample draws a token for each row of logits, on the backend, so that no logits have to be brought to the host:
//
//	temperature, p, m, u, k = sampling[r]
//	cand  = the ids below a.Vocab, most probable first (the smaller id first among equals), the first k of them if k > 0
//	prob  = softmax of cand's logits
//	cand  = the shortest beginning of cand whose prob adds up to p at least, if p < 1; of these those with prob ≥ m*prob[0]
//	y[r]  = cand[0] if temperature = 0, else the first c at which the sum of exp((logit-max)/temperature) over cand, divided by
//	        the whole sum, is greater than u
//
// logits [outputs, n_vocab] F32; sampling the I32 input; y [outputs] I32: -1 where a logit that may be drawn is NaN or +Inf, or none is
// above -Inf; -2 where the filters leave more candidates than the backend takes, so that the host has to draw. It is what
// engine/sample computes without penalties, biases and typical-p; where no filter is on, cand may be in the order of ids.
func (b *Builder) Sample(logits, sampling *Node, a SampleAttr) *Node {
	return b.make(&Node{Op: OpSample, In: []*Node{logits, sampling}, Attr: a}, func(n *Node) error {
		if len(logits.Shape) != 2 || a.Vocab < 1 || a.Vocab > logits.Shape[1] {
			return fmt.Errorf("operand %q is %s, want [outputs n_vocab] with n_vocab of %d at least", logits.Name, logits.Shape, a.Vocab)
		}
		n.Type, n.Shape = quant.I32, Shape{logits.Shape[0]}
		return errors.Join(f32(logits), input(sampling, InSampling), logits.haveRows(b.params.Outputs))
	})
}

func (b *Builder) elementwise(op Op, attr any, in ...*Node) *Node {
	return b.make(&Node{Op: op, In: in, Attr: attr}, func(n *Node) error {
		n.Shape = in[0].Shape
		for _, x := range in {
			if err := f32(x); err != nil {
				return err
			}
			if !slices.Equal(x.Shape, n.Shape) {
				return fmt.Errorf("operands %s and %s differ in shape", in[0].Shape, x.Shape)
			}
		}
		if s, ok := attr.(ScaleAttr); ok && math.IsNaN(float64(s.Factor)) {
			return errors.New("factor is NaN")
		}
		return nil
	})
}

// make checks a node's operands and weights, then with check its own rules (which also sets what the node's type and shape
// are, F32 if it says nothing), and adds it.
func (b *Builder) make(n *Node, check func(*Node) error) *Node {
	if b.err != nil {
		return b.bad
	}
	n.Layer, n.Name = b.layer, b.nameFor(n)
	n.ID = len(b.nodes)
	n.Type = quant.F32
	for i, in := range n.In {
		if err := b.operand(in); err != nil {
			b.err = n.Errorf("operand %d: %w", i, err)
			return b.bad
		}
	}
	if err := check(n); err != nil {
		b.err = n.Errorf("%w", err)
		return b.bad
	}
	return b.add(n)
}

func (b *Builder) add(n *Node) *Node {
	n.ID = len(b.nodes)
	if err := dims(n.Shape); err != nil {
		b.err = n.Errorf("%w", err)
		return b.bad
	}
	b.names[n.Name]++
	if c := b.names[n.Name]; c > 1 {
		n.Name = fmt.Sprintf("%s#%d", n.Name, c)
	}
	b.nodes = append(b.nodes, n)
	return n
}

func (b *Builder) nameFor(n *Node) string {
	name := b.name
	if name == "" && len(n.Weights) > 0 && n.Weights[0] != nil {
		return strings.TrimSuffix(n.Weights[0].Name, ".weight")
	}
	if name == "" {
		name = strings.ToLower(n.Op.String())
	}
	if prefix := fmt.Sprintf("blk.%d.", b.layer); b.layer >= 0 && !strings.HasPrefix(name, prefix) {
		name = prefix + name
	}
	return name
}

func (b *Builder) operand(n *Node) error {
	if n == nil {
		return errors.New("it is nil")
	}
	if n.ID < 0 || n.ID >= len(b.nodes) || b.nodes[n.ID] != n {
		return fmt.Errorf("%q is a node of another graph", n.Name)
	}
	return nil
}

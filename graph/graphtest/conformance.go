package graphtest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// Options describe the backend under test.
type Options struct {
	// Tolerance is the largest allowed |got-want| of a case, relative to the largest |want| of its output; nil:
	// DefaultTolerance.
	Tolerance func(c Case) float64
	// ExactActivations: products with quantised weights take activations in full (a reference without 8-bit rounding).
	ExactActivations bool
	// RowInvariant: each row of a product or an attention must have the same bits alone as in company.
	RowInvariant bool
	// Skip names cases (by Case.Name) that the backend declares not to run, with the reason; its SupportsOp must say so too.
	Skip func(c Case) string
}

// DefaultTolerance allows for float32 sums in any order.
func DefaultTolerance(c Case) float64 {
	switch c.Op {
	case graph.OpSample, graph.OpGetRows, graph.OpView, graph.OpPermute, graph.OpAdd, graph.OpMul, graph.OpScale, graph.OpKvcacheStore:
		return 0
	case graph.OpAttn:
		return 3e-5
	case graph.OpQkvBiasRopeStore, graph.OpFusedQkvNorm:
		// Keys and values are computed before they are stored: one that falls to the next number of the cache's format is right too.
		return 3e-5 + nextNumber[c.Type]
	}
	return 1e-5
}

// nextNumber is the distance of neighbours in a KV format, relative to the largest element of a block.
var nextNumber = map[quant.Type]float64{quant.F16: 1e-3, quant.Q8_0: 1e-2}

// Case is one small graph: an op with one weight type, KV format and shape.
type Case struct {
	Name   string
	Op     graph.Op
	Type   quant.Type // of the weight, or of the KV cache; F32 where neither plays a part
	Params graph.Params
	KV     graph.KVSpec
	// Rowwise: row r of each output depends on row r of the step alone (and the cache), so it can be run on its own.
	Rowwise bool
	Build   func(c *Context)
	// Inputs other than the default ones: tokens 0,1,2…, positions 3,4,…, one sequence of one run that all rows are in.
	Inputs map[graph.Input][]int32

	data map[string][]byte // weights' bytes, made once for all runs of the case
}

// Context is what a Case builds with. Weights are made on demand, with values that depend on their names alone.
type Context struct {
	*graph.Builder
	weights map[string]*graph.Weight
	data    map[string][]byte
}

// Weight is a random tensor with elements of about the given size.
func (c *Context) Weight(name string, t quant.Type, scale float64, shape ...int) *graph.Weight {
	// Cases use one name for several tensors, and backends keep what they know: the model tells them apart.
	model := fmt.Sprintf("graphtest %s %v %v", t, shape, scale)
	w := &graph.Weight{Model: model, Name: name, Type: t, Shape: shape}
	if old := c.weights[name]; old != nil {
		return old
	}
	key := model + name
	if c.data[key] != nil {
		c.weights[name] = w
		return w
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	rng := rand.New(rand.NewPCG(h.Sum64(), uint64(t)))
	vals := make([]float32, w.Shape.Elems())
	for i := range vals {
		vals[i] = float32(rng.NormFloat64() * scale)
	}
	data := make([]byte, w.Bytes())
	if err := quant.Quantize(t, data, vals); err != nil {
		c.Fail(fmt.Errorf("graphtest: %w", err))
		return w
	}
	c.weights[name], c.data[key] = w, data
	return w
}

// X is a random activation: rows of an F32 table, looked up by the step's tokens (row r of the step is row tokens[r] of the table).
func (c *Context) X(name string, shape ...int) *graph.Node {
	width := graph.Shape(shape).Elems()
	x := c.As(name).GetRows(c.Weight(name, quant.F32, 1, maxTokens, width), c.Input(graph.InTokens))
	return c.As(name+"_shaped").Reshape(x, append([]int{c.Params().Rows}, shape...)...)
}

const maxTokens = 40

// Run checks a backend against the reference on the whole op table: every op, weight type and KV format on odd shapes; fused
// operations where the backend wants them; moves of cells; and refusals.
func Run(t *testing.T, newBackend func() graph.Backend, o Options) {
	if o.Tolerance == nil {
		o.Tolerance = DefaultTolerance
	}
	b := newBackend()
	defer func() { must(t, b.Close()) }()
	for _, c := range Cases() {
		c.data = map[string][]byte{}
		t.Run(c.Name, func(t *testing.T) { check(t, b, c, o) })
	}
	t.Run("CopyCells", func(t *testing.T) { checkCopyCells(t, b) })
	t.Run("Memory", func(t *testing.T) { checkMemory(t, b) })
	t.Run("Refusals", func(t *testing.T) { checkRefusals(t, b) })
}

// result is what a case left behind.
type result struct {
	outputs [][]float32
	shapes  []graph.Shape
	kv      [][]byte
}

// execute runs a case on a backend.
func execute(b graph.Backend, c Case, noFuse bool) (*result, error) {
	return executeRow(b, c, noFuse, -1, nil)
}

// executeRow runs only one row of the step if row ≥ 0, over a cache that already holds kv if that is not nil.
func executeRow(b graph.Backend, c Case, noFuse bool, row int, kv [][]byte) (*result, error) {
	exec, compiled, err := prepare(b, c, noFuse, row, kv)
	if err != nil {
		return nil, err
	}
	defer exec.Close()
	for range 2 { // the second run finds buffers that are no longer zero
		if err := compiled.Run(); err != nil {
			return nil, err
		}
	}
	res := &result{}
	g, _ := compiled.Graph()
	for i, n := range g.Outputs {
		out := make([]float32, n.Shape.Elems())
		if n.Type == quant.I32 {
			ids := make([]int32, len(out))
			err = compiled.ReadTokens(i, ids)
			for i, id := range ids {
				out[i] = float32(id)
			}
		} else {
			err = compiled.ReadOutput(i, 0, out)
		}
		if err != nil {
			return nil, err
		}
		res.outputs, res.shapes = append(res.outputs, out), append(res.shapes, n.Shape)
	}
	for _, r := range regions(exec) {
		mem := make([]byte, r.RowBytes*int64(r.Cells))
		if err := b.Read(mem, r.Buffer, 0); err != nil {
			return nil, err
		}
		res.kv = append(res.kv, mem)
	}
	return res, nil
}

// Prepare compiles a case on a backend, fused as the backend wants it, and sets its inputs; for backends' own tests. The caller
// closes the executor.
func Prepare(b graph.Backend, c Case) (*graph.Executor, *graph.Compiled, error) {
	return prepare(b, c, false, -1, nil)
}

// prepare compiles a case and sets its inputs.
func prepare(b graph.Backend, c Case, noFuse bool, row int, kv [][]byte) (exec *graph.Executor, compiled *graph.Compiled, err error) {
	p, inputs := c.Params, defaultInputs(c)
	if c.data == nil {
		c.data = map[string][]byte{}
	}
	if noFuse {
		p.Features |= graph.FeatureNoFuse
	}
	if row >= 0 {
		p.Rows = 1
		for in, vals := range inputs {
			if in != graph.InOutputs && in != graph.InSeqRuns && in != graph.InRuns {
				inputs[in] = vals[row : row+1]
			}
		}
	}
	exec, err = graph.NewExecutor([]graph.Backend{b}, c.KV, graph.Options{})
	if err != nil {
		return nil, nil, err
	}
	made := exec
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Close())
		}
	}()
	for i, r := range regions(exec) {
		cells := randomCells(r, uint64(i))
		if kv != nil {
			cells = kv[i]
		}
		if err := b.Write(r.Buffer, 0, cells); err != nil {
			return nil, nil, err
		}
	}
	compiled, err = exec.Compile(p, func(p graph.Params) (*graph.Graph, error) {
		ctx := &Context{graph.NewBuilder(p), map[string]*graph.Weight{}, c.data}
		c.Build(ctx)
		g, err := ctx.Graph()
		if err != nil {
			return nil, err
		}
		for _, w := range ctx.weights {
			if err := b.RegisterWeight(w, ctx.data[w.Model+w.Name]); err != nil {
				return nil, err
			}
		}
		return g, nil
	})
	if err != nil {
		return nil, nil, err
	}
	for in, vals := range inputs {
		if err := compiled.SetInput(in, vals); err != nil {
			return nil, nil, err
		}
	}
	return exec, compiled, nil
}

func defaultInputs(c Case) map[graph.Input][]int32 {
	p := c.Params
	in := map[graph.Input][]int32{}
	for i := range graph.NumInputs {
		in[i] = make([]int32, p.InputShape(i).Elems())
	}
	for r := range p.Rows {
		in[graph.InTokens][r] = int32(r % maxTokens)
		in[graph.InPositions][r] = int32(r + 3)
		in[graph.InLengths][r] = int32(min(r+1, p.Cells))
		in[graph.InCells][r] = int32(r % p.Cells)
	}
	in[graph.InSeqRuns][1], in[graph.InRuns][1] = 1, int32(p.Cells)
	for i, vals := range c.Inputs {
		in[i] = slices.Clone(vals)
	}
	return in
}

// randomCells are plausible contents of a region.
func randomCells(r graph.KVRegion, seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 99))
	mem := make([]byte, r.RowBytes*int64(r.Cells))
	vals := make([]float32, int(r.RowBytes)/r.Type.BlockBytes()*r.Type.BlockElems())
	for c := range r.Cells {
		for i := range vals {
			vals[i] = float32(rng.NormFloat64())
		}
		encodeRow(r.Type, mem[int64(c)*r.RowBytes:int64(c+1)*r.RowBytes], vals)
	}
	return mem
}

func check(t *testing.T, b graph.Backend, c Case, o Options) {
	if o.Skip != nil {
		if why := o.Skip(c); why != "" {
			_, err := execute(b, c, true)
			if !errors.Is(err, graph.ErrUnsupported) {
				t.Fatalf("declared as not supported (%s), but the error is %v", why, err)
			}
			return
		}
	}
	want, err := execute(NewReference(ReferenceOptions{Exact: o.ExactActivations}), c, true)
	must(t, err)
	got, err := execute(b, c, true)
	must(t, err)
	compare(t, c, got, want, o.Tolerance(c))

	if c.Op >= graph.OpFusedQKV {
		fused, err := execute(b, c, false)
		must(t, err)
		compare(t, c, fused, want, o.Tolerance(c))
		if o.RowInvariant {
			compare(t, c, fused, got, 0)
		}
	}
	if !o.RowInvariant || !c.Rowwise {
		return
	}
	for row := range c.Params.Rows {
		alone, err := executeRow(b, c, false, row, got.kv)
		must(t, err)
		for i, out := range alone.outputs {
			width := len(out)
			if !slices.Equal(bits(got.outputs[i][row*width:][:width]), bits(out)) {
				t.Fatalf("output %d: row %d has other bits alone than in company", i, row)
			}
		}
	}
}

func bits(x []float32) []uint32 {
	b := make([]uint32, len(x))
	for i, v := range x {
		b[i] = math.Float32bits(v)
	}
	return b
}

func compare(t *testing.T, c Case, got, want *result, tolerance float64) {
	t.Helper()
	if len(got.shapes) != len(want.shapes) {
		t.Fatalf("%d outputs, want %d", len(got.shapes), len(want.shapes))
	}
	for i := range want.outputs {
		closeTo(t, fmt.Sprintf("output %d %s", i, want.shapes[i]), got.outputs[i], want.outputs[i], tolerance)
	}
	for i := range want.kv {
		if tolerance == 0 {
			equalBytes(t, fmt.Sprintf("KV region %d", i), got.kv[i], want.kv[i])
			continue
		}
		typ := c.KV.KeyType
		if i%2 == 1 {
			typ = c.KV.ValueType
		}
		kvTolerance := tolerance + nextNumber[typ]
		g, w := make([]float32, len(got.kv[i])/typ.BlockBytes()*typ.BlockElems()), make([]float32, len(want.kv[i])/typ.BlockBytes()*typ.BlockElems())
		must(t, errors.Join(quant.Dequantize(typ, g, got.kv[i]), quant.Dequantize(typ, w, want.kv[i])))
		closeTo(t, fmt.Sprintf("KV region %d", i), g, w, kvTolerance)
	}
}

func closeTo(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	scale := 0.0
	for _, w := range want {
		scale = math.Max(scale, math.Abs(float64(w)))
	}
	worst, at := 0.0, 0
	for i, w := range want {
		if g := got[i]; g != g != (w != w) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, g, w)
		}
		if d := math.Abs(float64(got[i]) - float64(w)); d > worst {
			worst, at = d, i
		}
	}
	if !(worst <= tolerance*scale) {
		t.Fatalf("%s: element %d is %v, want %v within %g of the largest, %v: off by %g", what, at, got[at], want[at], tolerance, scale, worst/scale)
	}
}

func checkCopyCells(t *testing.T, b graph.Backend) {
	for _, typ := range []quant.Type{quant.F32, quant.F16, quant.Q8_0} {
		r := graph.KVRegion{Type: typ, RowBytes: int64(typ.RowBytes(96)), Cells: 50}
		var err error
		r.Buffer, err = b.Alloc(r.RowBytes * 50)
		must(t, err)
		for _, m := range [][3]int{{0, 3, 40}, {3, 0, 40}, {10, 30, 20}, {7, 7, 5}, {49, 0, 1}, {0, 0, 0}} {
			want := randomCells(r, 1)
			must(t, b.Write(r.Buffer, 0, want))
			dst, src, n := int64(m[0])*r.RowBytes, int64(m[1])*r.RowBytes, int64(m[2])*r.RowBytes
			copy(want[dst:dst+n], slices.Clone(want[src:src+n]))
			must(t, b.CopyCells(r, m[0], m[1], m[2]))
			got := make([]byte, len(want))
			must(t, b.Read(got, r.Buffer, 0))
			equalBytes(t, fmt.Sprintf("%s: %d cells from %d to %d", typ, m[2], m[1], m[0]), got, want)
		}
		b.Free(r.Buffer)
	}
}

func checkMemory(t *testing.T, b graph.Backend) {
	buf, err := b.Alloc(1000)
	must(t, err)
	if buf.Bytes() != 1000 {
		t.Fatalf("a buffer of 1000 bytes says %d", buf.Bytes())
	}
	got := make([]byte, 1000)
	got[7] = 1
	must(t, b.Read(got, buf, 0))
	equalBytes(t, "new memory", got, make([]byte, 1000))
	must(t, b.Write(buf, 500, []byte{1, 2, 3}))
	must(t, b.Read(got[:5], buf, 499))
	equalBytes(t, "memory round a write", got[:5], []byte{0, 1, 2, 3, 0})
	if h, ok := buf.(graph.HostBuffer); ok {
		if len(h.HostBytes()) != 1000 {
			t.Fatalf("the host sees %d bytes of a buffer of 1000", len(h.HostBytes()))
		}
		equalBytes(t, "the host's view", h.HostBytes()[499:504], got[:5])
	}
	b.Free(buf)
}

// checkRefusals: what a backend cannot do it says before anything runs.
func checkRefusals(t *testing.T, b graph.Backend) {
	x := &graph.Node{Op: graph.OpInput, Type: quant.F32, Shape: graph.Shape{2, 256}}
	n := &graph.Node{Op: graph.OpMatMul, Name: "odd", Type: quant.F32, Shape: graph.Shape{2, 8}, In: []*graph.Node{x},
		Weights: []*graph.Weight{{Name: "odd.weight", Type: quant.IQ2_XS, Shape: graph.Shape{8, 256}}, nil}}
	if b.SupportsOp(n) == nil {
		t.Fatal("it says that it multiplies by IQ2_XS")
	}
	w := &graph.Weight{Model: "graphtest", Name: "short.weight", Type: quant.F32, Shape: graph.Shape{4, 4}}
	if err := b.RegisterWeight(w, make([]byte, 60)); err == nil || !strings.Contains(err.Error(), w.Name) {
		t.Fatalf("a tensor of 60 bytes instead of 64: the error is %v, want one that names it", err)
	}
}

// regions lists K and V of each layer in turn.
func regions(e *graph.Executor) []graph.KVRegion {
	keys, values := e.KV()
	var all []graph.KVRegion
	for i := range keys {
		all = append(all, keys[i], values[i])
	}
	return all
}

// This package is no test file, so it does without an assertion library: dependents would have to fetch it.

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equalBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: byte %d is %#x, want %#x", what, i, got[i], want[i])
		}
	}
}

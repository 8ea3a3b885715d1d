package graphtest

import (
	"fmt"
	"math"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// compileNode gives the function that computes n: the loop of the op's documentation.
func (r *Reference) compileNode(u *graph.Unit, n *graph.Node) (func(), error) {
	in := make([]tensor, len(n.In))
	for i, x := range n.In {
		in[i] = place(u.Tensors[x.ID])
	}
	out := place(u.Tensors[n.ID])
	w := make([]weight, len(n.Weights))
	for i, meta := range n.Weights {
		if meta == nil {
			continue
		}
		data, err := r.weights.Find(r.Name(), n, meta)
		if err != nil {
			return nil, err
		}
		cols := meta.Shape[len(meta.Shape)-1]
		w[i] = weight{t: meta.Type, data: data, rows: meta.Shape.Elems() / cols, cols: cols, rowBytes: meta.Type.RowBytes(cols)}
	}

	switch n.Op {
	case graph.OpAdd:
		return each2(out, in[0], in[1], func(a, b float32) float32 { return a + b }), nil
	case graph.OpMul:
		return each2(out, in[0], in[1], func(a, b float32) float32 { return a * b }), nil
	case graph.OpSwiGLU:
		return each2(out, in[0], in[1], func(a, b float32) float32 { return float32(silu(float64(a)) * float64(b)) }), nil
	case graph.OpSilu:
		return each2(out, in[0], in[0], func(a, _ float32) float32 { return float32(silu(float64(a))) }), nil
	case graph.OpScale:
		f := n.Attr.(graph.ScaleAttr).Factor
		return each2(out, in[0], in[0], func(a, _ float32) float32 { return a * f }), nil
	case graph.OpSoftmax:
		return softmax(out, in[0]), nil
	case graph.OpRmsNorm, graph.OpQkNorm:
		return rmsNorm(out, in[0], w[0].vector(), n.Attr.(graph.NormAttr).Eps), nil
	case graph.OpMatMul:
		return r.matMul(out, 0, in[0], w[0], w[1].vector()), nil
	case graph.OpFusedQKV:
		var parts []func()
		offset := 0
		for i := range 3 {
			parts = append(parts, r.matMul(out, offset, in[0], w[i], w[3+i].vector()))
			offset += w[i].rows
		}
		return sequence(parts...), nil
	case graph.OpFusedFFN:
		gate, up := scratch(out.shape), scratch(out.shape)
		return sequence(r.matMul(gate, 0, in[0], w[0], nil), r.matMul(up, 0, in[0], w[1], nil),
			each2(out, gate, up, func(a, b float32) float32 { return float32(silu(float64(a)) * float64(b)) })), nil
	case graph.OpGetRows:
		if len(w) > 0 {
			return func() {
				for i, id := range flat(in[0]) {
					w[0].decode(out.row(i), int(id))
				}
			}, nil
		}
		return func() {
			for i, id := range flat(in[1]) {
				copy(out.row(i), in[0].row(int(id)))
			}
		}, nil
	case graph.OpPermute:
		return permute(out, in[0], n.Attr.(graph.PermuteAttr)), nil
	case graph.OpBatchMatMul:
		return batchMatMul(out, in[0], in[1]), nil
	case graph.OpSample:
		return sample(out, in[0], in[1], n.Attr.(graph.SampleAttr)), nil
	case graph.OpRoPE:
		return rope(out, in[0], in[1], n.Attr.(graph.RopeAttr)), nil
	case graph.OpKvcacheStore:
		a := n.Attr.(graph.KVAttr)
		return store(region(u, a), in[0], in[1]), nil
	case graph.OpAttn:
		a := n.Attr.(graph.AttnAttr)
		return attn(out, in[0], region(u, graph.KVAttr{Layer: a.Layer}), region(u, graph.KVAttr{Layer: a.Layer, Value: true}),
			in[3], in[4], in[5], in[6], a), nil
	case graph.OpQkvBiasRopeStore, graph.OpFusedQkvNorm:
		a := n.Attr.(graph.QkvAttr)
		q, k, v := scratch(in[0].shape), scratch(in[1].shape), scratch(in[2].shape)
		var parts []func()
		if n.Op == graph.OpQkvBiasRopeStore {
			parts = append(parts, addBias(q, in[0], w[0].vector()), addBias(k, in[1], w[1].vector()), addBias(v, in[2], w[2].vector()))
		} else {
			parts = append(parts, rmsNorm(q, in[0], w[0].vector(), a.Eps), rmsNorm(k, in[1], w[1].vector(), a.Eps), addBias(v, in[2], nil))
		}
		parts = append(parts, rope(out, q, in[3], a.Rope), rope(k, k, in[3], a.Rope),
			store(region(u, graph.KVAttr{Layer: a.Layer}), k, in[4]), store(region(u, graph.KVAttr{Layer: a.Layer, Value: true}), v, in[4]))
		return sequence(parts...), nil
	}
	return nil, fmt.Errorf("the reference does not know the op: %w", graph.ErrUnsupported)
}

func sequence(parts ...func()) func() {
	return func() {
		for _, f := range parts {
			f()
		}
	}
}

// scratch is a contiguous tensor of its own.
func scratch(s graph.Shape) tensor {
	width := s[1:].Elems()
	return tensor{mem: make([]byte, 4*s.Elems()), stride: int64(4 * width), rows: s[0], width: width, shape: s}
}

// flat gives all elements of a contiguous I32 tensor.
func flat(t tensor) []int32 {
	t.width *= t.rows
	return t.ints(0)
}

type weight struct {
	t        quant.Type
	data     []byte
	rows     int
	cols     int
	rowBytes int
}

func (w weight) decode(dst []float32, row int) {
	if err := quant.Dequantize(w.t, dst, w.data[row*w.rowBytes:(row+1)*w.rowBytes]); err != nil {
		panic(err) // types and lengths were checked when the graph was built
	}
}

// vector decodes a weight of one dimension; nil for an absent one.
func (w weight) vector() []float32 {
	if w.data == nil {
		return nil
	}
	v := make([]float32, w.cols)
	w.decode(v, 0)
	return v
}

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

func each2(out, a, b tensor, f func(a, b float32) float32) func() {
	return func() {
		for r := range out.rows {
			x, y, z := a.row(r), b.row(r), out.row(r)
			for i := range z {
				z[i] = f(x[i], y[i])
			}
		}
	}
}

func addBias(out, x tensor, bias []float32) func() {
	return func() {
		for r := range out.rows {
			src, dst := x.row(r), out.row(r)
			for i := range dst {
				dst[i] = src[i]
				if bias != nil {
					dst[i] += bias[i]
				}
			}
		}
	}
}

func softmax(out, x tensor) func() {
	n := out.shape[len(out.shape)-1]
	return func() {
		for r := range out.rows {
			src, dst := x.row(r), out.row(r)
			for ; len(src) > 0; src, dst = src[n:], dst[n:] {
				m := math.Inf(-1)
				for _, v := range src[:n] {
					m = math.Max(m, float64(v))
				}
				sum := 0.0
				for _, v := range src[:n] {
					sum += math.Exp(float64(v) - m)
				}
				for i, v := range src[:n] {
					dst[i] = float32(math.Exp(float64(v)-m) / sum)
				}
			}
		}
	}
}

func rmsNorm(out, x tensor, w []float32, eps float32) func() {
	return func() {
		for r := range out.rows {
			src, dst := x.row(r), out.row(r)
			for ; len(src) > 0; src, dst = src[len(w):], dst[len(w):] {
				sum := 0.0
				for i := range w {
					sum += float64(src[i]) * float64(src[i])
				}
				inv := 1 / math.Sqrt(sum/float64(len(w))+float64(eps))
				for i := range w {
					dst[i] = float32(float64(src[i]) * inv * float64(w[i]))
				}
			}
		}
	}
}

// matMul writes columns [offset, offset+w.rows) of out.
func (r *Reference) matMul(out tensor, offset int, x tensor, w weight, bias []float32) func() {
	round := w.t.BlockElems() > 1 && !r.opts.Exact
	wrow, xs := make([]float32, w.cols), make([]float64, x.rows*w.cols)
	return func() {
		for i := range x.rows {
			dst := xs[i*w.cols:][:w.cols]
			for k, v := range x.row(i) {
				dst[k] = float64(v)
			}
			if round {
				round8(dst)
			}
		}
		for o := range w.rows {
			w.decode(wrow, o)
			for i := range x.rows {
				sum := 0.0
				for k, v := range xs[i*w.cols:][:w.cols] {
					sum += v * float64(wrow[k])
				}
				y := float32(sum)
				if bias != nil {
					y += bias[o]
				}
				out.row(i)[offset+o] = y
			}
		}
	}
}

// round8 replaces x, whose elements are float32 values, by what is left of them after rounding to 8 bits in blocks of 32 (docs/adr/0001).
func round8(x []float64) {
	for ; len(x) > 0; x = x[32:] {
		amax := float32(0)
		for _, v := range x[:32] {
			amax = max(amax, float32(math.Abs(v)))
		}
		d, id := amax/127, float32(0)
		if amax != 0 {
			id = 127 / amax
		}
		for i, v := range x[:32] {
			x[i] = float64(d) * math.RoundToEven(float64(float32(v)*id))
		}
	}
}

func batchMatMul(out, a, b tensor) func() {
	m, n, k := a.shape[1], b.shape[1], a.shape[2]
	return func() {
		for i := range out.rows {
			x, y, z := a.row(i), b.row(i), out.row(i)
			for p := range m {
				for q := range n {
					sum := 0.0
					for e := range k {
						sum += float64(x[p*k+e]) * float64(y[q*k+e])
					}
					z[p*n+q] = float32(sum)
				}
			}
		}
	}
}

func permute(out, x tensor, a graph.PermuteAttr) func() {
	dims := len(x.shape)
	return func() {
		index, from := make([]int, dims), make([]int, dims)
		for e := range out.shape.Elems() {
			rest := e
			for i := dims - 1; i >= 0; i-- {
				index[i] = rest % out.shape[i]
				rest /= out.shape[i]
			}
			for i := range dims {
				from[a.Dims[i]] = index[i]
			}
			col := 0
			for i := 1; i < dims; i++ {
				col = col*x.shape[i] + from[i]
			}
			out.row(e / out.width)[e%out.width] = x.row(from[0])[col]
		}
	}
}

func rope(out, x, positions tensor, a graph.RopeAttr) func() {
	half, dim := a.Dims/2, out.shape[2]
	return func() {
		for r, pos := range flat(positions) {
			src, dst := x.row(r), out.row(r)
			for ; len(src) > 0; src, dst = src[dim:], dst[dim:] {
				copy(dst[a.Dims:dim], src[a.Dims:dim])
				for i := range half {
					sin, cos := ropeAngle(a, float64(pos), i)
					p, q := i, i+half
					if a.Style == graph.RopeInterleaved {
						p, q = 2*i, 2*i+1
					}
					x0, x1 := float64(src[p]), float64(src[q])
					dst[p], dst[q] = float32(x0*cos-x1*sin), float32(x0*sin+x1*cos)
				}
			}
		}
	}
}

// ropeAngle gives sine and cosine of pair i's angle, times the magnitude scale.
func ropeAngle(a graph.RopeAttr, pos float64, i int) (sin, cos float64) {
	base, dims := float64(a.Base), float64(a.Dims)
	extrap := pos * math.Pow(base, -2*float64(i)/dims)
	theta, m := float64(a.FreqScale)*extrap, float64(a.AttnFactor)
	if a.ExtFactor != 0 {
		c := func(beta float32) float64 {
			return dims * math.Log(float64(a.OrigCtx)/(float64(beta)*2*math.Pi)) / (2 * math.Log(base))
		}
		low, high := math.Max(0, math.Floor(c(a.BetaFast))), math.Min(dims-1, math.Ceil(c(a.BetaSlow)))
		ramp := 1 - math.Min(1, math.Max(0, (float64(i)-low)/math.Max(0.001, high-low)))
		mix := ramp * float64(a.ExtFactor)
		theta = theta*(1-mix) + extrap*mix
		m *= 1 + 0.1*math.Log(1/float64(a.FreqScale))
	}
	return math.Sin(theta) * m, math.Cos(theta) * m
}

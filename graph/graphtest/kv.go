package graphtest

import (
	"encoding/binary"
	"math"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

func region(u *graph.Unit, a graph.KVAttr) graph.KVRegion {
	if a.Value {
		return u.Values[a.Layer]
	}
	return u.Keys[a.Layer]
}

func cell(k graph.KVRegion, i int) []byte {
	return bytesOf(k.Buffer)[int64(i)*k.RowBytes : int64(i+1)*k.RowBytes]
}

func store(k graph.KVRegion, x, cells tensor) func() {
	return func() {
		for r, c := range flat(cells) {
			if c >= 0 {
				encodeRow(k.Type, cell(k, int(c)), x.row(r))
			}
		}
	}
}

// encodeRow is written apart from package kvformat on purpose: the two are compared.
func encodeRow(t quant.Type, dst []byte, src []float32) {
	for i, x := range src {
		switch t {
		case quant.F32:
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		case quant.F16:
			binary.LittleEndian.PutUint16(dst[2*i:], quant.F32ToF16(x))
		}
	}
	if t != quant.Q8_0 {
		return
	}
	for b := 0; b < len(src)/32; b++ {
		x, out := src[32*b:32*b+32], dst[34*b:34*b+34]
		amax := float32(0)
		for _, v := range x {
			amax = max(amax, float32(math.Abs(float64(v))))
		}
		id := float32(0)
		if amax != 0 {
			id = 127 / amax
		}
		binary.LittleEndian.PutUint16(out, quant.F32ToF16(amax/127))
		for i, v := range x {
			out[2+i] = byte(int8(math.RoundToEven(float64(v * id))))
		}
	}
}

func attn(out, q tensor, keys, values graph.KVRegion, lengths, seqs, seqRuns, runs tensor, a graph.AttnAttr) func() {
	width := a.KVHeads * a.HeadDim
	k, v := make([]float32, keys.Cells*width), make([]float32, values.Cells*width)
	scores := make([]float64, keys.Cells)
	return func() {
		for c := range keys.Cells {
			decodeCell(keys, c, k[c*width:][:width])
			decodeCell(values, c, v[c*width:][:width])
		}
		cells := make([]int, 0, keys.Cells)
		for r, length := range flat(lengths) {
			dst, qs := out.row(r), q.row(r)
			clear(dst)
			if length == 0 {
				continue
			}
			s := seqRuns.ints(int(flat(seqs)[r]))
			cells = cells[:0]
			for i := s[0]; i < s[0]+s[1]; i++ {
				run := runs.ints(int(i))
				for j := range run[1] {
					cells = append(cells, int(run[0]+j))
				}
			}
			for h := range a.Heads {
				kv := h / (a.Heads / a.KVHeads) * a.HeadDim
				qh := qs[h*a.HeadDim:][:a.HeadDim]
				m := math.Inf(-1)
				for j, c := range cells[:length] {
					dot := 0.0
					for e, x := range qh {
						dot += float64(x) * float64(k[c*width+kv+e])
					}
					scores[j] = dot * float64(a.Scale)
					m = math.Max(m, scores[j])
				}
				sum := 0.0
				for j := range length {
					scores[j] = math.Exp(scores[j] - m)
					sum += scores[j]
				}
				for e := range a.HeadDim {
					y := 0.0
					for j, c := range cells[:length] {
						y += scores[j] * float64(v[c*width+kv+e])
					}
					dst[h*a.HeadDim+e] = float32(y / sum)
				}
			}
		}
	}
}

func decodeCell(k graph.KVRegion, c int, dst []float32) {
	if err := quant.Dequantize(k.Type, dst, cell(k, c)); err != nil {
		panic(err) // the region's geometry was checked when it was made
	}
}

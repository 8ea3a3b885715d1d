package kerneltest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/minfer-go/minfer/cudart"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/quant"
)

// quantizeCase compares rounding to 8 bits with ADR 0001, bit for bit, non-finite values and strides included.
func quantizeCase(rows, k, stride int, wild bool) testCase {
	return testCase{fmt.Sprintf("quantize/%dx%d/%d/wild=%v", rows, k, stride, wild), func(r *rig) error {
		rng := rand.New(rand.NewPCG(5, uint64(k)))
		x := randomRows(rng, rows*stride)
		if wild {
			for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e-45, 3e38, 1e-40} {
				x[(i*67)%k] = float32(v)
			}
		}
		packed := make([]float32, 0, rows*k)
		for i := range rows {
			packed = append(packed, x[i*stride:][:k]...)
		}
		q, records := roundQ8(packed)
		dx, err := r.up(bytesOf(x))
		if err != nil {
			return err
		}
		dq, err := r.alloc(int64(rows * k))
		if err != nil {
			return err
		}
		dr, err := r.alloc(int64(rows * k / 32 * 8))
		if err != nil {
			return err
		}
		if err := r.k.QuantizeQ8(r, &kernelscuda.QuantizeParams{X: dx.ptr, Q8: dq.ptr, Records: dr.ptr, Rows: int32(rows), K: int32(k), XStride: int32(stride)}); err != nil {
			return err
		}
		gotQ, err := values[int8](r, dq, "quantize_q8")
		if err != nil {
			return err
		}
		if err := same("quants", gotQ, q); err != nil {
			return err
		}
		got, err := values[record](r, dr, "quantize_q8")
		if err != nil {
			return err
		}
		for i := range got {
			if got[i] != records[i] && !(got[i].D != got[i].D && records[i].D != records[i].D && got[i].S0 == records[i].S0 && got[i].S1 == records[i].S1) {
				return fmt.Errorf("record %d: %v, want %v", i, got[i], records[i])
			}
		}
		return nil
	}}
}

// convertCase compares rounding to 16 bits.
func convertCase(rows, k, yStride int) testCase {
	return testCase{fmt.Sprintf("convert/%dx%d", rows, k), func(r *rig) error {
		rng := rand.New(rand.NewPCG(6, uint64(k)))
		x := randomRows(rng, rows*2*k)
		for i := range k {
			x[i] *= 1e5 // a row beyond float16's range
		}
		dx, err := r.up(bytesOf(x))
		if err != nil {
			return err
		}
		p := kernelscuda.QuantizeParams{X: dx.ptr, Rows: int32(rows), K: int32(k), XStride: int32(2 * k), YStride: int32(yStride)}
		run := func(f func(kernelscuda.Queue, *kernelscuda.QuantizeParams) error, what string) ([]uint16, []float32, error) {
			y, err := r.alloc(int64(2 * rows * yStride))
			if err != nil {
				return nil, nil, err
			}
			scales, err := r.alloc(int64(4 * rows))
			if err != nil {
				return nil, nil, err
			}
			p.Y16, p.Scales = y.ptr, scales.ptr
			if err := f(r, &p); err != nil {
				return nil, nil, err
			}
			out, err := values[uint16](r, y, what)
			if err != nil {
				return nil, nil, err
			}
			s, err := values[float32](r, scales, what)
			return out, s, err
		}
		b16, _, err := run(r.k.ConvertBf16, "convert_bf16")
		if err != nil {
			return err
		}
		swiglu, _, err := run(r.k.SwigluConvertBf16, "swiglu_convert_bf16")
		if err != nil {
			return err
		}
		f16, scales, err := run(r.k.ConvertF16, "convert_f16")
		if err != nil {
			return err
		}
		for row := range rows {
			for i := range yStride {
				at := row*yStride + i
				if i >= k {
					if b16[at] != 0 || f16[at] != 0 || swiglu[at] != 0 {
						return fmt.Errorf("row %d: element %d beyond %d isn't 0", row, i, k)
					}
					continue
				}
				v, u := x[row*2*k+i], x[row*2*k+k+i]
				if b16[at] != quant.F32ToBF16(v) {
					return fmt.Errorf("convert_bf16: row %d, element %d: %#x for %g", row, i, b16[at], v)
				}
				if g := float64(quant.F16ToF32(f16[at])) * float64(scales[row]); math.Abs(g-float64(v)) > math.Abs(float64(v))*0x1p-11+float64(scales[row])*0x1p-25 {
					return fmt.Errorf("convert_f16: row %d, element %d: %g for %g, scale %g", row, i, g, v, scales[row])
				}
				want := float64(v) / (1 + math.Exp(-float64(v))) * float64(u)
				if g := float64(quant.BF16ToF32(swiglu[at])); math.Abs(g-want) > math.Abs(want)*0x1.01p-8+1e-37 {
					return fmt.Errorf("swiglu_convert_bf16: row %d, element %d: %g, want %g", row, i, g, want)
				}
			}
		}
		return nil
	}}
}

// gatherCase compares rows of a table in both layouts, bit for bit.
func gatherCase(t quant.Type, rows, k int) testCase {
	return testCase{fmt.Sprintf("getrows/%s/%dx%d", t, rows, k), func(r *rig) error {
		rng := rand.New(rand.NewPCG(8, uint64(rows*k)))
		file := randomWeight(rng, t, rows, k)
		want := decode(t, file, rows*k)
		ids := []int32{0, int32(rows - 1), int32(rows / 2), 0, -1, int32(rows)}
		dids, err := r.up(bytesOf(ids))
		if err != nil {
			return err
		}
		raw, err := r.up(padRows(file, rows))
		if err != nil {
			return err
		}
		stride := k + 4
		p := kernelscuda.GetrowsParams{Table: raw.ptr, Ids: dids.ptr, Rows: int32(len(ids)), Entries: int32(rows), Width: int32(k), YStride: int32(stride)}
		layouts := []string{"raw"}
		if _, ok := scaleFields[t]; ok {
			layouts = append(layouts, "tile16")
		}
		for _, layout := range layouts {
			if layout == "tile16" {
				planes, err := kernelscuda.Tile16(int32(t), rows, k, file)
				if err != nil {
					return err
				}
				sizes, err := kernelscuda.Tile16Planes(int32(t), rows, k)
				if err != nil {
					return err
				}
				d, err := r.up(planes)
				if err != nil {
					return err
				}
				p.Table, p.TableStride = d.ptr, 0
				p.Head = d.ptr + cudart.Ptr(sizes.Data)
				p.Tail = p.Head + cudart.Ptr(sizes.Head)
			}
			y, err := r.alloc(int64(4 * len(ids) * stride))
			if err != nil {
				return err
			}
			p.Y = y.ptr
			if err := r.k.Getrows(r, int32(t), &p); err != nil {
				return err
			}
			all, err := values[float32](r, y, fmt.Sprintf("getrows %s %s", layout, t))
			if err != nil {
				return err
			}
			got, err := dense(all, stride, k, len(ids))
			if err != nil {
				return err
			}
			for i, id := range ids {
				row := got[i*k:][:k]
				if id < 0 || int(id) >= rows {
					for _, v := range row {
						if v == v {
							return fmt.Errorf("%s: id %d outside the table gave %g, not NaN", layout, id, v)
						}
					}
					continue
				}
				if err := same(fmt.Sprintf("%s, id %d", layout, id), bits(row), bits(want[int(id)*k:][:k])); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// expandCase compares weights rounded to bf16, from both layouts, bit for bit.
func expandCase(t quant.Type, rows, k int) testCase {
	return testCase{fmt.Sprintf("expand/%s/%dx%d", t, rows, k), func(r *rig) error {
		s, err := newSetup(r, t, rows, k, 30)
		if err != nil {
			return err
		}
		want := make([]uint16, len(s.wide))
		for i, v := range s.wide {
			want[i] = quant.F32ToBF16(v)
		}
		for _, tile := range []bool{false, true} {
			y, err := r.alloc(int64(2 * rows * k))
			if err != nil {
				return err
			}
			p := kernelscuda.ExpandParams{W: s.raw.ptr, Y: y.ptr, Rows: int32(rows), K: int32(k), YStride: int32(k)}
			if tile {
				p.W, p.Head, p.Tail = s.parts()
			}
			if err := r.k.Expand(r, int32(t), &p); err != nil {
				return err
			}
			got, err := values[uint16](r, y, fmt.Sprintf("expand %s, tile %v", t, tile))
			if err != nil {
				return err
			}
			if err := same(fmt.Sprintf("tile %v", tile), got, want); err != nil {
				return err
			}
		}
		return nil
	}}
}

package kerneltest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/quant"
)

// beyondCache is how many bytes of weights a measurement goes through, so that none come from the L2 cache.
const beyondCache = 256 << 20

// A weight of the 7B model: rows and width.
type shape struct {
	name    string
	rows, k int
}

var model = []shape{{"qkv", 4608, 3584}, {"o", 3584, 3584}, {"gateup", 2 * 18944, 3584}, {"down", 3584, 18944}, {"head", 152064, 3584}}

// TestSpeed measures with -speed: JSON lines of microseconds a launch, in a captured graph over copies of the weight beyond the L2 cache,
// median of 20. -group=TYPE or -group=gemm measures only that.
func TestSpeed(t *testing.T) {
	if !*speed {
		t.Skip("-speed measures")
	}
	ctx, image := open(t)
	var k *kernelscuda.Kernels
	require.NoError(t, ctx.Do(func(b *cudart.Bound) (err error) { k, err = kernelscuda.Load(b, image); return err }))
	measure := func(name string, f func(r *rig) error) {
		if *group != "" && *group != name {
			return
		}
		if err := onRig(ctx, k, f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, ty := range []quant.Type{quant.Q4_K, quant.Q6_K, quant.Q8_0, quant.Q4_0, quant.Q5_K, quant.Q5_0, quant.Q4_1, quant.Q5_1} {
		for _, s := range model {
			measure(strings.ToLower(ty.String()), func(r *rig) error { return decodeSpeed(t, r, ty, s) })
		}
	}
	for _, ty := range floats {
		for _, s := range model[:4] {
			measure(strings.ToLower(ty.String()), func(r *rig) error { return floatSpeed(t, r, ty, s) })
		}
	}
	for _, m := range []int{64, 512, 2048} {
		for _, s := range model[:4] {
			measure("gemm", func(r *rig) error { return gemmSpeed(t, r, s, m) })
		}
	}
	measure("expand", func(r *rig) error { return expandSpeed(t, r) })
}

// fill is device memory of one byte's repetition: as weights, small finite scales.
func (r *rig) fill(n int64, v byte) (cudart.Ptr, error) {
	m, err := r.b.Alloc(n)
	if err != nil {
		return 0, err
	}
	r.held = append(r.held, m)
	return m.Ptr(), r.b.Memset8(r.s, m.Ptr(), v, n)
}

// time gives the microseconds of one of n launches in a graph: the median of 20 replays.
func (r *rig) time(n int, launch func(i int) error) (float64, error) {
	g, err := r.b.Capture(r.s, cudart.CaptureThreadLocal, func() error {
		for i := range n {
			if err := launch(i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	exec, err := g.Instantiate(r.b)
	if err != nil {
		return 0, err
	}
	from, err := r.b.NewEvent(true)
	if err != nil {
		return 0, err
	}
	to, err := r.b.NewEvent(true)
	if err != nil {
		return 0, err
	}
	var list []time.Duration
	for i := range 23 {
		if err := from.Record(r.b, r.s); err != nil {
			return 0, err
		}
		if err := exec.Launch(r.b, r.s); err != nil {
			return 0, err
		}
		if err := to.Record(r.b, r.s); err != nil {
			return 0, err
		}
		if err := r.wait("a measurement"); err != nil {
			return 0, err
		}
		d, err := to.Since(r.b, from)
		if err != nil {
			return 0, err
		}
		if i >= 3 {
			list = append(list, d)
		}
	}
	slices.Sort(list)
	for _, end := range []func(*cudart.Bound) error{exec.Destroy, g.Destroy, from.Destroy, to.Destroy} {
		if err := end(r.b); err != nil {
			return 0, err
		}
	}
	return float64(list[len(list)/2].Nanoseconds()) / 1e3 / float64(n), nil
}

func round(x float64) float64 { return math.Round(x*100) / 100 }

// report prints a measurement of bytes moved, or of operations.
func report(t *testing.T, kernel string, ty string, s string, n int, variant string, us, bytes, operations float64) {
	line := map[string]any{"speed": kernel, "type": ty, "shape": s, "columns": n, "variant": variant, "us": round(us)}
	if operations > 0 {
		line["tflops"] = round(operations / us / 1e6)
	}
	line["gbps"] = round(bytes / us / 1e3)
	emit(t, line)
}

// decodeSpeed measures one shape of a quantised type in both layouts.
func decodeSpeed(t *testing.T, r *rig, ty quant.Type, s shape) error {
	sizes, err := kernelscuda.Tile16Planes(int32(ty), s.rows, s.k)
	if err != nil {
		return err
	}
	fileBytes := float64(ty.RowBytes(s.k)) * float64(s.rows)
	stride, err := kernelscuda.RawStride(int32(ty), s.k)
	if err != nil {
		return err
	}
	one := max(sizes.Bytes(), stride*int64(s.rows)) + 256
	one -= one % 256
	copies := max(2, int(beyondCache/one))
	w, err := r.fill(one*int64(copies), 0x11)
	if err != nil {
		return err
	}
	const most = 64
	x, err := r.fill(int64(most*s.k*2), 0x11)
	if err != nil {
		return err
	}
	y, err := r.fill(int64(most*s.rows*4), 0)
	if err != nil {
		return err
	}
	records := x + cudart.Ptr(most*s.k)
	planes := func(i int) (data, head, tail cudart.Ptr) {
		data = w + cudart.Ptr(int64(i)*one)
		return data, data + cudart.Ptr(sizes.Data), data + cudart.Ptr(sizes.Data+sizes.Head)
	}
	for _, n := range []int{1, 2, 3, 8, 16, 32, most} {
		forms := map[string]func(i int) error{"tile": func(i int) error {
			p := kernelscuda.MatvecTileParams{Q8: x, Records: records, Segments: 1, K: int32(s.k), Columns: int32(n)}
			p.Data[0], p.Head[0], p.Tail[0] = planes(i)
			p.Y[0], p.Type[0], p.Rows[0], p.YStride[0] = y, int32(ty), int32(s.rows), int32(s.rows)
			return r.k.MatvecTile(r, &p)
		}}
		if n == 1 || n == 8 {
			forms["raw"] = func(i int) error {
				return r.k.Matvec(r, int32(ty), &kernelscuda.MatvecParams{W: w + cudart.Ptr(int64(i)*one), Q8: x, Records: records, Y: y,
					Rows: int32(s.rows), K: int32(s.k), Columns: int32(n), YStride: int32(s.rows)})
			}
		}
		if s.name == "gateup" {
			forms["swiglu"] = func(i int) error {
				half := s.rows / 2
				sizes, err := kernelscuda.Tile16Planes(int32(ty), half, s.k)
				if err != nil {
					return err
				}
				p := kernelscuda.MatvecSwigluParams{Q8: x, Records: records, Y8: y, YRecords: y + cudart.Ptr(most*half), Rows: int32(half), K: int32(s.k), Columns: int32(n)}
				for j := range 2 {
					p.Data[j] = w + cudart.Ptr(int64(i)*one+int64(j)*sizes.Bytes())
					p.Head[j] = p.Data[j] + cudart.Ptr(sizes.Data)
					p.Tail[j] = p.Head[j] + cudart.Ptr(sizes.Head)
				}
				return r.k.MatvecSwiglu(r, int32(ty), &p)
			}
		}
		for _, form := range []string{"raw", "tile", "swiglu"} {
			launch, ok := forms[form]
			if !ok {
				continue
			}
			for _, direct := range []bool{true, false} {
				if direct && (form == "raw" || n > 1) {
					continue
				}
				r.direct = direct
				us, err := r.time(copies, launch)
				if err != nil {
					return fmt.Errorf("%s %s %s, %d columns: %w", form, ty, s.name, n, err)
				}
				report(t, "matvec_"+form, ty.String(), s.name, n, map[bool]string{true: "plain", false: "pdl"}[direct], us, fileBytes, 0)
			}
		}
	}
	return nil
}

func floatSpeed(t *testing.T, r *rig, ty quant.Type, s shape) error {
	one := int64(ty.RowBytes(s.k)) * int64(s.rows)
	copies := max(2, int(beyondCache/one))
	w, err := r.fill(one*int64(copies), 0x11)
	if err != nil {
		return err
	}
	x, err := r.fill(int64(8*s.k*4), 0x11)
	if err != nil {
		return err
	}
	y, err := r.fill(int64(8*s.rows*4), 0)
	if err != nil {
		return err
	}
	for _, n := range []int{1, 4, 8} {
		us, err := r.time(copies, func(i int) error {
			return r.k.MatvecFloat(r, int32(ty), &kernelscuda.MatvecFloatParams{W: w + cudart.Ptr(int64(i)*one), X: x, Y: y, Rows: int32(s.rows), K: int32(s.k),
				Columns: int32(n), XStride: int32(s.k), YStride: int32(s.rows)})
		})
		if err != nil {
			return fmt.Errorf("%s %s, %d columns: %w", ty, s.name, n, err)
		}
		report(t, "matvec", ty.String(), s.name, n, "pdl", us, float64(one), 0)
	}
	return nil
}

// gemmSpeed measures every form of the product on tensor cores, and the float32 one.
func gemmSpeed(t *testing.T, r *rig, s shape, m int) error {
	a, err := r.fill(int64(m*s.k*4), 0x11)
	if err != nil {
		return err
	}
	b, err := r.fill(int64(s.rows)*int64(s.k)*4, 0x11)
	if err != nil {
		return err
	}
	y, err := r.fill(int64(m)*int64(s.rows)*4, 0)
	if err != nil {
		return err
	}
	p := kernelscuda.GemmParams{A: a, B: b, Y: y, M: int32(m), N: int32(s.rows), K: int32(s.k), AStride: int32(s.k), BStride: int32(s.k), YStride: int32(s.rows)}
	run := func(kernel, variant string, launch func(i int) error) error {
		us, err := r.time(4, launch)
		if err != nil {
			return fmt.Errorf("%s %s, m %d: %w", kernel, s.name, m, err)
		}
		report(t, kernel, "", s.name, m, variant, us, float64(p.Bytes()), float64(p.Operations()))
		return nil
	}
	for _, id := range []kernelscuda.ID{kernelscuda.KernelGemmBf16128x256, kernelscuda.KernelGemmBf16128x128, kernelscuda.KernelGemmBf1664x64} {
		if err := run(id.String(), "form", func(int) error { return r.k.GemmForm(r, id, &p) }); err != nil {
			return err
		}
	}
	if err := run("gemm_bf16", "chosen", func(int) error { return r.k.Gemm(r, true, &p) }); err != nil {
		return err
	}
	if m != 512 {
		return nil
	}
	return run("gemm_f32", "", func(int) error {
		return r.k.GemmF32(r, &kernelscuda.GemmF32Params{A: a, B: b, Y: y, M: p.M, N: p.N, K: p.K, AStride: p.K, BStride: p.K, YStride: p.N})
	})
}

// expandSpeed measures what goes before a product on tensor cores: weights to bf16, activations to 8 and 16 bits.
func expandSpeed(t *testing.T, r *rig) error {
	s := model[2]
	w, err := r.fill(int64(s.rows)*int64(s.k)*2, 0x11)
	if err != nil {
		return err
	}
	y, err := r.fill(int64(s.rows)*int64(s.k)*2, 0)
	if err != nil {
		return err
	}
	for _, ty := range quantised {
		sizes, err := kernelscuda.Tile16Planes(int32(ty), s.rows, s.k)
		if err != nil {
			return err
		}
		bytes := float64(ty.RowBytes(s.k))*float64(s.rows) + 2*float64(s.rows)*float64(s.k)
		for _, tile := range []bool{false, true} {
			p := kernelscuda.ExpandParams{W: w, Y: y, Rows: int32(s.rows), K: int32(s.k), YStride: int32(s.k)}
			if tile {
				p.Head, p.Tail = w+cudart.Ptr(sizes.Data), w+cudart.Ptr(sizes.Data+sizes.Head)
			}
			us, err := r.time(4, func(int) error { return r.k.Expand(r, int32(ty), &p) })
			if err != nil {
				return err
			}
			report(t, "expand", ty.String(), s.name, 0, map[bool]string{true: "tile16", false: "raw"}[tile], us, bytes, 0)
		}
	}
	for _, m := range []int{1, 512, 2048} {
		p := kernelscuda.QuantizeParams{X: w, Q8: y, Records: y + cudart.Ptr(m*s.k), Rows: int32(m), K: int32(s.k), XStride: int32(s.k)}
		us, err := r.time(8, func(int) error { return r.k.QuantizeQ8(r, &p) })
		if err != nil {
			return err
		}
		report(t, "quantize_q8", "", "x", m, "", us, float64(p.Bytes()), 0)
		p = kernelscuda.QuantizeParams{X: w, Y16: y, Rows: int32(m), K: int32(s.k), XStride: int32(s.k), YStride: int32(s.k)}
		if us, err = r.time(8, func(int) error { return r.k.ConvertBf16(r, &p) }); err != nil {
			return err
		}
		report(t, "convert_bf16", "", "x", m, "", us, float64(p.Bytes()), 0)
	}
	return nil
}

package kerneltest

import (
	"fmt"
	"math/rand/v2"

	"github.com/minfer-go/minfer/cudart"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/quant"
)

// modelShape is weights that one launch multiplies by, as Qwen models have them: rows of each, or of gate and up.
type modelShape struct {
	name   string
	types  []quant.Type
	rows   []int
	k      int
	swiglu bool
}

// modelShapes are products of whole models in their most common mixtures. The launcher's choice of spans, jobs and rings goes by shape and
// by columns, so that shapes made for tests alone would leave forms untried that models use.
func modelShapes() (list []modelShape) {
	const q4, q6, q8 = quant.Q4_K, quant.Q6_K, quant.Q8_0
	for _, m := range []struct {
		name                string
		embd, q, kv, ff, nv int
	}{
		{"qwen2.5-0.5b", 896, 896, 128, 4864, 151936},
		{"qwen2.5-1.5b", 1536, 1536, 256, 8960, 151936},
		{"qwen2.5-3b", 2048, 2048, 256, 11008, 151936},
		{"qwen2.5-7b", 3584, 3584, 512, 18944, 152064},
		{"qwen2.5-14b", 5120, 5120, 1024, 13824, 152064},
		{"qwen3-0.6b", 1024, 2048, 1024, 3072, 151936},
		{"qwen3-8b", 4096, 4096, 1024, 12288, 151936},
		{"qwen3-32b", 5120, 8192, 1024, 25600, 151936},
	} {
		for _, t := range [][3]quant.Type{{q4, q4, q6}, {q8, q8, q8}} {
			if m.embd%t[0].BlockElems() != 0 || m.embd > 4096 && t[0] == q8 { // a K-quant needs whole blocks of 256; the largest are as the others
				continue
			}
			list = append(list,
				modelShape{m.name + " QKV", t[:], []int{m.q, m.kv, m.kv}, m.embd, false},
				modelShape{m.name + " attention output", t[:1], []int{m.embd}, m.q, false},
				modelShape{m.name + " gate and up", t[:1], []int{m.ff}, m.embd, true},
				modelShape{m.name + " down", t[2:], []int{m.embd}, m.ff, false},
				modelShape{m.name + " output", t[2:], []int{m.nv}, m.embd, false})
		}
	}
	return list
}

// modelCase multiplies by 3 to 64 columns at once and by each column alone: the same bits, and nothing written beside them.
func modelCase(s modelShape) testCase {
	return testCase{fmt.Sprintf("model/%s/%v/%v", s.name, s.types, s.k), func(r *rig) error {
		const most = 64
		x := randomRows(rand.New(rand.NewPCG(5, uint64(s.k))), most*s.k)
		q, records := roundQ8(x)
		dq, err := r.up(bytesOf(q))
		if err != nil {
			return err
		}
		dr, err := r.up(bytesOf(records))
		if err != nil {
			return err
		}
		p := kernelscuda.MatvecTileParams{Segments: int32(len(s.types)), K: int32(s.k)}
		g := kernelscuda.MatvecSwigluParams{Rows: int32(s.rows[0]), K: int32(s.k), YStride: int32(s.rows[0])}
		all := 0
		for i, t := range s.types {
			p.Type[i], p.Rows[i], p.YStride[i] = int32(t), int32(s.rows[i]), int32(s.rows[i])
			if p.Data[i], p.Head[i], p.Tail[i], err = r.tiles(t, s.rows[i], s.k, uint64(i)); err != nil {
				return err
			}
			all += s.rows[i]
		}
		g.Data[0], g.Head[0], g.Tail[0] = p.Data[0], p.Head[0], p.Tail[0]
		if s.swiglu {
			if g.Data[1], g.Head[1], g.Tail[1], err = r.tiles(s.types[0], s.rows[0], s.k, 9); err != nil {
				return err
			}
		}
		many, err := r.alloc(int64(4 * most * all))
		if err != nil {
			return err
		}
		one, err := r.alloc(int64(4 * all))
		if err != nil {
			return err
		}
		// run multiplies n columns from first on; a weight's results stand behind those of the one before.
		run := func(y buffer, first, n int) ([]float32, error) {
			if err := r.b.Memset8(r.s, y.ptr, 0xff, y.n); err != nil {
				return nil, err
			}
			a, b := dq.ptr+cudart.Ptr(first*s.k), dr.ptr+cudart.Ptr(first*s.k/32*8)
			what := fmt.Sprintf("%d columns from %d on", n, first)
			if s.swiglu {
				g.Q8, g.Records, g.Columns, g.Y = a, b, int32(n), y.ptr
				if err := r.k.MatvecSwiglu(r, int32(s.types[0]), &g); err != nil {
					return nil, err
				}
				return values[float32](r, y, what)
			}
			p.Q8, p.Records, p.Columns = a, b, int32(n)
			at := y.ptr
			for i := range s.types {
				p.Y[i] = at
				at += cudart.Ptr(4 * n * s.rows[i])
			}
			if err := r.k.MatvecTile(r, &p); err != nil {
				return nil, err
			}
			return values[float32](r, y, what)
		}
		single := make([][]float32, most)
		for c := range single {
			got, err := run(one, c, 1)
			if err != nil {
				return err
			}
			single[c] = got
		}
		for _, n := range []int{3, 4, 5, 8, 9, 12, 16, 17, 24, 32, 33, 48, 64} {
			got, err := run(many, most-n, n)
			if err != nil {
				return err
			}
			at, row := 0, 0
			for _, rows := range s.rows {
				for c := range n {
					if err := same(fmt.Sprintf("%d columns, column %d, rows from %d on, against it alone", n, c, row), bits(got[at:at+rows]), bits(single[most-n+c][row:row+rows])); err != nil {
						return err
					}
					at += rows
				}
				row += rows
			}
			for i, v := range bits(got[at:]) {
				if v != ^uint32(0) {
					return fmt.Errorf("%d columns wrote behind their results, at %d", n, i)
				}
			}
		}
		return nil
	}}
}

// tiles makes a weight on the device: some random rows over and over, which is as good for comparing forms and much quicker.
func (r *rig) tiles(t quant.Type, rows, k int, seed uint64) (data, head, tail cudart.Ptr, err error) {
	few := min(rows, 509)
	some := padRows(randomWeight(rand.New(rand.NewPCG(6, seed)), t, few, k), few)
	file := make([]byte, len(some)/few*rows)
	for at := 0; at < len(file); {
		at += copy(file[at:], some)
	}
	raw, err := r.up(file)
	if err != nil {
		return 0, 0, 0, err
	}
	sizes, err := kernelscuda.Tile16Planes(int32(t), rows, k)
	if err != nil {
		return 0, 0, 0, err
	}
	planes, err := r.alloc(sizes.Bytes())
	if err != nil {
		return 0, 0, 0, err
	}
	p := kernelscuda.RepackParams{W: raw.ptr, Data: planes.ptr, Rows: int32(rows), K: int32(k)}
	if err := r.k.Repack(r, int32(t), &p); err != nil {
		return 0, 0, 0, err
	}
	head = planes.ptr + cudart.Ptr(sizes.Data)
	return planes.ptr, head, head + cudart.Ptr(sizes.Head), nil
}

package graphtest

import (
	"fmt"
	"testing"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// SpeedOptions choose what Speed runs; zero fields mean the defaults.
type SpeedOptions struct {
	Types  []quant.Type // default: WeightTypes
	Rows   []int        // default: 1, 8, 64
	Out    int          // rows of the weight matrix, default 2048
	In     int          // its columns, default 2048
	Cells  []int        // lengths of the attended sequence, default 512, 4096
	KV     []quant.Type // default: KVTypes
	NoFuse bool
}

// Speed times the operations that decide an engine's speed at real sizes: products of each weight type and attention over each KV
// format. Besides ns/op it reports GB/s of weight or cache bytes, and GFLOP/s. Run it as a benchmark of the backend's module.
func Speed(b *testing.B, newBackend func() graph.Backend, o SpeedOptions) {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.Out, 2048)
	def(&o.In, 2048)
	if o.Types == nil {
		o.Types = WeightTypes
	}
	if o.Rows == nil {
		o.Rows = []int{1, 8, 64}
	}
	if o.Cells == nil {
		o.Cells = []int{512, 4096}
	}
	if o.KV == nil {
		o.KV = KVTypes
	}
	back := newBackend()
	defer back.Close()
	for _, t := range o.Types {
		for _, rows := range o.Rows {
			c := Case{Params: params(rows), Build: func(c *Context) {
				c.Output(c.MatMul(c.X("x", o.In), c.Weight("speed", t, 0.05, o.Out, o.In), nil))
			}}
			b.Run(fmt.Sprintf("MatMul/%s/%dx%dx%d", t, rows, o.In, o.Out), func(b *testing.B) {
				flops := 2 * float64(rows) * float64(o.In) * float64(o.Out)
				speed(b, back, c, o, int64(o.Out)*int64(t.RowBytes(o.In)), flops)
			})
		}
	}
	const heads, kvHeads, dim = 16, 4, 128
	for _, t := range o.KV {
		for _, cells := range o.Cells {
			for _, rows := range o.Rows {
				if rows > cells {
					continue
				}
				c := attention(t, "", heads, kvHeads, dim)
				c.Params.Rows, c.Params.Cells, c.KV.Cells = rows, cells, cells
				c.Inputs = map[graph.Input][]int32{graph.InLengths: nil, graph.InCells: nil}
				for r := range rows {
					at := int32(cells - rows + r)
					c.Inputs[graph.InLengths] = append(c.Inputs[graph.InLengths], at+1)
					c.Inputs[graph.InCells] = append(c.Inputs[graph.InCells], at)
				}
				b.Run(fmt.Sprintf("Attn/%s/%d rows/%d cells", t, rows, cells), func(b *testing.B) {
					bytes := 2 * int64(cells) * int64(t.RowBytes(kvHeads*dim))
					speed(b, back, c, o, bytes, 4*float64(rows)*float64(cells)*heads*dim)
				})
			}
		}
	}
}

func speed(b *testing.B, back graph.Backend, c Case, o SpeedOptions, bytes int64, flops float64) {
	exec, compiled, err := prepare(back, c, o.NoFuse, -1, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer exec.Close()
	b.SetBytes(bytes)
	for b.Loop() {
		if err := compiled.Run(); err != nil {
			b.Fatal(err)
		}
		if err := exec.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(flops*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
}

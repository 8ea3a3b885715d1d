package attn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/cpuid/v2"

	"github.com/minfer-go/minfer/backend-cpu/internal/pool"
	"github.com/minfer-go/minfer/backend-cpu/internal/vec"
	"github.com/minfer-go/minfer/kvformat"
)

type chunks struct{ *Job }
type combine struct{ *Job }
type build struct{ *Plan }

func (s chunks) Run(w, n int) error { s.Chunks(w, n); return nil }
func (s build) Run(w, n int) error {
	if w == 0 {
		s.Build()
	}
	return nil
}
func (s combine) Run(w, n int) error { s.Combine(w, n); return nil }

// BenchmarkDecode is all attention of a token at depth 2048: layers whose cache together doesn't fit a processor's.
func BenchmarkDecode(b *testing.B) {
	for _, m := range []struct {
		name                        string
		layers, heads, kvHeads, dim int
	}{{"qwen3-0.6b", 28, 16, 8, 128}, {"qwen2.5-0.5b", 24, 14, 2, 64}, {"qwen2.5-1.5b", 28, 12, 2, 128}} {
		for _, f := range []kvformat.Format{kvformat.F16, kvformat.Q8_0} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/%s/%d", m.name, f, threads), func(b *testing.B) {
					jobs(b, Shape{Heads: m.heads, KVHeads: m.kvHeads, HeadDim: m.dim, KeyFormat: f, ValueFormat: f}, m.layers, threads, 2048, 1)
				})
			}
		}
	}
}

// BenchmarkPrefill is one layer's attention of a prompt.
func BenchmarkPrefill(b *testing.B) {
	for _, m := range []struct {
		name                string
		heads, kvHeads, dim int
	}{{"qwen3-0.6b", 16, 8, 128}, {"qwen2.5-0.5b", 14, 2, 64}} {
		for _, n := range []int{512, 2048} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/%d/%d", m.name, n, threads), func(b *testing.B) {
					jobs(b, Shape{Heads: m.heads, KVHeads: m.kvHeads, HeadDim: m.dim, KeyFormat: kvformat.F16, ValueFormat: kvformat.F16}, 1, threads, n, n)
				})
			}
		}
	}
}

// jobs runs layers of attention of the last rows positions of a sequence of n.
func jobs(b *testing.B, s Shape, layers, threads, n, rows int) {
	vector := cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C)
	rng := rand.New(rand.NewPCG(1, 2))
	s.Scale = 0.1
	s.KeyRow, s.ValueRow = s.KeyFormat.Type().RowBytes(s.HeadDim)*s.KVHeads, s.ValueFormat.Type().RowBytes(s.HeadDim)*s.KVHeads
	in := Inputs{SeqRuns: []int32{0, 1}, Runs: []int32{0, int32(n)}}
	for r := range rows {
		in.Lengths, in.Seqs = append(in.Lengths, int32(n-rows+r+1)), append(in.Seqs, 0)
	}
	plan := NewPlan(in, s.group())
	plan.Build()
	q, y := make([]float32, rows*s.Heads*s.HeadDim), make([]float32, rows*s.Heads*s.HeadDim)
	for i := range q {
		q[i] = float32(rng.NormFloat64())
	}
	row := make([]float32, s.HeadDim)
	var workers []*Worker
	for range threads {
		workers = append(workers, NewWorker(s))
	}
	parts := NewParts(min(rows, 16)*s.Heads*plan.chunks, s.HeadDim)
	fill := func(f kvformat.Format, size int) []byte {
		mem := make([]byte, n*size)
		head := f.Type().RowBytes(s.HeadDim)
		for at := 0; at < len(mem); at += head {
			if at >= 64*head {
				copy(mem[at:], mem[at%(64*head):][:head])
				continue
			}
			for i := range row {
				row[i] = float32(rng.NormFloat64())
			}
			f.Encode(mem[at:at+head], row)
		}
		return mem
	}
	steps := []pool.Step{build{plan}}
	bytes := 0
	for range layers {
		j := &Job{Shape: s, Kernels: vec.New(vector), Plan: plan, Q: q, Y: y, QStride: s.Heads * s.HeadDim, YStride: s.Heads * s.HeadDim,
			Keys: fill(s.KeyFormat, s.KeyRow), Values: fill(s.ValueFormat, s.ValueRow), Workers: workers, Parts: parts}
		bytes += len(j.Keys) + len(j.Values)
		steps = append(steps, chunks{j}, combine{j})
	}
	p := pool.New(threads)
	defer p.Close()
	b.SetBytes(int64(bytes))
	b.ResetTimer()
	for range b.N {
		if err := p.Run(steps, nil); err != nil {
			b.Fatal(err)
		}
	}
}

package enginetest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/kvformat"
)

// Feed is a way to hand the same tokens to a context. Its logits are a copy of every position's, of one sequence.
type Feed struct {
	Name string
	Seqs int // that the context must have
	Run  func(t *testing.T, c *engine.Context, tokens []int32) [][]float32
}

// Chunks feeds n tokens a Step.
func Chunks(n int) Feed {
	return Feed{fmt.Sprintf("chunks of %d", n), 1, func(t *testing.T, c *engine.Context, tokens []int32) [][]float32 {
		var out [][]float32
		for chunk := range slices.Chunk(tokens, n) {
			out = append(out, AllLogits(t, c, chunk)...)
		}
		return out
	}}
}

// Company feeds each token beside rows of two other sequences, whose tokens and lengths differ.
var Company = Feed{"beside other sequences", 3, func(t *testing.T, c *engine.Context, tokens []int32) [][]float32 {
	var out [][]float32
	for i, id := range tokens {
		rows := []engine.Row{{Token: int32(i % 7), Seq: 2, Output: i%3 == 0}, {Token: id, Seq: 1, Output: true}, {Token: id, Seq: 0}}
		must(t, c.Step(context.Background(), rows))
		at := 0
		if i%3 == 0 {
			at = 1
		}
		out = append(out, slices.Clone(c.Logits(at)))
	}
	return out
}}

// InvarianceModels have one weight type each; the i-th is checked with the KV format InvarianceFormat(i).
var InvarianceModels = []string{"tiny-qwen3-f32", "tiny-qwen3-f16", "tiny-qwen3-bf16", "tiny-qwen2w-q8_0", "tiny-qwen2w-q4_k_m", "tiny-qwen3w-q4_0",
	"tiny-qwen3w-q4_1", "tiny-qwen3w-q5_0", "tiny-qwen3w-q5_1", "tiny-qwen3w-q5_k", "tiny-qwen3w-q6_k"}

// InvarianceFormat is the KV format of the i-th of InvarianceModels.
func InvarianceFormat(i int) kvformat.Format {
	return []kvformat.Format{kvformat.F16, kvformat.F32, kvformat.Q8_0}[i%3]
}

// LongTokens are 150 tokens of a tiny model: more than one chunk of attention.
func (o Options) LongTokens(t testing.TB, name string) []int32 {
	var g golden
	o.json(t, name+".json", &g)
	tokens := g.Sequences[2].Tokens
	for len(tokens) < 150 {
		tokens = append(tokens, tokens...)
	}
	return tokens[:150]
}

// RunFeed gives the logits of one feed with a context of its own.
func RunFeed(t *testing.T, m *engine.Model, f Feed, kv kvformat.Format, tokens []int32) [][]float32 {
	t.Helper()
	return f.Run(t, NewContext(t, m, engine.ContextOptions{Ctx: 256, Seqs: f.Seqs, KeyType: kv, ValueType: kv}), tokens)
}

// SameBits fails at the first logit that differs in any bit.
func SameBits(t testing.TB, what string, want, got [][]float32) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%s: %d positions, want %d", what, len(got), len(want))
	}
	for i := range want {
		for j := range want[i] {
			if math.Float32bits(want[i][j]) != math.Float32bits(got[i][j]) {
				t.Fatalf("%s: different bits at position %d, token %d: %g and %g", what, i, j, want[i][j], got[i][j])
			}
		}
	}
}

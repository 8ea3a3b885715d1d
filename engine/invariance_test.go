package engine

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/kvformat"
)

// feed is a way to hand the same tokens to a context; it gives a copy of every position's logits of sequence seq.
type feed struct {
	name string
	seqs int
	run  func(t *testing.T, c *Context, tokens []int32) [][]float32
}

// chunked feeds n tokens a Step.
func chunked(n int) feed {
	return feed{fmt.Sprintf("chunks of %d", n), 1, func(t *testing.T, c *Context, tokens []int32) [][]float32 {
		var out [][]float32
		for at := 0; at < len(tokens); at += n {
			out = append(out, allLogits(t, c, tokens[at:min(at+n, len(tokens))])...)
		}
		return out
	}}
}

// company feeds each token beside rows of two other sequences, whose tokens and lengths differ.
var company = feed{"beside other sequences", 3, func(t *testing.T, c *Context, tokens []int32) [][]float32 {
	var out [][]float32
	for i, id := range tokens {
		rows := []Row{{Token: int32(i % 7), Seq: 2, Output: i%3 == 0}, {Token: id, Seq: 1, Output: true}, {Token: id, Seq: 0}}
		require.NoError(t, c.Step(context.Background(), rows))
		at := 0
		if i%3 == 0 {
			at = 1
		}
		out = append(out, append([]float32(nil), c.Logits(at)...))
	}
	return out
}}

// TestRowsDontDependOnTheirCompany: the logits are the same bits however a prompt is fed, with any number of threads, on
// every instruction path (docs/adr/0001): and all paths agree with each other.
func TestRowsDontDependOnTheirCompany(t *testing.T) {
	models := []string{"tiny-qwen3-f32", "tiny-qwen3-f16", "tiny-qwen3-bf16", "tiny-qwen2w-q8_0", "tiny-qwen2w-q4_k_m", "tiny-qwen3w-q4_0",
		"tiny-qwen3w-q4_1", "tiny-qwen3w-q5_0", "tiny-qwen3w-q5_1", "tiny-qwen3w-q5_k", "tiny-qwen3w-q6_k"}
	formats := []kvformat.Format{kvformat.F16, kvformat.F32, kvformat.Q8_0}
	for i, name := range models {
		kv := formats[i%len(formats)]
		t.Run(fmt.Sprintf("%s kv %s", name, kv), func(t *testing.T) {
			var golden goldenFile
			readJSON(t, name+".json", &golden)
			tokens := golden.Sequences[2].Tokens
			for len(tokens) < 150 { // beyond one attention chunk
				tokens = append(tokens, tokens...)
			}
			tokens = tokens[:150]
			var want [][]float32
			for _, path := range backendcpu.Paths() {
				for threads := 1; threads <= 3; threads++ {
					if path == "generic" && threads == 3 {
						continue
					}
					m := loadModel(t, tinyModel(name), LoadOptions{Threads: threads, CPUPath: path})
					feeds := []feed{chunked(len(tokens)), chunked(7)}
					switch {
					case path == "generic" && len(backendcpu.Paths()) > 1: // slow: it need only agree
						feeds = feeds[threads%2 : threads%2+1]
					case threads == 2:
						feeds = append(feeds, chunked(1), company)
					}
					for _, f := range feeds {
						c := newContext(t, m, ContextOptions{Ctx: 256, Seqs: f.seqs, KeyType: kv, ValueType: kv})
						got := f.run(t, c, tokens)
						if want == nil {
							want = got
						}
						for i := range want {
							for j := range want[i] {
								if math.Float32bits(want[i][j]) != math.Float32bits(got[i][j]) {
									require.Failf(t, "different bits",
										"%s, %d threads, %s: position %d, token %d: %g and %g", path, threads, f.name, i, j, want[i][j], got[i][j])
								}
							}
						}
					}
				}
			}
		})
	}
}

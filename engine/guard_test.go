package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/chat"
	"github.com/minfer-go/minfer/engine/enginetest"
	"github.com/minfer-go/minfer/engine/sample"
	"github.com/minfer-go/minfer/kvformat"
)

// Guards of speed that need no clock. A slower program may pass them, but what they hold is what speed rests on.

var guarded = []string{"tiny-qwen2w-q4_k_m", "tiny-qwen2w-q8_0", "tiny-qwen3-q8_0", "tiny-qwen3w-q4_0", "tiny-qwen3w-q6_k", "tiny-qwen3-f16", "tiny-qwen3-bf16"}

// decoder is a context that is about to decode, its graph compiled and run once.
func decoder(t testing.TB, m *engine.Model, kv kvformat.Format, rows []engine.Row) *engine.Context {
	t.Helper()
	c := enginetest.NewContext(t, m, engine.ContextOptions{Ctx: 256, Seqs: len(rows), KeyType: kv, ValueType: kv})
	for range 3 {
		require.NoError(t, c.Step(context.Background(), rows))
	}
	return c
}

func sequences(n int) (rows []engine.Row) {
	for seq := range n {
		rows = append(rows, engine.Row{Token: int32(5 + seq), Seq: seq, Output: true})
	}
	return rows
}

// TestGuardBytesPerToken: a step of decode reads every tensor of the file once, and of the embedding one row for each token; of the cache
// every cell once. With several sequences in a step the weights are still read once.
//
// Seen failing with ffn_down multiplied twice in a block (models-qwen), with whole chunks of 128 cells counted as read in attention, and with
// each product called twice, or once for each row (backend-cpu).
func TestGuardBytesPerToken(t *testing.T) {
	for _, name := range guarded {
		for _, kv := range []kvformat.Format{kvformat.F16, kvformat.Q8_0} {
			for _, seqs := range []int{1, 4} {
				t.Run(fmt.Sprintf("%s, kv %s, %d sequences", name, kv, seqs), func(t *testing.T) {
					m := options.Model(t, name)
					rows := sequences(seqs)
					c := decoder(t, m, kv, rows)
					stats := m.Backend().(*backendcpu.Backend).Stats
					before := stats()
					for range 8 {
						require.NoError(t, c.Step(context.Background(), rows))
					}
					after := stats()
					require.EqualValues(t, 8, after.Runs-before.Runs, "one program a step")

					var weights, matrices int64
					for _, x := range m.File().Tensors() {
						row := x.Size
						if x.Name == "token_embd.weight" {
							row /= int64(x.Shape[1])
							if _, untied := m.File().Tensor("output.weight"); untied {
								weights -= x.Size // only rows of it are read
							}
							weights += int64(seqs) * row
						}
						weights += x.Size
						if _, untied := m.File().Tensor("output.weight"); len(x.Shape) == 2 && !(untied && x.Name == "token_embd.weight") {
							matrices += x.Size
						}
					}
					require.EqualValues(t, 8*weights, after.WeightBytes-before.WeightBytes)
					require.EqualValues(t, 8*matrices, after.ProductBytes-before.ProductBytes, "kernels are called for each row of a matrix once")

					cfg := m.Config()
					rowBytes, err := kv.RowBytes(cfg.HeadDim)
					require.NoError(t, err)
					cells := 4 + 5 + 6 + 7 + 8 + 9 + 10 + 11 // three tokens were there before
					require.EqualValues(t, seqs*cells*2*rowBytes*cfg.NHeadKV*cfg.NLayer, after.KVBytes-before.KVBytes)
				})
			}
		}
	}
}

// TestGuardAllocationsPerToken: a step of decode and the choice of the next token allocate nothing.
//
// Seen failing with Context.run making a new slice for kept logits, and with Sampler.Sample working on a copy of the logits.
func TestGuardAllocationsPerToken(t *testing.T) {
	for _, name := range guarded {
		m := options.Model(t, name)
		for _, seqs := range []int{1, 4} {
			rows := sequences(seqs)
			c := decoder(t, m, kvformat.F16, rows)
			compiled := c.Executor().Stats().Compiled
			require.Zero(t, testing.AllocsPerRun(20, decode(t, m, c, rows)), "%s, %d sequences", name, seqs)
			require.Equal(t, compiled, c.Executor().Stats().Compiled, "no graph is built again")
		}
	}
}

// decode is a step and greedy and random choices of the next tokens.
func decode(t testing.TB, m *engine.Model, c *engine.Context, rows []engine.Row) func() {
	var samplers []*sample.Sampler
	for i := range rows {
		p := sample.Default()
		p.Seed = uint64(i)
		if i%2 == 0 {
			p.Temperature = 0
		}
		s, err := sample.New(p, m.Tokenizer().Size())
		require.NoError(t, err)
		samplers = append(samplers, s)
	}
	ctx := context.Background()
	step := func() {
		if err := c.Step(ctx, rows); err != nil {
			t.Fatal(err)
		}
		for i, s := range samplers {
			id, err := s.Sample(c.Logits(i))
			if err != nil {
				t.Fatal(err)
			}
			s.Accept(id)
			rows[i].Token = id
		}
	}
	for range 80 { // samplers look back on 64 tokens
		step()
	}
	return step
}

// TestGuardAllocationsOfText: in a whole answer, each token costs no more than the string that is handed to the caller.
//
// Seen failing with a Stream that forgets its buffer between tokens: two a token.
func TestGuardAllocationsOfText(t *testing.T) {
	m := options.Model(t, "minfer-story-3m-q8_0")
	c := enginetest.NewContext(t, m, engine.ContextOptions{Ctx: 512})
	ids, _, err := m.ChatPrompt(chat.Input{Messages: chat.Messages("user", "Tell me a story about a brave mouse and a lamp."), AddGenerationPrompt: true})
	require.NoError(t, err)
	allocated := func(tokens int) uint64 {
		c.Truncate(0, 0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		res, err := c.Generate(context.Background(), 0, ids, engine.GenerateOptions{MaxTokens: tokens}, func(string) error { return nil })
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Len(t, res.Tokens, tokens)
		return after.Mallocs - before.Mallocs
	}
	allocated(20) // compiles the graphs
	more := allocated(84) - allocated(20)
	require.LessOrEqual(t, more, uint64(64+8), "64 more tokens; eight to spare for slices that grow")
}

// BenchmarkDecode fails if a token allocates.
func BenchmarkDecode(b *testing.B) {
	m := options.Model(b, "minfer-story-3m-q8_0")
	rows := sequences(1)
	c := decoder(b, m, kvformat.F16, rows)
	step := decode(b, m, c, rows)
	b.ReportAllocs()
	for b.Loop() {
		c.Truncate(0, 20)
		step()
	}
	b.StopTimer()
	if n := testing.AllocsPerRun(20, func() { c.Truncate(0, 20); step() }); n != 0 {
		b.Fatalf("%g allocations a token", n)
	}
}

package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
)

// goldenFile is the layout of testdata/goldens/NAME.json.
type goldenFile struct {
	Model     string
	Sequences []goldenSequence
}

type goldenSequence struct {
	ID             string
	Tokens         []int32
	LastLogitsFile string      `json:"last_logits_file"`
	Top5IDs        [][]int32   `json:"top5_ids"`
	Top5Logits     [][]float32 `json:"top5_logits"`
	Top1Gap        []float32   `json:"top1_gap"`
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "goldens", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

func readFloats(t *testing.T, name string) []float32 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "goldens", name))
	require.NoError(t, err)
	v := make([]float32, len(data)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return v
}

// bigModel is the path of a model that is not in the repository, or skips the test.
func bigModel(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("MINFER_TEST_MODELS")
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); dir == "" || err != nil {
		t.Skipf("needs %s in the folder that MINFER_TEST_MODELS names (now %q)", name, dir)
	}
	return path
}

func loadModel(t testing.TB, path string, o LoadOptions) *Model {
	t.Helper()
	m, err := Load(path, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func newContext(t testing.TB, m *Model, o ContextOptions) *Context {
	t.Helper()
	c, err := m.NewContext(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func tinyModel(name string) string { return filepath.Join("testdata", "models", name+".gguf") }

// allLogits feeds tokens to sequence 0 in one Step and gives a copy of every position's logits.
func allLogits(t testing.TB, c *Context, tokens []int32) [][]float32 {
	t.Helper()
	rows := make([]Row, len(tokens))
	for i, id := range tokens {
		rows[i] = Row{Token: id, Output: true}
	}
	require.NoError(t, c.Step(context.Background(), rows))
	out := make([][]float32, len(tokens))
	for i := range out {
		out[i] = append([]float32(nil), c.Logits(i)...)
	}
	return out
}

func argmax(v []float32) int32 {
	best := 0
	for i, x := range v {
		if x > v[best] {
			best = i
		}
	}
	return int32(best)
}

// difference of got from want: largest absolute, and rms over the standard deviation of want.
func difference(got, want []float32) (maxAbs, relative float64) {
	var mean, sq, variance float64
	for _, w := range want {
		mean += float64(w) / float64(len(want))
	}
	for i, w := range want {
		d := float64(got[i]) - float64(w)
		if a := math.Abs(d); a > maxAbs || math.IsNaN(a) {
			maxAbs = a
		}
		sq += d * d
		variance += (float64(w) - mean) * (float64(w) - mean)
	}
	return maxAbs, math.Sqrt(sq / variance)
}

// TestGoldenLogits compares with an independent float32 program on every weight type (tolerances: testdata/README.md).
func TestGoldenLogits(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "models", "tiny-*.gguf"))
	require.NoError(t, err)
	require.Len(t, files, 16)
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		t.Run(name, func(t *testing.T) { checkGoldenLogits(t, path, name) })
	}
}

func TestGoldenLogitsSmolLM2(t *testing.T) {
	name := "smollm2-135m-instruct-q4_1-qwen2"
	checkGoldenLogits(t, bigModel(t, name+".gguf"), name)
}

func checkGoldenLogits(t *testing.T, path, name string) {
	var golden goldenFile
	readJSON(t, name+".json", &golden)
	require.Len(t, golden.Sequences, 3)
	limit := math.Inf(1)
	switch {
	case strings.HasSuffix(name, "-f32"):
		limit = 1e-3
	case strings.HasSuffix(name, "-bf16"):
		limit = 0.1
	case strings.HasSuffix(name, "-f16"):
		limit = 0.02
	}
	m := loadModel(t, path, LoadOptions{})
	for _, kv := range []kvformat.Format{kvformat.F32, kvformat.F16} {
		if kv == kvformat.F16 && limit == 1e-3 {
			continue // a 16-bit cache is no float32 arithmetic
		}
		c := newContext(t, m, ContextOptions{Ctx: 128, KeyType: kv, ValueType: kv})
		for _, seq := range golden.Sequences {
			c.Truncate(0, 0)
			logits := allLogits(t, c, seq.Tokens)
			last := logits[len(logits)-1]
			maxAbs, relative := difference(last, readFloats(t, seq.LastLogitsFile))
			t.Logf("%s %s kv %s: max abs %.3g, rms/std %.3g", name, seq.ID, kv, maxAbs, relative)
			require.Less(t, maxAbs, limit, "%s", seq.ID)
			require.Less(t, relative, 0.15, "%s", seq.ID)
			for i, ids := range seq.Top5IDs {
				if math.IsInf(limit, 1) {
					if seq.Top1Gap[i] > 0.5 {
						require.Equal(t, ids[0], argmax(logits[i]), "%s position %d, lead %g", seq.ID, i, seq.Top1Gap[i])
					}
					continue
				}
				for j, id := range ids {
					require.InDelta(t, seq.Top5Logits[i][j], logits[i][id], limit, "%s position %d token %d", seq.ID, i, id)
				}
			}
		}
	}
}

// TestGoldenHidden compares every sub-layer's result with the independent program's, so that the first wrong step shows.
func TestGoldenHidden(t *testing.T) {
	for _, name := range []string{"tiny-qwen2-f32", "tiny-qwen3-f32"} {
		t.Run(name, func(t *testing.T) {
			var golden struct {
				Tokens  []int32
				File    string
				Tensors []struct {
					Name       string
					Rows, Cols int
					Offset     int `json:"offset_floats"`
				}
			}
			readJSON(t, name+".n17.hidden.json", &golden)
			data := readFloats(t, golden.File)
			m := loadModel(t, tinyModel(name), LoadOptions{})
			c := newContext(t, m, ContextOptions{Ctx: 32, Batch: 17, KeyType: kvformat.F32, ValueType: kvformat.F32, Features: graph.FeatureHidden})
			logits := allLogits(t, c, golden.Tokens)
			ours := map[string]string{"embed": "embed"}
			for i := range m.Config().NLayer {
				for theirs, name := range map[string]string{"attn_norm_out": "attn_norm", "q_proj_out": "attn_q", "k_proj_out": "attn_k", "v_proj_out": "attn_v",
					"attn_out": "attn_output", "ffn_norm_out": "ffn_norm", "ffn_out": "ffn_down", "out": "out"} {
					ours[fmt.Sprintf("blk.%d.%s", i, theirs)] = fmt.Sprintf("blk.%d.%s", i, name)
				}
			}
			compared := 0
			for _, g := range golden.Tensors {
				want := data[g.Offset : g.Offset+g.Rows*g.Cols]
				var got []float32
				switch g.Name {
				case "logits":
					for _, row := range logits {
						got = append(got, row...)
					}
				case "output_norm_out":
					continue // covered by the logits
				default:
					got = c.hidden(t, ours[g.Name])[:g.Rows*g.Cols]
				}
				maxAbs, _ := difference(got, want)
				require.Less(t, maxAbs, 1e-3, g.Name)
				compared++
			}
			require.Equal(t, len(golden.Tensors)-1, compared)
		})
	}
}

// hidden reads an output of the last step of a FeatureHidden context.
func (c *Context) hidden(t *testing.T, name string) []float32 {
	t.Helper()
	for i, n := range c.model.net.HiddenNames() {
		if n == name {
			out, err := c.compiled.Output(i + 1)
			require.NoError(t, err)
			return out
		}
	}
	require.Fail(t, "no such hidden state", name)
	return nil
}

// greedyFile is the layout of the *-greedy.json goldens.
type greedyFile struct {
	Model   string
	Prompts []struct {
		User       string
		PromptText string    `json:"prompt_text"`
		PromptIDs  []int32   `json:"prompt_ids"`
		OutputIDs  []int32   `json:"output_ids"`
		OutputText string    `json:"output_text"`
		SecondIDs  []int32   `json:"second_ids"`
		Gaps       []float32 `json:"gaps"`
	}
}

// TestGoldenGreedy feeds the golden answers and wants at each step the golden token or, where its lead is under 0.5, the
// second one.
func TestGoldenGreedy(t *testing.T) {
	t.Run("story-3m", func(t *testing.T) {
		checkGreedy(t, tinyModel("minfer-story-3m-q8_0"), "minfer-story-3m-q8_0-greedy.json")
	})
	t.Run("story-21m", func(t *testing.T) {
		path := filepath.Join("..", "cli", "defaultmodel", "minfer-story-21m-q4_k_m.gguf")
		if _, err := os.Stat(path); err != nil {
			t.Skip("needs the default model of the cli module beside this one")
		}
		checkGreedy(t, path, "minfer-story-21m-q4_k_m-greedy.json")
	})
	t.Run("smollm2", func(t *testing.T) {
		checkGreedy(t, bigModel(t, "smollm2-135m-instruct-q4_1-qwen2.gguf"), "smollm2-greedy.json")
	})
	t.Run("qwen2.5-coder-0.5b", func(t *testing.T) {
		checkGreedy(t, bigModel(t, "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"), "qwen2.5-coder-0.5b-instruct-greedy.json")
	})
}

func checkGreedy(t *testing.T, path, golden string) {
	var g greedyFile
	readJSON(t, golden, &g)
	require.NotEmpty(t, g.Prompts)
	m := loadModel(t, path, LoadOptions{})
	c := newContext(t, m, ContextOptions{Ctx: 1024})
	exact, steps := 0, 0
	for _, p := range g.Prompts {
		ids := m.tok.Encode(p.PromptText, true)
		require.Equal(t, p.PromptIDs, ids)
		c.Truncate(0, 0)
		rows := make([]Row, 0, len(ids)+len(p.OutputIDs))
		for i, id := range append(append([]int32(nil), ids...), p.OutputIDs[:len(p.OutputIDs)-1]...) {
			rows = append(rows, Row{Token: id, Output: i >= len(ids)-1})
		}
		require.NoError(t, c.Step(context.Background(), rows))
		for i, want := range p.OutputIDs {
			got := argmax(c.Logits(i))
			if got != want && p.Gaps[i] < 0.5 {
				require.Equal(t, p.SecondIDs[i], got, "%q step %d, lead %g", p.User, i, p.Gaps[i])
			} else {
				require.Equal(t, want, got, "%q step %d, lead %g", p.User, i, p.Gaps[i])
				exact++
			}
			steps++
		}
	}
	t.Logf("%s: %d of %d steps take the golden token", golden, exact, steps)
}

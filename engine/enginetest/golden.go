// Package enginetest holds the checks of a whole engine that every backend must pass: goldens of independent programs, and
// that a row's result doesn't depend on its company. The engine's own tests run them on the CPU, those of the GPU backend on a device.
package enginetest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
)

// Options say what is tested.
type Options struct {
	Dir  string             // folder with models/ and goldens/: engine/testdata
	Load engine.LoadOptions // with the backend under test
	// Tie is the lead in logits under which a golden greedy token isn't asked for, for backends that sum in another order: which of
	// two equals comes first says nothing.
	Tie float32
	// Slack multiplies what logits of 16-bit weights may be off, for backends that round activations to 16 bits too; 0: 1.
	Slack float64
}

// Model loads a tiny model of Dir, closed with the test.
func (o Options) Model(t testing.TB, name string) *engine.Model {
	t.Helper()
	return o.model(t, filepath.Join(o.Dir, "models", name+".gguf"))
}

func (o Options) model(t testing.TB, path string) *engine.Model {
	t.Helper()
	m, err := engine.Load(path, o.Load)
	must(t, err)
	t.Cleanup(func() { must(t, m.Close()) })
	return m
}

// golden is the layout of goldens/NAME.json.
type golden struct {
	Sequences []struct {
		ID             string
		Tokens         []int32
		LastLogitsFile string      `json:"last_logits_file"`
		Top5IDs        [][]int32   `json:"top5_ids"`
		Top5Logits     [][]float32 `json:"top5_logits"`
		Top1Gap        []float32   `json:"top1_gap"`
	}
}

func (o Options) json(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(o.Dir, "goldens", name))
	must(t, err)
	must(t, json.Unmarshal(data, into))
}

func (o Options) floats(t testing.TB, name string) []float32 {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(o.Dir, "goldens", name))
	must(t, err)
	v := make([]float32, len(data)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return v
}

// NewContext makes a context that is closed with the test.
func NewContext(t testing.TB, m *engine.Model, o engine.ContextOptions) *engine.Context {
	t.Helper()
	c, err := m.NewContext(o)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

// AllLogits feeds tokens to sequence 0 in one Step and gives a copy of every position's logits.
func AllLogits(t testing.TB, c *engine.Context, tokens []int32) [][]float32 {
	t.Helper()
	rows := make([]engine.Row, len(tokens))
	for i, id := range tokens {
		rows[i] = engine.Row{Token: id, Output: true}
	}
	must(t, c.Step(context.Background(), rows))
	out := make([][]float32, len(tokens))
	for i := range out {
		out[i] = slices.Clone(c.Logits(i))
	}
	return out
}

// Argmax is the index of the largest element, the first of equals.
func Argmax(v []float32) int32 {
	best := 0
	for i, x := range v {
		if x > v[best] {
			best = i
		}
	}
	return int32(best)
}

// Difference of got from want: the largest absolute one, and rms over the standard deviation of want.
func Difference(got, want []float32) (maxAbs, relative float64) {
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

// limitOf is how far logits may be off an independent float32 program's (testdata/README.md); infinite for quantised weights.
func (o Options) limitOf(name string) float64 {
	slack := max(o.Slack, 1)
	switch {
	case strings.HasSuffix(name, "-f32"):
		return 1e-3
	case strings.HasSuffix(name, "-bf16"):
		return 0.1 * slack
	case strings.HasSuffix(name, "-f16"):
		return 0.02 * slack
	}
	return math.Inf(1)
}

// GoldenLogits compares a model of every weight type with an independent float32 program, at all positions.
func GoldenLogits(t *testing.T, o Options) {
	files, err := filepath.Glob(filepath.Join(o.Dir, "models", "tiny-*.gguf"))
	must(t, err)
	if len(files) != 16 {
		t.Fatalf("%d tiny models in %s, want 16", len(files), o.Dir)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		t.Run(name, func(t *testing.T) { GoldenLogitsOf(t, o, path, name) })
	}
}

// GoldenLogitsOf is GoldenLogits for the model at path, whose goldens have the given name.
func GoldenLogitsOf(t *testing.T, o Options, path, name string) {
	var g golden
	o.json(t, name+".json", &g)
	if len(g.Sequences) != 3 {
		t.Fatalf("%d golden sequences, want 3", len(g.Sequences))
	}
	limit := o.limitOf(name)
	m := o.model(t, path)
	for _, kv := range []kvformat.Format{kvformat.F32, kvformat.F16} {
		if kv == kvformat.F16 && limit == 1e-3 {
			continue // a 16-bit cache is no float32 arithmetic
		}
		c := NewContext(t, m, engine.ContextOptions{Ctx: 128, KeyType: kv, ValueType: kv})
		for _, seq := range g.Sequences {
			c.Truncate(0, 0)
			logits := AllLogits(t, c, seq.Tokens)
			maxAbs, relative := Difference(logits[len(logits)-1], o.floats(t, seq.LastLogitsFile))
			t.Logf("%s %s kv %s: max abs %.3g, rms/std %.3g", name, seq.ID, kv, maxAbs, relative)
			if !(maxAbs < limit) || !(relative < 0.15) {
				t.Errorf("%s: max abs %g of %g allowed, rms/std %g of 0.15", seq.ID, maxAbs, limit, relative)
			}
			for i, ids := range seq.Top5IDs {
				if math.IsInf(limit, 1) {
					if got := Argmax(logits[i]); seq.Top1Gap[i] > 0.5 && got != ids[0] {
						t.Errorf("%s position %d: best token %d, want %d, whose lead is %g", seq.ID, i, got, ids[0], seq.Top1Gap[i])
					}
					continue
				}
				for j, id := range ids {
					if d := math.Abs(float64(logits[i][id] - seq.Top5Logits[i][j])); !(d <= limit) {
						t.Errorf("%s position %d token %d: off by %g", seq.ID, i, id, d)
					}
				}
			}
		}
	}
}

// GoldenHidden compares every sub-layer's result with the independent program's, so that the first wrong step shows.
func GoldenHidden(t *testing.T, o Options) {
	for _, name := range []string{"tiny-qwen2-f32", "tiny-qwen3-f32"} {
		t.Run(name, func(t *testing.T) { goldenHidden(t, o, name) })
	}
}

func goldenHidden(t *testing.T, o Options, name string) {
	var g struct {
		Tokens  []int32
		File    string
		Tensors []struct {
			Name       string
			Rows, Cols int
			Offset     int `json:"offset_floats"`
		}
	}
	o.json(t, name+".n17.hidden.json", &g)
	data := o.floats(t, g.File)
	c := NewContext(t, o.Model(t, name), engine.ContextOptions{Ctx: 32, Batch: 17, KeyType: kvformat.F32, ValueType: kvformat.F32, Features: graph.FeatureHidden})
	logits := AllLogits(t, c, g.Tokens)
	ours := strings.NewReplacer("attn_norm_out", "attn_norm", "q_proj_out", "attn_q", "k_proj_out", "attn_k", "v_proj_out", "attn_v",
		"attn_out", "attn_output", "ffn_norm_out", "ffn_norm", "ffn_out", "ffn_down")
	compared := 0
	for _, x := range g.Tensors {
		var got []float32
		switch x.Name {
		case "logits":
			got = slices.Concat(logits...)
		case "output_norm_out":
			continue // covered by the logits
		default:
			var err error
			got, err = c.Hidden(ours.Replace(x.Name))
			must(t, err)
		}
		maxAbs, _ := Difference(got[:x.Rows*x.Cols], data[x.Offset:][:x.Rows*x.Cols])
		if !(maxAbs < 1e-3) {
			t.Errorf("%s: off by %g", x.Name, maxAbs)
		}
		compared++
	}
	if compared != len(g.Tensors)-1 {
		t.Errorf("%d of %d tensors compared", compared, len(g.Tensors)-1)
	}
}

// GoldenGreedy feeds the golden answers to the model at path and wants at each step the golden token or, where its lead is
// under 0.5, the second one.
func GoldenGreedy(t *testing.T, o Options, path, name string) {
	var g struct {
		Prompts []struct {
			User       string
			PromptText string    `json:"prompt_text"`
			PromptIDs  []int32   `json:"prompt_ids"`
			OutputIDs  []int32   `json:"output_ids"`
			SecondIDs  []int32   `json:"second_ids"`
			Gaps       []float32 `json:"gaps"`
		}
	}
	o.json(t, name, &g)
	if len(g.Prompts) == 0 {
		t.Fatalf("no prompts in %s", name)
	}
	m := o.model(t, path)
	c := NewContext(t, m, engine.ContextOptions{Ctx: 1024})
	exact, steps := 0, 0
	for _, p := range g.Prompts {
		ids := m.Tokenizer().Encode(p.PromptText, true)
		if !slices.Equal(ids, p.PromptIDs) {
			t.Fatalf("prompt %q has other ids", p.PromptText)
		}
		c.Truncate(0, 0)
		rows := make([]engine.Row, 0, len(ids)+len(p.OutputIDs))
		for i, id := range slices.Concat(ids, p.OutputIDs[:len(p.OutputIDs)-1]) {
			rows = append(rows, engine.Row{Token: id, Output: i >= len(ids)-1})
		}
		must(t, c.Step(context.Background(), rows))
		for i, want := range p.OutputIDs {
			got := Argmax(c.Logits(i))
			switch {
			case got == want:
				exact++
			case p.Gaps[i] < o.Tie:
			case p.Gaps[i] >= 0.5 || got != p.SecondIDs[i]:
				t.Errorf("%q step %d: token %d, want %d, whose lead is %g", p.User, i, got, want, p.Gaps[i])
			}
			steps++
		}
	}
	t.Logf("%s: %d of %d steps take the golden token", name, exact, steps)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

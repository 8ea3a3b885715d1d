package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/gguf"
)

func TestTokenizeGoldens(t *testing.T) {
	var golden []struct {
		Text string
		IDs  []int32
	}
	readJSON(t, "tiny-encode.json", &golden)
	require.NotEmpty(t, golden)
	for _, g := range golden {
		file := filepath.Join(t.TempDir(), "text")
		require.NoError(t, os.WriteFile(file, []byte(g.Text), 0o666))
		var got struct {
			IDs   []int32
			Count int
		}
		decode(t, ok(t, "tokenize", "-m", tinyModel, "--special", "--json", "-f", file), &got)
		if len(g.IDs) == 0 {
			assert.Empty(t, got.IDs)
		} else {
			assert.Equal(t, g.IDs, got.IDs, "%.60q", g.Text)
		}
		assert.Equal(t, len(g.IDs), got.Count)
		require.NoError(t, os.WriteFile(file, []byte(list(g.IDs)), 0o666))
		assert.Equal(t, g.Text, ok(t, "tokenize", "-m", tinyModel, "--decode", "-f", file))
	}
	assert.Equal(t, "39,68,350,78,11,289,349,0\n", ok(t, "tokenize", "-m", tinyModel, "Hello,", "world!"))
}

func list(ids []int32) string {
	s := make([]string, len(ids))
	for i, id := range ids {
		s[i] = strconv.Itoa(int(id))
	}
	return strings.Join(s, ",")
}

func TestTokenizeSpecial(t *testing.T) {
	assert.Equal(t, "506\n", ok(t, "tokenize", "-m", tinyModel, "--special", "<|im_end|>"))
	assert.NotContains(t, ok(t, "tokenize", "-m", tinyModel, "<|im_end|>"), "506")
}

// A file that doesn't say which tokens are special loads, with one line that says what follows from it.
func TestNoTokenTypes(t *testing.T) {
	data, err := os.ReadFile(tinyModel)
	require.NoError(t, err)
	const key = "tokenizer.ggml.token_type"
	require.Equal(t, 1, bytes.Count(data, []byte(key)))
	file := filepath.Join(t.TempDir(), "untyped.gguf")
	require.NoError(t, os.WriteFile(file, bytes.Replace(data, []byte(key), []byte("tokenizer.ggml.token_kind"), 1), 0o666))
	r := run(t, "tokenize", "-m", file, "--special", "<|im_end|>")
	assert.Equal(t, 0, r.code)
	assert.NotContains(t, r.stdout, "506", "it is text")
	assertOneLine(t, r)
	assert.Contains(t, r.stderr, "no "+key)
	r = run(t, "run", "-m", file, "--raw", "--greedy", "-n", "1", "Hello")
	assert.Equal(t, 0, r.code)
	assertOneLine(t, r)
	assert.Contains(t, r.stderr, "no "+key)
}

// Rendered conversations, byte for byte; one that the template itself refuses is an error.
func TestTemplateGoldens(t *testing.T) {
	var golden []struct {
		Name     string
		Input    json.RawMessage
		Expected map[string]json.RawMessage
	}
	readJSON(t, "chat.json", &golden)
	require.NotEmpty(t, golden)
	for _, g := range golden {
		messages := filepath.Join(t.TempDir(), "messages.json")
		require.NoError(t, os.WriteFile(messages, g.Input, 0o666))
		for _, template := range []string{"qwen3", "qwen2.5"} {
			args := []string{"template", "--template", "../testdata/" + template + ".jinja", messages}
			var want string
			if json.Unmarshal(g.Expected[template], &want) != nil {
				r := run(t, args...)
				assert.Equal(t, 1, r.code, "%s, %s", g.Name, template)
				assertOneLine(t, r)
				continue
			}
			assert.Equal(t, want, ok(t, args...), "%s, %s", g.Name, template)
			var got struct {
				Text   string
				Tokens []int32
			}
			decode(t, ok(t, append(args, "--json")...), &got)
			assert.Equal(t, want, got.Text)
			assert.NotEmpty(t, got.Tokens)
		}
	}
}

type goldenSequence struct {
	ID        string
	Tokens    []int32
	Top1Gap   []float64             `json:"top1_gap"`
	Top5IDs   [][]int32             `json:"top5_ids"`
	LastStats struct{ Std float64 } `json:"last_logits_stats"`
}

// Logits of the 8-bit model against HF transformers in float32, within what the rounding of activations explains.
func TestLogitsGoldens(t *testing.T) {
	var golden struct{ Sequences []goldenSequence }
	readJSON(t, "tiny-qwen3-q8_0.json", &golden)
	n17 := golden.Sequences[1]
	require.Equal(t, "n17", n17.ID)
	dir := t.TempDir()
	all, last := filepath.Join(dir, "all.f32"), filepath.Join(dir, "last.f32")
	lines := strings.Split(strings.TrimSpace(ok(t, "logits", "-m", tinyModel, "--tokens", list(n17.Tokens), "--top", "1", "--json", "--out", all)), "\n")
	require.Len(t, lines, len(n17.Tokens))
	for i, line := range lines {
		var row struct {
			Position int
			Token    int32
			Top      []topLogit
		}
		decode(t, line, &row)
		assert.Equal(t, i, row.Position)
		assert.Equal(t, n17.Tokens[i], row.Token)
		if n17.Top1Gap[i] > 0.5 {
			assert.Equal(t, n17.Top5IDs[i][0], row.Top[0].ID, "position %d", i)
		}
	}
	ids := filepath.Join(dir, "ids.txt")
	require.NoError(t, os.WriteFile(ids, []byte(list(n17.Tokens)+"\n"), 0o666))
	ok(t, "logits", "-m", tinyModel, "--tokens", "@"+ids, "--last", "--out", last)

	every, got, want := floats(t, all), floats(t, last), floats(t, "../testdata/tiny-qwen3-q8_0.n17.last_logits.f32")
	require.Len(t, got, len(want))
	require.Len(t, every, len(want)*len(n17.Tokens))
	assert.Equal(t, every[len(every)-len(want):], got, "--last is the last row, bit for bit")
	var sum float64
	for i := range want {
		d := float64(got[i] - want[i])
		sum += d * d
	}
	assert.Less(t, math.Sqrt(sum/float64(len(want)))/n17.LastStats.Std, 0.15)

	// Another cache format is used: the same top token, other bits.
	q8 := filepath.Join(dir, "q8.f32")
	ok(t, "logits", "-m", tinyModel, "--tokens", "@"+ids, "--last", "--out", q8, "--cache-type-k", "q8_0", "--cache-type-v", "q8_0")
	assert.NotEqual(t, got, floats(t, q8))
}

func floats(t *testing.T, name string) []float32 {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Zero(t, len(data)%4)
	x := make([]float32, len(data)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return x
}

func TestInspect(t *testing.T) {
	out := ok(t, "inspect", tinyModel)
	for _, want := range []string{"qwen3.block_count", "(512 in all)", "blk.1.ffn_down.weight", "Q8_0", "[192 64]", "KV cache", "memory to run"} {
		assert.Contains(t, out, want)
	}
	for _, line := range strings.Split(out, "\n") {
		assert.Less(t, len([]rune(line)), 250, "long values are cut")
	}
	var in inspection
	decode(t, ok(t, "inspect", "--json", "-c", "100", "-m", tinyModel), &in)
	assert.Equal(t, 3, in.Version)
	assert.Len(t, in.Tensors, 25)
	require.NotNil(t, in.Memory)
	assert.EqualValues(t, 2*100*2*2*128*2, in.Memory.KV, "K and V of 100 cells, 2 layers, 2 heads of 128 in f16")
	assert.Greater(t, in.Memory.Compute, int64(0))

	assert.Contains(t, out, "memory on a GPU")
	assert.Contains(t, out, "Q8_0, layout tile16")
	d := in.CUDA
	require.NotNil(t, d)
	assert.Equal(t, in.Memory.Weights, d.Weights.File)
	assert.GreaterOrEqual(t, d.Weights.Bytes, d.Weights.File)
	assert.Equal(t, in.Memory.KV, d.KV)
	assert.Equal(t, d.Weights.Bytes+d.KV+d.Compute+d.Overhead, d.Total)
	var planes int64
	for _, p := range d.Weights.Planes {
		planes += p.Bytes
	}
	assert.Equal(t, d.Weights.Bytes, planes)
}

// A file with a vocabulary and no tensors tokenizes and renders; running it is refused.
func TestVocabularyOnly(t *testing.T) {
	f, err := gguf.Open(tinyModel)
	require.NoError(t, err)
	defer f.Close()
	path := filepath.Join(t.TempDir(), "vocab.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	w, err := gguf.NewWriter(out, gguf.WriterOptions{})
	require.NoError(t, err)
	for _, kv := range f.Metadata() {
		require.NoError(t, w.Set(kv.Key, kv.Value))
	}
	require.NoError(t, w.Close())
	require.NoError(t, out.Close())

	assert.Equal(t, "39,68,350,78,11,289,349,0\n", ok(t, "tokenize", "-m", path, "Hello, world!"))
	messages := filepath.Join(t.TempDir(), "m.json")
	require.NoError(t, os.WriteFile(messages, []byte(`{"messages":[{"role":"user","content":"Hi"}]}`), 0o666))
	assert.Equal(t, "<|im_start|>user\nHi<|im_end|>\n", ok(t, "template", "-m", path, messages))
	assert.Contains(t, ok(t, "inspect", path), "can't be run")
	r := run(t, "run", "-m", path, "hi")
	assert.Equal(t, 1, r.code)
	assertOneLine(t, r)
}

// No value in a file may steer the terminal that shows it (names with control characters gguf refuses), and JSON stays JSON.
func TestInspectHostileValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd.gguf")
	out, err := os.Create(path)
	require.NoError(t, err)
	w, err := gguf.NewWriter(out, gguf.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.Set("odd", "c\x1b[2Jd"))
	require.NoError(t, w.Set("list", []string{"\x1b[2J", "\n"}))
	require.NoError(t, w.Set("nan", float32(math.NaN())))
	require.NoError(t, w.Set("inf", []float64{math.Inf(-1), 1}))
	require.NoError(t, w.Close())
	require.NoError(t, out.Close())
	text := ok(t, "inspect", path)
	assert.NotContains(t, text, "\x1b")
	assert.Contains(t, text, `c\x1b[2Jd`)
	var in inspection
	decode(t, ok(t, "inspect", "--json", path), &in)
	values := map[string]any{}
	for _, m := range in.Metadata {
		values[m.Key] = m.Value
	}
	assert.Equal(t, "NaN", values["nan"])
	assert.Equal(t, []any{"-Inf", 1.0}, values["inf"])
}

func TestTop(t *testing.T) {
	logits := []float32{1, 5, 3, 5, 2}
	assert.Equal(t, []topLogit{{1, 5}, {3, 5}, {2, 3}}, top(logits, 3))
	assert.Len(t, top(logits, 99), 5)
	assert.Empty(t, top(logits, 0))
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const storyPrompt = "Tell me a story about a brave mouse and a lamp."

// decode reads one JSON value and wants nothing after it.
func decode(t *testing.T, text string, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	require.NoError(t, d.Decode(v), text)
	require.False(t, d.More(), text)
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, v))
}

type goldenPrompt struct {
	User      string    `json:"user"`
	PromptIDs []int32   `json:"prompt_ids"`
	OutputIDs []int32   `json:"output_ids"`
	SecondIDs []int32   `json:"second_ids"`
	Gaps      []float64 `json:"gaps"`
}

func storyGoldens(t *testing.T) []goldenPrompt {
	t.Helper()
	var golden struct{ Prompts []goldenPrompt }
	readJSON(t, "minfer-story-21m-q4_k_m-greedy.json", &golden)
	require.NotEmpty(t, golden.Prompts)
	return golden.Prompts
}

type answer struct {
	Text         string
	Tokens       []int32
	StopReason   string `json:"stop_reason"`
	PromptTokens int    `json:"prompt_tokens"`
	Seed         uint64
	Backend, KV  string
}

// The embedded model's text, streamed. It is the golden's, which HF transformers made in float32; being the same bits on
// every machine and path it may be compared as it is.
func TestStory(t *testing.T) {
	want, err := os.ReadFile("../testdata/story.txt")
	require.NoError(t, err)
	assert.Equal(t, string(want), ok(t, "run", "--greedy", storyPrompt))
	assert.Equal(t, string(want), ok(t, "run", "--temp", "0", "-t", "1", storyPrompt))
	pure := ok(t, "run", "--greedy", "--cpu-path", "generic", "-n", "6", storyPrompt)
	assert.Equal(t, string(want[:len(pure)-1]), pure[:len(pure)-1], "pure Go is slow: a few tokens")
}

// Greedy answers follow the goldens up to the first token where the golden's own lead is so small that 8-bit activations may
// take the second.
func TestGreedyGoldens(t *testing.T) {
	for _, p := range storyGoldens(t) {
		var got answer
		decode(t, ok(t, "run", "--greedy", "--json", p.User), &got)
		assert.Equal(t, len(p.PromptIDs), got.PromptTokens, p.User)
		assert.Equal(t, "stop", got.StopReason, p.User)
		for i, id := range got.Tokens {
			require.Less(t, i, len(p.OutputIDs), p.User)
			if id != p.OutputIDs[i] {
				assert.Less(t, p.Gaps[i], 0.5, "%s: token %d", p.User, i)
				assert.Equal(t, p.SecondIDs[i], id, "%s: token %d", p.User, i)
				break
			}
		}
	}
}

func TestPromptFromArgumentsFileAndStdin(t *testing.T) {
	want := ok(t, "run", "--greedy", "-n", "12", "What is", "a star?")
	file := filepath.Join(t.TempDir(), "prompt.txt")
	require.NoError(t, os.WriteFile(file, []byte("What is a star?\n"), 0o666))
	assert.Equal(t, want, ok(t, "run", "--greedy", "-n", "12", "-f", file))

	cmd := command("run", "--greedy", "-n", "12")
	cmd.Stdin = strings.NewReader("What is a star?\n")
	r := finish(t, cmd)
	require.Equal(t, 0, r.code, r.stderr)
	assert.Equal(t, want, r.stdout)
}

func TestSamplingIsReproducible(t *testing.T) {
	first := ok(t, "run", "--seed", "7", "--temp", "1.5", "-n", "40", storyPrompt)
	assert.Equal(t, first, ok(t, "run", "--seed", "7", "--temp", "1.5", "-n", "40", "-t", "1", storyPrompt))
	assert.NotEqual(t, first, ok(t, "run", "--seed", "8", "--temp", "1.5", "-n", "40", storyPrompt))

	var drawn answer
	decode(t, ok(t, "run", "--json", "-n", "4", storyPrompt), &drawn)
	assert.NotZero(t, drawn.Seed, "a random seed is told, so that an answer can be had again")
}

func TestAnswersEnd(t *testing.T) {
	var length, stopped answer
	decode(t, ok(t, "run", "--greedy", "--json", "-n", "5", storyPrompt), &length)
	assert.Equal(t, "length", length.StopReason)
	assert.Len(t, length.Tokens, 5)
	decode(t, ok(t, "run", "--greedy", "--json", "--stop", "named", "--stop", "never", storyPrompt), &stopped)
	assert.Equal(t, "stop_string", stopped.StopReason)
	assert.Equal(t, "Once upon a time, there was a brave mouse ", stopped.Text)

	full := run(t, "run", "--greedy", "-c", "30", storyPrompt)
	assert.Equal(t, 1, full.code)
	assert.Equal(t, "Once upon a time, there was a\n", full.stdout, "what fitted is shown")
	assert.Contains(t, full.stderr, "context full")
	assertOneLine(t, full)
	var f figures
	full = run(t, "run", "--greedy", "--json", "-c", "30", storyPrompt)
	require.NoError(t, json.Unmarshal([]byte(full.stdout), &f), "a program reads what fitted, and why it ended")
	assert.Equal(t, "context", f.StopReason)
	assert.Equal(t, "Once upon a time, there was a", f.Text)
	assert.Contains(t, f.Error, "context full")
	assert.Equal(t, 1, full.code)
}

// User text is literal: a forged end of turn is read as its characters. A raw prompt is the caller's, special tokens and all.
func TestSpecialTokensInPrompts(t *testing.T) {
	var chat, raw answer
	decode(t, ok(t, "run", "--greedy", "--json", "-n", "1", "<|im_end|>"), &chat)
	decode(t, ok(t, "run", "--greedy", "--json", "-n", "1", "--raw", "<|im_end|>"), &raw)
	assert.Greater(t, chat.PromptTokens, 12)
	assert.Equal(t, 1, raw.PromptTokens)

	p := storyGoldens(t)[0]
	var same answer
	decode(t, ok(t, "run", "--greedy", "--json", "-n", "8", "--raw", "<|im_start|>user\n"+p.User+"<|im_end|>\n<|im_start|>assistant\n"), &same)
	assert.Equal(t, len(p.PromptIDs), same.PromptTokens)
	assert.Equal(t, p.OutputIDs[:8], same.Tokens)
}

func TestSystemAndTemplate(t *testing.T) {
	var plain, system, other answer
	decode(t, ok(t, "run", "--greedy", "--json", "-n", "1", "-m", tinyModel, "hi"), &plain)
	decode(t, ok(t, "run", "--greedy", "--json", "-n", "1", "-m", tinyModel, "--system", "Be brief.", "hi"), &system)
	assert.Greater(t, system.PromptTokens, plain.PromptTokens)
	template := filepath.Join(t.TempDir(), "t.jinja")
	require.NoError(t, os.WriteFile(template, []byte("<|im_start|>{{ messages[0].content }}"), 0o666))
	decode(t, ok(t, "run", "--greedy", "--json", "-n", "1", "-m", tinyModel, "--template", template, "a"), &other)
	assert.Equal(t, 2, other.PromptTokens)
}

func TestVerboseFigures(t *testing.T) {
	r := run(t, "run", "-v", "--greedy", "-n", "5", "-t", "1", "--cpu-path", "generic", "--cache-type-k", "q8_0", storyPrompt)
	require.Equal(t, 0, r.code, r.stderr)
	assert.Regexp(t, `^cpu generic, 1 thread.*KV q8_0/f16.*load .* ms.*prompt 23 tokens at .*/s.*5 tokens at .*/s.*length; seed \d+\n(no GPU: .*\n(  .*\n)*)?$`, r.stderr)
}

func TestDumpGraph(t *testing.T) {
	file := filepath.Join(t.TempDir(), "g.dot")
	ok(t, "run", "--greedy", "-n", "1", "--dump-graph", file, "hi")
	dot, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(dot), "digraph"), "%.60s", dot)
	assert.Contains(t, string(dot), "blk.5.")
	assert.True(t, strings.HasSuffix(strings.TrimSpace(string(dot)), "}"))
}

// TestWhyNoGPU: -v says it on short lines of its own, word for word as JSON has it.
func TestWhyNoGPU(t *testing.T) {
	f := figures{Backend: "cpu avx2, 2 threads", Seed: 7, NoGPU: strings.Repeat("the driver isn't there; ", 11) + strings.Repeat("é", 120)}
	lines := strings.Split(f.lines(), "\n")
	require.Len(t, lines, 5, "%q", lines)
	assert.True(t, strings.HasSuffix(lines[0], "seed 7"))
	for i, l := range lines[1:4] {
		assert.LessOrEqual(t, len(l), lineWidth)
		assert.Greater(t, len(l), lineWidth*2/3)
		assert.Equal(t, i > 0, strings.HasPrefix(l, "  "))
	}
	assert.Equal(t, "  "+strings.Repeat("é", 120), lines[4], "a word stays whole")
	assert.Equal(t, "no GPU: "+f.NoGPU, strings.Join(strings.Fields(strings.Join(lines[1:], " ")), " "))
	f.NoGPU = ""
	assert.NotContains(t, f.lines(), "\n")
}

package engine

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/engine/chat"
)

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

func story(t *testing.T, o ContextOptions) (*Context, []int32) {
	t.Helper()
	m := loadModel(t, tinyModel("minfer-story-3m-q8_0"), LoadOptions{})
	ids, text, err := m.ChatPrompt(chat.Input{Messages: chat.Messages("user", "Tell me a story about a brave mouse and a lamp."), AddGenerationPrompt: true})
	require.NoError(t, err)
	require.Equal(t, "<|im_start|>user\nTell me a story about a brave mouse and a lamp.<|im_end|>\n<|im_start|>assistant\n", text)
	require.Equal(t, m.tok.Encode(text, true), ids)
	return newContext(t, m, o), ids
}

func TestGenerate(t *testing.T) {
	c, ids := story(t, ContextOptions{})
	var pieces []string
	res, err := c.Generate(context.Background(), 0, ids, GenerateOptions{}, func(s string) error { pieces = append(pieces, s); return nil })
	require.NoError(t, err)
	require.Equal(t, StopEOG, res.Reason)
	require.Equal(t, res.Text, strings.Join(pieces, ""))
	require.True(t, strings.HasPrefix(res.Text, "Once upon a time"), res.Text)
	require.True(t, c.model.tok.IsEOG(res.Tokens[len(res.Tokens)-1]))
	require.Equal(t, len(ids), res.PromptTokens)
	whole := res.Text

	c.Truncate(0, 0)
	res, err = c.Generate(context.Background(), 0, ids, GenerateOptions{MaxTokens: 5}, nil)
	require.NoError(t, err)
	require.Equal(t, StopLength, res.Reason)
	require.Len(t, res.Tokens, 5)
	require.True(t, strings.HasPrefix(whole, res.Text))

	// A stop string that lies across tokens.
	at := strings.Index(whole, "time") + 2
	stop := whole[at-1 : at+9]
	c.Truncate(0, 0)
	res, err = c.Generate(context.Background(), 0, ids, GenerateOptions{Stop: []string{"never", stop}}, nil)
	require.NoError(t, err)
	require.Equal(t, StopString, res.Reason)
	require.Equal(t, stop, res.StopString)
	require.Equal(t, whole[:strings.Index(whole, stop)], res.Text)

	// A sequence that has tokens needs one more to go on from.
	_, err = c.Generate(context.Background(), 0, nil, GenerateOptions{}, nil)
	require.ErrorContains(t, err, "empty prompt")

	// The caller's error ends it, a cancelled context too.
	broken := errors.New("pipe closed")
	c.Truncate(0, 0)
	_, err = c.Generate(context.Background(), 0, ids, GenerateOptions{}, func(string) error { return broken })
	require.ErrorIs(t, err, broken)
	ctx, cancel := context.WithCancel(context.Background())
	c.Truncate(0, 0)
	n := 0
	res, err = c.Generate(ctx, 0, ids, GenerateOptions{}, func(string) error {
		if n++; n == 3 {
			cancel()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, StopCancelled, res.Reason)
	require.True(t, strings.HasPrefix(whole, res.Text))
}

func TestContextFull(t *testing.T) {
	c, ids := story(t, ContextOptions{Ctx: len(ids0) - 1})
	_, err := c.Generate(context.Background(), 0, ids, GenerateOptions{}, nil)
	require.ErrorIs(t, err, ErrContextFull)
	require.ErrorContains(t, err, "23")
	require.ErrorContains(t, err, "22")
	require.Zero(t, c.Len(0), "nothing was fed")

	c, ids = story(t, ContextOptions{Ctx: len(ids0) + 4})
	res, err := c.Generate(context.Background(), 0, ids, GenerateOptions{}, nil)
	require.ErrorIs(t, err, ErrContextFull)
	require.Equal(t, StopContext, res.Reason)
	require.Len(t, res.Tokens, 5)
	require.NotEmpty(t, res.Text)
	require.Equal(t, len(ids0)+4, c.Len(0))
}

// ids0 stands for the 23 ids of the story prompt.
var ids0 [23]struct{}

func TestStepRefuses(t *testing.T) {
	m := loadModel(t, tinyModel("tiny-qwen3-q8_0"), LoadOptions{})
	c := newContext(t, m, ContextOptions{Ctx: 8, Seqs: 2})
	ctx := context.Background()
	require.ErrorContains(t, c.Step(ctx, []Row{{Token: 1}, {Token: 512}}), "row 1: token 512")
	require.ErrorContains(t, c.Step(ctx, []Row{{Token: -1}}), "token -1")
	require.ErrorContains(t, c.Step(ctx, []Row{{Seq: 2}}), "sequence 2")
	require.ErrorIs(t, c.Step(ctx, make([]Row, 9)), ErrContextFull)
	require.Zero(t, c.Len(0))
	_, err := m.NewContext(ContextOptions{Ctx: -1})
	require.ErrorContains(t, err, "ctx -1")
	_, err = m.NewContext(ContextOptions{Ctx: 1 << 30, Seqs: 4})
	require.ErrorContains(t, err, "limit")
}

// TestNoAllocationPerToken: a decode step of a compiled graph allocates nothing.
func TestNoAllocationPerToken(t *testing.T) {
	m := loadModel(t, tinyModel("tiny-qwen2w-q4_k_m"), LoadOptions{Threads: 2})
	c := newContext(t, m, ContextOptions{Ctx: 512})
	rows := []Row{{Token: 5, Output: true}}
	step := func() { require.NoError(t, c.Step(t.Context(), rows)) }
	step()
	require.Zero(t, testing.AllocsPerRun(50, step))
	require.Equal(t, uint64(1), c.Executor().Stats().Compiled, "no graph is built again")
}

func TestLoadRefuses(t *testing.T) {
	_, err := Load("testdata/README.md", LoadOptions{})
	require.ErrorContains(t, err, "testdata/README.md")
	_, err = Load("testdata/no-such-file.gguf", LoadOptions{})
	require.ErrorContains(t, err, "no-such-file.gguf")
	_, err = Load(tinyModel("tiny-qwen3-q8_0"), LoadOptions{CPUPath: "neon"})
	require.ErrorContains(t, err, `"neon"`)
	_, err = Load(tinyModel("tiny-qwen3-q8_0"), LoadOptions{Threads: -1})
	require.ErrorContains(t, err, "-1 threads")
}

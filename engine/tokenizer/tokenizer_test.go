package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// byteVocab is a vocabulary of the 256 bytes, in the order of the alphabet, and more.
func byteVocab(more ...string) Vocab {
	v := Vocab{Pre: "qwen2", BOS: NoToken, EOS: NoToken, EOT: NoToken}
	for r, b := range runeByte {
		if b >= 0 {
			v.Tokens = append(v.Tokens, string(rune(r)))
		}
	}
	v.Tokens = append(v.Tokens, more...)
	v.Types = make([]int32, len(v.Tokens))
	for i := range v.Types {
		v.Types[i] = TypeNormal
	}
	return v
}

func TestHostileVocabularies(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Vocab)
		is     error
		says   string
	}{
		"pre":            {func(v *Vocab) { v.Pre = "llama-bpe" }, ErrUnsupported, `"llama-bpe": unsupported tokenizer; supported: qwen2, smollm`},
		"no tokens":      {func(v *Vocab) { v.Tokens, v.Types = nil, nil }, ErrCorrupt, "no tokens"},
		"empty tokens":   {func(v *Vocab) { v.Tokens, v.Types = make([]string, 9), nil }, ErrCorrupt, "none of the 256 single bytes"},
		"types":          {func(v *Vocab) { v.Types = v.Types[1:] }, ErrCorrupt, "257 tokens but 256 token types"},
		"eos":            {func(v *Vocab) { v.EOS = 257 }, ErrCorrupt, "eos id 257: the vocabulary has 257 tokens"},
		"bos":            {func(v *Vocab) { v.BOS = -2 }, ErrCorrupt, "bos id -2"},
		"bos missing":    {func(v *Vocab) { v.AddBOS = true }, ErrCorrupt, "BOS token is asked for"},
		"merge form":     {func(v *Vocab) { v.Merges = []string{"ab"} }, ErrCorrupt, `merge 0 ("ab")`},
		"merge empty":    {func(v *Vocab) { v.Merges = []string{""} }, ErrCorrupt, `merge 0 ("")`},
		"merge no right": {func(v *Vocab) { v.Merges = []string{"ab "} }, ErrCorrupt, `merge 0 ("ab ")`},
		"long added": {func(v *Vocab) {
			v.Tokens[256], v.Types[256] = strings.Repeat("x", 600), TypeControl
		}, ErrUnsupported, "600 bytes"},
	} {
		v := byteVocab("ab")
		c.change(&v)
		_, err := New(v)
		require.ErrorIs(t, err, c.is, name)
		assert.Contains(t, err.Error(), c.says, name)
		assert.True(t, strings.HasPrefix(err.Error(), "tokenizer: "), name)
	}
}

func TestOddVocabularies(t *testing.T) {
	v := byteVocab("ab", "", "ab", "<x>", "<x>", "cd", "a b")
	v.Types[259], v.Types[260], v.Types[261] = TypeControl, TypeControl, TypeControl
	v.Merges = []string{"a b", "a b", "c d"}
	tok, err := New(v)
	require.NoError(t, err)
	assert.Equal(t, []int32{256}, tok.Encode("ab", true), "of equal tokens the first")
	assert.Equal(t, []int32{259}, tok.Encode("<x>", true))
	assert.Len(t, tok.Encode("<x>", false), 3)
	assert.Len(t, tok.Encode("cd", false), 2, "plain text never merges to a control token")
	text, err := tok.Decode([]int32{256, 257, 258, 262})
	require.NoError(t, err)
	assert.Equal(t, "ababa b", text)

	_, err = tok.Decode([]int32{0, 263})
	require.ErrorIs(t, err, ErrToken)
	assert.Contains(t, err.Error(), "token 263: no such token: the vocabulary has 263 (position 1)")
	assert.Nil(t, tok.TokenBytes(-1))
	assert.Equal(t, []byte("ab"), tok.TokenBytes(256))
	_, err = tok.NewStream(false).Push(1 << 30)
	require.ErrorIs(t, err, ErrToken)

	v.Types = nil // no control tokens, then
	tok, err = New(v)
	require.NoError(t, err)
	assert.Len(t, tok.Encode("<x>", true), 3)
}

// plainFind is the definition of the leftmost-longest match.
func plainFind(tokens []string, ids []int32, s string, i int) (int, int, int32) {
	for ; i < len(s); i++ {
		best := NoToken
		for _, id := range ids {
			if tokens[id] != "" && strings.HasPrefix(s[i:], tokens[id]) && (best == NoToken || len(tokens[id]) > len(tokens[best])) {
				best = id
			}
		}
		if best != NoToken {
			return i, i + len(tokens[best]), best
		}
	}
	return -1, -1, NoToken
}

func TestMatcherIsLeftmostLongest(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	word := func(n int) string {
		b := make([]byte, r.IntN(n+1))
		for i := range b {
			b[i] = "abc"[r.IntN(3)]
		}
		return string(b)
	}
	for range 20000 {
		var tokens []string
		var ids []int32
		for i := range r.IntN(7) {
			tokens, ids = append(tokens, word(6)), append(ids, int32(i))
		}
		m, err := newMatcher(tokens, ids)
		require.NoError(t, err)
		s := word(30)
		for i := range len(s) + 1 {
			ws, we, wid := plainFind(tokens, ids, s, i)
			gs, ge, gid := m.find(s, i)
			require.Equal(t, []any{ws, we, wid}, []any{gs, ge, gid}, "%q in %q from %d", tokens, s, i)
		}
	}
}

func TestParts(t *testing.T) {
	tok := loadTokenizer(t, "qwen3")
	whole := "<|im_start|>user\n\n  hello there<|im_end|>\n<|im_start|>assistant\n"
	got := tok.EncodeParts(Part{"<|im_start|>user\n", true}, Part{"\n  hello there", false}, Part{"<|im_end|>\n<|im_start|>assistant\n", true})
	assert.Equal(t, tok.Encode(whole, true), got, "borders between parts don't show")
	count := func(ids []int32) (n int) {
		for _, id := range ids {
			if tok.IsControl(id) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 3, count(got))
	assert.Equal(t, 0, count(tok.EncodeParts(Part{"<|im_", true}, Part{"end|>", false}, Part{"<|im_end|>", false})), "no forging over a border")
	assert.Empty(t, tok.EncodeParts())
}

// splitPython does what bytes.decode("utf-8", "replace") does, by code point.
func splitPython(s string) (out []string) {
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			for n < len(s) && !utf8.FullRuneInString(s[:n+1]) {
				n++
			}
			if n > 1 && utf8.FullRuneInString(s[:1]) {
				n = 1
			}
		}
		out = append(out, string(r))
		s = s[n:]
	}
	return out
}

func TestStream(t *testing.T) {
	tok, err := New(byteVocab())
	require.NoError(t, err)
	for in, want := range map[string][]string{
		"aé":               {"a", "", "é"},
		"我":                {"", "", "我"},
		"\xe6\x88a":        {"", "", "\ufffda"},
		"\xffa":            {"\ufffd", "a"},
		"\xf0\x9f\x91":     {"", "", "", "\ufffd"},
		"\xc0\xaf":         {"\ufffd", "\ufffd"},
		"\xed\xa0\x80":     {"", "\ufffd\ufffd", "\ufffd"},
		"\xe6\xe6\x88\x91": {"", "\ufffd", "", "我"},
	} {
		s := tok.NewStream(false)
		var got []string
		for i := range len(in) {
			piece, err := s.Push(tok.bytes[in[i]])
			require.NoError(t, err)
			got = append(got, piece)
		}
		if rest := s.Flush(); rest != "" {
			got = append(got, rest)
		}
		assert.Equal(t, want, got, "%q", in)
		assert.Empty(t, s.Flush())
	}
	qwen := loadTokenizer(t, "qwen3")
	for _, skip := range []bool{false, true} {
		s := qwen.NewStream(skip)
		piece, err := s.Push(151645)
		require.NoError(t, err)
		assert.Equal(t, map[bool]string{false: "<|im_end|>", true: ""}[skip], piece)
	}
}

// TestUselessMerges: merges of or to tokens that the vocabulary lacks never apply, and are no fault.
func TestUselessMerges(t *testing.T) {
	with := byteVocab("ab")
	with.Merges = []string{"a b"}
	plain, err := New(with)
	require.NoError(t, err)
	with.Merges = append([]string{"zz q", "b zz", "q q"}, with.Merges...)
	useless, err := New(with)
	require.NoError(t, err)
	for _, s := range []string{"a b ab", "qqq zz b", "hello"} {
		require.Equal(t, plain.Encode(s, false), useless.Encode(s, false))
	}
}

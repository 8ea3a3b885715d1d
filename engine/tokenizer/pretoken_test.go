package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/stretchr/testify/require"
)

const (
	qwen2Expr = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	gpt2Expr  = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

func matches(t testing.TB, re *regexp2.Regexp, s string) (out []string) {
	m, err := re.FindStringMatch(s)
	for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
		out = append(out, m.String())
	}
	require.NoError(t, err)
	require.Equal(t, s, strings.Join(out, ""), "the expression covers all text")
	return out
}

func cut(next nextWord, s string) (out []string) {
	for i := 0; i < len(s); {
		end := next(s, i)
		out = append(out, s[i:end])
		i = end
	}
	return out
}

// randomText mixes what the expressions tell apart, with many near misses.
func randomText(r *rand.Rand) string {
	parts := []string{
		"'", "'", "s", "S", "ſ", "t", "re", "VE", "m", "lL", "d", "K", "x", "é", "e\u0301", "ß", "我", "か", "한", "я", "ա", "א", "ﬁ", "Ⅷ", "½", "٣", "७", "1", "42",
		" ", " ", "  ", "\t", "\n", "\r", "\r\n", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
		"\u200b", "\u200d", "\ufeff", "\u180e", "\x00", "\x1c", "\x7f", "\u00ad", ".", ",", "!", "_", "-", "…", "€", "👍", "👩‍🔬", "\U0001d400", "\U00010400", "\U000e0001", "\ufffd",
	}
	var b strings.Builder
	for n := 1 + r.IntN(12); n > 0; n-- {
		if r.IntN(10) == 0 {
			for {
				if c := rune(r.IntN(0x30000)); c < 0xd800 || c > 0xdfff {
					b.WriteRune(c)
					break
				}
			}
			continue
		}
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

func TestQwen2CutsAsItsExpression(t *testing.T) {
	re := regexp2.MustCompile(qwen2Expr, regexp2.None)
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		s := randomText(r)
		require.Equal(t, matches(t, re, s), cut(nextQwen2, s), "%q", s)
	}
}

func TestSmolLMCutsAsItsExpressions(t *testing.T) {
	digits := regexp2.MustCompile(`\p{N}|\P{N}+`, regexp2.None)
	re := regexp2.MustCompile(gpt2Expr, regexp2.None)
	r := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		s := randomText(r)
		var want []string
		for _, piece := range matches(t, digits, s) {
			want = append(want, matches(t, re, piece)...)
		}
		require.Equal(t, want, cut(nextSmolLM, s), "%q", s)
	}
}

// Every code point in the places where its class matters.
func TestEveryCodePoint(t *testing.T) {
	re := regexp2.MustCompile(qwen2Expr, regexp2.None)
	var b strings.Builder
	for c := rune(0); c < 0x110000; c += 64 {
		b.Reset()
		for k := c; k < c+64; k++ {
			if k < 0xd800 || k > 0xdfff {
				b.WriteString("a")
				b.WriteRune(k)
				b.WriteString("b;")
			}
		}
		if s := b.String(); s != "" {
			require.Equal(t, matches(t, re, s), cut(nextQwen2, s), "from U+%04X", c)
		}
	}
}

package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/engine/internal/proportion"
)

// plainMerge is the definition: merge the leftmost pair of the lowest rank until there is none.
func plainMerge(t *Tokenizer, w string) (ids []int32) {
	<-t.built
	for i := range len(w) {
		if id := t.bytes[w[i]]; id != NoToken {
			ids = append(ids, id)
		}
	}
	for {
		best, at, to := noRank, -1, NoToken
		for i := 0; i+1 < len(ids); i++ {
			if r, m := t.pairs.find(ids[i], ids[i+1]); r < best {
				best, at, to = r, i, m
			}
		}
		if at < 0 {
			return ids
		}
		ids = append(append(ids[:at:at], to), ids[at+2:]...)
	}
}

func TestShortAndLongWordsMergeAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	alphabets := []string{"ab", "aeiou nrst", "=-", " ", "abcdefghijklmnopqrstuvwxyz", "\x00\xff\xe6\x88\x91"}
	for _, name := range []string{"qwen3", "smollm2", "tiny"} {
		tok := loadTokenizer(t, name)
		for range 600 {
			a := alphabets[r.IntN(len(alphabets))]
			var b strings.Builder
			for n := r.IntN(100); n >= 0; n-- {
				b.WriteByte(a[r.IntN(len(a))])
			}
			w := b.String()
			want := plainMerge(tok, w)
			require.Equal(t, want, tok.appendLong(nil, w, new(scratch)), "%s %q", name, w)
			require.Equal(t, want, tok.appendWord(nil, w), "%s %q", name, w)
		}
	}
}

// TestNearLinear: four times the text takes about four times as long; a quadratic merge would take 16.
//
// Seen failing with a walk over all symbols at each merge of a long word.
func TestNearLinear(t *testing.T) {
	tok := loadTokenizer(t, "qwen3")
	for name, c := range map[string]struct {
		text string
		n    int
	}{
		"letters": {"a", 50000}, "spaces": {" ", 50000}, "CJK": {"的", 50000}, "signs": {"=", 50000}, "brackets": {"<", 50000}, "starts": {"<|im_", 50000},
		"specials": {"<|im_end|>", 50000}, "lines": {" \n", 50000}, "mixed": {"abcdefghij", 5000},
		"english": {"The quick brown fox jumps over the lazy dog; it's 12 o'clock, and nobody cares. ", 6000},
	} {
		for _, special := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, special %v", name, special), func(t *testing.T) {
				short, long := strings.Repeat(c.text, c.n/4), strings.Repeat(c.text, c.n)
				var ids []int32
				proportion.AtMost(t, 8, func() { tok.Encode(short, special) }, func() { ids = tok.Encode(long, special) })
				back, err := tok.Decode(ids)
				require.NoError(t, err)
				assert.True(t, back == long)
			})
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, s := range []string{"", "Hello", "  \n\t x", "<|im_start|>user\nhi<|im_end|>", "<think>", "\xff\xfe", "\xe6\x88", "e\u0301", "'ſ", strings.Repeat("ab", 40)} {
		f.Add(s)
	}
	qwen, tiny := loadTokenizer(f, "qwen3"), loadTokenizer(f, "tiny")
	f.Fuzz(func(t *testing.T, s string) {
		for _, tok := range []*Tokenizer{qwen, tiny} {
			for _, special := range []bool{false, true} {
				ids := tok.Encode(s, special)
				back, err := tok.Decode(ids)
				require.NoError(t, err)
				require.Equal(t, s, back)
				stream, text := tok.NewStream(false), ""
				for _, id := range ids {
					if !special {
						require.False(t, tok.IsControl(id))
					}
					piece, err := stream.Push(id)
					require.NoError(t, err)
					text += piece
				}
				require.Equal(t, strings.Join(splitPython(s), ""), text+stream.Flush())
			}
		}
	})
}

func BenchmarkNew(b *testing.B) {
	for _, name := range []string{"qwen3", "tiny"} {
		v := loadVocab(b, name)
		b.Run(fmt.Sprint(len(v.Tokens)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = New(v)
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	tok := loadTokenizer(b, "qwen3")
	text := strings.Repeat("The quick brown fox jumps over the lazy dog; it's 12 o'clock, and nobody cares. ", 1000)
	b.SetBytes(int64(len(text)))
	var ids []int32
	for b.Loop() {
		ids = tok.AppendEncode(ids[:0], text, true)
	}
}

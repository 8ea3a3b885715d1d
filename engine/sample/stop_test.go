package sample

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/engine/internal/proportion"
)

// plainStop is the definition: the first end of a stop string, of those the longest.
func plainStop(text string, stops []string) (shown, stop string) {
	for end := range len(text) + 1 {
		for _, s := range stops {
			if s != "" && strings.HasSuffix(text[:end], s) && len(s) > len(stop) {
				stop = s
			}
		}
		if stop != "" {
			return text[:end-len(stop)], stop
		}
	}
	return text, ""
}

func TestStopAcrossPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		b := make([]byte, r.IntN(n+1))
		for i := range b {
			b[i] = "ab"[r.IntN(2)]
		}
		return string(b)
	}
	for range 50000 {
		var stops []string
		for range r.IntN(4) {
			stops = append(stops, word(7))
		}
		text := word(25)
		wantShown, wantStop := plainStop(text, stops)
		m := NewStopMatcher(stops)
		shown, stop := "", ""
		for rest := text; rest != ""; {
			n := 1 + r.IntN(len(rest))
			var s string
			s, stop = m.Feed(rest[:n])
			shown += s
			rest = rest[n:]
			if stop == "" {
				held := text[len(shown) : len(text)-len(rest)]
				longest := 0
				for _, s := range stops {
					for k := 1; k < len(s); k++ {
						if strings.HasSuffix(text[:len(text)-len(rest)], s[:k]) {
							longest = max(longest, k)
						}
					}
				}
				require.Len(t, held, longest, "%q %q: no more is held back than needed", stops, text)
			}
		}
		shown += m.Flush()
		require.Equal(t, []string{wantShown, wantStop}, []string{shown, stop}, "%q in %q", stops, text)
	}
}

func TestStopExamples(t *testing.T) {
	m := NewStopMatcher([]string{"", "\nUser:", "END"})
	shown, stop := m.Feed("Hi.\nUs")
	assert.Equal(t, []string{"Hi.", ""}, []string{shown, stop})
	shown, stop = m.Feed("ed to E")
	assert.Equal(t, []string{"\nUsed to ", ""}, []string{shown, stop})
	shown, stop = m.Feed("ND of it")
	assert.Equal(t, []string{"", "END"}, []string{shown, stop})
	shown, stop = m.Feed("more")
	assert.Equal(t, []string{"", "END"}, []string{shown, stop})
	assert.Empty(t, m.Flush())

	m = NewStopMatcher(nil)
	shown, stop = m.Feed("as it is")
	assert.Equal(t, []string{"as it is", ""}, []string{shown, stop})

	m = NewStopMatcher([]string{"的确"}) // held back at a code point's border
	shown, _ = m.Feed("我的")
	assert.Equal(t, "我", shown)
	assert.Equal(t, "的", m.Flush())
}

// TestStopIsLinear: text that goes on looking like a long stop takes time in proportion to its length, whatever the stop's.
//
// Seen failing with a walk over the stop string at each piece.
func TestStopIsLinear(t *testing.T) {
	feed := func(stop, pieces int) func() {
		return func() {
			m, n := NewStopMatcher([]string{strings.Repeat("a", stop) + "b"}), 0
			for range pieces {
				shown, _ := m.Feed(strings.Repeat("a", 100))
				n += len(shown)
			}
			require.Equal(t, 100*pieces-stop, n)
		}
	}
	proportion.AtMost(t, 8, feed(12500, 500), feed(50000, 2000))
}

package sample

// StopMatcher finds stop strings in a text that comes in pieces, wherever the borders lie. What may still become a stop string is held back.
// Of several stop strings the one that is complete first wins, of those that end at the same byte the longest. It takes time linear in the text,
// times the number of stop strings (Knuth, Morris and Pratt, SIAM J. Comput. 6(2), 1977).
type StopMatcher struct {
	stops []stopString
	held  []byte // not shown yet: the longest start of a stop string that the text ends with
	found string
}

type stopString struct {
	text  string
	fail  []int // fail[i]: length of the longest proper prefix of text[:i+1] that also ends it
	state int   // how much of text the input ends with
}

// NewStopMatcher ignores empty strings. Without stop strings everything is shown at once.
func NewStopMatcher(stops []string) *StopMatcher {
	m := &StopMatcher{}
	for _, s := range stops {
		if s == "" {
			continue
		}
		fail := make([]int, len(s))
		for i, k := 1, 0; i < len(s); i++ {
			for k > 0 && s[i] != s[k] {
				k = fail[k-1]
			}
			if s[i] == s[k] {
				k++
			}
			fail[i] = k
		}
		m.stops = append(m.stops, stopString{text: s, fail: fail})
	}
	return m
}

// Feed takes the next piece and returns what may be shown, and the stop string if one was found: shown is then the text before it, and later pieces
// give nothing. If pieces and stop strings are valid UTF-8, so is shown.
func (m *StopMatcher) Feed(piece string) (shown, stop string) {
	if m.found != "" {
		return "", m.found
	}
	if len(m.stops) == 0 {
		return piece, ""
	}
	before := len(m.held)
	for i := 0; i < len(piece); i++ {
		longest := ""
		for k := range m.stops {
			s := &m.stops[k]
			for s.state > 0 && s.text[s.state] != piece[i] {
				s.state = s.fail[s.state-1]
			}
			if s.text[s.state] == piece[i] {
				s.state++
			}
			if s.state == len(s.text) {
				if len(s.text) > len(longest) {
					longest = s.text
				}
				s.state = s.fail[s.state-1]
			}
		}
		if longest != "" {
			m.found = longest
			all := string(m.held) + piece[:i+1]
			m.held = nil
			return all[:before+i+1-len(longest)], longest
		}
	}
	hold := 0
	for k := range m.stops {
		hold = max(hold, m.stops[k].state)
	}
	all := append(m.held, piece...)
	shown = string(all[:len(all)-hold])
	m.held = all[:copy(all, all[len(all)-hold:])]
	return shown, ""
}

// Flush ends the text and returns what was held back; nothing if a stop string was found.
func (m *StopMatcher) Flush() string {
	s := string(m.held)
	m.held = m.held[:0]
	for k := range m.stops {
		m.stops[k].state = 0
	}
	return s
}

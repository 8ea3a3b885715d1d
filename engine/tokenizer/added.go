package tokenizer

import "fmt"

// matcher finds added tokens in text: of all matches the leftmost, of those the longest. It is an Aho-Corasick automaton
// (CACM 18(6), 1975) whose failure links end where a match was seen, since one that starts later can't win then; so a text is
// read once, and beyond each match by no more than a token's length. Children are linked lists: a vocabulary's few tokens make it small, and a hostile file's many can't make
// it larger than 20 bytes for each of theirs.
type matcher struct {
	nodes []node
	root  [256]int32 // children of the root, 0 for none
	texts []string   // all tokens of the vocabulary, for their lengths
}

type node struct {
	child, sibling int32 // 0 for none: the root is nobody's child
	fail           int32 // -1 where nothing can follow any more
	token          int32 // the longest token that ends here, or NoToken
	char           byte
}

const dead int32 = -1

// Bounds on added tokens, far above those of any real vocabulary: their texts in bytes, one and all.
const (
	maxAddedToken = 512
	maxAddedTotal = 1 << 26
)

// newMatcher takes the ids of the tokens to find. Empty ones are never found; of equal ones the first is.
func newMatcher(tokens []string, ids []int32) (matcher, error) {
	m := matcher{texts: tokens}
	if len(ids) == 0 {
		return m, nil
	}
	total := 0
	for _, id := range ids {
		if n := len(tokens[id]); n > maxAddedToken {
			return m, fmt.Errorf("tokenizer: added token %d (%.40q...) has %d bytes, at most %d are supported: %w",
				id, tokens[id], n, maxAddedToken, ErrUnsupported)
		}
		total += len(tokens[id])
	}
	if total > maxAddedTotal {
		return m, fmt.Errorf("tokenizer: %d added tokens have %d bytes, at most %d are supported: %w", len(ids), total, maxAddedTotal, ErrUnsupported)
	}
	m.nodes = []node{{fail: 0, token: NoToken}}
	for _, id := range ids {
		at := int32(0)
		for k := 0; k < len(tokens[id]); k++ {
			c := tokens[id][k]
			next := m.goTo(at, c)
			if next == 0 {
				next = int32(len(m.nodes))
				m.nodes = append(m.nodes, node{char: c, token: NoToken, sibling: m.nodes[at].child})
				m.nodes[at].child = next
				if at == 0 {
					m.root[c] = next
				}
			}
			at = next
		}
		if at != 0 && m.nodes[at].token == NoToken {
			m.nodes[at].token = id
		}
	}
	m.link()
	return m, nil
}

// link sets the failure links, level by level.
func (m *matcher) link() {
	queue := make([]int32, 0, len(m.nodes))
	queue = append(queue, 0)
	matched := make([]bool, len(m.nodes)) // a token ends at the node or above it
	for head := 0; head < len(queue); head++ {
		at := queue[head]
		for c := m.nodes[at].child; c != 0; c = m.nodes[c].sibling {
			queue = append(queue, c)
			n := &m.nodes[c]
			matched[c] = matched[at] || n.token != NoToken
			switch {
			case matched[c]:
				n.fail = dead
			case at == 0:
				n.fail = 0
			default:
				n.fail = m.step(m.nodes[at].fail, n.char)
				// A token that ends here but started later: taken unless the longer path comes to a match.
				if n.fail > 0 {
					n.token = m.nodes[n.fail].token
				}
			}
		}
	}
}

// goTo returns the child of a node, or 0.
func (m *matcher) goTo(at int32, c byte) int32 {
	if at == 0 {
		return m.root[c]
	}
	k := m.nodes[at].child
	for k != 0 && m.nodes[k].char != c {
		k = m.nodes[k].sibling
	}
	return k
}

// step follows one byte, over failure links where need be.
func (m *matcher) step(at int32, c byte) int32 {
	for at != dead {
		if next := m.goTo(at, c); next != 0 {
			return next
		}
		if at == 0 {
			return 0
		}
		at = m.nodes[at].fail
	}
	return dead
}

// find returns the first match at or after i: its borders and the token. start is -1 if there is none.
func (m *matcher) find(s string, i int) (start, end int, id int32) {
	start, end, id = -1, -1, NoToken
	if len(m.nodes) == 0 {
		return start, end, id
	}
	at := int32(0)
	for ; i < len(s); i++ {
		if at = m.step(at, s[i]); at == dead {
			break
		}
		if tok := m.nodes[at].token; tok != NoToken {
			end, id = i+1, tok
			start = end - len(m.texts[tok])
		}
	}
	return start, end, id
}

package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// nextWord returns the end of the word that starts at s[i]; i < len(s), and the result is greater than i. s is looked at from i on
// only, and a character is looked at a bounded number of times over all words, so cutting a text is linear.
type nextWord func(s string, i int) int

// preTokenizers by the names that tokenizer.ggml.pre gives them.
var preTokenizers = map[string]nextWord{
	"qwen2":  nextQwen2,
	"smollm": nextSmolLM,
}

// class of a character, as the expressions need it.
type class uint8

const (
	other   class = iota // [^\s\p{L}\p{N}], and each byte that isn't UTF-8
	letter               // \p{L}
	number               // \p{N}
	space                // \s but for the next two
	newline              // \r and \n
	blank                // U+0020
)

func (c class) isSpace() bool { return c >= space }

var asciiClass = func() (t [utf8.RuneSelf]class) {
	for b := range t {
		switch {
		case b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z':
			t[b] = letter
		case b >= '0' && b <= '9':
			t[b] = number
		case b == '\n' || b == '\r':
			t[b] = newline
		case b == '\t' || b == '\v' || b == '\f':
			t[b] = space
		case b == ' ':
			t[b] = blank
		}
	}
	return t
}()

// classAt returns the class of the character at s[i] and its length.
func classAt(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return classOf(r), n
}

// classOf takes a rune outside ASCII. The first case spares the commonest scripts the search in the tables of package unicode.
func classOf(r rune) class {
	switch {
	case r >= 0x4e00 && r <= 0x9fff || r >= 0xac00 && r <= 0xd7a3 || r >= 0x3041 && r <= 0x3096 || r >= 0x430 && r <= 0x44f:
		return letter
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// run returns the end of the characters of class c from i on.
func run(s string, i int, c class) int {
	for i < len(s) {
		k, n := classAt(s, i)
		if k != c {
			break
		}
		i += n
	}
	return i
}

// spaces looks at the white space from i on: its end, the start of its last character, and the end of its last \r or \n (i if none).
func spaces(s string, i int) (end, last, lineEnd int) {
	end, last, lineEnd = i, i, i
	for end < len(s) {
		c, n := classAt(s, end)
		if !c.isSpace() {
			break
		}
		last = end
		end += n
		if c == newline {
			lineEnd = end
		}
	}
	return end, last, lineEnd
}

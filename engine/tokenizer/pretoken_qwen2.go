package tokenizer

import "strings"

// nextQwen2 cuts as Qwen2's expression does, alternatives in this order:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)
//	[^\r\n\p{L}\p{N}]?\p{L}+
//	\p{N}
//	 ?[^\s\p{L}\p{N}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func nextQwen2(s string, i int) int {
	c, n := classAt(s, i)
	if s[i] == '\'' {
		if m := contractionFold(s[i+1:]); m > 0 {
			return i + 1 + m
		}
	}
	switch c {
	case letter:
		return run(s, i+n, letter)
	case number:
		return i + n
	}
	after, m := other, 0 // what follows the first character
	if i+n < len(s) {
		after, m = classAt(s, i+n)
	}
	if m > 0 && after == letter && c != newline {
		return run(s, i+n+m, letter)
	}
	if c == other || c == blank && m > 0 && after == other {
		return run(s, run(s, i+n, other), newline)
	}
	end, last, lineEnd := spaces(s, i)
	switch {
	case lineEnd > i:
		return lineEnd
	case end == len(s) || last == i:
		return end
	}
	return last // the last one goes with what follows, or stands alone
}

// contractionFold returns the length of a contraction's ending, in any case, at the start of s. Unicode folds ſ (U+017F) with s.
func contractionFold(s string) int {
	if s == "" {
		return 0
	}
	if len(s) >= 2 {
		switch e := s[1] | 0x20; s[0] | 0x20 {
		case 'r', 'v':
			if e == 'e' {
				return 2
			}
		case 'l':
			if e == 'l' {
				return 2
			}
		}
	}
	switch s[0] | 0x20 {
	case 's', 't', 'm', 'd':
		return 1
	}
	if strings.HasPrefix(s, "ſ") {
		return len("ſ")
	}
	return 0
}

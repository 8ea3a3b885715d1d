package tokenizer

// nextSmolLM cuts as SmolLM2 does: each number (\p{N}) stands alone, and the text between numbers is cut by GPT-2's expression,
//
//	's|'t|'re|'ve|'m|'ll|'d
//	 ?\p{L}+
//	 ?[^\s\p{L}\p{N}]+
//	\s+(?!\S)
//	\s+
//
// for which a number is the end of the text.
func nextSmolLM(s string, i int) int {
	c, n := classAt(s, i)
	if s[i] == '\'' {
		if m := contraction(s[i+1:]); m > 0 {
			return i + 1 + m
		}
	}
	switch c {
	case number:
		return i + n
	case letter, other:
		return run(s, i+n, c)
	}
	if c == blank && i+n < len(s) {
		if after, m := classAt(s, i+n); after == letter || after == other {
			return run(s, i+n+m, after)
		}
	}
	end, last, _ := spaces(s, i)
	if end == len(s) || last == i {
		return end
	}
	if after, _ := classAt(s, end); after == number {
		return end
	}
	return last
}

// contraction returns the length of a contraction's ending, in lower case only, at the start of s.
func contraction(s string) int {
	if s == "" {
		return 0
	}
	switch s[0] {
	case 's', 't', 'm', 'd':
		return 1
	case 'r', 'v':
		if len(s) >= 2 && s[1] == 'e' {
			return 2
		}
	case 'l':
		if len(s) >= 2 && s[1] == 'l' {
			return 2
		}
	}
	return 0
}

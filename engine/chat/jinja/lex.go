package jinja

import (
	"regexp"
	"strings"
	"unicode"
)

type tokKind uint8

const (
	tokEOF tokKind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind tokKind
	s    string
	line int
}

var (
	floatRE  = regexp.MustCompile(`^\d[\d_]*(\.\d[\d_]*([eE][+-]?\d+)?|[eE][+-]?\d+)`)
	intRE    = regexp.MustCompile(`^\d[\d_]*`)
	endRawRE = regexp.MustCompile(`\{%[-+]?\s*endraw\s*([-+]?)%\}`)
	rawRE    = regexp.MustCompile(`^\{%[-+]?\s*raw\s*([-+]?)%\}`)
)

type lexer struct {
	src  string
	at   int
	line int
	toks []token
	trim int // what the text after the last tag loses: 0 nothing, 1 a newline, 2 all white space
}

// lex splits a template as jinja2 does with trim_blocks and lstrip_blocks on: a newline right after a block or comment tag is dropped,
// and so are blanks from the line's beginning up to such a tag.
func lex(source string) []token {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(source, "\n"), line: 1}
	for l.at < len(l.src) {
		i := nextTag(l.src[l.at:])
		if i < 0 {
			l.data(l.src[l.at:], 0, false)
			l.at = len(l.src)
			break
		}
		l.data(l.src[l.at:l.at+i], l.src[l.at+i+1], strings.HasPrefix(l.src[l.at+i+2:], "-"))
		l.at += i
		l.tag()
	}
	l.put(tokEOF, "")
	return l.toks
}

func nextTag(s string) int {
	for i := 0; ; {
		n := strings.IndexByte(s[i:], '{')
		if n < 0 || i+n+1 >= len(s) {
			return -1
		}
		if i += n; s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#' {
			return i
		}
		i++
	}
}

func (l *lexer) put(k tokKind, s string) { l.toks = append(l.toks, token{k, s, l.line}) }

// data adds text that stands before a tag of the given second character (0: the end).
func (l *lexer) data(s string, tag byte, minus bool) {
	lines := strings.Count(s, "\n")
	atStart := l.at == 0
	switch l.trim {
	case 1:
		if strings.HasPrefix(s, "\n") {
			s, atStart = s[1:], true
		}
	case 2:
		trimmed := strings.TrimLeftFunc(s, isSpace)
		atStart = strings.Contains(s[:len(s)-len(trimmed)], "\n")
		s = trimmed
	}
	l.trim = 0
	if minus {
		s = strings.TrimRightFunc(s, isSpace)
	} else if tag == '%' || tag == '#' {
		blank := strings.TrimRight(s, " \t\v\f")
		if !l.keeps() && (strings.HasSuffix(blank, "\n") || blank == "" && atStart) {
			s = blank
		}
	}
	if s != "" {
		l.put(tokData, s)
	}
	l.line += lines
}

// keeps reports whether the next tag says "{%+": leave the blanks before it.
func (l *lexer) keeps() bool {
	i := nextTag(l.src[l.at:])
	return i >= 0 && strings.HasPrefix(l.src[l.at+i+2:], "+")
}

// tag lexes one tag at the current position.
func (l *lexer) tag() {
	rest := l.src[l.at:]
	if rest[1] == '#' {
		end := strings.Index(rest, "#}")
		if end < 0 {
			l.fail("a comment isn't closed")
		}
		l.trim = 1
		switch rest[end-1] {
		case '-':
			l.trim = 2
		case '+':
			l.trim = 0
		}
		l.line += strings.Count(rest[:end], "\n")
		l.at += end + 2
		return
	}
	if m := rawRE.FindStringSubmatchIndex(rest); m != nil {
		l.raw(rest, m)
		return
	}
	begin, end, closing := tokVarBegin, tokVarEnd, "}}"
	if rest[1] == '%' {
		begin, end, closing = tokBlockBegin, tokBlockEnd, "%}"
	}
	l.put(begin, "")
	l.at += 2
	if l.at < len(l.src) && (l.src[l.at] == '-' || l.src[l.at] == '+') {
		l.at++
	}
	braces := 0
	for {
		for l.at < len(l.src) && isSpace(rune(l.src[l.at])) {
			if l.src[l.at] == '\n' {
				l.line++
			}
			l.at++
		}
		rest = l.src[l.at:]
		if rest == "" {
			l.fail("a tag isn't closed")
		}
		if braces == 0 {
			sign := 0 // a "-" or "+" before the closing
			if rest[0] == '-' || rest[0] == '+' {
				sign = 1
			}
			if strings.HasPrefix(rest[sign:], closing) {
				l.put(end, "")
				l.at += sign + 2
				if end == tokBlockEnd {
					l.trim = 1
				}
				switch rest[0] {
				case '-':
					l.trim = 2
				case '+':
					l.trim = 0
				}
				return
			}
		}
		switch c := rest[0]; {
		case c == '\'' || c == '"':
			l.str(c)
		case c >= '0' && c <= '9':
			if m := floatRE.FindString(rest); m != "" {
				l.put(tokFloat, strings.ReplaceAll(m, "_", ""))
				l.at += len(m)
			} else {
				m := intRE.FindString(rest)
				l.put(tokInt, strings.ReplaceAll(m, "_", ""))
				l.at += len(m)
			}
		default:
			if m := leadingName(rest); m != "" {
				if len(m) > maxName {
					fail(ErrLimit, "a name of %d bytes, at most %d are allowed", len(m), maxName)
				}
				l.put(tokName, m)
				l.at += len(m)
			} else if m := leadingOp(rest); m != "" {
				switch m {
				case "{", "(", "[":
					braces++
				case "}", ")", "]":
					braces = max(0, braces-1)
				}
				l.put(tokOp, m)
				l.at += len(m)
			} else {
				l.fail("unexpected %q", []rune(rest)[0])
			}
		}
	}
}

// leadingName is the name that s begins with, or "".
func leadingName(s string) string {
	for i, c := range s {
		if !(unicode.IsLetter(c) || c == '_' || i > 0 && unicode.IsNumber(c)) {
			return s[:i]
		}
	}
	return s
}

// leadingOp is the operator that s begins with, or "".
func leadingOp(s string) string {
	for _, op := range []string{"**", "//", "==", "!=", "<=", ">="} {
		if strings.HasPrefix(s, op) {
			return op
		}
	}
	if strings.IndexByte("-+*/%~<>=|.,:;()[]{}", s[0]) >= 0 {
		return s[:1]
	}
	return ""
}

func (l *lexer) raw(rest string, m []int) {
	end := endRawRE.FindStringSubmatchIndex(rest[m[1]:])
	if end == nil {
		l.fail("raw isn't closed")
	}
	text := rest[m[1] : m[1]+end[0]]
	if rest[m[2]:m[3]] == "-" { // a newline after the tag stays, unlike that after other tags
		text = strings.TrimLeftFunc(text, isSpace)
	}
	if rest[m[1]+end[0]+2] == '-' {
		text = strings.TrimRightFunc(text, isSpace)
	} else if blank := strings.TrimRight(text, " \t"); strings.HasSuffix(blank, "\n") {
		text = blank
	}
	if text != "" {
		l.put(tokData, text)
	}
	l.line += strings.Count(rest[:m[1]+end[1]], "\n")
	l.at += m[1] + end[1]
	l.trim = 1
	switch rest[m[1]+end[2] : m[1]+end[3]] {
	case "-":
		l.trim = 2
	case "+":
		l.trim = 0
	}
}

// str lexes a string literal with Python's escapes.
func (l *lexer) str(quote byte) {
	var b strings.Builder
	i := l.at + 1
	for {
		if i >= len(l.src) {
			l.fail("a string isn't closed")
		}
		c := l.src[i]
		if c == quote {
			break
		}
		if c != '\\' || i+1 >= len(l.src) {
			if c == '\n' {
				l.line++
			}
			b.WriteByte(c)
			i++
			continue
		}
		i += 2
		digits := 0
		switch e := l.src[i-1]; e {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'v':
			b.WriteByte('\v')
		case 'a':
			b.WriteByte(7)
		case '\\', '\'', '"':
			b.WriteByte(e)
		case '\n':
			l.line++
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		default:
			b.WriteByte('\\')
			b.WriteByte(e)
		}
		if digits > 0 {
			r := rune(0)
			for range digits {
				if i >= len(l.src) {
					l.fail("a string isn't closed")
				}
				d := strings.IndexByte("0123456789abcdef", l.src[i]|0x20)
				if d < 0 || l.src[i] < '0' {
					l.fail("a malformed escape in a string")
				}
				r = r<<4 | rune(d)
				i++
			}
			b.WriteRune(r)
		}
	}
	l.put(tokString, b.String())
	l.at = i + 1
}

func (l *lexer) fail(format string, args ...any) {
	defer func() {
		if e, ok := recover().(*Error); ok {
			e.Line = l.line
			panic(e)
		}
	}()
	fail(ErrSyntax, format, args...)
}

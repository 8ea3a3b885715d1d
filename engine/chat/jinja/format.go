package jinja

import (
	"math"
	"strconv"
	"strings"
)

// maxWidth bounds a width or precision of a format.
const maxWidth = 10000

// spec is how a value is formatted, by str.format or by the % operator.
type spec struct {
	fill   string // one code point
	align  byte   // '<', '>', '^', '=' (fill after the sign), or 0: by type
	plus   bool
	comma  bool
	width  int
	prec   int // -1: none
	verb   byte
	source string
}

// parseSpec reads a format specification: [[fill]align][+][0][width][,][.precision][type]. What Python has beyond it is refused.
func parseSpec(s string) spec {
	sp := spec{fill: " ", prec: -1, source: s}
	first := offset(s, 1)
	isAlign := func(i int) bool { return i < len(s) && strings.IndexByte("<>^=", s[i]) >= 0 }
	if isAlign(first) {
		sp.fill, sp.align, s = s[:first], s[first], s[first+1:]
	} else if isAlign(0) {
		sp.align, s = s[0], s[1:]
	}
	if strings.HasPrefix(s, "+") {
		sp.plus, s = true, s[1:]
	}
	if strings.HasPrefix(s, "0") && sp.align == 0 {
		sp.fill, sp.align, s = "0", '=', s[1:]
	}
	sp.width, s = leadingInt(s)
	if strings.HasPrefix(s, ",") {
		sp.comma, s = true, s[1:]
	}
	if strings.HasPrefix(s, ".") {
		rest := s[1:]
		if sp.prec, s = leadingInt(rest); s == rest {
			fail(ErrRuntime, "Format specifier missing precision")
		}
	}
	if len(s) == 1 && strings.Contains("sdfx", s) {
		sp.verb, s = s[0], ""
	}
	if s != "" {
		sp.refuse()
	}
	return sp
}

func (sp spec) refuse() { fail(ErrUnsupported, "format specification %.80q", sp.source) }

// leadingInt reads the digits that s begins with; none are 0.
func leadingInt(s string) (n int, rest string) {
	for s != "" && s[0] >= '0' && s[0] <= '9' {
		if n = 10*n + int(s[0]-'0'); n > maxWidth {
			fail(ErrLimit, "a width or precision above %d", maxWidth)
		}
		s = s[1:]
	}
	return n, s
}

// apply is Python's format(v, spec).
func (sp spec) apply(r *run, v Value) Str {
	if s, ok := v.(Str); ok {
		if sp.verb != 0 && sp.verb != 's' || sp.align == '=' && sp.fill != "0" || sp.comma || sp.plus {
			fail(ErrRuntime, "format %.80q doesn't fit a str", sp.source)
		}
		if sp.prec >= 0 {
			s = s.sub(0, offset(s.s, sp.prec))
		}
		return sp.pad(r, s, '<', 0)
	}
	i, f, isInt, ok := number(v)
	if !ok {
		fail(ErrRuntime, "unsupported format string passed to %s.__format__", v.typeName())
	}
	var text string
	switch {
	case sp.verb == 'f', sp.verb == 0 && !isInt && sp.prec < 0 && !sp.comma:
		prec := sp.prec
		if prec < 0 {
			prec = 6
		}
		if text = formatFloat(f); sp.verb == 'f' && !math.IsNaN(f) && !math.IsInf(f, 0) {
			text = strconv.FormatFloat(f, 'f', prec, 64)
		}
	case isInt && sp.prec < 0 && (sp.verb == 0 || sp.verb == 'd'):
		text = strconv.FormatInt(i, 10)
	case isInt && sp.prec < 0 && sp.verb == 'x':
		text = strconv.FormatInt(i, 16)
	default:
		sp.refuse()
	}
	sign := 0
	if strings.HasPrefix(text, "-") {
		sign = 1
	} else if sp.plus {
		text, sign = "+"+text, 1
	}
	if sp.comma {
		text = group(text, sign)
	}
	return sp.pad(r, Str{s: text}, '>', sign)
}

// group puts commas between the thousands of the digits after the sign.
func group(text string, sign int) string {
	end := strings.IndexByte(text, '.')
	if end < 0 {
		end = len(text)
	}
	for at := end - 3; at > sign; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// pad fills s up to the width; for '=' the fill goes after the sign's bytes.
func (sp spec) pad(r *run, s Str, align byte, sign int) Str {
	missing := sp.width - r.runeLen(s)
	if missing <= 0 {
		return s
	}
	if sp.align != 0 && !(sp.align == '=' && align == '<') { // '=' of "05" means nothing to a str
		align = sp.align
	}
	left := 0
	switch align {
	case '>':
		left = missing
	case '^':
		left = missing / 2
	case '=':
		w := &builder{r: r}
		w.str(s.sub(0, sign))
		w.repeat(sp.fill, missing)
		w.str(s.sub(sign, len(s.s)))
		return w.done()
	}
	return r.padded(s, sp.fill, left, missing-left)
}

// padded is s between repeated fill.
func (r *run) padded(s Str, fill string, left, right int) Str {
	w := &builder{r: r}
	w.repeat(fill, left)
	w.str(s)
	w.repeat(fill, right)
	return w.done()
}

// percentSpec reads what stands between a % and its letter, the letter too: [-+0][width][.precision]letter; n is its length.
func percentSpec(s string) (sp spec, n int) {
	sp = spec{fill: " ", align: '>', prec: -1, source: "%" + s[:min(len(s), 20)]}
	rest := s
	for rest != "" && strings.IndexByte("-+0", rest[0]) >= 0 {
		switch rest[0] {
		case '-':
			sp.fill, sp.align = " ", '<'
		case '+':
			sp.plus = true
		case '0':
			if sp.align == '>' {
				sp.fill, sp.align = "0", '='
			}
		}
		rest = rest[1:]
	}
	sp.width, rest = leadingInt(rest)
	if strings.HasPrefix(rest, ".") {
		sp.prec, rest = leadingInt(rest[1:])
	}
	if rest == "" {
		fail(ErrRuntime, "incomplete format")
	}
	sp.verb = rest[0]
	return sp, len(s) - len(rest) + 1
}

// percentValue formats one value of the % operator.
func (r *run) percentValue(sp spec, v Value) Str {
	switch sp.verb {
	case 's', 'r':
		s := r.toStr(v)
		if sp.verb == 'r' {
			w := &builder{r: r}
			r.repr(w, v)
			s = w.done()
		}
		if sp.prec >= 0 {
			s = s.sub(0, offset(s.s, sp.prec))
		}
		if sp.align == '=' {
			sp.fill, sp.align = " ", '>'
		}
		return sp.pad(r, s, '>', 0)
	case 'd', 'i', 'f', 'x':
		i, f, isInt, ok := number(v)
		if !ok || sp.verb == 'x' && !isInt {
			fail(ErrRuntime, "%%%c format: a number is required, not %s", sp.verb, v.typeName())
		}
		if sp.verb == 'f' {
			return sp.apply(r, Float(f))
		}
		if !isInt && !(math.Abs(f) < 1<<62) {
			fail(ErrUnsupported, "integers beyond 64 bits")
		}
		if !isInt {
			i = int64(f)
		}
		if sp.verb == 'i' {
			sp.verb = 'd'
		}
		return sp.apply(r, Int(i))
	}
	fail(ErrUnsupported, "%%%c in a format string", sp.verb)
	return Str{}
}

package jinja

import (
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Str is a string value: UTF-8 text, with the byte ranges that are literal, that is, come from the caller's data.
type Str struct {
	s      string
	lit    []span // sorted, not overlapping, not touching, not empty
	markup bool   // made by |safe or |escape
}

type span struct{ lo, hi int }

// Text makes a string value that counts as template text. Invalid UTF-8 is replaced by U+FFFD.
func Text(s string) Str { return Str{s: strings.ToValidUTF8(s, "\uFFFD")} }

// Literal makes a string value whose every byte is marked as the caller's data.
func Literal(s string) Str { return literal(strings.ToValidUTF8(s, "\uFFFD")) }

func literal(s string) Str {
	if s == "" {
		return Str{}
	}
	return Str{s: s, lit: []span{{0, len(s)}}}
}

func (s Str) asMarkup() Str { s.markup = true; return s }

// String returns the text.
func (s Str) String() string { return s.s }

// Runs calls f for each maximal piece of the string, in order, with whether it is literal.
func (s Str) Runs(f func(text string, literal bool)) {
	at := 0
	for _, l := range s.lit {
		if at < l.lo {
			f(s.s[at:l.lo], false)
		}
		f(s.s[l.lo:l.hi], true)
		at = l.hi
	}
	if at < len(s.s) {
		f(s.s[at:], false)
	}
}

// sub is the piece [lo,hi) in bytes, with its marks.
func (s Str) sub(lo, hi int) Str {
	out := Str{s: s.s[lo:hi]}
	if lo >= hi || len(s.lit) == 0 {
		return out
	}
	i := sort.Search(len(s.lit), func(i int) bool { return s.lit[i].hi > lo })
	j := i
	for j < len(s.lit) && s.lit[j].lo < hi {
		j++
	}
	if i == j {
		return out
	}
	out.lit = make([]span, 0, j-i)
	for _, l := range s.lit[i:j] {
		out.lit = append(out.lit, span{max(l.lo, lo) - lo, min(l.hi, hi) - lo})
	}
	return out
}

// isLit says whether the byte at i is literal. For walks through a string use a cursor.
func (s Str) isLit(i int) bool {
	k := sort.Search(len(s.lit), func(k int) bool { return s.lit[k].hi > i })
	return k < len(s.lit) && s.lit[k].lo <= i
}

// builder puts strings together; every byte is charged to the run before it is made.
type builder struct {
	r   *run
	b   []byte
	lit []span
}

func (w *builder) mark(lo, hi int) {
	if lo == hi {
		return
	}
	if n := len(w.lit); n > 0 && w.lit[n-1].hi == lo {
		w.lit[n-1].hi = hi
		return
	}
	w.r.alloc(16)
	w.lit = append(w.lit, span{lo, hi})
}

// text adds template text.
func (w *builder) text(s string) {
	w.r.alloc(len(s))
	w.b = append(w.b, s...)
}

// add adds text that is literal or not as told.
func (w *builder) add(s string, lit bool) {
	w.text(s)
	if lit {
		w.mark(len(w.b)-len(s), len(w.b))
	}
}

// str adds a string with its marks.
func (w *builder) str(s Str) {
	base := len(w.b)
	w.text(s.s)
	for _, l := range s.lit {
		w.mark(base+l.lo, base+l.hi)
	}
}

// repeat adds s n times.
func (w *builder) repeat(s string, n int) {
	if n <= 0 || s == "" {
		return
	}
	if int64(n) > w.r.bytes/int64(len(s)) {
		w.r.overBytes()
	}
	w.text(strings.Repeat(s, n))
}

func (w *builder) done() Str { return Str{s: string(w.b), lit: w.lit} }

// mapRunes builds a string by replacing each code point; a literal one stays literal.
func (r *run) mapRunes(s Str, f func(i int, c rune) string) Str {
	w := &builder{r: r}
	r.step(len(s.s) / 8) // a call for each code point
	if len(s.lit) == 0 {
		for i, c := range s.s {
			w.text(f(i, c))
		}
		return w.done()
	}
	at := 0
	for i, c := range s.s {
		for at < len(s.lit) && s.lit[at].hi <= i {
			at++
		}
		w.add(f(i, c), at < len(s.lit) && s.lit[at].lo <= i)
	}
	return w.done()
}

func upperRune(c rune) string {
	if c == 'ß' {
		return "SS"
	}
	return string(unicode.ToUpper(c))
}

func titleRune(c rune) string {
	if c == 'ß' {
		return "Ss"
	}
	return string(unicode.ToTitle(c))
}

func lowerRune(c rune) string { return string(unicode.ToLower(c)) }

// runeLen is Python's len(): code points.
func (r *run) runeLen(s Str) int {
	r.scan(len(s.s))
	return utf8.RuneCountInString(s.s)
}

// offset is the byte offset of the n-th code point, 0 <= n <= length.
func offset(s string, n int) int {
	if n <= 0 {
		return 0
	}
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

// isSpace is Python's str.isspace for one code point.
func isSpace(c rune) bool {
	switch {
	case c >= 0x1c && c <= 0x1f:
		return true
	case c == 0x85, c == 0xa0:
		return true
	}
	return unicode.IsSpace(c)
}

// strip cuts the code points of set (nil: white space) from the ends.
func (r *run) strip(s Str, set []rune, left, right bool) Str {
	r.scan(len(s.s))
	in := isSpace
	if set != nil {
		r.allocItems(len(set))
		member := make(map[rune]bool, min(len(set), 64))
		for _, c := range set {
			member[c] = true
		}
		in = func(c rune) bool { return member[c] }
	}
	lo, hi := 0, len(s.s)
	if left {
		lo = hi - len(strings.TrimLeftFunc(s.s, in))
	}
	if right {
		hi = lo + len(strings.TrimRightFunc(s.s[lo:], in))
	}
	return s.sub(lo, hi)
}

// chars are the code points as strings.
func (r *run) chars(s Str) []Value {
	n := r.runeLen(s)
	r.allocItems(n)
	out := make([]Value, 0, n)
	for i, c := range s.s {
		out = append(out, s.sub(i, i+utf8.RuneLen(c)))
	}
	return out
}

// splitSpace is Python's split() and rsplit() without a separator; max < 0 means no bound.
func (r *run) splitSpace(s Str, max int, fromRight bool) []Value {
	r.scan(len(s.s))
	var out []Value
	put := func(lo, hi int) {
		r.allocItems(1)
		out = append(out, s.sub(lo, hi))
	}
	if fromRight {
		rest := strings.TrimRightFunc(s.s, isSpace)
		for rest != "" {
			if max == 0 {
				put(0, len(rest))
				break
			}
			max--
			i := strings.LastIndexFunc(rest, isSpace)
			lo := 0
			if i >= 0 {
				_, n := utf8.DecodeRuneInString(rest[i:])
				lo = i + n
			}
			put(lo, len(rest))
			rest = strings.TrimRightFunc(rest[:lo], isSpace)
		}
		slices.Reverse(out)
		return out
	}
	at := len(s.s) - len(strings.TrimLeftFunc(s.s, isSpace))
	for at < len(s.s) {
		if max == 0 {
			put(at, len(s.s))
			break
		}
		max--
		n := strings.IndexFunc(s.s[at:], isSpace)
		if n < 0 {
			put(at, len(s.s))
			break
		}
		put(at, at+n)
		at = len(s.s) - len(strings.TrimLeftFunc(s.s[at+n:], isSpace))
	}
	return out
}

// split is Python's split(sep) and rsplit(sep); max < 0 means no bound.
func (r *run) split(s Str, sep string, max int, fromRight bool) []Value {
	if sep == "" {
		fail(ErrRuntime, "empty separator")
	}
	r.scan(len(s.s))
	var out []Value
	put := func(lo, hi int) {
		r.allocItems(1)
		out = append(out, s.sub(lo, hi))
	}
	if fromRight {
		hi := len(s.s)
		for ; max != 0; max-- {
			i := strings.LastIndex(s.s[:hi], sep)
			if i < 0 {
				break
			}
			put(i+len(sep), hi)
			hi = i
		}
		put(0, hi)
		slices.Reverse(out)
		return out
	}
	at := 0
	for ; max != 0; max-- {
		i := strings.Index(s.s[at:], sep)
		if i < 0 {
			break
		}
		put(at, at+i)
		at += i + len(sep)
	}
	put(at, len(s.s))
	return out
}

// splitLines is Python's splitlines().
func (r *run) splitLines(s Str, keep bool) []Value {
	r.scan(len(s.s))
	var out []Value
	put := func(lo, hi int) {
		r.allocItems(1)
		out = append(out, s.sub(lo, hi))
	}
	at, skip := 0, -1
	for i, c := range s.s {
		if i == skip {
			continue
		}
		switch c {
		case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		default:
			continue
		}
		end := i + utf8.RuneLen(c)
		if c == '\r' && end < len(s.s) && s.s[end] == '\n' {
			skip = end
			end++
		}
		if keep {
			put(at, end)
		} else {
			put(at, i)
		}
		at = end
	}
	if at < len(s.s) {
		put(at, len(s.s))
	}
	return out
}

// replace is Python's replace; count < 0 means all.
func (r *run) replace(s, old, new Str, count int) Str {
	r.scan(len(s.s))
	w := &builder{r: r}
	if old.s == "" {
		at := 0
		for i, c := range s.s {
			if count == 0 {
				break
			}
			count--
			w.str(new)
			at = i + utf8.RuneLen(c)
			w.str(s.sub(i, at))
		}
		if at == len(s.s) && count != 0 {
			w.str(new)
		} else {
			w.str(s.sub(at, len(s.s)))
		}
		return w.done()
	}
	at := 0
	for ; count != 0; count-- {
		i := strings.Index(s.s[at:], old.s)
		if i < 0 {
			break
		}
		w.str(s.sub(at, at+i))
		w.str(new)
		at += i + len(old.s)
	}
	w.str(s.sub(at, len(s.s)))
	return w.done()
}

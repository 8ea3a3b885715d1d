package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// toStr is Python's str().
func (r *run) toStr(v Value) Str {
	switch x := v.(type) {
	case Str:
		return x
	case Undefined:
		return Str{}
	}
	w := &builder{r: r}
	r.repr(w, v)
	return w.done()
}

// repr writes Python's repr().
func (r *run) repr(w *builder, v Value) {
	r.enter()
	defer r.leave()
	switch x := v.(type) {
	case Undefined:
		w.text("Undefined")
	case None:
		w.text("None")
	case Bool:
		if x {
			w.text("True")
		} else {
			w.text("False")
		}
	case Int:
		w.text(strconv.FormatInt(int64(x), 10))
	case Big:
		w.text(string(x))
	case Float:
		w.text(formatFloat(float64(x)))
	case Str:
		r.quote(w, x)
	case *List:
		open, end := "[", "]"
		switch x.kind {
		case tupleList:
			open, end = "(", ")"
		case rangeList:
			w.text(x.note)
			return
		case viewList:
			open, end = x.note+"([", "])"
		case genList:
			w.text("<generator object>")
			return
		}
		w.text(open)
		for i, e := range x.items {
			if i > 0 {
				w.text(", ")
			}
			r.repr(w, e)
		}
		if x.kind == tupleList && len(x.items) == 1 {
			w.text(",")
		}
		w.text(end)
	case *Dict:
		w.text("{")
		for i, k := range x.keys {
			if i > 0 {
				w.text(", ")
			}
			r.repr(w, k)
			w.text(": ")
			r.repr(w, x.vals[i])
		}
		w.text("}")
	default:
		w.text("<" + v.typeName() + ">")
	}
}

// formatFloat spells a float as Python does: the shortest digits that read back, with an exponent from 1e16 on and below 1e-4.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a >= 1e16 || a < 1e-4) {
		return strconv.FormatFloat(f, 'e', -1, 64) // Go pads the exponent to two digits, as Python does
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// quote writes a string as repr does.
func (r *run) quote(w *builder, s Str) {
	q := "'"
	if strings.Contains(s.s, "'") && !strings.Contains(s.s, `"`) {
		q = `"`
	}
	w.text(q)
	w.str(r.mapRunes(s, func(_ int, c rune) string {
		switch {
		case c == '\n':
			return `\n`
		case c == '\r':
			return `\r`
		case c == '\t':
			return `\t`
		case c == '\\':
			return `\\`
		case string(c) == q:
			return `\` + q
		case c < 0x20 || c == 0x7f:
			return `\x` + hex(c, 2)
		case c >= 0x80 && !unicode.IsPrint(c):
			if c <= 0xff {
				return `\x` + hex(c, 2)
			} else if c <= 0xffff {
				return `\u` + hex(c, 4)
			}
			return `\U` + hex(c, 8)
		}
		return string(c)
	}))
	w.text(q)
}

func hex(c rune, digits int) string {
	s := strconv.FormatInt(int64(c), 16)
	return strings.Repeat("0", max(0, digits-len(s))) + s
}

// jsonOptions are those of Python's json.dumps.
type jsonOptions struct {
	ascii    bool
	indent   string
	pretty   bool
	sortKeys bool
	item     string // separator
	key      string
}

// json writes v as json.dumps does.
func (r *run) json(w *builder, v Value, o jsonOptions, level int) {
	r.enter()
	defer r.leave()
	line := func(level int) {
		if o.pretty {
			w.text("\n")
			w.repeat(o.indent, level)
		}
	}
	switch x := v.(type) {
	case None:
		w.text("null")
	case Bool:
		if x {
			w.text("true")
		} else {
			w.text("false")
		}
	case Int, Big:
		r.repr(w, v)
	case Float:
		switch f := float64(x); {
		case math.IsNaN(f):
			w.text("NaN")
		case math.IsInf(f, 1):
			w.text("Infinity")
		case math.IsInf(f, -1):
			w.text("-Infinity")
		default:
			w.text(formatFloat(f))
		}
	case Str:
		w.text(`"`)
		w.str(r.mapRunes(x, func(_ int, c rune) string { return jsonRune(c, o.ascii) }))
		w.text(`"`)
	case *List:
		if x.kind > tupleList {
			fail(ErrRuntime, "Object of type %s is not JSON serializable", x.typeName())
		}
		if len(x.items) == 0 {
			w.text("[]")
			return
		}
		w.text("[")
		for i, e := range x.items {
			if i > 0 {
				w.text(o.item)
			}
			line(level + 1)
			r.json(w, e, o, level+1)
		}
		line(level)
		w.text("]")
	case *Dict:
		if len(x.keys) == 0 {
			w.text("{}")
			return
		}
		w.text("{")
		order := r.order(x, o.sortKeys)
		for n, i := range order {
			if n > 0 {
				w.text(o.item)
			}
			line(level + 1)
			key, ok := x.keys[i].(Str)
			if !ok {
				kw := &builder{r: r}
				r.json(kw, x.keys[i], o, level+1)
				key = kw.done()
			}
			r.json(w, key, o, level+1)
			w.text(o.key)
			r.json(w, x.vals[i], o, level+1)
		}
		line(level)
		w.text("}")
	default:
		fail(ErrRuntime, "Object of type %s is not JSON serializable", v.typeName())
	}
}

func jsonRune(c rune, ascii bool) string {
	switch c {
	case '"':
		return `\"`
	case '\\':
		return `\\`
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	if c < 0x20 || ascii && c >= 0x7f && c <= 0xffff {
		return `\u` + hex(c, 4)
	}
	if ascii && c > 0xffff {
		c -= 0x10000
		return `\u` + hex(0xd800+c>>10, 4) + `\u` + hex(0xdc00+c&0x3ff, 4)
	}
	return string(c)
}

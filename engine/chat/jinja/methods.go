package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// unsupportedMethods are Python methods that templates could ask for and that are refused when a template is parsed.
var unsupportedMethods = map[string]string{
	"append": ": lists are immutable here, as in the sandbox of transformers", "extend": ": lists are immutable here", "insert": ": lists are immutable here",
	"pop": ": values are immutable here", "update": ": values are immutable here", "remove": ": lists are immutable here", "sort": ": lists are immutable here", "reverse": ": lists are immutable here",
	"clear": ": values are immutable here", "setdefault": ": values are immutable here",
	"encode": "", "translate": "", "maketrans": "", "format_map": "", "expandtabs": "", "swapcase": "", "casefold": "", "isidentifier": "",
}

// method finds a bound method of v, or nil.
func method(v Value, name string) *function {
	var call func(r *run, a *args) Value
	switch x := v.(type) {
	case Str:
		call = strMethod(x, name)
	case *Dict:
		call = dictMethod(x, name)
	case *List:
		if x.kind <= tupleList {
			call = listMethod(x, name)
		}
	}
	if call == nil {
		return nil
	}
	return &function{name, call}
}

func dictMethod(d *Dict, name string) func(r *run, a *args) Value {
	switch name {
	case "items":
		return func(r *run, a *args) Value {
			a.bind()
			return &List{items: r.pairs(d).items, kind: viewList, note: "dict_items"}
		}
	case "keys":
		return func(r *run, a *args) Value { a.bind(); return &List{items: d.keys, kind: viewList, note: "dict_keys"} }
	case "values":
		return func(r *run, a *args) Value {
			a.bind()
			return &List{items: d.vals, kind: viewList, note: "dict_values"}
		}
	case "copy":
		return func(r *run, a *args) Value { a.bind(); return d }
	case "get":
		return func(r *run, a *args) Value {
			b := a.bind("key", "default")
			if b[0] == nil {
				fail(ErrRuntime, "get expected at least 1 argument, got 0")
			}
			if i := d.find(r.hash(b[0])); i >= 0 {
				return d.vals[i]
			}
			if b[1] == nil {
				return None{}
			}
			return b[1]
		}
	}
	return nil
}

// pairs lists a mapping's entries as tuples.
func (r *run) pairs(d *Dict) *List {
	items := make([]Value, len(d.keys))
	r.allocItems(3 * len(d.keys))
	for i, k := range d.keys {
		items[i] = &List{items: []Value{k, d.vals[i]}, kind: tupleList}
	}
	return &List{items: items}
}

func listMethod(l *List, name string) func(r *run, a *args) Value {
	switch name {
	case "index", "count":
		return func(r *run, a *args) Value {
			b := a.bind("value")
			if b[0] == nil {
				fail(ErrRuntime, "%s() takes exactly one argument (0 given)", name)
			}
			n := 0
			for i, e := range l.items {
				r.step(1)
				if r.equal(e, b[0]) {
					if name == "index" {
						return Int(i)
					}
					n++
				}
			}
			if name == "index" {
				fail(ErrRuntime, "the value is not in the list")
			}
			return Int(n)
		}
	case "copy":
		return func(r *run, a *args) Value { a.bind(); return l }
	}
	return nil
}

func strMethod(s Str, name string) func(r *run, a *args) Value {
	switch name {
	case "strip", "lstrip", "rstrip":
		return func(r *run, a *args) Value {
			b := a.bind("chars")
			var set []rune
			if _, none := b[0].(None); b[0] != nil && !none {
				set = append([]rune{}, []rune(a.str(b[0]).s)...)
				r.allocItems(len(set))
			}
			return r.strip(s, set, name != "rstrip", name != "lstrip")
		}
	case "upper":
		return func(r *run, a *args) Value {
			a.bind()
			return r.mapRunes(s, func(_ int, c rune) string { return upperRune(c) })
		}
	case "lower":
		return func(r *run, a *args) Value {
			a.bind()
			return r.mapRunes(s, func(_ int, c rune) string { return lowerRune(c) })
		}
	case "capitalize":
		return func(r *run, a *args) Value { a.bind(); return r.capitalize(s) }
	case "title":
		return func(r *run, a *args) Value {
			a.bind()
			inWord := false
			return r.mapRunes(s, func(_ int, c rune) string {
				was := inWord
				if inWord = unicode.IsLetter(c); inWord && !was {
					return titleRune(c)
				}
				return lowerRune(c)
			})
		}
	case "startswith", "endswith":
		return func(r *run, a *args) Value {
			b := a.bind("prefix")
			r.scan(len(s.s))
			options := []Value{b[0]}
			if l, ok := b[0].(*List); ok && l.kind == tupleList {
				options = l.items
			}
			for _, o := range options {
				x := a.str(o).s
				if name == "startswith" && strings.HasPrefix(s.s, x) || name == "endswith" && strings.HasSuffix(s.s, x) {
					return Bool(true)
				}
			}
			return Bool(false)
		}
	case "split", "rsplit":
		return func(r *run, a *args) Value {
			b := a.bind("sep", "maxsplit")
			limit := a.int(b[1], -1)
			if _, none := b[0].(None); b[0] == nil || none {
				return &List{items: r.splitSpace(s, limit, name == "rsplit")}
			}
			return &List{items: r.split(s, a.str(b[0]).s, limit, name == "rsplit")}
		}
	case "splitlines":
		return func(r *run, a *args) Value {
			b := a.bind("keepends")
			return &List{items: r.splitLines(s, b[0] != nil && truth(b[0]))}
		}
	case "replace":
		return func(r *run, a *args) Value {
			b := a.bind("old", "new", "count")
			return r.replace(s, a.str(b[0]), a.str(b[1]), a.int(b[2], -1))
		}
	case "find", "rfind", "index", "rindex", "count":
		return func(r *run, a *args) Value {
			b := a.bind("sub")
			sub := a.str(b[0]).s
			r.scan(len(s.s))
			switch name {
			case "count":
				return Int(strings.Count(s.s, sub))
			case "rfind", "rindex":
				if i := strings.LastIndex(s.s, sub); i >= 0 {
					return Int(utf8.RuneCountInString(s.s[:i]))
				}
			default:
				if i := strings.Index(s.s, sub); i >= 0 {
					return Int(utf8.RuneCountInString(s.s[:i]))
				}
			}
			if name == "index" || name == "rindex" {
				fail(ErrRuntime, "substring not found")
			}
			return Int(-1)
		}
	case "removeprefix", "removesuffix":
		return func(r *run, a *args) Value {
			x := a.str(a.bind("fix")[0]).s
			r.scan(len(s.s) + 16*len(s.lit)) // the marks are copied
			if name == "removeprefix" && strings.HasPrefix(s.s, x) {
				return s.sub(len(x), len(s.s))
			}
			if name == "removesuffix" && strings.HasSuffix(s.s, x) {
				return s.sub(0, len(s.s)-len(x))
			}
			return s
		}
	case "join":
		return func(r *run, a *args) Value {
			b := a.bind("iterable")
			if b[0] == nil {
				fail(ErrRuntime, "join() takes exactly one argument (0 given)")
			}
			w := &builder{r: r}
			for i, e := range r.iter(b[0]) {
				r.step(1)
				if i > 0 {
					w.str(s)
				}
				w.str(a.str(e))
			}
			return w.done()
		}
	case "ljust", "rjust", "center":
		return func(r *run, a *args) Value {
			b := a.bind("width", "fillchar")
			width, fill := a.int(b[0], 0), " "
			if b[1] != nil {
				if fill = a.str(b[1]).s; r.runeLen(Str{s: fill}) != 1 {
					fail(ErrRuntime, "The fill character must be exactly one character long")
				}
			}
			n := max(0, width-r.runeLen(s))
			left := map[string]int{"ljust": 0, "rjust": n, "center": n/2 + n&width&1}[name] // Python's centre leans left or right by the width
			return r.padded(s, fill, left, n-left)
		}
	case "zfill":
		return func(r *run, a *args) Value {
			sp := spec{fill: "0", align: '=', width: a.int(a.bind("width")[0], 0)}
			sign := 0
			if strings.HasPrefix(s.s, "-") || strings.HasPrefix(s.s, "+") {
				sign = 1
			}
			return sp.pad(r, s, '>', sign)
		}
	case "partition", "rpartition":
		return func(r *run, a *args) Value {
			sep := a.str(a.bind("sep")[0])
			if sep.s == "" {
				fail(ErrRuntime, "empty separator")
			}
			r.scan(len(s.s))
			i, parts := strings.Index(s.s, sep.s), []Value{s, Str{}, Str{}}
			if name == "rpartition" {
				i, parts = strings.LastIndex(s.s, sep.s), []Value{Str{}, Str{}, s}
			}
			if i >= 0 {
				parts = []Value{s.sub(0, i), s.sub(i, i+len(sep.s)), s.sub(i+len(sep.s), len(s.s))}
			}
			return r.list(parts, tupleList)
		}
	case "format":
		return func(r *run, a *args) Value { return r.format(s, a) }
	case "isdigit", "isdecimal", "isnumeric", "isalpha", "isalnum", "isspace", "isupper", "islower":
		return func(r *run, a *args) Value { a.bind(); return Bool(r.classify(s.s, name)) }
	}
	return nil
}

func (r *run) capitalize(s Str) Str {
	return r.mapRunes(s, func(i int, c rune) string {
		if i == 0 {
			return titleRune(c)
		}
		return lowerRune(c)
	})
}

// classify is Python's isdigit, isalpha and so on, charged.
func (r *run) classify(s, name string) bool {
	r.step(len(s) / 8) // a look into Unicode's tables for each code point
	cased := false
	for _, c := range s {
		ok := true
		switch name {
		case "isupper":
			ok = !unicode.IsLower(c) && !unicode.IsTitle(c)
			cased = cased || unicode.IsUpper(c)
		case "islower":
			ok = !unicode.IsUpper(c) && !unicode.IsTitle(c)
			cased = cased || unicode.IsLower(c)
		case "isdigit", "isdecimal":
			ok = unicode.IsDigit(c)
		case "isnumeric":
			ok = unicode.IsNumber(c)
		case "isalpha":
			ok = unicode.IsLetter(c)
		case "isalnum":
			ok = unicode.IsLetter(c) || unicode.IsNumber(c)
		case "isspace":
			ok = isSpace(c)
		}
		if !ok {
			return false
		}
	}
	return cased || s != "" && name != "isupper" && name != "islower"
}

// format is str.format with {}, {0}, {name} and the format specifications of parseSpec; conversions and attributes are refused.
func (r *run) format(s Str, a *args) Value {
	r.scan(len(s.s))
	w := &builder{r: r}
	next := 0
	for i := 0; i < len(s.s); {
		switch c := s.s[i]; {
		case c != '{' && c != '}':
			n := strings.IndexAny(s.s[i:], "{}")
			if n < 0 {
				n = len(s.s) - i
			}
			w.str(s.sub(i, i+n))
			i += n
		case i+1 < len(s.s) && s.s[i+1] == c:
			w.str(s.sub(i, i+1))
			i += 2
		case c == '}':
			fail(ErrRuntime, "Single '}' encountered in format string")
		default:
			n := strings.IndexByte(s.s[i:], '}')
			if n < 0 {
				fail(ErrRuntime, "expected '}' before end of string")
			}
			name, format, _ := strings.Cut(s.s[i+1:i+n], ":")
			if v := a.field(name, &next); format == "" {
				w.str(r.toStr(v))
			} else {
				w.str(parseSpec(format).apply(r, v))
			}
			i += n + 1
		}
	}
	return w.done()
}

// field finds the argument that a replacement field names.
func (a *args) field(name string, next *int) Value {
	if name == "" {
		*next++
		if *next > len(a.pos) {
			fail(ErrRuntime, "Replacement index %d out of range for positional args tuple", *next-1)
		}
		return a.pos[*next-1]
	}
	n := 0
	for _, c := range name {
		if c < '0' || c > '9' || n > 1000 {
			for i, k := range a.keys {
				if k == name {
					return a.kw[i]
				}
			}
			fail(ErrUnsupported, "format field {%s}", name)
		}
		n = 10*n + int(c-'0')
	}
	if n >= len(a.pos) {
		fail(ErrRuntime, "Replacement index %d out of range for positional args tuple", n)
	}
	return a.pos[n]
}

// percent is the % operator of strings with %s, %r, %d, %i, %f, %x and %%.
func (r *run) percent(s Str, v Value) Value {
	r.scan(len(s.s))
	vals := []Value{v}
	if l, ok := v.(*List); ok && l.kind == tupleList {
		vals = l.items
	}
	w := &builder{r: r}
	for i := 0; i < len(s.s); {
		n := strings.IndexByte(s.s[i:], '%')
		if n < 0 {
			n = len(s.s) - i
		}
		w.str(s.sub(i, i+n))
		if i += n; i >= len(s.s) {
			break
		}
		if i+1 >= len(s.s) {
			fail(ErrRuntime, "incomplete format")
		}
		if s.s[i+1] == '%' {
			w.text("%")
			i += 2
			continue
		}
		sp, n := percentSpec(s.s[i+1:])
		if len(vals) == 0 {
			fail(ErrRuntime, "not enough arguments for format string")
		}
		w.str(r.percentValue(sp, vals[0]))
		vals = vals[1:]
		i += 1 + n
	}
	if len(vals) > 0 {
		if _, dict := v.(*Dict); !dict {
			fail(ErrRuntime, "not all arguments converted during string formatting")
		}
	}
	return w.done()
}

package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// filters by name; a template that uses another is refused when it is parsed.
var filters map[string]func(r *run, v Value, a *args) Value

func init() {
	filters = map[string]func(r *run, v Value, a *args) Value{
		"trim":       func(r *run, v Value, a *args) Value { return call(r, r.toStr(v), "strip", a) },
		"upper":      func(r *run, v Value, a *args) Value { return call(r, r.toStr(v), "upper", a) },
		"lower":      func(r *run, v Value, a *args) Value { return call(r, r.toStr(v), "lower", a) },
		"title":      filterTitle,
		"capitalize": func(r *run, v Value, a *args) Value { a.bind(); return r.capitalize(r.toStr(v)) },
		"string":     func(r *run, v Value, a *args) Value { a.bind(); return r.toStr(v) },
		"safe":       func(r *run, v Value, a *args) Value { a.bind(); return r.toStr(v).asMarkup() },
		"replace": func(r *run, v Value, a *args) Value {
			b := a.bind("old", "new", "count")
			return r.replace(r.toStr(v), a.str(b[0]), a.str(b[1]), a.int(b[2], -1))
		},
		"length": filterLength, "count": filterLength,
		"first": func(r *run, v Value, a *args) Value {
			a.bind()
			if items := r.iter(v); len(items) > 0 {
				return items[0]
			}
			return Undefined{"No first item, sequence was empty."}
		},
		"last": func(r *run, v Value, a *args) Value {
			a.bind()
			if items := r.iter(v); len(items) > 0 {
				return items[len(items)-1]
			}
			return Undefined{"No last item, sequence was empty."}
		},
		"default": filterDefault, "d": filterDefault,
		"list": func(r *run, v Value, a *args) Value {
			a.bind()
			return r.list(slices.Clone(r.iter(v)), plainList)
		},
		"items": func(r *run, v Value, a *args) Value {
			a.bind()
			switch x := v.(type) {
			case *Dict:
				return &List{items: r.pairs(x).items, kind: genList}
			case Undefined:
				return &List{kind: genList}
			}
			fail(ErrRuntime, "Can only get item pairs from a mapping.")
			return nil
		},
		"dictsort": filterDictsort,
		"join":     filterJoin,
		"tojson":   filterJSON,
		"abs": func(r *run, v Value, a *args) Value {
			i, f, isInt, ok := number(v)
			if !ok {
				fail(ErrRuntime, "bad operand type for abs(): '%s'", v.typeName())
			}
			if isInt && i != math.MinInt64 {
				return Int(max(i, -i))
			}
			return Float(math.Abs(f))
		},
		"int": filterInt, "float": filterFloat, "round": filterRound,
		"reverse": func(r *run, v Value, a *args) Value {
			a.bind()
			if s, ok := v.(Str); ok {
				w := &builder{r: r}
				chars := r.chars(s)
				for i := len(chars) - 1; i >= 0; i-- {
					w.str(chars[i].(Str))
				}
				return w.done()
			}
			items := slices.Clone(r.iter(v))
			slices.Reverse(items)
			return r.list(items, genList)
		},
		"unique": func(r *run, v Value, a *args) Value {
			seen := NewDict()
			var out []Value
			for _, e := range r.iter(v) {
				r.step(1)
				var h any
				if s, ok := e.(Str); ok {
					h = strings.ToLower(s.s)
					r.scan(len(s.s))
				} else {
					h = r.hash(e)
				}
				if seen.find(h) < 0 {
					seen.putRaw(h, e)
					out = append(out, e)
				}
			}
			return r.list(out, genList)
		},
		"sort": filterSort,
		"min":  func(r *run, v Value, a *args) Value { return r.extreme(v, a, false) },
		"max":  func(r *run, v Value, a *args) Value { return r.extreme(v, a, true) },
		"sum": func(r *run, v Value, a *args) Value {
			b := a.bind("attribute", "start")
			var total Value = Int(0)
			if b[1] != nil {
				total = b[1]
			}
			for _, e := range r.iter(v) {
				r.step(1)
				if b[0] != nil {
					e = r.path(e, b[0])
				}
				i, f, aInt, ok := number(total)
				j, g, bInt, ok2 := number(e)
				if !ok || !ok2 {
					fail(ErrRuntime, "unsupported operand type(s) for +: '%s' and '%s'", total.typeName(), e.typeName())
				}
				total = arithmetic("+", i, j, f, g, aInt && bInt)
			}
			return total
		},
		"map":        filterMap,
		"select":     func(r *run, v Value, a *args) Value { return r.selectBy(v, a, false, true) },
		"reject":     func(r *run, v Value, a *args) Value { return r.selectBy(v, a, false, false) },
		"selectattr": func(r *run, v Value, a *args) Value { return r.selectBy(v, a, true, true) },
		"rejectattr": func(r *run, v Value, a *args) Value { return r.selectBy(v, a, true, false) },
		"indent":     filterIndent,
		"escape":     filterEscape, "e": filterEscape,
		"format": func(r *run, v Value, a *args) Value {
			return r.percent(r.toStr(v), &List{items: a.pos, kind: tupleList})
		},
		"attr":      func(r *run, v Value, a *args) Value { return r.attr(v, a.str(a.bind("name")[0]).s) },
		"wordcount": func(r *run, v Value, a *args) Value { a.bind(); return Int(len(r.splitSpace(r.toStr(v), -1, false))) },
		"batch":     filterBatch,
		"slice":     filterSlice,
		"groupby":   filterGroupBy,
		"truncate":  filterTruncate,
		"center": func(r *run, v Value, a *args) Value {
			return call(r, r.toStr(v), "center", &args{name: "center", pos: []Value{Int(a.int(a.bind("width")[0], 80))}})
		},
	}
}

// putRaw puts a value under a ready hash; such a mapping is only looked up by find.
func (d *Dict) putRaw(h any, v Value) {
	if d.index == nil {
		d.index = map[any]int{}
	}
	d.index[h] = len(d.vals)
	d.keys, d.vals = append(d.keys, None{}), append(d.vals, v)
}

func call(r *run, s Str, name string, a *args) Value { return strMethod(s, name)(r, a) }

// filterTitle capitalises what follows white space, a hyphen or an opening bracket; the method title also what follows an apostrophe.
func filterTitle(r *run, v Value, a *args) Value {
	a.bind()
	start := true
	return r.mapRunes(r.toStr(v), func(_ int, c rune) string {
		was := start
		if start = isSpace(c) || strings.ContainsRune("-({[<", c); start || !was {
			return lowerRune(c)
		}
		return upperRune(c)
	})
}

func filterLength(r *run, v Value, a *args) Value {
	a.bind()
	switch x := v.(type) {
	case Str:
		return Int(r.runeLen(x))
	case *Dict:
		return Int(len(x.keys))
	case *List:
		if x.kind != genList {
			return Int(len(x.items))
		}
	case Undefined:
		return Int(0)
	}
	fail(ErrRuntime, "object of type '%s' has no len()", v.typeName())
	return nil
}

func filterDefault(r *run, v Value, a *args) Value {
	b := a.bind("default_value", "boolean")
	_, undefined := v.(Undefined)
	if undefined || b[1] != nil && truth(b[1]) && !truth(v) {
		if b[0] == nil {
			return Str{}
		}
		return b[0]
	}
	return v
}

func filterJoin(r *run, v Value, a *args) Value {
	b := a.bind("d", "attribute")
	var sep Str
	if b[0] != nil {
		sep = r.toStr(b[0])
	}
	w := &builder{r: r}
	for i, e := range r.iter(v) {
		r.step(1)
		if i > 0 {
			w.str(sep)
		}
		if b[1] != nil {
			e = r.path(e, b[1])
		}
		w.str(r.toStr(e))
	}
	return w.done()
}

func filterJSON(r *run, v Value, a *args) Value {
	b := a.bind("indent", "ensure_ascii", "separators", "sort_keys")
	if _, undefined := v.(Undefined); undefined {
		fail(ErrRuntime, "Object of type Undefined is not JSON serializable")
	}
	o := jsonOptions{item: ", ", key: ": "}
	switch x := b[0].(type) {
	case nil, None:
	case Int:
		o.pretty, o.item, o.indent = true, ",", strings.Repeat(" ", int(max(0, min(x, 100))))
	case Str:
		o.pretty, o.item, o.indent = true, ",", x.s
	default:
		fail(ErrRuntime, "tojson: indent must be an integer or a string")
	}
	o.ascii = b[1] != nil && truth(b[1])
	if l, ok := b[2].(*List); ok && len(l.items) == 2 {
		o.item, o.key = a.str(l.items[0]).s, a.str(l.items[1]).s
	}
	o.sortKeys = b[3] != nil && truth(b[3])
	w := &builder{r: r}
	r.json(w, v, o, 0)
	return w.done()
}

// order lists a mapping's entries, by key if sorted.
func (r *run) order(d *Dict, sorted bool) []int {
	out := make([]int, len(d.keys))
	for i := range out {
		out[i] = i
	}
	if sorted {
		slices.SortStableFunc(out, func(i, j int) int { return r.compare(d.keys[i], d.keys[j]) })
	}
	return out
}

func (r *run) compare(a, b Value) int {
	r.step(1)
	switch {
	case r.less(a, b, "<"):
		return -1
	case r.less(b, a, "<"):
		return 1
	}
	return 0
}

// folded is a value as sorting without regard to case sees it.
func (r *run) folded(v Value) Value {
	if s, ok := v.(Str); ok {
		r.alloc(len(s.s))
		return Str{s: strings.ToLower(s.s)}
	}
	return v
}

func filterDictsort(r *run, v Value, a *args) Value {
	b := a.bind("case_sensitive", "by", "reverse")
	d, ok := v.(*Dict)
	if !ok {
		fail(ErrRuntime, "dictsort needs a mapping, not %s", v.typeName())
	}
	at := 0
	if b[1] != nil && a.str(b[1]).s == "value" {
		at = 1
	}
	items := slices.Clone(r.pairs(d).items)
	r.sort(items, b[0] != nil && truth(b[0]), b[2] != nil && truth(b[2]), func(v Value) Value { return v.(*List).items[at] })
	return r.list(items, plainList)
}

func (r *run) sort(items []Value, caseSensitive, reverse bool, key func(Value) Value) {
	if !caseSensitive {
		inner := key
		key = func(v Value) Value { return r.folded(inner(v)) }
	}
	slices.SortStableFunc(items, func(x, y Value) int {
		if reverse {
			return r.compare(key(y), key(x))
		}
		return r.compare(key(x), key(y))
	})
}

func filterSort(r *run, v Value, a *args) Value {
	b := a.bind("reverse", "case_sensitive", "attribute")
	items := slices.Clone(r.iter(v))
	r.sort(items, b[1] != nil && truth(b[1]), b[0] != nil && truth(b[0]), func(v Value) Value {
		if b[2] != nil {
			return r.path(v, b[2])
		}
		return v
	})
	return r.list(items, plainList)
}

func (r *run) extreme(v Value, a *args, most bool) Value {
	b := a.bind("case_sensitive", "attribute")
	var best, bestKey Value
	for _, e := range r.iter(v) {
		k := e
		if b[1] != nil {
			k = r.path(e, b[1])
		}
		if b[0] == nil || !truth(b[0]) {
			k = r.folded(k)
		}
		if best == nil || most && r.compare(bestKey, k) < 0 || !most && r.compare(k, bestKey) < 0 {
			best, bestKey = e, k
		}
	}
	if best == nil {
		return Undefined{"No aggregated item, sequence was empty."}
	}
	return best
}

// path follows "a.b.0" from v.
func (r *run) path(v, path Value) Value {
	s, ok := path.(Str)
	if !ok {
		return r.item(v, path)
	}
	r.scan(len(s.s))
	for _, part := range strings.Split(s.s, ".") {
		r.step(1)
		if u, bad := v.(Undefined); bad {
			r.undefined(u)
		}
		if n, err := strconv.Atoi(part); err == nil {
			v = r.item(v, Int(n))
		} else {
			v = r.item(v, Text(part))
		}
	}
	return v
}

func filterInt(r *run, v Value, a *args) Value {
	b := a.bind("default", "base")
	if i, f, isInt, ok := number(v); isInt && ok {
		return Int(i)
	} else if ok && math.Abs(f) < 1<<62 {
		return Int(int64(f))
	}
	if s, ok := v.(Str); ok {
		r.step(len(s.s) / 8) // reading a number takes longer than a scan
		text := strings.ReplaceAll(strings.TrimSpace(s.s), "_", "")
		base := a.int(b[1], 10)
		if prefix, ok := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; ok && strings.HasPrefix(strings.ToLower(strings.TrimLeft(text, "+-")), prefix) {
			base = 0 // Go takes a prefix only so
		}
		if n, err := strconv.ParseInt(text, base, 64); err == nil {
			return Int(n)
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1<<62 {
			return Int(int64(f))
		}
	}
	if b[0] == nil {
		return Int(0)
	}
	return b[0]
}

func filterFloat(r *run, v Value, a *args) Value {
	b := a.bind("default")
	if _, f, _, ok := number(v); ok {
		return Float(f)
	}
	if s, ok := v.(Str); ok {
		r.step(len(s.s) / 8) // reading a number takes longer than a scan
		if f, err := strconv.ParseFloat(strings.TrimSpace(s.s), 64); err == nil {
			return Float(f)
		}
	}
	if b[0] == nil {
		return Float(0)
	}
	return b[0]
}

func filterRound(r *run, v Value, a *args) Value {
	b := a.bind("precision", "method")
	_, f, _, ok := number(v)
	if !ok {
		fail(ErrRuntime, "type %s doesn't define __round__ method", v.typeName())
	}
	scale := math.Pow(10, float64(max(-20, min(20, a.int(b[0], 0)))))
	method := "common"
	if b[1] != nil {
		method = a.str(b[1]).s
	}
	switch method {
	case "common":
		return Float(math.RoundToEven(f*scale) / scale)
	case "ceil":
		return Float(math.Ceil(f*scale) / scale)
	case "floor":
		return Float(math.Floor(f*scale) / scale)
	}
	fail(ErrRuntime, "method must be common, ceil or floor")
	return nil
}

func filterMap(r *run, v Value, a *args) Value {
	var f func(Value) Value
	if len(a.pos) == 0 {
		b := a.bind("attribute", "default")
		if b[0] == nil {
			fail(ErrRuntime, "map requires a filter argument")
		}
		f = func(e Value) Value {
			x := r.path(e, b[0])
			if _, undefined := x.(Undefined); undefined && b[1] != nil {
				return b[1]
			}
			return x
		}
	} else {
		name := a.str(a.pos[0]).s
		fn, ok := filters[name]
		if !ok {
			fail(ErrUnsupported, "filter %q", name)
		}
		f = func(e Value) Value { return fn(r, e, &args{name: name, pos: a.pos[1:], keys: a.keys, kw: a.kw}) }
	}
	var out []Value
	for _, e := range r.iter(v) {
		r.step(1)
		out = append(out, f(e))
	}
	return r.list(out, genList)
}

// selectBy keeps the items (or those whose attribute) for which a test, truth by default, says want.
func (r *run) selectBy(v Value, a *args, attr, want bool) Value {
	pos := a.pos
	var path Value
	if attr {
		if len(pos) == 0 {
			fail(ErrRuntime, "missing parameter for attribute name")
		}
		path, pos = pos[0], pos[1:]
	}
	test := func(_ *run, v Value, _ []Value) bool { return truth(v) }
	if len(pos) > 0 {
		name := a.str(pos[0]).s
		fn, ok := tests[name]
		if !ok {
			fail(ErrUnsupported, "test %q", name)
		}
		test, pos = fn, pos[1:]
	}
	var out []Value
	for _, e := range r.iter(v) {
		r.step(1)
		x := e
		if attr {
			x = r.path(e, path)
		}
		if test(r, x, pos) == want {
			out = append(out, e)
		}
	}
	return r.list(out, genList)
}

func filterIndent(r *run, v Value, a *args) Value {
	b := a.bind("width", "first", "blank")
	indent := Str{s: "    "}
	switch x := b[0].(type) {
	case Int:
		indent.s = strings.Repeat(" ", int(max(0, min(x, 1000))))
	case Str:
		indent = x
	}
	first, blank := b[1] != nil && truth(b[1]), b[2] != nil && truth(b[2])
	w := &builder{r: r}
	s := r.toStr(v)
	for i, line := range r.split(s, "\n", -1, false) {
		r.step(1)
		l := line.(Str)
		if i > 0 {
			w.text("\n")
		}
		if i == 0 && first || i > 0 && (blank || l.s != "") {
			w.str(indent)
		}
		w.str(l)
	}
	return w.done()
}

func filterEscape(r *run, v Value, a *args) Value {
	a.bind()
	return r.escape(r.toStr(v))
}

// escape replaces what HTML reads as more than text, but not in what is marked as HTML already.
func (r *run) escape(s Str) Str {
	if s.markup {
		return s
	}
	return r.mapRunes(s, func(_ int, c rune) string {
		switch c {
		case '&':
			return "&amp;"
		case '<':
			return "&lt;"
		case '>':
			return "&gt;"
		case '"':
			return "&#34;"
		case '\'':
			return "&#39;"
		}
		return string(c)
	}).asMarkup()
}

func filterBatch(r *run, v Value, a *args) Value {
	b := a.bind("linecount", "fill_with")
	n := a.int(b[0], 0)
	if n <= 0 {
		fail(ErrRuntime, "batch needs a positive number")
	}
	var out []Value
	items := r.iter(v)
	for len(items) > 0 {
		take := min(n, len(items))
		part := slices.Clone(items[:take])
		if b[1] != nil {
			for len(part) < n {
				r.allocItems(1)
				part = append(part, b[1])
			}
		}
		out, items = append(out, r.list(part, plainList)), items[take:]
	}
	return r.list(out, genList)
}

// filterSlice cuts a list into a number of columns, the first ones one longer where it doesn't divide.
func filterSlice(r *run, v Value, a *args) Value {
	b := a.bind("slices", "fill_with")
	items, n := r.iter(v), a.int(b[0], 0)
	if n <= 0 {
		fail(ErrRuntime, "slice needs a positive number")
	}
	each, longer := len(items)/n, len(items)%n
	var out []Value
	for i := range n {
		r.allocItems(2)
		take := each
		if i < longer {
			take++
		}
		part := slices.Clone(items[:take])
		items = items[take:]
		if _, none := b[1].(None); b[1] != nil && !none && i >= longer {
			part = append(part, b[1])
		}
		out = append(out, r.list(part, plainList))
	}
	return r.list(out, genList)
}

// groupNote marks the tuples that groupby makes.
const groupNote = "group"

// filterGroupBy sorts by an attribute and gives tuples (grouper, list), which have these names too.
func filterGroupBy(r *run, v Value, a *args) Value {
	b := a.bind("attribute", "default", "case_sensitive")
	if b[0] == nil {
		fail(ErrRuntime, "groupby needs an attribute")
	}
	sensitive := b[2] != nil && truth(b[2])
	key := func(e Value) Value {
		k := r.path(e, b[0])
		if _, undefined := k.(Undefined); undefined && b[1] != nil {
			k = b[1]
		}
		return k
	}
	seen := func(k Value) Value {
		if sensitive {
			return k
		}
		return r.folded(k)
	}
	items := slices.Clone(r.iter(v))
	r.sort(items, sensitive, false, key)
	var out []Value
	for len(items) > 0 {
		n, first := 1, key(items[0])
		for n < len(items) && r.equal(seen(first), seen(key(items[n]))) {
			n++
		}
		group := r.list([]Value{first, r.list(slices.Clone(items[:n]), plainList)}, tupleList)
		group.note = groupNote
		out, items = append(out, group), items[n:]
	}
	return r.list(out, plainList)
}

func filterTruncate(r *run, v Value, a *args) Value {
	b := a.bind("length", "killwords", "end", "leeway")
	s, length, end, leeway := r.toStr(v), a.int(b[0], 255), Str{s: "..."}, a.int(b[3], 5)
	if b[2] != nil {
		end = a.str(b[2])
	}
	short := length - r.runeLen(end)
	if short < 0 || leeway < 0 {
		fail(ErrRuntime, "truncate: expected length >= %d and leeway >= 0, got %d and %d", r.runeLen(end), length, leeway)
	}
	if r.runeLen(s) <= length+leeway {
		return s
	}
	cut := s.sub(0, offset(s.s, short))
	if b[1] == nil || !truth(b[1]) {
		if i := strings.LastIndexByte(cut.s, ' '); i >= 0 {
			cut = cut.sub(0, i)
		}
	}
	w := &builder{r: r}
	w.str(cut)
	w.str(end)
	return w.done()
}

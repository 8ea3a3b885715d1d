package jinja

import (
	"math"
	"strings"
)

type (
	constExpr struct{ v Value }
	nameExpr  struct {
		name string
		line int
	}
	listExpr struct {
		items []expr
		kind  listKind
	}
	dictExpr  struct{ keys, vals []expr }
	condExpr  struct{ then, cond, otherwise expr }
	logicExpr struct {
		a, b expr
		or   bool
	}
	notExpr     struct{ e expr }
	compareExpr struct {
		first expr
		ops   []string
		rest  []expr
	}
	binaryExpr struct {
		op   string
		a, b expr
	}
	unaryExpr struct {
		op string
		e  expr
	}
	attrExpr struct {
		of   expr
		name string
	}
	indexExpr struct{ of, index expr }
	sliceExpr struct {
		of    expr
		parts [3]expr
	}
	callExpr struct {
		fn   expr
		args []expr
		keys []string
		kw   []expr
		line int
	}
	filterExpr struct {
		name string
		fn   func(r *run, v Value, a *args) Value
		of   expr
		call *callExpr // arguments, or nil
		line int
	}
	testExpr struct {
		name string
		fn   func(r *run, v Value, a []Value) bool
		of   expr
		args []expr
	}
)

func (e *constExpr) eval(*run, *scope) Value { return e.v }

func (e *nameExpr) eval(r *run, sc *scope) Value {
	r.step(1)
	if v, ok := sc.get(r, e.name); ok {
		return v
	}
	return Undefined{"'" + e.name + "' is undefined"}
}

func (e *listExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	items := make([]Value, len(e.items))
	for i, x := range e.items {
		items[i] = x.eval(r, sc)
	}
	return r.list(items, e.kind)
}

func (e *dictExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	d := NewDict()
	r.allocItems(3 * len(e.keys))
	for i, k := range e.keys {
		key := k.eval(r, sc)
		d.put(key, r.hash(key), e.vals[i].eval(r, sc))
	}
	return d
}

func (e *condExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	if truth(e.cond.eval(r, sc)) {
		return e.then.eval(r, sc)
	}
	if e.otherwise == nil {
		return Undefined{"the inline if-expression evaluated to false and no else section was defined"}
	}
	return e.otherwise.eval(r, sc)
}

func (e *logicExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	a := e.a.eval(r, sc)
	if truth(a) == e.or {
		return a
	}
	return e.b.eval(r, sc)
}

func (e *notExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	return Bool(!truth(e.e.eval(r, sc)))
}

func (e *compareExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	a := e.first.eval(r, sc)
	for i, op := range e.ops {
		b := e.rest[i].eval(r, sc)
		var ok bool
		switch op {
		case "==":
			ok = r.equal(a, b)
		case "!=":
			ok = !r.equal(a, b)
		case "<":
			ok = r.less(a, b, op)
		case ">":
			ok = r.less(b, a, op)
		case "<=":
			ok = !r.less(b, a, op)
		case ">=":
			ok = !r.less(a, b, op)
		case "in":
			ok = r.contains(b, a)
		default:
			ok = !r.contains(b, a)
		}
		if !ok {
			return Bool(false)
		}
		a = b
	}
	return Bool(true)
}

func (r *run) contains(in, v Value) bool {
	switch x := in.(type) {
	case Str:
		s, ok := v.(Str)
		if !ok {
			fail(ErrRuntime, "'in <string>' requires string as left operand, not %s", v.typeName())
		}
		r.scan(len(x.s))
		return strings.Contains(x.s, s.s)
	case *Dict:
		return x.find(r.hash(v)) >= 0
	case *List:
		for _, e := range r.iter(x) {
			r.step(1)
			if r.equal(e, v) {
				return true
			}
		}
		return false
	case Undefined:
		return false
	}
	fail(ErrRuntime, "argument of type '%s' is not iterable", in.typeName())
	return false
}

func (e *unaryExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	v := e.e.eval(r, sc)
	i, f, isInt, ok := number(v)
	switch {
	case !ok:
		if u, bad := v.(Undefined); bad {
			r.undefined(u)
		}
		fail(ErrRuntime, "bad operand type for unary %s: '%s'", e.op, v.typeName())
	case e.op == "+" && isInt:
		return Int(i)
	case e.op == "+":
		return Float(f)
	case isInt && i != math.MinInt64:
		return Int(-i)
	}
	return Float(-f)
}

func (e *binaryExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	a := e.a.eval(r, sc)
	b := e.b.eval(r, sc)
	if e.op == "~" {
		w := &builder{r: r}
		w.str(r.toStr(a))
		w.str(r.toStr(b))
		return w.done()
	}
	i, f, aInt, aNum := number(a)
	j, g, bInt, bNum := number(b)
	switch {
	case aNum && bNum:
		return arithmetic(e.op, i, j, f, g, aInt && bInt)
	case e.op == "+":
		if x, ok := a.(Str); ok {
			if y, ok := b.(Str); ok {
				if x.markup || y.markup {
					x, y = r.escape(x), r.escape(y)
				}
				w := &builder{r: r}
				w.str(x)
				w.str(y)
				s := w.done()
				s.markup = x.markup
				return s
			}
		}
		x, ok := a.(*List)
		y, ok2 := b.(*List)
		if ok && ok2 && x.kind == y.kind && x.kind <= tupleList {
			items := append(append(make([]Value, 0, len(x.items)+len(y.items)), x.items...), y.items...)
			return r.list(items, x.kind)
		}
	case e.op == "*":
		if bInt {
			if v, ok := r.repeat(a, j); ok {
				return v
			}
		} else if aInt {
			if v, ok := r.repeat(b, i); ok {
				return v
			}
		}
	case e.op == "%":
		if s, ok := a.(Str); ok {
			return r.percent(s, b)
		}
	}
	for _, v := range []Value{a, b} {
		if u, ok := v.(Undefined); ok {
			r.undefined(u)
		}
	}
	if s, ok := a.(Str); ok && e.op == "+" {
		_ = s
		fail(ErrRuntime, "can only concatenate str (not \"%s\") to str", b.typeName())
	}
	fail(ErrRuntime, "unsupported operand type(s) for %s: '%s' and '%s'", e.op, a.typeName(), b.typeName())
	return nil
}

// repeat is a sequence times n.
func (r *run) repeat(v Value, n int64) (Value, bool) {
	n = max(n, 0)
	switch x := v.(type) {
	case Str:
		if x.s != "" && n > r.bytes/int64(len(x.s)) {
			r.overBytes()
		}
		w := &builder{r: r}
		for range n {
			if x.s == "" {
				break
			}
			r.step(1)
			w.str(x)
		}
		return w.done(), true
	case *List:
		if x.kind > tupleList {
			return nil, false
		}
		if len(x.items) > 0 && n > r.bytes/int64(16*len(x.items)) {
			r.overBytes()
		}
		var items []Value
		for range n {
			if len(x.items) == 0 {
				break
			}
			r.step(1)
			items = append(items, x.items...)
		}
		return r.list(items, x.kind), true
	}
	return nil, false
}

func arithmetic(op string, i, j int64, f, g float64, ints bool) Value {
	if (op == "/" || op == "//" || op == "%") && g == 0 {
		fail(ErrRuntime, "division by zero")
	}
	if ints && op != "/" {
		switch op {
		case "+":
			if s := i + j; (s > i) == (j > 0) {
				return Int(s)
			}
		case "-":
			if s := i - j; (s < i) == (j > 0) {
				return Int(s)
			}
		case "*":
			if p := i * j; i == 0 || (p/i == j && !(i == -1 && j == math.MinInt64)) {
				return Int(p)
			}
		case "//":
			q := i / j
			if i%j != 0 && (i < 0) != (j < 0) {
				q--
			}
			return Int(q)
		case "%":
			m := i % j
			if m != 0 && (m < 0) != (j < 0) {
				m += j
			}
			return Int(m)
		case "**":
			if j >= 0 {
				p := math.Pow(f, g)
				if math.Abs(p) < 1<<53 {
					return Int(int64(p))
				}
				break
			}
			return Float(math.Pow(f, g))
		}
		fail(ErrUnsupported, "integers beyond 64 bits")
	}
	switch op {
	case "+":
		return Float(f + g)
	case "-":
		return Float(f - g)
	case "*":
		return Float(f * g)
	case "/":
		return Float(f / g)
	case "//":
		return Float(math.Floor(f / g))
	case "%":
		m := math.Mod(f, g)
		if m != 0 && (m < 0) != (g < 0) {
			m += g
		}
		return Float(m)
	}
	return Float(math.Pow(f, g))
}

func (e *attrExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	v := e.of.eval(r, sc)
	if u, ok := v.(Undefined); ok {
		r.undefined(u)
	}
	return r.attr(v, e.name)
}

// attr is v.name: a method first, then an entry.
func (r *run) attr(v Value, name string) Value {
	r.scan(len(name))
	switch x := v.(type) {
	case *loop:
		if a, ok := x.attr(name); ok {
			return a
		}
	case *namespace:
		if a, ok := x.attrs.Get(name); ok {
			return a
		}
	case *macro:
		if name == "name" {
			return Text(x.name)
		}
	case *List:
		if x.note == groupNote && name == "grouper" {
			return x.items[0]
		}
		if x.note == groupNote && name == "list" {
			return x.items[1]
		}
	}
	if m := method(v, name); m != nil {
		return m
	}
	if d, ok := v.(*Dict); ok {
		if a, ok := d.Get(name); ok {
			return a
		}
	}
	return missing(v, name)
}

// missing is the value of an attribute that isn't there; its hint shows the beginning of a long name.
func missing(v Value, name string) Value {
	if len(name) > maxShown {
		name = strings.ToValidUTF8(name[:maxShown], "") + "…"
	}
	return Undefined{"'" + v.typeName() + " object' has no attribute '" + name + "'"}
}

func (e *indexExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	v := e.of.eval(r, sc)
	i := e.index.eval(r, sc)
	if u, ok := v.(Undefined); ok {
		r.undefined(u)
	}
	return r.item(v, i)
}

// item is v[i].
func (r *run) item(v, i Value) Value {
	switch x := v.(type) {
	case *Dict:
		if u, ok := i.(Undefined); ok {
			return Undefined{u.message()}
		}
		if at := x.find(r.hash(i)); at >= 0 {
			return x.vals[at]
		}
	case *List:
		if n, ok := i.(Int); ok && x.kind != genList && x.kind != viewList {
			if n < 0 {
				n += Int(len(x.items))
			}
			if n >= 0 && int(n) < len(x.items) {
				return x.items[n]
			}
		}
	case Str:
		if n, ok := i.(Int); ok {
			length := r.runeLen(x)
			if n < 0 {
				n += Int(length)
			}
			if n >= 0 && int(n) < length {
				lo := offset(x.s, int(n))
				return x.sub(lo, lo+len(x.s[lo:])-len(x.s[offset(x.s, int(n)+1):]))
			}
		}
	}
	if s, ok := i.(Str); ok {
		return r.attr(v, s.s)
	}
	return missing(v, r.toStr(i).s)
}

func (e *sliceExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	v := e.of.eval(r, sc)
	var at [3]*int
	for i, p := range e.parts {
		if p == nil {
			continue
		}
		switch x := p.eval(r, sc).(type) {
		case None:
		case Int:
			n := int(max(min(x, 1<<40), -(1 << 40)))
			at[i] = &n
		default:
			fail(ErrRuntime, "slice indices must be integers or None or have an __index__ method")
		}
	}
	switch x := v.(type) {
	case Str:
		n := r.runeLen(x)
		lo, hi, step := sliceBounds(n, at)
		if step == 1 {
			return x.sub(offset(x.s, lo), offset(x.s, max(lo, hi)))
		}
		chars := r.chars(x)
		w := &builder{r: r}
		for _, i := range sliceIndices(r, lo, hi, step) {
			w.str(chars[i].(Str))
		}
		return w.done()
	case *List:
		if x.kind == genList || x.kind == viewList {
			break
		}
		lo, hi, step := sliceBounds(len(x.items), at)
		var items []Value
		for _, i := range sliceIndices(r, lo, hi, step) {
			items = append(items, x.items[i])
		}
		return r.list(items, x.kind)
	case Undefined:
		r.undefined(x)
	}
	fail(ErrRuntime, "'%s' object is not subscriptable", v.typeName())
	return nil
}

// sliceBounds is Python's slice.indices.
func sliceBounds(n int, at [3]*int) (lo, hi, step int) {
	step = 1
	if at[2] != nil {
		step = *at[2]
	}
	if step == 0 {
		fail(ErrRuntime, "slice step cannot be zero")
	}
	least, most := 0, n
	if step < 0 {
		least, most = -1, n-1
	}
	bound := func(p *int, def int) int {
		if p == nil {
			return def
		}
		i := *p
		if i < 0 {
			i += n
		}
		return min(max(i, least), most)
	}
	if step > 0 {
		return bound(at[0], 0), bound(at[1], n), step
	}
	return bound(at[0], n-1), bound(at[1], -1), step
}

func sliceIndices(r *run, lo, hi, step int) []int {
	var out []int
	for i := lo; step > 0 && i < hi || step < 0 && i > hi; i += step {
		r.step(1)
		out = append(out, i)
	}
	return out
}

func (e *callExpr) arguments(r *run, sc *scope) *args {
	a := &args{}
	for _, x := range e.args {
		a.pos = append(a.pos, x.eval(r, sc))
	}
	a.keys = e.keys
	for _, x := range e.kw {
		a.kw = append(a.kw, x.eval(r, sc))
	}
	return a
}

func (e *callExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	fn := e.fn.eval(r, sc)
	a := e.arguments(r, sc)
	switch f := fn.(type) {
	case *function:
		a.name = f.name
		return f.call(r, a)
	case *macro:
		return f.call(r, a, nil)
	case Undefined:
		r.undefined(f)
	}
	fail(ErrRuntime, "'%s' object is not callable", fn.typeName())
	return nil
}

func (e *filterExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	return e.apply(r, sc, e.of.eval(r, sc))
}

func (e *filterExpr) apply(r *run, sc *scope, v Value) Value {
	a := &args{}
	if e.call != nil {
		a = e.call.arguments(r, sc)
	}
	a.name = e.name
	return e.fn(r, v, a)
}

func (e *testExpr) eval(r *run, sc *scope) Value {
	r.enter()
	defer r.leave()
	v := e.of.eval(r, sc)
	var a []Value
	for _, x := range e.args {
		a = append(a, x.eval(r, sc))
	}
	return Bool(e.fn(r, v, a))
}

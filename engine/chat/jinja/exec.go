package jinja

// signal says how a statement ended.
type signal uint8

const (
	sigNone signal = iota
	sigBreak
	sigContinue
)

type (
	textStmt   struct{ s string }
	outputStmt struct {
		e    expr
		line int
	}
	lineStmt struct {
		stmt
		line int
	}
	blockStmt struct{ body []stmt }
	jumpStmt  struct{ sig signal }
	ifStmt    struct {
		conds  []expr
		bodies [][]stmt // one more than conds with an else
	}
	forStmt struct {
		targets         []string
		iter, cond      expr
		body, otherwise []stmt
	}
	setStmt struct {
		names   []string
		attr    string // of a namespace
		value   expr
		filters []*filterExpr // of a block set
		body    []stmt
	}
	macroStmt struct {
		name     string
		params   []string
		defaults []expr
		body     []stmt
	}
	callStmt struct {
		call *callExpr
		body *macroStmt
	}
	filterStmt struct {
		filters []*filterExpr
		body    []stmt
	}
	withStmt struct {
		names  []string
		values []expr
		body   []stmt
	}
)

func (r *run) exec(body []stmt, sc *scope, w *builder) signal {
	r.enter()
	defer r.leave()
	for _, s := range body {
		r.step(1)
		if sig := s.exec(r, sc, w); sig != sigNone {
			return sig
		}
	}
	return sigNone
}

func (s *textStmt) exec(_ *run, _ *scope, w *builder) signal {
	w.text(s.s)
	return sigNone
}

func (s *outputStmt) exec(r *run, sc *scope, w *builder) signal {
	r.line = s.line
	w.str(r.toStr(s.e.eval(r, sc)))
	return sigNone
}

func (s *lineStmt) exec(r *run, sc *scope, w *builder) signal {
	r.line = s.line
	return s.stmt.exec(r, sc, w)
}

func (s *blockStmt) exec(r *run, sc *scope, w *builder) signal { return r.exec(s.body, sc, w) }
func (s *jumpStmt) exec(*run, *scope, *builder) signal         { return s.sig }

func (s *ifStmt) exec(r *run, sc *scope, w *builder) signal {
	for i, c := range s.conds {
		if truth(c.eval(r, sc)) {
			return r.exec(s.bodies[i], sc, w)
		}
	}
	if len(s.bodies) > len(s.conds) {
		return r.exec(s.bodies[len(s.conds)], sc, w)
	}
	return sigNone
}

// assign gives names the value, or its items if there are several names.
func (r *run) assign(sc *scope, names []string, v Value) {
	if len(names) == 1 {
		sc.set(names[0], v)
		return
	}
	items := r.iter(v)
	if len(items) != len(names) {
		fail(ErrRuntime, "cannot unpack %d values into %d names", len(items), len(names))
	}
	for i, n := range names {
		sc.set(n, items[i])
	}
}

// loop is the loop variable.
type loop struct {
	items []Value
	at    int
	last  Value // of changed()
}

func (s *forStmt) exec(r *run, sc *scope, w *builder) signal {
	items := r.iter(s.iter.eval(r, sc))
	if s.cond != nil {
		var kept []Value
		for _, v := range items {
			r.step(1)
			inner := &scope{parent: sc}
			r.assign(inner, s.targets, v)
			if truth(s.cond.eval(r, inner)) {
				r.allocItems(1)
				kept = append(kept, v)
			}
		}
		items = kept
	}
	if len(items) == 0 {
		return r.exec(s.otherwise, &scope{parent: sc}, w)
	}
	l := &loop{items: items}
	for i, v := range items {
		r.step(1)
		l.at = i
		inner := &scope{parent: sc}
		inner.set("loop", l)
		r.assign(inner, s.targets, v)
		if r.exec(s.body, inner, w) == sigBreak {
			break
		}
	}
	return sigNone
}

func (l *loop) attr(name string) (Value, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return Int(l.at + 1), true
	case "index0":
		return Int(l.at), true
	case "revindex":
		return Int(n - l.at), true
	case "revindex0":
		return Int(n - l.at - 1), true
	case "first":
		return Bool(l.at == 0), true
	case "last":
		return Bool(l.at == n-1), true
	case "length":
		return Int(n), true
	case "depth":
		return Int(1), true
	case "depth0":
		return Int(0), true
	case "previtem":
		if l.at > 0 {
			return l.items[l.at-1], true
		}
		return Undefined{"there is no previous item"}, true
	case "nextitem":
		if l.at+1 < n {
			return l.items[l.at+1], true
		}
		return Undefined{"there is no next item"}, true
	case "cycle":
		return &function{"cycle", func(r *run, a *args) Value {
			if len(a.pos) == 0 {
				fail(ErrRuntime, "no items for cycling given")
			}
			return a.pos[l.at%len(a.pos)]
		}}, true
	case "changed":
		return &function{"changed", func(r *run, a *args) Value {
			now := r.list(a.pos, tupleList)
			was := l.last
			l.last = now
			return Bool(was == nil || !r.equal(was, now))
		}}, true
	}
	return nil, false
}

// capture runs a body into a string.
func (r *run) capture(body []stmt, sc *scope) Str {
	w := &builder{r: r}
	r.exec(body, sc, w)
	return w.done()
}

func (s *setStmt) exec(r *run, sc *scope, w *builder) signal {
	var v Value
	if s.value != nil {
		v = s.value.eval(r, sc)
	} else {
		v = r.capture(s.body, &scope{parent: sc})
		for _, f := range s.filters {
			v = f.apply(r, sc, v)
		}
	}
	if s.attr == "" {
		r.assign(sc, s.names, v)
		return sigNone
	}
	target, _ := sc.get(r, s.names[0])
	ns, ok := target.(*namespace)
	if !ok {
		fail(ErrRuntime, "cannot assign attribute on non-namespace object %q", s.names[0])
	}
	r.allocItems(1)
	ns.attrs.Set(Text(s.attr), v)
	return sigNone
}

// macro is a callable piece of template; it sees the names of the place where it is defined.
type macro struct {
	*macroStmt
	sc *scope
}

func (s *macroStmt) exec(_ *run, sc *scope, _ *builder) signal {
	sc.set(s.name, &macro{s, sc})
	return sigNone
}

func (m *macro) call(r *run, a *args, caller *macro) Value {
	if r.calls++; r.calls > r.limits.Calls {
		fail(ErrLimit, "macro calls nest deeper than %d", r.limits.Calls)
	}
	defer func() { r.calls-- }()
	a.name = m.name
	values := a.bind(m.params...)
	sc := &scope{parent: m.sc}
	for i, name := range m.params {
		switch {
		case values[i] != nil:
			sc.set(name, values[i])
		case m.defaults[i] != nil:
			sc.set(name, m.defaults[i].eval(r, sc))
		default:
			sc.set(name, Undefined{"parameter '" + name + "' was not provided"})
		}
	}
	if caller != nil {
		sc.set("caller", caller)
	}
	return r.capture(m.body, sc)
}

func (s *callStmt) exec(r *run, sc *scope, w *builder) signal {
	fn, ok := s.call.fn.eval(r, sc).(*macro)
	if !ok {
		fail(ErrRuntime, "a call block needs a macro")
	}
	w.str(r.toStr(fn.call(r, s.call.arguments(r, sc), &macro{s.body, sc})))
	return sigNone
}

func (s *filterStmt) exec(r *run, sc *scope, w *builder) signal {
	var v Value = r.capture(s.body, &scope{parent: sc})
	for _, f := range s.filters {
		v = f.apply(r, sc, v)
	}
	w.str(r.toStr(v))
	return sigNone
}

func (s *withStmt) exec(r *run, sc *scope, w *builder) signal {
	inner := &scope{parent: sc}
	for i, n := range s.names {
		inner.set(n, s.values[i].eval(r, sc))
	}
	return r.exec(s.body, inner, w)
}

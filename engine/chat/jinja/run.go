package jinja

import "slices"

// run is the state of one rendering: what is left of its budgets.
type run struct {
	steps, bytes int64
	limits       Limits
	line         int
	depth, calls int
}

func (r *run) step(n int) {
	if r.steps -= int64(n); r.steps < 0 {
		fail(ErrLimit, "the template does more than %d steps", r.limits.Steps)
	}
}

// scan charges a walk over n bytes.
func (r *run) scan(n int) { r.step(n / 32) }

func (r *run) alloc(n int) {
	if r.bytes -= int64(n); r.bytes < 0 {
		r.overBytes()
	}
}

func (r *run) overBytes() {
	fail(ErrLimit, "the template makes more than %d bytes", r.limits.Bytes)
}

func (r *run) allocItems(n int) {
	if int64(n) > r.bytes/16 {
		r.overBytes()
	}
	r.alloc(16 * n)
}

func (r *run) enter() {
	r.step(1)
	if r.depth++; r.depth > maxDepth {
		fail(ErrLimit, "evaluation nests deeper than %d", maxDepth)
	}
}

func (r *run) leave() { r.depth-- }

// scope holds names; a lookup goes outwards.
type scope struct {
	parent *scope
	names  map[string]Value
}

func (s *scope) get(r *run, name string) (Value, bool) {
	for ; s != nil; s = s.parent {
		r.step(1)
		if v, ok := s.names[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (s *scope) set(name string, v Value) {
	if s.names == nil {
		s.names = map[string]Value{}
	}
	s.names[name] = v
}

// args of a call.
type args struct {
	name string
	pos  []Value
	keys []string
	kw   []Value
}

// bind gives the values of the named parameters in order, nil where none was given; too many or unknown ones are errors.
func (a *args) bind(params ...string) []Value {
	out := make([]Value, len(params))
	if len(a.pos) > len(params) {
		fail(ErrRuntime, "%s() takes at most %d arguments (%d given)", a.name, len(params), len(a.pos))
	}
	copy(out, a.pos)
	for i, k := range a.keys {
		at := slices.Index(params, k)
		if at < 0 {
			fail(ErrRuntime, "%s() got an unexpected keyword argument '%s'", a.name, k)
		}
		if out[at] != nil {
			fail(ErrRuntime, "%s() got multiple values for argument '%s'", a.name, k)
		}
		out[at] = a.kw[i]
	}
	return out
}

func (a *args) int(v Value, def int) int {
	switch x := v.(type) {
	case nil:
		return def
	case Int:
		return int(max(min(x, 1<<40), -(1 << 40)))
	case Bool:
		if x {
			return 1
		}
		return 0
	}
	fail(ErrRuntime, "%s(): '%s' object cannot be interpreted as an integer", a.name, v.typeName())
	return 0
}

func (a *args) str(v Value) Str {
	s, ok := v.(Str)
	if !ok {
		name := "nothing"
		if v != nil {
			name = v.typeName()
		}
		fail(ErrRuntime, "%s() argument must be str, not %s", a.name, name)
	}
	return s
}

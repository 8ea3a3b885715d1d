package jinja

// tests by name; a template that uses another is refused when it is parsed.
var tests map[string]func(r *run, v Value, a []Value) bool

func init() {
	kind := func(f func(Value) bool) func(*run, Value, []Value) bool {
		return func(_ *run, v Value, _ []Value) bool { return f(v) }
	}
	with := func(f func(r *run, v, w Value) bool) func(*run, Value, []Value) bool {
		return func(r *run, v Value, a []Value) bool {
			if len(a) != 1 {
				fail(ErrRuntime, "the test needs one argument, got %d", len(a))
			}
			return f(r, v, a[0])
		}
	}
	isa := func(name string) func(Value) bool {
		return func(v Value) bool { return v.typeName() == name }
	}
	mapping := isa("dict")
	sequence := func(v Value) bool {
		switch x := v.(type) {
		case Str, *Dict, Undefined:
			return true
		case *List:
			return x.kind != genList
		}
		return false
	}
	eq := with(func(r *run, v, w Value) bool { return r.equal(v, w) })
	ne := with(func(r *run, v, w Value) bool { return !r.equal(v, w) })
	lt := with(func(r *run, v, w Value) bool { return r.less(v, w, "<") })
	gt := with(func(r *run, v, w Value) bool { return r.less(w, v, ">") })
	le := with(func(r *run, v, w Value) bool { return !r.less(w, v, "<=") })
	ge := with(func(r *run, v, w Value) bool { return !r.less(v, w, ">=") })
	whole := func(r *run, v Value) int64 {
		i, _, isInt, ok := number(v)
		if !ok || !isInt {
			fail(ErrRuntime, "the test needs an integer, not %s", v.typeName())
		}
		return i
	}
	tests = map[string]func(r *run, v Value, a []Value) bool{
		"defined":   kind(func(v Value) bool { _, u := v.(Undefined); return !u }),
		"undefined": kind(func(v Value) bool { _, u := v.(Undefined); return u }),
		"none":      kind(isa("NoneType")), "string": kind(isa("str")), "mapping": kind(mapping),
		"boolean": kind(isa("bool")), "float": kind(isa("float")), "integer": kind(isa("int")),
		"number": kind(func(v Value) bool {
			_, _, _, ok := number(v)
			_, big := v.(Big)
			return ok || big
		}),
		"true":     kind(func(v Value) bool { return v == Value(Bool(true)) }),
		"false":    kind(func(v Value) bool { return v == Value(Bool(false)) }),
		"sequence": kind(sequence),
		"iterable": kind(func(v Value) bool { _, l := v.(*List); return l || sequence(v) }),
		"callable": kind(func(v Value) bool { return v.typeName() == "function" || v.typeName() == "Macro" }),
		"odd":      func(r *run, v Value, _ []Value) bool { return whole(r, v)&1 == 1 },
		"even":     func(r *run, v Value, _ []Value) bool { return whole(r, v)&1 == 0 },
		"divisibleby": with(func(r *run, v, w Value) bool {
			d := whole(r, w)
			if d == 0 {
				fail(ErrRuntime, "division by zero")
			}
			return whole(r, v)%d == 0
		}),
		"lower": func(r *run, v Value, _ []Value) bool { return r.classify(r.toStr(v).s, "islower") },
		"upper": func(r *run, v Value, _ []Value) bool { return r.classify(r.toStr(v).s, "isupper") },
		"eq":    eq, "==": eq, "equalto": eq, "ne": ne, "!=": ne,
		"lt": lt, "lessthan": lt, "gt": gt, "greaterthan": gt, "le": le, "ge": ge,
		"in":      with(func(r *run, v, w Value) bool { return r.contains(w, v) }),
		"sameas":  with(func(r *run, v, w Value) bool { return v.typeName() == w.typeName() && r.equal(v, w) }),
		"escaped": kind(func(Value) bool { return false }),
		"filter":  func(r *run, v Value, _ []Value) bool { _, ok := filters[r.toStr(v).s]; return ok },
		"test":    func(r *run, v Value, _ []Value) bool { _, ok := tests[r.toStr(v).s]; return ok },
	}
}

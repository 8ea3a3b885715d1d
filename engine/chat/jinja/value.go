package jinja

import (
	"math"
	"strconv"
	"strings"
)

// Value is a value of the template language: Undefined, None, Bool, Int, Big, Float, Str, *List, *Dict, or one of the
// interpreter's own (namespaces, functions, macros, loops). Values are immutable but for namespaces.
type Value interface {
	// typeName is the Python type's name, for messages.
	typeName() string
}

type (
	// Undefined is a missing variable or attribute; hint says which.
	Undefined struct{ hint string }
	// None is null.
	None struct{}
	// Bool is true or false.
	Bool bool
	// Int is an integer of 64 bits.
	Int int64
	// Big is the decimal text of an integer beyond 64 bits; it can be printed and compared for equality only.
	Big string
	// Float is a floating-point number.
	Float float64
)

type listKind uint8

const (
	plainList listKind = iota
	tupleList
	rangeList // range(…)
	viewList  // dict.keys(), values(), items()
	genList   // the result of a lazy filter such as map: can be walked once, has no length
)

// List is a list, a tuple, a range or an iterator.
type List struct {
	items []Value
	kind  listKind
	note  string // how a range or view prints
	spent bool   // a genList that was walked
}

// Dict is a mapping that keeps the order of insertion.
type Dict struct {
	keys  []Value
	vals  []Value
	index map[any]int // from hashKey; nil while small
}

// Namespace is the object made by namespace(…), the only one a template can change.
type namespace struct{ attrs *Dict }

// function is a global, a method bound to its object, or cycler and joiner.
type function struct {
	name string
	call func(r *run, a *args) Value
}

func (Undefined) typeName() string  { return "Undefined" }
func (None) typeName() string       { return "NoneType" }
func (Bool) typeName() string       { return "bool" }
func (Int) typeName() string        { return "int" }
func (Big) typeName() string        { return "int" }
func (Float) typeName() string      { return "float" }
func (Str) typeName() string        { return "str" }
func (*Dict) typeName() string      { return "dict" }
func (*namespace) typeName() string { return "Namespace" }
func (*function) typeName() string  { return "function" }
func (*macro) typeName() string     { return "Macro" }
func (*loop) typeName() string      { return "LoopContext" }
func (l *List) typeName() string {
	return [...]string{"list", "tuple", "range", "dict view", "generator"}[l.kind]
}

// NewList makes a list of the given items.
func NewList(items ...Value) *List { return &List{items: items} }

// Items are the list's elements; do not change them.
func (l *List) Items() []Value { return l.items }

// NewDict makes an empty mapping.
func NewDict() *Dict { return &Dict{} }

// Len is the number of entries.
func (d *Dict) Len() int { return len(d.keys) }

// Entry returns the i-th key and value in order of insertion.
func (d *Dict) Entry(i int) (key, value Value) { return d.keys[i], d.vals[i] }

// Get returns the value of a string key.
func (d *Dict) Get(key string) (Value, bool) {
	if i := d.find(key); i >= 0 {
		return d.vals[i], true
	}
	return nil, false
}

// Set puts a value under a string key. A key that is there keeps its place and gets the new value, as in Python.
func (d *Dict) Set(key Str, v Value) { d.put(key, key.s, v) }

const smallDict = 8

func (d *Dict) find(h any) int {
	if d.index != nil {
		if i, ok := d.index[h]; ok {
			return i
		}
		return -1
	}
	for i, k := range d.keys {
		if hashKey(k) == h {
			return i
		}
	}
	return -1
}

func (d *Dict) put(key Value, h any, v Value) {
	if i := d.find(h); i >= 0 {
		d.vals[i] = v
		return
	}
	d.keys = append(d.keys, key)
	d.vals = append(d.vals, v)
	switch {
	case d.index != nil:
		d.index[h] = len(d.keys) - 1
	case len(d.keys) > smallDict:
		d.index = make(map[any]int, 2*len(d.keys))
		for i, k := range d.keys {
			d.index[hashKey(k)] = i
		}
	}
}

// tupleKey is the hash of a tuple of simple values.
type tupleKey string

// hashKey maps a value to a comparable Go value such that equal Python keys give equal results (1 == 1.0 == True).
// It fails for values that Python can't hash.
func hashKey(v Value) any {
	switch x := v.(type) {
	case Str:
		return x.s
	case Int:
		return int64(x)
	case Bool:
		if x {
			return int64(1)
		}
		return int64(0)
	case Float:
		if f := float64(x); f == math.Trunc(f) && math.Abs(f) < 1<<62 {
			return int64(f)
		}
		return float64(x)
	case Big, None, Undefined:
		return x
	case *List:
		if x.kind != tupleList {
			break
		}
		var b strings.Builder
		for _, e := range x.items {
			switch h := hashKey(e).(type) {
			case string:
				b.WriteString("s" + strconv.Itoa(len(h)) + ":" + h)
			case int64:
				b.WriteString("i" + strconv.FormatInt(h, 10) + ";")
			case float64:
				b.WriteString("f" + strconv.FormatFloat(h, 'g', -1, 64) + ";")
			case None:
				b.WriteByte('n')
			default:
				fail(ErrUnsupported, "a tuple with a %s inside as a key", e.typeName())
			}
		}
		return tupleKey(b.String())
	case *namespace, *function, *macro, *loop:
		return x
	}
	fail(ErrRuntime, "unhashable type: '%s'", v.typeName())
	return nil
}

// truth is Python's bool().
func truth(v Value) bool {
	switch x := v.(type) {
	case Undefined, None:
		return false
	case Bool:
		return bool(x)
	case Int:
		return x != 0
	case Float:
		return x != 0
	case Str:
		return x.s != ""
	case *List:
		return x.kind == genList || len(x.items) > 0
	case *Dict:
		return len(x.keys) > 0
	}
	return true
}

// number returns a value as an integer or a float; bools count as integers.
func number(v Value) (i int64, f float64, isInt, ok bool) {
	switch x := v.(type) {
	case Int:
		return int64(x), float64(x), true, true
	case Bool:
		if x {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case Float:
		return 0, float64(x), false, true
	}
	return 0, 0, false, false
}

// equal is Python's ==.
func (r *run) equal(a, b Value) bool {
	r.enter()
	defer r.leave()
	if i, f, aInt, ok := number(a); ok {
		j, g, bInt, ok := number(b)
		if aInt && bInt {
			return ok && i == j
		}
		return ok && f == g
	}
	switch x := a.(type) {
	case Str:
		y, ok := b.(Str)
		if ok && len(x.s) == len(y.s) {
			r.scan(len(x.s))
			return x.s == y.s
		}
		return false
	case Big:
		y, ok := b.(Big)
		return ok && x == y
	case None:
		_, ok := b.(None)
		return ok
	case Undefined:
		_, ok := b.(Undefined)
		return ok
	case *List:
		y, ok := b.(*List)
		if !ok || x.kind != y.kind || len(x.items) != len(y.items) {
			return false
		}
		if x == y {
			return true
		}
		if x.kind == genList {
			return false
		}
		for i := range x.items {
			if !r.equal(x.items[i], y.items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for i, k := range x.keys {
			j := y.find(r.hash(k))
			if j < 0 || !r.equal(x.vals[i], y.vals[j]) {
				return false
			}
		}
		return true
	case *namespace, *function, *macro, *loop:
		return a == b
	}
	return false
}

// less is Python's <.
func (r *run) less(a, b Value, op string) bool {
	r.enter()
	defer r.leave()
	if i, f, aInt, ok := number(a); ok {
		if j, g, bInt, ok := number(b); ok {
			if aInt && bInt {
				return i < j
			}
			return f < g
		}
	}
	switch x := a.(type) {
	case Str:
		if y, ok := b.(Str); ok {
			r.scan(min(len(x.s), len(y.s)))
			return x.s < y.s
		}
	case *List:
		y, ok := b.(*List)
		if !ok || x.kind != y.kind || x.kind > tupleList {
			break
		}
		for i := 0; i < len(x.items) && i < len(y.items); i++ {
			if !r.equal(x.items[i], y.items[i]) {
				return r.less(x.items[i], y.items[i], op)
			}
		}
		return len(x.items) < len(y.items)
	}
	if u, ok := a.(Undefined); ok {
		r.undefined(u)
	}
	if u, ok := b.(Undefined); ok {
		r.undefined(u)
	}
	fail(ErrRuntime, "'%s' not supported between instances of '%s' and '%s'", op, a.typeName(), b.typeName())
	return false
}

// hash is hashKey, charged: the key of a tuple is as long as its strings.
func (r *run) hash(v Value) any {
	switch x := v.(type) {
	case Str:
		r.scan(len(x.s))
	case *List:
		r.enter()
		r.step(len(x.items))
		for _, e := range x.items {
			if _, nested := e.(*List); nested {
				fail(ErrUnsupported, "nested tuples as keys")
			}
			if s, ok := e.(Str); ok {
				r.alloc(len(s.s) + 32)
			}
		}
		r.leave()
	}
	return hashKey(v)
}

// iter lists what a for loop walks.
func (r *run) iter(v Value) []Value {
	switch x := v.(type) {
	case *List:
		if x.kind == genList {
			if x.spent {
				return nil
			}
			x.spent = true
		}
		return x.items
	case *Dict:
		return x.keys
	case Str:
		return r.chars(x)
	case Undefined:
		return nil
	}
	fail(ErrRuntime, "'%s' object is not iterable", v.typeName())
	return nil
}

// list makes a list of newly made items, which are charged.
func (r *run) list(items []Value, kind listKind) *List {
	r.allocItems(len(items))
	return &List{items: items, kind: kind}
}

func (r *run) undefined(u Undefined) { fail(ErrRuntime, "%s", u.message()) }

func (u Undefined) message() string {
	if u.hint == "" {
		return "a value is undefined"
	}
	return u.hint
}

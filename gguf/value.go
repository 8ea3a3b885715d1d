package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Value is one metadata value, kept as the file's bytes and decoded on access (see [As]).
type Value struct {
	kind  Kind
	elem  Kind   // the elements' kind, of an Array
	count int    // elements of an Array, else 1
	raw   []byte // payload: without kind, element kind and count; a string with its length in front
}

// Kind is the value's type.
func (v Value) Kind() Kind { return v.kind }

// Elem is the type of an array's elements. Of anything else it is the value's own type.
func (v Value) Elem() Kind {
	if v.kind == Array {
		return v.elem
	}
	return v.kind
}

// Len is the number of an array's elements, and 1 for anything else.
func (v Value) Len() int { return v.count }

// Scalar lists the Go types of single metadata values. int and uint take integers of any width that fit.
type Scalar interface {
	uint8 | uint16 | uint32 | uint64 | uint | int8 | int16 | int32 | int64 | int | float32 | float64 | bool | string
}

// Gettable lists the Go types that metadata can be read as.
type Gettable interface {
	Scalar | []uint8 | []uint16 | []uint32 | []uint64 | []uint | []int8 | []int16 | []int32 | []int64 | []int |
		[]float32 | []float64 | []bool | []string
}

// As decodes v as a T. Integers convert between widths and signs where every value fits; floats convert between widths
// (float64 to float32 rounds); nothing else converts. A mismatch is an error that wraps [ErrKind]. The result is a copy
// that stays valid after the file is closed; all strings of an array share one allocation.
func As[T Gettable](v Value) (T, error) {
	var out T
	var err error
	switch p := any(&out).(type) {
	case *string:
		err = asString(v, p)
	case *[]string:
		err = asStrings(v, p)
	case *bool:
		err = asBool(v, p)
	case *[]bool:
		err = asBools(v, p)
	case *float32:
		err = asScalar(v, p, floats)
	case *float64:
		err = asScalar(v, p, floats)
	case *[]float32:
		err = asSlice(v, p, floats)
	case *[]float64:
		err = asSlice(v, p, floats)
	case *uint8:
		err = asScalar(v, p, integers)
	case *uint16:
		err = asScalar(v, p, integers)
	case *uint32:
		err = asScalar(v, p, integers)
	case *uint64:
		err = asScalar(v, p, integers)
	case *uint:
		err = asScalar(v, p, integers)
	case *int8:
		err = asScalar(v, p, integers)
	case *int16:
		err = asScalar(v, p, integers)
	case *int32:
		err = asScalar(v, p, integers)
	case *int64:
		err = asScalar(v, p, integers)
	case *int:
		err = asScalar(v, p, integers)
	case *[]uint8:
		err = asSlice(v, p, integers)
	case *[]uint16:
		err = asSlice(v, p, integers)
	case *[]uint32:
		err = asSlice(v, p, integers)
	case *[]uint64:
		err = asSlice(v, p, integers)
	case *[]uint:
		err = asSlice(v, p, integers)
	case *[]int8:
		err = asSlice(v, p, integers)
	case *[]int16:
		err = asSlice(v, p, integers)
	case *[]int32:
		err = asSlice(v, p, integers)
	case *[]int64:
		err = asSlice(v, p, integers)
	case *[]int:
		err = asSlice(v, p, integers)
	}
	return out, err
}

func (v Value) describe() string {
	if v.kind == Array {
		return fmt.Sprintf("an array of %d %s", v.count, v.elem)
	}
	return v.kind.String()
}

func mismatch(v Value, want string) error {
	return fmt.Errorf("%w: it is %s, want %s", ErrKind, v.describe(), want)
}

func asString(v Value, p *string) error {
	if v.kind != String {
		return mismatch(v, "a string")
	}
	*p = string(v.raw[8:])
	return nil
}

// asStrings copies the whole array's bytes, lengths included, into one string and slices that.
func asStrings(v Value, p *[]string) error {
	if v.kind != Array || v.elem != String {
		return mismatch(v, "an array of strings")
	}
	all := string(v.raw)
	out := make([]string, v.count)
	pos := 0
	for i := range out {
		n := int(binary.LittleEndian.Uint64(v.raw[pos:]))
		pos += 8
		out[i] = all[pos : pos+n]
		pos += n
	}
	*p = out
	return nil
}

func asBool(v Value, p *bool) error {
	if v.kind != Bool {
		return mismatch(v, "a bool")
	}
	*p = v.raw[0] != 0
	return nil
}

func asBools(v Value, p *[]bool) error {
	if v.kind != Array || v.elem != Bool {
		return mismatch(v, "an array of bools")
	}
	out := make([]bool, v.count)
	for i := range out {
		out[i] = v.raw[i] != 0
	}
	*p = out
	return nil
}

type number interface {
	uint8 | uint16 | uint32 | uint64 | uint | int8 | int16 | int32 | int64 | int | float32 | float64
}

// A family is a group of kinds that convert into each other.
type family struct {
	name string
	has  func(Kind) bool
}

var (
	integers = family{"integer", Kind.integer}
	floats   = family{"float", Kind.float}
)

func asScalar[N number](v Value, p *N, fam family) error {
	if !fam.has(v.kind) {
		return mismatch(v, "one "+fam.name)
	}
	n, ok := decode[N](v.kind, v.raw)
	if !ok {
		return fmt.Errorf("%w: the value %s doesn't fit %T", ErrKind, v, *p)
	}
	*p = n
	return nil
}

func asSlice[N number](v Value, p *[]N, fam family) error {
	if v.kind != Array || !fam.has(v.elem) {
		return mismatch(v, "an array of "+fam.name+"s")
	}
	width := kinds[v.elem].bytes
	out := make([]N, v.count)
	for i := range out {
		n, ok := decode[N](v.elem, v.raw[i*width:])
		if !ok {
			return fmt.Errorf("%w: element %d, %v, doesn't fit %T", ErrKind, i, v.at(i), n)
		}
		out[i] = n
	}
	*p = out
	return nil
}

// decode reads one number of kind k from the front of b. It reports false where the number doesn't fit N.
func decode[N number](k Kind, b []byte) (N, bool) {
	var x int64
	switch k {
	case Uint8:
		x = int64(b[0])
	case Int8:
		x = int64(int8(b[0]))
	case Uint16:
		x = int64(binary.LittleEndian.Uint16(b))
	case Int16:
		x = int64(int16(binary.LittleEndian.Uint16(b)))
	case Uint32:
		x = int64(binary.LittleEndian.Uint32(b))
	case Int32:
		x = int64(int32(binary.LittleEndian.Uint32(b)))
	case Int64:
		x = int64(binary.LittleEndian.Uint64(b))
	case Uint64:
		u := binary.LittleEndian.Uint64(b)
		n := N(u)
		return n, n >= 0 && uint64(n) == u
	case Float32:
		return N(math.Float32frombits(binary.LittleEndian.Uint32(b))), true
	case Float64:
		return N(math.Float64frombits(binary.LittleEndian.Uint64(b))), true
	}
	n := N(x)
	return n, int64(n) == x && (n < 0) == (x < 0)
}

// Any decodes v into the Go type of its own kind: uint8 … float64, bool, string, a slice of these, or []any for an
// array of arrays.
func (v Value) Any() any {
	if v.kind != Array {
		x, _ := scalarAny(v.kind, v.raw)
		return x
	}
	switch v.elem {
	case Uint8:
		return must[[]uint8](v)
	case Int8:
		return must[[]int8](v)
	case Uint16:
		return must[[]uint16](v)
	case Int16:
		return must[[]int16](v)
	case Uint32:
		return must[[]uint32](v)
	case Int32:
		return must[[]int32](v)
	case Uint64:
		return must[[]uint64](v)
	case Int64:
		return must[[]int64](v)
	case Float32:
		return must[[]float32](v)
	case Float64:
		return must[[]float64](v)
	case Bool:
		return must[[]bool](v)
	case String:
		return must[[]string](v)
	}
	out := make([]any, 0, v.count)
	for item := range v.items() {
		out = append(out, item.Any())
	}
	return out
}

// must is for conversions to a value's own kind, which can't fail.
func must[T Gettable](v Value) T {
	x, _ := As[T](v)
	return x
}

// scalarAny decodes one value of a kind other than Array, and gives the number of bytes it takes.
func scalarAny(k Kind, b []byte) (any, int) {
	switch k {
	case Uint8:
		return b[0], 1
	case Int8:
		return int8(b[0]), 1
	case Bool:
		return b[0] != 0, 1
	case Uint16:
		return binary.LittleEndian.Uint16(b), 2
	case Int16:
		return int16(binary.LittleEndian.Uint16(b)), 2
	case Uint32:
		return binary.LittleEndian.Uint32(b), 4
	case Int32:
		return int32(binary.LittleEndian.Uint32(b)), 4
	case Float32:
		return math.Float32frombits(binary.LittleEndian.Uint32(b)), 4
	case Uint64:
		return binary.LittleEndian.Uint64(b), 8
	case Int64:
		return int64(binary.LittleEndian.Uint64(b)), 8
	case Float64:
		return math.Float64frombits(binary.LittleEndian.Uint64(b)), 8
	case String:
		n := int(binary.LittleEndian.Uint64(b))
		return string(b[8 : 8+n]), 8 + n
	}
	return nil, 0
}

// at decodes element i of an array of numbers or bools.
func (v Value) at(i int) any {
	x, _ := scalarAny(v.elem, v.raw[i*kinds[v.elem].bytes:])
	return x
}

// items iterates over an array's elements.
func (v Value) items() func(func(Value) bool) {
	return func(yield func(Value) bool) {
		b := v.raw
		for range v.count {
			item := Value{kind: v.elem, count: 1}
			var n int
			switch v.elem {
			case String:
				n = 8 + int(binary.LittleEndian.Uint64(b))
				item.raw = b[:n]
			case Array:
				item.elem = Kind(binary.LittleEndian.Uint32(b))
				item.count = int(binary.LittleEndian.Uint64(b[4:]))
				c := cursor{buf: b, size: int64(len(b)), pos: 12}
				if err := c.skipItems(item.elem, uint64(item.count), 0); err != nil {
					return // Checked when the file was opened.
				}
				n = int(c.pos)
				item.raw = b[12:n]
			default:
				n = kinds[v.elem].bytes
				item.raw = b[:n]
			}
			b = b[n:]
			if !yield(item) {
				return
			}
		}
	}
}

// Head decodes the first n elements of an array, or fewer if it is shorter.
func (v Value) Head(n int) []any {
	out := []any{}
	for item := range v.items() {
		if len(out) >= n {
			break
		}
		out = append(out, item.Any())
	}
	return out
}

// String formats v for people: strings quoted, long strings and arrays cut short.
func (v Value) String() string {
	const maxItems, maxRunes = 6, 120
	switch v.kind {
	case String:
		return quote(string(v.raw[8:]), maxRunes)
	case Array:
		var sb strings.Builder
		sb.WriteByte('[')
		i := 0
		for item := range v.items() {
			if i > 0 {
				sb.WriteString(", ")
			}
			if i == maxItems {
				fmt.Fprintf(&sb, "… %d in all", v.count)
				break
			}
			sb.WriteString(item.String())
			i++
		}
		sb.WriteByte(']')
		return sb.String()
	}
	x, _ := scalarAny(v.kind, v.raw)
	return fmt.Sprint(x)
}

func quote(s string, maxRunes int) string {
	if utf8.RuneCountInString(s) <= maxRunes {
		return strconv.Quote(s)
	}
	cut := 0
	for i := range s {
		if cut == maxRunes {
			return strconv.Quote(s[:i]) + "…"
		}
		cut++
	}
	return strconv.Quote(s)
}

package gguf

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// NewValue makes a metadata value of a Go value: uint8 … float64, bool, string, a slice of one of these, a Value, or
// []any, whose items are made into values of one kind each (so arrays of arrays). int and uint have no counterpart in the
// format and are refused.
func NewValue(x any) (Value, error) {
	switch x := x.(type) {
	case Value:
		return x, nil
	case string:
		return Value{kind: String, count: 1, raw: appendString(nil, x)}, nil
	case []string:
		v := Value{kind: Array, elem: String, count: len(x)}
		n := 8 * len(x)
		for _, s := range x {
			n += len(s)
		}
		v.raw = make([]byte, 0, n)
		for _, s := range x {
			v.raw = appendString(v.raw, s)
		}
		return v, nil
	case []any:
		return newArray(x)
	}
	kind, count, ok := kindOf(x)
	if !ok {
		return Value{}, fmt.Errorf("gguf: %T is no metadata type", x)
	}
	raw, err := binary.Append(nil, binary.LittleEndian, x)
	if err != nil {
		return Value{}, fmt.Errorf("gguf: %T: %w", x, err)
	}
	if count < 0 {
		return Value{kind: kind, count: 1, raw: raw}, nil
	}
	return Value{kind: Array, elem: kind, count: count, raw: raw}, nil
}

// kindOf gives the kind of a fixed-width value, or of a slice of such and then its length (otherwise -1).
func kindOf(x any) (k Kind, count int, ok bool) {
	switch x := x.(type) {
	case uint8:
		return Uint8, -1, true
	case int8:
		return Int8, -1, true
	case uint16:
		return Uint16, -1, true
	case int16:
		return Int16, -1, true
	case uint32:
		return Uint32, -1, true
	case int32:
		return Int32, -1, true
	case uint64:
		return Uint64, -1, true
	case int64:
		return Int64, -1, true
	case float32:
		return Float32, -1, true
	case float64:
		return Float64, -1, true
	case bool:
		return Bool, -1, true
	case []uint8:
		return Uint8, len(x), true
	case []int8:
		return Int8, len(x), true
	case []uint16:
		return Uint16, len(x), true
	case []int16:
		return Int16, len(x), true
	case []uint32:
		return Uint32, len(x), true
	case []int32:
		return Int32, len(x), true
	case []uint64:
		return Uint64, len(x), true
	case []int64:
		return Int64, len(x), true
	case []float32:
		return Float32, len(x), true
	case []float64:
		return Float64, len(x), true
	case []bool:
		return Bool, len(x), true
	}
	return 0, 0, false
}

// newArray makes an array of items of one kind.
func newArray(items []any) (Value, error) {
	out := Value{kind: Array, elem: Array, count: len(items)}
	for i, x := range items {
		v, err := NewValue(x)
		if err != nil {
			return Value{}, err
		}
		if i == 0 {
			out.elem = v.kind
		}
		if v.kind != out.elem {
			return Value{}, fmt.Errorf("gguf: element %d of an array is of kind %s, the first of kind %s", i, v.kind, out.elem)
		}
		out.raw = v.appendPayload(out.raw)
	}
	return out, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// appendPayload writes what follows the value's kind in a file.
func (v Value) appendPayload(b []byte) []byte {
	if v.kind == Array {
		b = binary.LittleEndian.AppendUint32(b, uint32(v.elem))
		b = binary.LittleEndian.AppendUint64(b, uint64(v.count))
	}
	return append(b, v.raw...)
}

// checkAlignment reads the value of general.alignment.
func checkAlignment(v Value) (int64, error) {
	a, err := As[uint32](v)
	if err != nil {
		return 0, corrupt("key %q: %v", keyAlignment, err)
	}
	if bits.OnesCount32(a) != 1 {
		return 0, corrupt("key %q: %d is no power of two", keyAlignment, a)
	}
	return int64(a), nil
}

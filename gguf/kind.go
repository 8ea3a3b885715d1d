package gguf

import "fmt"

// Kind is the type of a metadata value; the numbers are those of the format (gguf_metadata_value_type).
type Kind uint32

// The metadata value types.
const (
	Uint8   Kind = 0
	Int8    Kind = 1
	Uint16  Kind = 2
	Int16   Kind = 3
	Uint32  Kind = 4
	Int32   Kind = 5
	Float32 Kind = 6
	Bool    Kind = 7
	String  Kind = 8
	Array   Kind = 9
	Uint64  Kind = 10
	Int64   Kind = 11
	Float64 Kind = 12
)

var kinds = [...]struct {
	name  string
	bytes int // of one value; 0 where it varies
}{
	Uint8: {"uint8", 1}, Int8: {"int8", 1}, Uint16: {"uint16", 2}, Int16: {"int16", 2}, Uint32: {"uint32", 4},
	Int32: {"int32", 4}, Float32: {"float32", 4}, Bool: {"bool", 1}, String: {"string", 0}, Array: {"array", 0},
	Uint64: {"uint64", 8}, Int64: {"int64", 8}, Float64: {"float64", 8},
}

func (k Kind) known() bool { return int64(k) < int64(len(kinds)) }

// String gives the kind's Go-like name, such as "uint32".
func (k Kind) String() string {
	if k.known() {
		return kinds[k].name
	}
	return fmt.Sprintf("kind(%d)", uint32(k))
}

func (k Kind) integer() bool {
	switch k {
	case Uint8, Int8, Uint16, Int16, Uint32, Int32, Uint64, Int64:
		return true
	}
	return false
}

func (k Kind) float() bool { return k == Float32 || k == Float64 }

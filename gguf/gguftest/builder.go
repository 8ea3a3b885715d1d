// Package gguftest builds GGUF files by hand for tests: small valid ones, and a collection of broken ones that every
// reader and program must refuse with a clear message.
package gguftest

import (
	"encoding/binary"
	"math"
)

// Value types of the format, as raw numbers: tests write wrong ones too.
const (
	u8, i8, u16, i16, u32, i32, f32, boolean, str, array, u64, i64, f64 = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
)

// A Builder puts a file together field by field and checks nothing. Its methods return it, for chaining.
type Builder struct{ b []byte }

// New starts a file with a header that claims so many tensors and keys.
func New(version uint32, tensors, keys uint64) *Builder {
	b := &Builder{b: []byte("GGUF")}
	return b.U32(version).U64(tensors).U64(keys)
}

// Bytes gives the file so far.
func (b *Builder) Bytes() []byte { return b.b }

// U32 appends 32 bits.
func (b *Builder) U32(x uint32) *Builder {
	b.b = binary.LittleEndian.AppendUint32(b.b, x)
	return b
}

// U64 appends 64 bits.
func (b *Builder) U64(x uint64) *Builder {
	b.b = binary.LittleEndian.AppendUint64(b.b, x)
	return b
}

// Raw appends bytes as they are.
func (b *Builder) Raw(s string) *Builder {
	b.b = append(b.b, s...)
	return b
}

// Str appends a string with its length.
func (b *Builder) Str(s string) *Builder { return b.U64(uint64(len(s))).Raw(s) }

// KeyU32 appends a key with a uint32 value.
func (b *Builder) KeyU32(key string, x uint32) *Builder { return b.Str(key).U32(u32).U32(x) }

// KeyU16 appends a key with a uint16 value.
func (b *Builder) KeyU16(key string, x uint16) *Builder {
	b.Str(key).U32(u16)
	b.b = binary.LittleEndian.AppendUint16(b.b, x)
	return b
}

// KeyF32 appends a key with a float32 value.
func (b *Builder) KeyF32(key string, x float32) *Builder {
	return b.Str(key).U32(f32).U32(math.Float32bits(x))
}

// KeyStr appends a key with a string value.
func (b *Builder) KeyStr(key, s string) *Builder { return b.Str(key).U32(str).Str(s) }

// KeyArray appends a key with an array's head; its elements must follow.
func (b *Builder) KeyArray(key string, elem uint32, count uint64) *Builder {
	return b.Str(key).U32(array).U32(elem).U64(count)
}

// Tensor appends a tensor's description. dims are in the file's order.
func (b *Builder) Tensor(name string, typ uint32, offset uint64, dims ...uint64) *Builder {
	b.Str(name).U32(uint32(len(dims)))
	for _, d := range dims {
		b.U64(d)
	}
	return b.U32(typ).U64(offset)
}

// Pad appends zeros up to a multiple of n.
func (b *Builder) Pad(n int) *Builder {
	for len(b.b)%n != 0 {
		b.b = append(b.b, 0)
	}
	return b
}

// Zeros appends n zero bytes.
func (b *Builder) Zeros(n int) *Builder {
	b.b = append(b.b, make([]byte, n)...)
	return b
}

// Valid is a small valid file: three keys, among them an array of strings, and the tensors "a" (F32, 4 x 2) and "b" (F16, 8).
func Valid() []byte {
	return New(3, 2, 3).
		KeyStr("general.architecture", "test").
		KeyU32("test.block_count", 1).
		KeyArray("test.words", str, 2).Str("one").Str("two").
		Tensor("a", 0, 0, 4, 2).
		Tensor("b", 1, 32, 8).
		Pad(32).Zeros(64).Bytes()
}

package gguftest

import (
	"bytes"
	"math"
	"strings"
)

// A Case is a file that must be refused.
type Case struct {
	Name string
	Data []byte
	Want string // part of the error's text
}

// Malformed gives broken files, each with what the error must say.
func Malformed() []Case {
	valid := Valid()
	tensor := func(name string, typ uint32, offset uint64, dims ...uint64) []byte {
		return New(3, 1, 0).Tensor(name, typ, offset, dims...).Pad(32).Zeros(1024).Bytes()
	}
	two := func(a, b *Builder) []byte {
		return New(3, 2, 0).Raw(string(a.Bytes())).Raw(string(b.Bytes())).Pad(32).Zeros(1024).Bytes()
	}
	one := func() *Builder { return &Builder{} }
	nested := func(depth int) []byte {
		b := New(3, 0, 1).KeyArray("k", array, 1)
		for range depth {
			b.U32(array).U64(1)
		}
		return b.U32(u8).U64(0).Zeros(64).Bytes()
	}
	return []Case{
		{"empty", nil, "too few"},
		{"magic only", []byte("GGUF"), "too few"},
		{"header cut", valid[:23], "too few"},
		{"other magic", append([]byte("ABCD"), valid[4:]...), "no GGUF file"},
		{"byte-swapped magic", append([]byte("FUGG"), valid[4:]...), "big-endian"},
		{"old ggml file", append([]byte("lmgg"), valid[4:]...), "old GGML file"},
		{"web page", []byte("<!DOCTYPE html><html><body>Not found</body></html>"), "web page"},
		{"Git LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"), "Git LFS pointer"},
		{"zip", append([]byte("PK\x03\x04"), valid...), "zip archive"},
		{"gzip", append([]byte("\x1f\x8b"), valid...), "gzip"},
		{"safetensors", append([]byte("\x20\x00\x00\x00\x00\x00\x00\x00{\"a\":{\"dtype\":\"F32\"}}"), make([]byte, 64)...), "safetensors"},

		{"version 0", New(0, 0, 0).Zeros(64).Bytes(), "version 0"},
		{"version 1", New(1, 0, 0).Zeros(64).Bytes(), "version 1"},
		{"version 4", New(4, 0, 0).Zeros(64).Bytes(), "version 4"},
		{"big-endian", New(3<<24, 0, 0).Zeros(64).Bytes(), "big-endian"},
		{"key count beyond the file", New(3, 0, 1<<40).Zeros(64).Bytes(), "keys can't fit"},
		{"key count of 2^64-1", New(3, 0, math.MaxUint64).Zeros(64).Bytes(), "keys can't fit"},
		{"tensor count beyond the file", New(3, 1<<40, 0).Zeros(64).Bytes(), "tensors can't fit"},
		{"tensor count of 2^63", New(3, 1<<63, 0).Zeros(64).Bytes(), "tensors can't fit"},

		{"key longer than the file", New(3, 0, 1).U64(1 << 50).Zeros(64).Bytes(), "the file ends"},
		{"key length of 2^64-1", New(3, 0, 1).U64(math.MaxUint64).Zeros(64).Bytes(), "the file ends"},
		{"empty key", New(3, 0, 1).KeyU32("", 1).Bytes(), "is empty"},
		{"key of 70,000 bytes", New(3, 0, 1).KeyU32(strings.Repeat("k", 70000), 1).Bytes(), "at most 65535"},
		{"key no UTF-8", New(3, 0, 1).KeyU32("a\xff", 1).Bytes(), "UTF-8"},
		{"key with a newline", New(3, 0, 1).KeyU32("a\nb", 1).Bytes(), "control character"},
		{"long key with a newline", New(3, 0, 1).KeyU32(strings.Repeat("k", 60000)+"\n", 1).Bytes(), "control character"},
		{"duplicate long key", New(3, 0, 2).KeyU32(strings.Repeat("k", 60000), 1).KeyU32(strings.Repeat("k", 60000), 2).Bytes(), "duplicate key"},
		{"duplicate key", New(3, 0, 2).KeyU32("same", 1).KeyU32("same", 2).Bytes(), "duplicate key"},
		{"unknown value type", New(3, 0, 1).Str("k").U32(13).Zeros(64).Bytes(), "unknown value type 13"},
		{"string beyond the file", New(3, 0, 1).Str("k").U32(str).U64(1 << 40).Zeros(64).Bytes(), "the file ends"},
		{"value cut", New(3, 0, 1).Str("key").U32(u64).Zeros(7).Bytes(), "the file ends"},
		{"bool of 2", New(3, 0, 1).Str("k").U32(boolean).Raw("\x02").Zeros(8).Bytes(), "a bool of value 2"},
		{"unknown array type", New(3, 0, 1).KeyArray("k", 77, 1).Zeros(64).Bytes(), "unknown array element type 77"},
		{"array beyond the file", New(3, 0, 1).KeyArray("k", u32, 1<<60).Zeros(64).Bytes(), "left in the file"},
		{"array whose size overflows", New(3, 0, 1).KeyArray("k", f64, 1<<61).Zeros(64).Bytes(), "left in the file"},
		{"string array beyond the file", New(3, 0, 1).KeyArray("k", str, 9).Zeros(64).Bytes(), "left in the file"},
		{"string in an array beyond the file", New(3, 0, 1).KeyArray("k", str, 2).Str("a").U64(1 << 33).Zeros(64).Bytes(), "the file ends"},
		{"arrays nested too deep", nested(20), "nested"},
		{"fewer keys than claimed", New(3, 0, 2).KeyStr("k", strings.Repeat("x", 64)).Bytes(), "the file ends"},

		{"alignment 0", New(3, 0, 1).KeyU32("general.alignment", 0).Bytes(), "no power of two"},
		{"alignment 48", New(3, 0, 1).KeyU32("general.alignment", 48).Bytes(), "no power of two"},
		{"alignment a string", New(3, 0, 1).KeyStr("general.alignment", "32").Bytes(), "general.alignment"},

		{"empty tensor name", tensor("", 0, 0, 4), "is empty"},
		{"tensor name too long", tensor(strings.Repeat("n", 65), 0, 0, 4), "at most 64"},
		{"tensor name with NUL", tensor("a\x00b", 0, 0, 4), "control character"},
		{"duplicate tensor", two(one().Tensor("same", 0, 0, 4), one().Tensor("same", 0, 32, 4)), "duplicate name"},
		{"no dimensions", tensor("t", 0, 0), "0 dimensions"},
		{"five dimensions", tensor("t", 0, 0, 1, 1, 1, 1, 1), "5 dimensions"},
		{"2^32-1 dimensions", New(3, 1, 0).Str("t").U32(math.MaxUint32).Zeros(64).Bytes(), "dimensions"},
		{"a dimension of 0", tensor("t", 0, 0, 4, 0), "must be positive"},
		{"a dimension of 2^63", tensor("t", 0, 0, 1<<63), "must be positive"},
		{"dimensions whose product overflows", tensor("t", 0, 0, 1<<32, 1<<32, 4), "product"},
		{"dimensions whose bytes overflow", tensor("t", 28, 0, 1<<31, 1<<31), "too many bytes"},
		{"unknown tensor type", tensor("t", 12345, 0, 4), "unknown tensor type 12345"},
		{"rows of broken blocks", tensor("t", 12, 0, 255, 256), "no whole number of Q4_K blocks"},
		{"offset not aligned", tensor("t", 0, 8, 4), "no multiple of the alignment"},
		{"offset beyond the file", tensor("t", 0, 1<<30, 4), "the file has only"},
		{"offset of 2^64-32", tensor("t", 0, math.MaxUint64-31, 4), "the file has only"},
		{"tensor larger than the file", tensor("t", 0, 0, 1<<20), "past the file's end"},
		{"tensor past the end by one block", tensor("t", 0, 1024, 4), "past the file's end"},
		{"overlapping tensors", two(one().Tensor("a", 0, 0, 16), one().Tensor("b", 0, 32, 4)), "overlaps"},
		{"equal offsets", two(one().Tensor("a", 0, 64, 4), one().Tensor("b", 0, 64, 4)), "overlaps"},
		{"tensor descriptions cut", New(3, 1, 0).Str("0123456789").U32(1).U64(4).U32(0).Zeros(4).Bytes(), "the file ends"},
		{"data cut short", valid[:len(valid)-20], "past the file's end"},

		{"two files joined with cat", bytes.Repeat(valid, 2), "joined with `cat`"},
		{"a part of a split model", New(3, 0, 2).KeyU16("split.no", 0).KeyU16("split.count", 3).Zeros(32).Bytes(), "part 1 of"},
		{"split numbers that make no sense", New(3, 0, 2).KeyU16("split.no", 3).KeyU16("split.count", 3).Zeros(32).Bytes(), "part 3 of 3"},
	}
}

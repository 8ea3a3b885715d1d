// Package quant holds the tensor element types of GGUF files: their names, block geometry, and exact encoding and
// decoding.
package quant

import "fmt"

// Type is a GGML tensor element type; the values are those stored in GGUF files (gguf specification, ggml_type).
type Type uint32

// The element types this module can encode and decode.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q5_0 Type = 6
	Q5_1 Type = 7
	Q8_0 Type = 8
	Q4_K Type = 12
	Q5_K Type = 13
	Q6_K Type = 14
	I8   Type = 24
	I16  Type = 25
	I32  Type = 26
	I64  Type = 27
	F64  Type = 28
	BF16 Type = 30
)

// Types that files may hold and that are known by name and size only.
const (
	Q8_1    Type = 9
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q8_K    Type = 15
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	IQ1_M   Type = 29
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42
)

// Types that ggml has dropped; old files may still name them.
const (
	Q4_2       Type = 4
	Q4_3       Type = 5
	Q4_0_4_4   Type = 31
	Q4_0_4_8   Type = 32
	Q4_0_8_8   Type = 33
	IQ4_NL_4_4 Type = 36
	IQ4_NL_4_8 Type = 37
	IQ4_NL_8_8 Type = 38
)

type geometry struct {
	name  string
	block int // elements a block
	bytes int // bytes a block
}

// geometries by type, an array: kernels ask for every block of rows. Numbers that no type has are empty.
var geometries = [...]geometry{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2}, F64: {"F64", 1, 8},
	I8: {"I8", 1, 1}, I16: {"I16", 1, 2}, I32: {"I32", 1, 4}, I64: {"I64", 1, 8},
	Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20}, Q5_0: {"Q5_0", 32, 22}, Q5_1: {"Q5_1", 32, 24},
	Q8_0: {"Q8_0", 32, 34}, Q8_1: {"Q8_1", 32, 36},
	Q2_K: {"Q2_K", 256, 84}, Q3_K: {"Q3_K", 256, 110}, Q4_K: {"Q4_K", 256, 144}, Q5_K: {"Q5_K", 256, 176},
	Q6_K: {"Q6_K", 256, 210}, Q8_K: {"Q8_K", 256, 292},
	IQ2_XXS: {"IQ2_XXS", 256, 66}, IQ2_XS: {"IQ2_XS", 256, 74}, IQ3_XXS: {"IQ3_XXS", 256, 98},
	IQ1_S: {"IQ1_S", 256, 50}, IQ4_NL: {"IQ4_NL", 32, 18}, IQ3_S: {"IQ3_S", 256, 110}, IQ2_S: {"IQ2_S", 256, 82},
	IQ4_XS: {"IQ4_XS", 256, 136}, IQ1_M: {"IQ1_M", 256, 56}, TQ1_0: {"TQ1_0", 256, 54}, TQ2_0: {"TQ2_0", 256, 66},
	MXFP4: {"MXFP4", 32, 17}, NVFP4: {"NVFP4", 64, 36},
	Q1_0: {"Q1_0", 128, 18}, Q2_0: {"Q2_0", 64, 18},
	Q4_2: {"Q4_2", 16, 10}, Q4_3: {"Q4_3", 16, 12},
	Q4_0_4_4: {"Q4_0_4_4", 32, 18}, Q4_0_4_8: {"Q4_0_4_8", 32, 18}, Q4_0_8_8: {"Q4_0_8_8", 32, 18},
	IQ4_NL_4_4: {"IQ4_NL_4_4", 32, 18}, IQ4_NL_4_8: {"IQ4_NL_4_8", 32, 18}, IQ4_NL_8_8: {"IQ4_NL_8_8", 32, 18},
}

func (t Type) geometry() geometry {
	if uint64(t) < uint64(len(geometries)) {
		return geometries[t]
	}
	return geometry{}
}

// Known reports whether t is a type of the GGUF format.
func (t Type) Known() bool { return t.geometry().block != 0 }

// String gives the type's name in llama.cpp's spelling, such as "Q4_K".
func (t Type) String() string {
	if g := t.geometry(); g.block != 0 {
		return g.name
	}
	return fmt.Sprintf("type(%d)", uint32(t))
}

// BlockElems is the number of elements in a block (1 for plain types, 0 for unknown ones).
func (t Type) BlockElems() int { return t.geometry().block }

// BlockBytes is the number of bytes of a block (0 for unknown types).
func (t Type) BlockBytes() int { return t.geometry().bytes }

// RowBytes is the number of bytes that a row of n elements takes. n must be a multiple of BlockElems.
func (t Type) RowBytes(n int) int {
	g := t.geometry()
	if g.block == 0 || n%g.block != 0 {
		panic(fmt.Sprintf("quant: a row of %d elements is no whole number of %s blocks", n, t))
	}
	return n / g.block * g.bytes
}

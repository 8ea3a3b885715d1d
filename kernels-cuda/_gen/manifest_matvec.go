package main

import "fmt"

var _ = register(Family{
	Name: "matvec",
	Structs: []Struct{
		{Name: "Matvec", Doc: "y = w*x + bias + residual for a quantised weight [rows, k] in layout raw and 8-bit activations of some columns.", Fields: []Field{
			{Type: "const uint8_t*", Name: "w", Doc: "a multiple of 16"},
			{Type: "const int8_t*", Name: "q8", Doc: "[columns][k]"},
			{Type: "const void*", Name: "records", Doc: "[columns][k/32]"},
			{Type: "const float*", Name: "bias", Doc: "[rows] or null"},
			{Type: "const float*", Name: "residual", Doc: "[columns, rows] or null; may be y"},
			{Type: "float*", Name: "y", Doc: "[columns, rows]"},
			{Type: "int64_t", Name: "w_stride", Doc: "bytes from a row to the next, a multiple of 16"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "k"},
			{Type: "int32_t", Name: "columns"},
			{Type: "int32_t", Name: "residual_stride", Doc: "in elements, as y_stride"},
			{Type: "int32_t", Name: "y_stride"},
			{Type: "int32_t", Name: "parts", Doc: "partial sums of a row; 0: the launcher's rule"},
		}},
		{Name: "MatvecFloat", Doc: "y = w*x + bias + residual for a weight [rows, k] of f32, f16 or bf16 and float32 activations of some columns.", Fields: []Field{
			{Type: "const uint8_t*", Name: "w", Doc: "a multiple of 16"},
			{Type: "const float*", Name: "x", Doc: "[columns, k]"},
			{Type: "const float*", Name: "bias", Doc: "[rows] or null"},
			{Type: "const float*", Name: "residual", Doc: "[columns, rows] or null; may be y"},
			{Type: "float*", Name: "y", Doc: "[columns, rows]"},
			{Type: "int64_t", Name: "w_stride", Doc: "bytes from a row to the next, a multiple of 16"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "k"},
			{Type: "int32_t", Name: "columns"},
			{Type: "int32_t", Name: "x_stride", Doc: "in elements, as the other two"},
			{Type: "int32_t", Name: "residual_stride"},
			{Type: "int32_t", Name: "y_stride"},
		}},
	},
	Kernels: matvecKernels(),
})

func matvecKernels() (all []Kernel) {
	for _, t := range blockTypes {
		for _, n := range []int{1, 8} {
			all = append(all, Kernel{Symbol: fmt.Sprintf("matvec_raw_%s_%d", t, n), Params: "Matvec"})
		}
	}
	for _, t := range floatTypes {
		for _, n := range []int{1, 4, 8} {
			all = append(all, Kernel{Symbol: fmt.Sprintf("matvec_%s_%d", t, n), Params: "MatvecFloat", Hot: true, Registers: 168})
		}
	}
	return all
}

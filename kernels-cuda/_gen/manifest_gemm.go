package main

import "fmt"

var _ = register(Family{
	Name: "gemm",
	Structs: []Struct{
		{Name: "Gemm", Doc: "y = scales * (a*b^T) + bias + residual on tensor cores: activations a [m, k], weights b [n, k], both bf16 or both f16. Strides in elements.", Fields: []Field{
			{Type: "const uint16_t*", Name: "a", Doc: "a multiple of 16"},
			{Type: "const uint16_t*", Name: "b", Doc: "a multiple of 16"},
			{Type: "const float*", Name: "scales", Doc: "[m] or null"},
			{Type: "const float*", Name: "bias", Doc: "[n] or null"},
			{Type: "const float*", Name: "residual", Doc: "[m, n] or null; may be y"},
			{Type: "float*", Name: "y", Doc: "[m, n]"},
			{Type: "int32_t", Name: "m"},
			{Type: "int32_t", Name: "n"},
			{Type: "int32_t", Name: "k", Doc: "a multiple of 8"},
			{Type: "int32_t", Name: "a_stride", Doc: "a multiple of 8, as b_stride"},
			{Type: "int32_t", Name: "b_stride"},
			{Type: "int32_t", Name: "residual_stride"},
			{Type: "int32_t", Name: "y_stride"},
		}},
		{Name: "GemmF32", Doc: "y = a*b^T + bias + residual in float32: a [m, k], b [n, k]. Strides in elements.", Fields: []Field{
			{Type: "const float*", Name: "a"},
			{Type: "const float*", Name: "b"},
			{Type: "const float*", Name: "bias", Doc: "[n] or null"},
			{Type: "const float*", Name: "residual", Doc: "[m, n] or null; may be y"},
			{Type: "float*", Name: "y", Doc: "[m, n]"},
			{Type: "int32_t", Name: "m"},
			{Type: "int32_t", Name: "n"},
			{Type: "int32_t", Name: "k"},
			{Type: "int32_t", Name: "a_stride"},
			{Type: "int32_t", Name: "b_stride"},
			{Type: "int32_t", Name: "residual_stride"},
			{Type: "int32_t", Name: "y_stride"},
		}},
		{Name: "Expand", Doc: "y = w rounded to bf16: a quantised weight [rows, k] made ready for the tensor cores.", Fields: []Field{
			{Type: "const uint8_t*", Name: "w", Doc: "raw rows, or the data plane of tile16"},
			{Type: "const uint8_t*", Name: "head", Doc: "planes of tile16"},
			{Type: "const uint8_t*", Name: "tail"},
			{Type: "uint16_t*", Name: "y", Doc: "a multiple of 16"},
			{Type: "int64_t", Name: "w_stride", Doc: "bytes from a raw row to the next, a multiple of 16"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "k"},
			{Type: "int32_t", Name: "y_stride", Doc: "in elements, a multiple of 8"},
			{Type: "int32_t", Name: "type", Doc: "of the weight; set by Expand, which counts bytes by it"},
		}},
	},
	Kernels: gemmKernels(),
})

func gemmKernels() (all []Kernel) {
	why := map[string]string{
		"bf16": "operands are rounded to bf16, 2^-9 each; about 2^-9 of a row's norm times the weights' norm",
		"f16":  "activations are rounded to f16 with a power of two a row, 2^-12; about 2^-12 of a row's norm times the weights' norm",
	}
	for _, t := range []string{"bf16", "f16"} {
		for _, tile := range []struct {
			name              string
			shared, registers int
		}{{"128x256", 4 * (128 + 256) * 128, 255}, {"128x128", 3 * (128 + 128) * 128, 255}, {"64x64", 3 * (64 + 64) * 128, 128}} {
			all = append(all, Kernel{Symbol: fmt.Sprintf("gemm_%s_%s", t, tile.name), Params: "Gemm", Tolerance: why[t], Shared: tile.shared, Hot: true, Registers: tile.registers})
		}
	}
	all = append(all, Kernel{Symbol: "gemm_f32", Params: "GemmF32", Hot: true, Registers: 168})
	for _, layout := range []string{"", "tile_"} {
		for _, t := range blockTypes {
			all = append(all, Kernel{Symbol: "expand_" + layout + t, Params: "Expand", Hot: true, Registers: 64})
		}
	}
	return all
}

package main

import "fmt"

var _ = register(Family{
	Name: "matvec_tile",
	Structs: []Struct{
		{Name: "MatvecTile", Doc: "y = w*x + bias + residual for up to 3 quantised weights [rows, k] in layout tile16 and 8-bit activations of some columns.", Fields: []Field{
			{Type: "const int8_t*", Name: "q8", Doc: "[columns][k]"},
			{Type: "const void*", Name: "records", Doc: "[columns][k/32]"},
			{Type: "const uint8_t*", Name: "data", Count: 3, Doc: "each weight's planes"},
			{Type: "const uint8_t*", Name: "head", Count: 3},
			{Type: "const uint8_t*", Name: "tail", Count: 3, Doc: "of Q6_K"},
			{Type: "const float*", Name: "bias", Count: 3, Doc: "[rows] or null"},
			{Type: "const float*", Name: "residual", Count: 3, Doc: "[columns, rows] or null; may be y"},
			{Type: "float*", Name: "y", Count: 3, Doc: "[columns, rows]"},
			{Type: "int32_t", Name: "type", Count: 3, Doc: "of the weights"},
			{Type: "int32_t", Name: "rows", Count: 3},
			{Type: "int32_t", Name: "residual_stride", Count: 3, Doc: "in elements, as y_stride"},
			{Type: "int32_t", Name: "y_stride", Count: 3},
			{Type: "int32_t", Name: "segments", Doc: "weights"},
			{Type: "int32_t", Name: "k"},
			{Type: "int32_t", Name: "columns", Doc: "as many as the kernel's name says at most, on tensor cores any number"},
			{Type: "int32_t", Name: "parts", Doc: "partial sums of a row; 0: the launcher's rule for the first weight"},
			{Type: "int32_t", Name: "resident", Doc: "set by the launcher: rounds whose activations are in shared memory at a time; on tensor cores: groups in a warp's ring, 0: all"},
			{Type: "int32_t", Name: "tiles", Doc: "set by the launcher: of all weights; on tensor cores: pairs of tiles"},
			{Type: "int32_t", Name: "span", Doc: "set by the launcher, on tensor cores: parts that a warp adds up, 1 or 2"},
			{Type: "int32_t", Name: "units", Doc: "set by the launcher, on tensor cores: pairs of tiles that a block has at a time"},
		}},
		{Name: "MatvecSwiglu", Doc: "silu(gate*x) * (up*x) for two quantised weights [rows, k] of one type in layout tile16 and 8-bit activations of some columns, in float32, rounded to 8 bits, or both.", Fields: []Field{
			{Type: "const int8_t*", Name: "q8", Doc: "[columns][k]"},
			{Type: "const void*", Name: "records", Doc: "[columns][k/32]"},
			{Type: "const uint8_t*", Name: "data", Count: 2, Doc: "planes of gate and up"},
			{Type: "const uint8_t*", Name: "head", Count: 2},
			{Type: "const uint8_t*", Name: "tail", Count: 2, Doc: "of Q6_K"},
			{Type: "float*", Name: "y", Doc: "[columns, rows] or null"},
			{Type: "int8_t*", Name: "y8", Doc: "[columns][rows] or null; then rows is a multiple of 32"},
			{Type: "void*", Name: "y_records", Doc: "[columns][rows/32]"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "k"},
			{Type: "int32_t", Name: "columns", Doc: "as many as the kernel's name says at most, on tensor cores any number"},
			{Type: "int32_t", Name: "y_stride", Doc: "in elements"},
			{Type: "int32_t", Name: "parts", Doc: "partial sums of a row; 0: the launcher's rule"},
			{Type: "int32_t", Name: "resident", Doc: "set by the launcher: rounds whose activations are in shared memory at a time; on tensor cores: groups in a warp's ring, 0: all"},
			{Type: "int32_t", Name: "span", Doc: "set by the launcher, on tensor cores: parts that a warp adds up, 1 or 2"},
			{Type: "int32_t", Name: "units", Doc: "set by the launcher, on tensor cores: tiles of gate and of up that a block has at a time, 1, 2 or 4"},
			{Type: "int32_t", Name: "type", Doc: "of the weights; set by MatvecSwiglu, which counts bytes by it"},
		}},
	},
	Kernels: matvecTileKernels(),
})

func matvecTileKernels() (all []Kernel) {
	// As in launch_matvec_tile.go; how many registers each form may have is in the sources.
	const warps, stage, staged, registers = 10, 672, 32 << 10, 168
	for _, n := range []int{1, 2} {
		shared := max(staged, warps*n*stage)
		for _, t := range append([]string{"k", "0"}, blockTypes...) {
			tile := Kernel{Symbol: fmt.Sprintf("matvec_tile_%s_%d", t, n), Params: "MatvecTile", Shared: shared + 2*warps*n*64}
			swiglu := Kernel{Symbol: fmt.Sprintf("matvec_swiglu_%s_%d", t, n), Params: "MatvecSwiglu", Shared: shared + 4*warps*n*64}
			// Forms of several types and those of types that take the most registers spill a few words: a block of 320 threads has
			// 3 warps on one of a multiprocessor's four parts, so a thread may have 168 registers.
			if len(t) > 1 && t != "q8_0" && t != "q5_1" {
				tile.Hot, tile.Registers = true, registers
				if t != "q6_k" && t != "q5_0" { // on sm_80
					swiglu.Hot, swiglu.Registers = true, registers
				}
			}
			all = append(all, tile)
			if len(t) > 1 {
				all = append(all, swiglu)
			}
		}
	}
	return all
}

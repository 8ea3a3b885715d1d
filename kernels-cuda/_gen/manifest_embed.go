package main

var _ = register(Family{
	Name: "embed",
	Structs: []Struct{
		{Name: "GatherRows", Doc: "y[r] = x[ids[r]] of an activation. Strides in elements.", Fields: []Field{
			{Type: "const float*", Name: "x"},
			{Type: "const int32_t*", Name: "ids", Doc: "[rows]"},
			{Type: "float*", Name: "y", Doc: "[rows, width]"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "width"},
			{Type: "int32_t", Name: "x_stride"},
			{Type: "int32_t", Name: "y_stride"},
		}},
		{Name: "KvMove", Doc: "Moves count cells of a region from cell src to cell dst; the ranges may overlap.", Fields: []Field{
			{Type: "void*", Name: "region"},
			{Type: "int64_t", Name: "row", Doc: "bytes of a cell, a multiple of 2"},
			{Type: "int32_t", Name: "dst"},
			{Type: "int32_t", Name: "src"},
			{Type: "int32_t", Name: "count"},
		}},
		{Name: "BatchMatmul", Doc: "y[i,m,n] = sum_k a[i,m,k] * b[i,n,k], float32. Strides of batches in elements; rows within are contiguous.", Fields: []Field{
			{Type: "const float*", Name: "a"},
			{Type: "const float*", Name: "b"},
			{Type: "float*", Name: "y"},
			{Type: "int64_t", Name: "a_stride"},
			{Type: "int64_t", Name: "b_stride"},
			{Type: "int32_t", Name: "batch"},
			{Type: "int32_t", Name: "m"},
			{Type: "int32_t", Name: "n"},
			{Type: "int32_t", Name: "k"},
		}},
	},
	Kernels: []Kernel{
		{Symbol: "gather_rows_f32", Params: "GatherRows"},
		{Symbol: "kv_move", Params: "KvMove"},
		{Symbol: "batch_matmul_f32", Params: "BatchMatmul"},
	},
})

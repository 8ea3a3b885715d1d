package main

var _ = register(Family{
	Name: "elementwise",
	Structs: []Struct{
		{Name: "Elementwise", Doc: "y = op(a, b) on [rows, width], and the same rounded to 8 bits. Strides in elements.", Fields: []Field{
			{Type: "const float*", Name: "a"},
			{Type: "const float*", Name: "b", Doc: "not read by silu and scale"},
			{Type: "float*", Name: "y", Doc: "or null"},
			{Type: "int8_t*", Name: "q8", Doc: "[rows][width], or null; then width is a multiple of 32"},
			{Type: "void*", Name: "records", Doc: "[rows][width/32]"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "width"},
			{Type: "int32_t", Name: "a_stride"},
			{Type: "int32_t", Name: "b_stride"},
			{Type: "int32_t", Name: "y_stride"},
			{Type: "float", Name: "factor", Doc: "of scale"},
		}},
		{Name: "Permute", Doc: "y[i0,i1,i2,i3] = x[sum of i_d*stride[d]], y contiguous.", Fields: []Field{
			{Type: "const float*", Name: "x"},
			{Type: "float*", Name: "y"},
			{Type: "int64_t", Name: "stride", Count: 4, Doc: "of x, in elements, by dimension of y"},
			{Type: "int32_t", Name: "shape", Count: 4, Doc: "of y, leading dimensions 1"},
		}},
	},
	Kernels: []Kernel{
		{Symbol: "add_f32", Params: "Elementwise"},
		{Symbol: "mul_f32", Params: "Elementwise"},
		{Symbol: "silu_f32", Params: "Elementwise"},
		{Symbol: "swiglu_f32", Params: "Elementwise", Hot: true, Registers: 40},
		{Symbol: "scale_f32", Params: "Elementwise"},
		{Symbol: "permute_f32", Params: "Permute"},
	},
})

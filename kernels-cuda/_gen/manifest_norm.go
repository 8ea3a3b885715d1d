package main

var _ = register(Family{
	Name: "norm",
	Structs: []Struct{
		{Name: "RmsNorm", Doc: "s = x + residual; y = s / sqrt(mean(s²) + eps) * w over rows of width, and y rounded to 8 bits. Strides in elements.", Fields: []Field{
			{Type: "const float*", Name: "x"},
			{Type: "const float*", Name: "residual", Doc: "or null: s = x"},
			{Type: "const float*", Name: "w", Doc: "[width]"},
			{Type: "float*", Name: "sum", Doc: "s, or null; may be x or residual"},
			{Type: "float*", Name: "y", Doc: "or null"},
			{Type: "int8_t*", Name: "q8", Doc: "[rows][width], or null; then width is a multiple of 32"},
			{Type: "void*", Name: "records", Doc: "[rows][width/32]"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "width"},
			{Type: "int32_t", Name: "x_stride"},
			{Type: "int32_t", Name: "residual_stride"},
			{Type: "int32_t", Name: "sum_stride"},
			{Type: "int32_t", Name: "y_stride"},
			{Type: "float", Name: "eps"},
		}},
		{Name: "HeadNorm", Doc: "y = x / sqrt(mean(x²) + eps) * w over the last dimension of [rows, heads, width]. Strides of rows, in elements.", Fields: []Field{
			{Type: "const float*", Name: "x"},
			{Type: "const float*", Name: "w", Doc: "[width]"},
			{Type: "float*", Name: "y"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "heads"},
			{Type: "int32_t", Name: "width"},
			{Type: "int32_t", Name: "x_stride"},
			{Type: "int32_t", Name: "y_stride"},
			{Type: "float", Name: "eps"},
		}},
		{Name: "Softmax", Doc: "y = exp(x - max) / sum over the last dimension of [rows, inner, width]. Strides of rows, in elements.", Fields: []Field{
			{Type: "const float*", Name: "x"},
			{Type: "float*", Name: "y"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "inner"},
			{Type: "int32_t", Name: "width"},
			{Type: "int32_t", Name: "x_stride"},
			{Type: "int32_t", Name: "y_stride"},
		}},
	},
	Kernels: []Kernel{
		{Symbol: "rmsnorm_f32", Params: "RmsNorm", Hot: true, Registers: 64},
		{Symbol: "headnorm_f32", Params: "HeadNorm", Hot: true, Registers: 48},
		{Symbol: "softmax_f32", Params: "Softmax"},
	},
})

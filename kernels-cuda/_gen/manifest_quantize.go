package main

var _ = register(Family{
	Name: "quantize",
	Structs: []Struct{
		{Name: "Quantize", Doc: "Rounding of activation rows [rows, k], or of silu(gate)*up over rows [rows, 2k], to 8 or 16 bits. Strides in elements.", Fields: []Field{
			{Type: "const float*", Name: "x"},
			{Type: "int8_t*", Name: "q8", Doc: "[rows][k], of quantize_q8"},
			{Type: "void*", Name: "records", Doc: "[rows][k/32], of quantize_q8"},
			{Type: "uint16_t*", Name: "y16", Doc: "[rows][y_stride], of the conversions; a multiple of 8 bytes, y_stride one of 4; columns from k on become 0"},
			{Type: "float*", Name: "scales", Doc: "[rows], of convert_f16: what a row's values are to be multiplied with"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "k"},
			{Type: "int32_t", Name: "x_stride"},
			{Type: "int32_t", Name: "y_stride"},
		}},
	},
	Kernels: []Kernel{
		{Symbol: "quantize_q8", Params: "Quantize", Hot: true, Registers: 40},
		{Symbol: "convert_bf16", Params: "Quantize", Hot: true, Registers: 40},
		{Symbol: "swiglu_convert_bf16", Params: "Quantize", Hot: true, Registers: 48},
		{Symbol: "convert_f16", Params: "Quantize"},
	},
})

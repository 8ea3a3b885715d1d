package main

var _ = register(Family{
	Name: "sample",
	Structs: []Struct{
		{Name: "Sample", Doc: "token[r] = drawn as package sample does with row r's parameters; -1: bad logits; -2: too many candidates, sample on the host.", Fields: []Field{
			{Type: "const float*", Name: "logits", Doc: "[rows, vocab]"},
			{Type: "const void*", Name: "choices", Doc: "[rows] of SampleRow"},
			{Type: "int32_t*", Name: "tokens", Doc: "[rows]"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "vocab"},
			{Type: "int32_t", Name: "stride", Doc: "elements"},
		}},
	},
	Kernels: []Kernel{
		{Symbol: "sample_f32", Params: "Sample"},
	},
})

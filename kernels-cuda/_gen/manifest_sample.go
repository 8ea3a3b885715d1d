package main

var _ = register(Family{
	Name: "sample",
	Structs: []Struct{
		{Name: "Argmax", Doc: "token[r] = the first id with the largest logit; -1 if a logit is NaN or +Inf, or all are -Inf.", Fields: []Field{
			{Type: "const float*", Name: "logits", Doc: "[rows, vocab]"},
			{Type: "int32_t*", Name: "tokens", Doc: "[rows]"},
			{Type: "uint64_t*", Name: "best", Doc: "[rows] zeros, left as zeros"},
			{Type: "int32_t*", Name: "counters", Doc: "[rows] zeros, left as zeros"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "vocab"},
			{Type: "int32_t", Name: "stride", Doc: "elements"},
		}},
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
		{Symbol: "argmax_f32", Params: "Argmax"},
		{Symbol: "sample_f32", Params: "Sample"},
	},
})

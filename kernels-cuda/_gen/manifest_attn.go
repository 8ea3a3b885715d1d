package main

import "fmt"

var _ = register(Family{
	Name: "attn",
	Structs: []Struct{
		{Name: "Attn", Doc: "y[r,h] = sum_j softmax_j(scale * q[r,h]·k[cell(j),h/group]) v[cell(j),h/group] over positions j < lengths[r] of the row's sequence.\nStrides of rows in elements, of cells in bytes. Rows of length 0 give zeros.", Fields: []Field{
			{Type: "const float*", Name: "q", Doc: "[rows, heads, head_dim]"},
			{Type: "const void*", Name: "keys", Doc: "region"},
			{Type: "const void*", Name: "values", Doc: "region"},
			{Type: "const int32_t*", Name: "lengths", Doc: "[rows]"},
			{Type: "const int32_t*", Name: "seqs", Doc: "[rows]"},
			{Type: "const int32_t*", Name: "seq_runs", Doc: "[seqs][2]"},
			{Type: "const int32_t*", Name: "runs", Doc: "[runs][2]"},
			{Type: "float*", Name: "y", Doc: "[rows, heads, head_dim], or null"},
			{Type: "int8_t*", Name: "q8", Doc: "y rounded, [rows][heads*head_dim], or null; then head_dim is a multiple of 32"},
			{Type: "void*", Name: "records", Doc: "[rows][heads*head_dim/32]"},
			{Type: "float*", Name: "parts", Doc: "scratch of the split form: Scratch"},
			{Type: "float*", Name: "states", Doc: "scratch of the split form"},
			{Type: "int32_t*", Name: "counters", Doc: "zeros, left as zeros: the last block combines; null: attn_combine_f32 does"},
			{Type: "int64_t", Name: "key_row", Doc: "bytes of a cell, all heads"},
			{Type: "int64_t", Name: "value_row"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "heads"},
			{Type: "int32_t", Name: "kv_heads"},
			{Type: "int32_t", Name: "head_dim"},
			{Type: "int32_t", Name: "cells", Doc: "most positions of a row"},
			{Type: "int32_t", Name: "q_stride"},
			{Type: "int32_t", Name: "y_stride"},
			{Type: "int32_t", Name: "key_type", Doc: "KVF32, KVF16, KVQ8"},
			{Type: "int32_t", Name: "value_type"},
			{Type: "float", Name: "scale"},
			{Type: "int32_t", Name: "early", Doc: "1: lengths, seqs and run tables were complete before this stream's work began: read ahead of the wait"},
		}},
	},
	Kernels: attnKernels(),
})

func attnKernels() (ks []Kernel) {
	ks = append(ks,
		Kernel{Symbol: "attn_reference_f32", Params: "Attn"},
		Kernel{Symbol: "attn_decode_f32", Params: "Attn"},
		Kernel{Symbol: "attn_combine_f32", Params: "Attn", Hot: true, Registers: 64},
	)
	const tolerance = "1e-3 of a row's largest value: powers (and values of q8_0) are rounded to f16 for the tensor cores, tiles of 64 are summed online"
	// As PrefillShared in cu/attn_prefill.cuh.
	shared := func(d int, key string) int {
		scales := 1
		if key == "q8" {
			scales = d / 32
		}
		return 8*d/16*32*16 + 2*64*(d+8)*2 + scales*256 + 2*256 + 2*512
	}
	for _, d := range []int{80, 96} {
		ks = append(ks, Kernel{Symbol: fmt.Sprintf("attn_prefill_f16_f16_d%d", d), Params: "Attn", Tolerance: tolerance, Shared: shared(d, "f16"), Hot: true, Registers: 255})
	}
	for _, d := range []int{64, 128} {
		for _, k := range []string{"f16", "q8"} {
			for _, v := range []string{"f16", "q8"} {
				prefill := Kernel{Symbol: fmt.Sprintf("attn_prefill_%s_%s_d%d", k, v, d), Params: "Attn", Tolerance: tolerance, Shared: shared(d, k), Hot: true, Registers: 255}
				if k == "q8" && d == 128 { // 255 registers are a few too little
					prefill.Hot, prefill.Registers = false, 0
				}
				ks = append(ks, prefill,
					Kernel{Symbol: fmt.Sprintf("attn_decode_%s_%s_d%d", k, v, d), Params: "Attn", Hot: true, Registers: 192})
			}
		}
	}
	return ks
}

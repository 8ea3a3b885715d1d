package main

var _ = register(Family{
	Name: "repack",
	Structs: []Struct{
		{Name: "Repack", Doc: "A quantised weight [rows, k] from layout raw to tile16.", Fields: []Field{
			{Type: "const uint8_t*", Name: "w", Doc: "a multiple of 16"},
			{Type: "uint8_t*", Name: "data", Doc: "the planes, each a multiple of 16"},
			{Type: "uint8_t*", Name: "head"},
			{Type: "uint8_t*", Name: "tail"},
			{Type: "int64_t", Name: "w_stride", Doc: "bytes from a row to the next, a multiple of 16"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "k"},
		}},
	},
	Kernels: repackKernels(),
})

func repackKernels() (all []Kernel) {
	for _, t := range blockTypes {
		all = append(all, Kernel{Symbol: "repack_" + t, Params: "Repack"})
	}
	return all
}

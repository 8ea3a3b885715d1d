package main

var _ = register(Family{
	Name: "getrows",
	Structs: []Struct{
		{Name: "Getrows", Doc: "y[r] = table[ids[r]] in float32.", Fields: []Field{
			{Type: "const uint8_t*", Name: "table", Doc: "raw rows, or the data plane of tile16"},
			{Type: "const uint8_t*", Name: "head", Doc: "planes of tile16"},
			{Type: "const uint8_t*", Name: "tail"},
			{Type: "const int32_t*", Name: "ids", Doc: "[rows]"},
			{Type: "float*", Name: "y"},
			{Type: "int64_t", Name: "table_stride", Doc: "bytes from a raw row to the next, a multiple of 16"},
			{Type: "int32_t", Name: "rows"},
			{Type: "int32_t", Name: "entries", Doc: "rows of the table"},
			{Type: "int32_t", Name: "width"},
			{Type: "int32_t", Name: "y_stride", Doc: "in elements"},
			{Type: "int32_t", Name: "type", Doc: "of the table; set by Getrows, which counts bytes by it"},
		}},
	},
	Kernels: getrowsKernels(),
})

// Weight types as symbols have them.
var (
	floatTypes = []string{"f32", "f16", "bf16"}
	blockTypes = []string{"q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"}
)

func getrowsKernels() (all []Kernel) {
	for _, t := range floatTypes {
		all = append(all, Kernel{Symbol: "getrows_" + t, Params: "Getrows"})
	}
	for _, layout := range []string{"", "tile_"} {
		for _, t := range blockTypes {
			all = append(all, Kernel{Symbol: "getrows_" + layout + t, Params: "Getrows"})
		}
	}
	return all
}

package main

// The manifest says what kernels there are and what each one's parameter struct holds. It is Go data, one file a family
// (manifest_*.go); everything that must agree between CUDA and Go is generated from it.

// Family is one file's worth of kernels.
type Family struct {
	Name    string // of the file: manifest_NAME.go, launch_NAME.go
	Structs []Struct
	Kernels []Kernel
}

// Struct is a parameter block: passed by value to a kernel, so it holds addresses and numbers only. Its fields must lie at
// multiples of their size without gaps (8-byte fields first, by rule of thumb), the same on both sides.
type Struct struct {
	Name   string // without "Params"
	Doc    string // what the kernels over it compute
	Fields []Field
}

// Field is one field. Type is the C one: a pointer, int32_t, uint32_t, int64_t, uint64_t or float. Count > 1 makes it an array.
type Field struct {
	Type, Name string
	Doc        string
	Count      int
}

// Kernel is an entry point.
type Kernel struct {
	Symbol string // op_type[_variant], as in the .cu file; the Go name is made from it
	Params string // Struct.Name

	// Tolerance is empty for the bitwise class: a row's result depends on nothing but that row, and the same bits come out
	// each time. Otherwise it names by how much the result may differ from the reference formula and why.
	Tolerance string

	// Shared is the most dynamic shared memory in bytes that a launch asks for. Above 48 KiB Load opts in, or skips the
	// kernel where the device doesn't have it.
	Shared int

	// Elastic says that the launcher makes do with what shared memory the device has: Load opts in to Shared or to that.
	Elastic bool

	// Hot kernels are held to Registers at most and may not spill (make ci). The limit holds for each architecture.
	Hot       bool
	Registers int

	// Only names the feature set a kernel needs: "sm_90a" if it exists in that image alone. Load skips it elsewhere.
	Only string
}

var families []Family

func register(f Family) bool {
	families = append(families, f)
	return true
}

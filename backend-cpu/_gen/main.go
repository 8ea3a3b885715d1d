// Command _gen writes the assembly of backend-cpu/internal/matmul. From this directory, with GOWORK=off:
//
//	go run . -group avx2   -out ../internal/matmul/avx2_amd64.s   -stubs ../internal/matmul/avx2_amd64.go   -pkg matmul
//	go run . -group avx512 -out ../internal/matmul/avx512_amd64.s -stubs ../internal/matmul/avx512_amd64.go -pkg matmul
package main

import (
	"flag"

	. "github.com/mmcloughlin/avo/build"
)

var group = flag.String("group", "avx2", "avx2 or avx512")

func main() {
	flag.Parse()
	ConstraintExpr("amd64,!noasm")
	switch *group {
	case "avx2":
		unpackers()
		tiles()
		directs()
		spreader()
		quantizer()
		bothSigner()
		dots()
		probes()
	case "avx512":
		tiles512()
		directs512()
		probes512()
	}
	Generate()
}

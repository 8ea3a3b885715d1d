package kernelscuda

import "github.com/minfer-go/minfer/cudart"

// grid makes a launch of x*y blocks of the given threads. Zero blocks in a dimension mean that there is nothing to do.
func grid(x, y, threads int) cudart.LaunchConfig {
	return cudart.LaunchConfig{GridX: uint32(x), GridY: uint32(y), GridZ: 1, BlockX: uint32(threads), BlockY: 1, BlockZ: 1}
}

// ceil is a/b rounded up.
func ceil(a, b int) int { return (a + b - 1) / b }

// gridLimit is the most blocks in a grid's second and third dimension.
const gridLimit = 65535

// q8Bytes is what rounding n values to 8 bits writes: quants and a record a block of 32.
func q8Bytes(n int64) int64 { return n + n/32*8 }

// rows checks the sizes that most kernels have.
func rows(rows, width int32) error {
	if rows < 0 || width <= 0 {
		return shape("%d rows of %d", rows, width)
	}
	return nil
}

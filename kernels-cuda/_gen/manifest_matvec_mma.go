package main

import "fmt"

// The structs are those of matvec_tile. Forms are held to 128 registers, so that a block may have 16 warps, and spill a few words beside their
// loops: none is among the hot ones.
var _ = register(Family{Name: "matvec_mma", Kernels: matvecMmaKernels()})

func matvecMmaKernels() (all []Kernel) {
	// As in launch_matvec_mma.go: no more than the largest device has for one block.
	const shared = 227 << 10
	for _, n := range []int{8, 16} {
		for _, t := range append([]string{"k", "0"}, blockTypes...) {
			all = append(all, Kernel{Symbol: fmt.Sprintf("matvec_mma_%s_%d", t, n), Params: "MatvecTile", Shared: shared, Elastic: true})
			if len(t) > 1 {
				all = append(all, Kernel{Symbol: fmt.Sprintf("matvec_mma_swiglu_%s_%d", t, n), Params: "MatvecSwiglu", Shared: shared, Elastic: true})
			}
		}
	}
	return all
}

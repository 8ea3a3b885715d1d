// Package kernelstest stands in for a device with the kernels in tests of what is asked of them, not of what they compute.
package kernelstest

import (
	"unsafe"

	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// Image stands for a fatbin: the fake driver doesn't read it.
var Image = []byte("a fatbin")

// New makes a driver that has every kernel. They do nothing, but tell ran, if it isn't nil, that they ran: launched or replayed.
func New(o cudatest.Options, ran func(kernelscuda.ID)) *cudatest.Fake {
	f := cudatest.New(o)
	f.Register("minfer_kernels_abi_"+kernelscuda.ManifestHash, func(*sys.LaunchConfig, unsafe.Pointer) {})
	for id := range kernelscuda.NumKernels {
		f.Register(id.String(), func(*sys.LaunchConfig, unsafe.Pointer) {
			if ran != nil {
				ran(id)
			}
		})
	}
	return f
}

package kernelscuda

import (
	"errors"
	"fmt"

	"github.com/minfer-go/minfer/cudart"
)

// abiPrefix and ManifestHash name the entry point that only an image built from this package's manifest has.
const abiPrefix = "minfer_kernels_abi_"

// staticLimit is the dynamic shared memory that a launch gets without asking.
const staticLimit = 48 << 10

// Load makes all kernels ready to launch: looks each one up, opts in to shared memory beyond 48 KiB and so forces the driver to
// load the code now. No launch does any of this later. A kernel that the device can't give what it needs is left out, Why tells the
// reason; an image of another build is an error. It runs within a Context.Do.
func Load(b *cudart.Bound, image []byte) (*Kernels, error) {
	lib, err := b.LoadLibrary(image)
	if err != nil {
		return nil, fmt.Errorf("kernelscuda: %w", err)
	}
	k := &Kernels{library: lib, device: b.Context().Device()}
	if err := k.resolve(b); err != nil {
		return nil, errors.Join(err, lib.Unload(b))
	}
	return k, nil
}

func (k *Kernels) resolve(b *cudart.Bound) error {
	if _, err := k.library.Kernel(b, abiPrefix+ManifestHash); err != nil {
		return fmt.Errorf("kernelscuda: the kernels' image was built from other sources than this program (%s%s is not in it): run `make kernels` in kernels-cuda: %w: %w",
			abiPrefix, ManifestHash, ErrUnavailable, err)
	}
	arch := fmt.Sprintf("sm_%d%da", k.device.Major, k.device.Minor)
	for id := range NumKernels {
		d := &table[id]
		if d.only != "" && d.only != arch {
			k.why[id] = fmt.Errorf("kernelscuda: %s exists for %s only: %w", d.symbol, d.only, ErrUnavailable)
			continue
		}
		kernel, err := k.library.Kernel(b, d.symbol)
		if err != nil {
			return fmt.Errorf("kernelscuda: %s: %w", d.symbol, err)
		}
		shared := d.shared
		if d.elastic {
			shared = min(shared, k.device.SharedPerBlockOptin)
		}
		if shared > staticLimit {
			if err := kernel.SetSharedLimit(b, shared); errors.Is(err, cudart.ErrUnsupported) {
				k.why[id] = fmt.Errorf("kernelscuda: %s: %w: %w", d.symbol, ErrUnavailable, err)
				continue
			} else if err != nil {
				return fmt.Errorf("kernelscuda: %s: %d bytes of shared memory: %w", d.symbol, shared, err)
			}
		}
		k.kernels[id] = kernel
	}
	return nil
}

// Close gives the image back. Nothing that uses its kernels may run afterwards.
func (k *Kernels) Close(b *cudart.Bound) error {
	lib := k.library
	k.library = nil
	if lib == nil {
		return nil
	}
	return lib.Unload(b)
}

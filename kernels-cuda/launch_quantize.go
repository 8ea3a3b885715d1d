package kernelscuda

import "github.com/minfer-go/minfer/cudart"

func (p *QuantizeParams) config(id ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	const elements = 256 * 4 // a block's
	if err := rows(p.Rows, p.K); err != nil {
		return cudart.LaunchConfig{}, err
	}
	if id == KernelQuantizeQ8 && p.K%32 != 0 {
		return cudart.LaunchConfig{}, shape("rows of %d, no multiple of 32, have no 8-bit form", p.K)
	}
	if id != KernelQuantizeQ8 && (p.YStride%4 != 0 || p.YStride < p.K) {
		return cudart.LaunchConfig{}, shape("rows of %d with %d from one to the next: want a multiple of 4 that holds them", p.K, p.YStride)
	}
	if id == KernelConvertF16 {
		return grid(int(p.Rows), 1, 256), nil
	}
	return grid(ceil(int(max(p.K, p.YStride)), elements), min(int(p.Rows), gridLimit), 256), nil
}

// Bytes moved.
func (p *QuantizeParams) Bytes() int64 {
	n := int64(p.Rows) * int64(p.K)
	if p.Q8 != 0 {
		return 4*n + q8Bytes(n)
	}
	return 6 * n
}

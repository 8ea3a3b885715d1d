package kernelscuda

import "github.com/minfer-go/minfer/cudart"

func (p *ElementwiseParams) config(id ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	const elements = 256 * 4 // a block's
	if err := rows(p.Rows, p.Width); err != nil {
		return cudart.LaunchConfig{}, err
	}
	if p.Q8 != 0 && p.Width%32 != 0 {
		return cudart.LaunchConfig{}, shape("rows of %d, no multiple of 32, have no 8-bit form", p.Width)
	}
	y := ceil(int(p.Width), elements)
	if y > gridLimit {
		return cudart.LaunchConfig{}, shape("rows of %d", p.Width)
	}
	return grid(int(p.Rows), y, 256), nil
}

// Bytes moved.
func (p *ElementwiseParams) Bytes() int64 {
	n := int64(p.Rows) * int64(p.Width)
	sum := 4 * n
	for _, operand := range []cudart.Ptr{p.B, p.Y} {
		if operand != 0 {
			sum += 4 * n
		}
	}
	if p.Q8 != 0 {
		sum += q8Bytes(n)
	}
	return sum
}

func (p *PermuteParams) config(_ ID, dev *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	n := int64(1)
	for _, d := range p.Shape {
		if d < 0 {
			return cudart.LaunchConfig{}, shape("shape %v", p.Shape)
		}
		n *= int64(d)
	}
	return grid(int(min((n+255)/256, int64(dev.Multiprocessors)*32)), 1, 256), nil
}

// Bytes moved.
func (p *PermuteParams) Bytes() int64 {
	return 8 * int64(p.Shape[0]) * int64(p.Shape[1]) * int64(p.Shape[2]) * int64(p.Shape[3])
}

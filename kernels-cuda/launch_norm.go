package kernelscuda

import "github.com/minfer-go/minfer/cudart"

// rowThreads is the size of a block that does one row, 4 elements a thread and pass. It follows from the width alone: so does
// the order of the row's sum.
func rowThreads(width int32) int {
	switch {
	case width <= 1024:
		return 256
	case width <= 2048:
		return 512
	}
	return 1024
}

func (p *RmsNormParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := rows(p.Rows, p.Width); err != nil {
		return cudart.LaunchConfig{}, err
	}
	if p.Q8 != 0 && p.Width%32 != 0 {
		return cudart.LaunchConfig{}, shape("rows of %d, no multiple of 32, have no 8-bit form", p.Width)
	}
	return grid(int(p.Rows), 1, rowThreads(p.Width)), nil
}

// Bytes moved.
func (p *RmsNormParams) Bytes() int64 {
	n := int64(p.Rows) * int64(p.Width)
	sum := 4 * (n + int64(p.Width))
	for _, operand := range []cudart.Ptr{p.Residual, p.Sum, p.Y} {
		if operand != 0 {
			sum += 4 * n
		}
	}
	if p.Q8 != 0 {
		sum += q8Bytes(n)
	}
	return sum
}

func (p *HeadNormParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := rows(p.Rows, p.Width); err != nil {
		return cudart.LaunchConfig{}, err
	}
	const heads = 8 // a block's
	if p.Heads <= 0 || ceil(int(p.Heads), heads) > gridLimit {
		return cudart.LaunchConfig{}, shape("%d heads", p.Heads)
	}
	return grid(int(p.Rows), ceil(int(p.Heads), heads), heads*32), nil
}

// Bytes moved.
func (p *HeadNormParams) Bytes() int64 {
	return 8*int64(p.Rows)*int64(p.Heads)*int64(p.Width) + 4*int64(p.Width)
}

func (p *SoftmaxParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := rows(p.Rows, p.Width); err != nil {
		return cudart.LaunchConfig{}, err
	}
	if p.Inner <= 0 || p.Inner > gridLimit {
		return cudart.LaunchConfig{}, shape("%d rows within a row", p.Inner)
	}
	return grid(int(p.Rows), int(p.Inner), rowThreads(p.Width)), nil
}

// Bytes moved.
func (p *SoftmaxParams) Bytes() int64 { return 16 * int64(p.Rows) * int64(p.Inner) * int64(p.Width) }

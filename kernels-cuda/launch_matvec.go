package kernelscuda

import "github.com/minfer-go/minfer/cudart"

// maxParts is the most partial sums of a row.
const maxParts = 32

func (p *MatvecParams) config(id ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := product(p.Rows, p.K, p.Columns); err != nil {
		return cudart.LaunchConfig{}, err
	}
	if p.K%chunkLen != 0 {
		return cudart.LaunchConfig{}, shape("rows of %d weights, no multiple of %d", p.K, chunkLen)
	}
	if p.Parts == 0 {
		p.Parts = int32(MatvecParts(int(p.Rows), int(p.K)))
	}
	if p.Parts < 1 || p.Parts > maxParts {
		return cudart.LaunchConfig{}, shape("%d partial sums a row", p.Parts)
	}
	lanes := 1
	for lanes < int(p.Parts) {
		lanes *= 2
	}
	y := ceil(int(p.Columns), columnsOf(id))
	if y > gridLimit {
		return cudart.LaunchConfig{}, shape("%d columns", p.Columns)
	}
	return grid(ceil(int(p.Rows), 4*(32/lanes)), y, 128), nil
}

// Bytes moved.
func (p *MatvecParams) Bytes() int64 {
	return int64(p.Rows)*p.WStride + int64(p.Columns)*q8Bytes(int64(p.K)) + outBytes(p.Rows, p.Columns, p.Bias, p.Residual)
}

func (p *MatvecFloatParams) config(id ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := product(p.Rows, p.K, p.Columns); err != nil {
		return cudart.LaunchConfig{}, err
	}
	y := ceil(int(p.Columns), columnsOf(id))
	if y > gridLimit {
		return cudart.LaunchConfig{}, shape("%d columns", p.Columns)
	}
	return grid(ceil(int(p.Rows), 4), y, 128), nil
}

// Bytes moved.
func (p *MatvecFloatParams) Bytes() int64 {
	return int64(p.Rows)*p.WStride + 4*int64(p.Columns)*int64(p.K) + outBytes(p.Rows, p.Columns, p.Bias, p.Residual)
}

// outBytes is what a product's result and what is added to it take.
func outBytes(rows, columns int32, bias, residual cudart.Ptr) int64 {
	n := 4 * int64(rows) * int64(columns)
	if residual != 0 {
		n *= 2
	}
	if bias != 0 {
		n += 4 * int64(rows)
	}
	return n
}

func product(rows, k, columns int32) error {
	if rows < 0 || k <= 0 || columns < 0 {
		return shape("a weight of %d rows of %d, %d columns", rows, k, columns)
	}
	return nil
}

// columnsOf is how many columns a block of a product's kernel takes: the number at the end of its name.
func columnsOf(id ID) int {
	name := table[id].symbol
	return int(name[len(name)-1] - '0')
}

type matvec = func(*Kernels, Queue, *MatvecParams) error

// matvecs has the raw form's kernels for 1 column and for up to 8 at a time.
var matvecs = map[int32][2]matvec{
	Q4_0: {(*Kernels).MatvecRawQ401, (*Kernels).MatvecRawQ408},
	Q4_1: {(*Kernels).MatvecRawQ411, (*Kernels).MatvecRawQ418},
	Q5_0: {(*Kernels).MatvecRawQ501, (*Kernels).MatvecRawQ508},
	Q5_1: {(*Kernels).MatvecRawQ511, (*Kernels).MatvecRawQ518},
	Q8_0: {(*Kernels).MatvecRawQ801, (*Kernels).MatvecRawQ808},
	Q4_K: {(*Kernels).MatvecRawQ4K1, (*Kernels).MatvecRawQ4K8},
	Q5_K: {(*Kernels).MatvecRawQ5K1, (*Kernels).MatvecRawQ5K8},
	Q6_K: {(*Kernels).MatvecRawQ6K1, (*Kernels).MatvecRawQ6K8},
}

// Matvec queues y = w*x + bias + residual for a quantised weight of type t in layout raw. WStride and Parts are filled in where they are 0.
func (k *Kernels) Matvec(q Queue, t int32, p *MatvecParams) error {
	forms, ok := matvecs[t]
	if !ok {
		return shape("a product of 8-bit activations with weight type %d", t)
	}
	stride, err := RawStride(t, int(p.K))
	if err != nil {
		return err
	}
	if p.WStride == 0 {
		p.WStride = stride
	}
	if p.Columns == 1 {
		return forms[0](k, q, p)
	}
	return forms[1](k, q, p)
}

var matvecFloats = map[int32][3]func(*Kernels, Queue, *MatvecFloatParams) error{
	F32:  {(*Kernels).MatvecF321, (*Kernels).MatvecF324, (*Kernels).MatvecF328},
	F16:  {(*Kernels).MatvecF161, (*Kernels).MatvecF164, (*Kernels).MatvecF168},
	BF16: {(*Kernels).MatvecBf161, (*Kernels).MatvecBf164, (*Kernels).MatvecBf168},
}

// MatvecFloat queues y = w*x + bias + residual for a weight of F32, F16 or BF16. WStride is filled in where it is 0.
func (k *Kernels) MatvecFloat(q Queue, t int32, p *MatvecFloatParams) error {
	forms, ok := matvecFloats[t]
	if !ok {
		return shape("a product of float32 activations with weight type %d", t)
	}
	stride, err := RawStride(t, int(p.K))
	if err != nil {
		return err
	}
	if p.WStride == 0 {
		p.WStride = stride
	}
	switch {
	case p.Columns == 1:
		return forms[0](k, q, p)
	case p.Columns <= 4:
		return forms[1](k, q, p)
	}
	return forms[2](k, q, p)
}

package kernelscuda

import "github.com/minfer-go/minfer/cudart"

func (p *GetrowsParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := rows(p.Rows, p.Width); err != nil {
		return cudart.LaunchConfig{}, err
	}
	return grid(int(p.Rows), 1, 128), nil
}

// Bytes moved.
func (p *GetrowsParams) Bytes() int64 {
	return weightBytes(p.Type, p.Rows, p.Width) + 4*int64(p.Rows)*int64(p.Width)
}

// getrows finds the kernel of a type; layouts raw and tile16.
var getrows = map[int32][2]func(*Kernels, Queue, *GetrowsParams) error{
	F32:  {(*Kernels).GetrowsF32},
	F16:  {(*Kernels).GetrowsF16},
	BF16: {(*Kernels).GetrowsBf16},
	Q4_0: {(*Kernels).GetrowsQ40, (*Kernels).GetrowsTileQ40},
	Q4_1: {(*Kernels).GetrowsQ41, (*Kernels).GetrowsTileQ41},
	Q5_0: {(*Kernels).GetrowsQ50, (*Kernels).GetrowsTileQ50},
	Q5_1: {(*Kernels).GetrowsQ51, (*Kernels).GetrowsTileQ51},
	Q8_0: {(*Kernels).GetrowsQ80, (*Kernels).GetrowsTileQ80},
	Q4_K: {(*Kernels).GetrowsQ4K, (*Kernels).GetrowsTileQ4K},
	Q5_K: {(*Kernels).GetrowsQ5K, (*Kernels).GetrowsTileQ5K},
	Q6_K: {(*Kernels).GetrowsQ6K, (*Kernels).GetrowsTileQ6K},
}

// Getrows queues y[r] = table[ids[r]] for a table of the type: raw if Head is null (TableStride is then filled in where it is 0), else tile16.
func (k *Kernels) Getrows(q Queue, t int32, p *GetrowsParams) error {
	stride, err := RawStride(t, int(p.Width))
	if err != nil {
		return err
	}
	p.Type = t
	layout := 1
	if p.Head == 0 {
		layout = 0
		if p.TableStride == 0 {
			p.TableStride = stride
		}
	}
	f := getrows[t][layout]
	if f == nil {
		return shape("getrows of type %d in layout tile16", t)
	}
	return f(k, q, p)
}

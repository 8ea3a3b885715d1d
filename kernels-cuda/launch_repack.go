package kernelscuda

import "github.com/minfer-go/minfer/cudart"

func (p *RepackParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := rows(p.Rows, p.K); err != nil {
		return cudart.LaunchConfig{}, err
	}
	// About four vectors a thread: a tile has some 9 vectors a group and row.
	return grid(ceil(int(p.Rows), tileRows), min(ceil(ceil(int(p.K), groupLen)*9*tileRows, 4*256), gridLimit), 256), nil
}

// Bytes moved.
func (p *RepackParams) Bytes() int64 { return 2 * int64(p.Rows) * p.WStride }

var repacks = map[int32]func(*Kernels, Queue, *RepackParams) error{
	Q4_0: (*Kernels).RepackQ40, Q4_1: (*Kernels).RepackQ41, Q5_0: (*Kernels).RepackQ50, Q5_1: (*Kernels).RepackQ51, Q8_0: (*Kernels).RepackQ80,
	Q4_K: (*Kernels).RepackQ4K, Q5_K: (*Kernels).RepackQ5K, Q6_K: (*Kernels).RepackQ6K,
}

// Repack queues the move of a quantised weight of type t from layout raw to tile16. WStride is filled in where it is 0, Head and Tail where Head is
// 0: the planes then follow each other as Tile16Planes says.
func (k *Kernels) Repack(q Queue, t int32, p *RepackParams) error {
	f, ok := repacks[t]
	if !ok {
		return shape("layout tile16 for weight type %d", t)
	}
	planes, err := Tile16Planes(t, int(p.Rows), int(p.K))
	if err != nil {
		return err
	}
	if p.Head == 0 {
		p.Head = p.Data + cudart.Ptr(planes.Data)
		p.Tail = p.Head + cudart.Ptr(planes.Head)
	}
	if p.WStride == 0 {
		if p.WStride, err = RawStride(t, int(p.K)); err != nil {
			return err
		}
	}
	return f(k, q, p)
}

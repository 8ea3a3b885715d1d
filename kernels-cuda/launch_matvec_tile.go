package kernelscuda

import "github.com/minfer-go/minfer/cudart"

// Of cu/matvec_tile.cuh: warps of a block at most, bytes of a stage, bytes of stages that are kept for all rounds.
const (
	tileWarps   = 10
	stageBytes  = 672
	stagedBytes = 32 << 10
	tileColumns = 8 // most columns
)

// tileLaunch is what both forms of the tiled product share: parts, rounds that are resident, and the launch of a block an item of work
// (where persistent: as few blocks as fit on the device, with equal shares). slots is how many sums a block holds.
func tileLaunch(id ID, dev *cudart.DeviceInfo, k, columns, items, slots int, parts, resident *int32, persistent bool) (cudart.LaunchConfig, error) {
	n := columnsOf(id)
	if k%chunkLen != 0 || columns < 1 || columns > n {
		return cudart.LaunchConfig{}, shape("%d columns of %d", columns, k)
	}
	if *parts < 2 || *parts%2 != 0 || *parts > 2*tileWarps {
		return cudart.LaunchConfig{}, shape("%d partial sums a row: want an even number up to %d", *parts, 2*tileWarps)
	}
	warps, rounds := int(*parts)/2, ceil(ceil(k, groupLen), int(*parts))
	*resident = int32(rounds)
	if rounds*warps*n*stageBytes > stagedBytes {
		*resident = 1
	}
	if registers := map[int]int{1: 96, 2: 104, 4: 160, 8: 168}[n]; persistent {
		if fit := dev.Multiprocessors * max(1, 65536/(registers*32*warps)); items > 2*fit {
			items = ceil(items, ceil(items, fit))
		}
	}
	cfg := grid(items, 1, 32*warps)
	cfg.SharedBytes = uint32(warps * n * (int(*resident)*stageBytes + slots*tileRows*4))
	return cfg, nil
}

func (p *MatvecTileParams) config(id ID, dev *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if p.Segments < 1 || p.Segments > 3 {
		return cudart.LaunchConfig{}, shape("%d weights", p.Segments)
	}
	p.Tiles = 0
	for s := range p.Segments {
		if err := product(p.Rows[s], p.K, p.Columns); err != nil {
			return cudart.LaunchConfig{}, err
		}
		p.Tiles += int32(ceil(int(p.Rows[s]), tileRows))
	}
	if p.Parts == 0 {
		p.Parts = int32(MatvecParts(int(p.Rows[0]), int(p.K)))
	}
	return tileLaunch(id, dev, int(p.K), int(p.Columns), int(p.Tiles), 2, &p.Parts, &p.Resident, p.uniform())
}

// uniform reports whether all weights are of one type.
func (p *MatvecTileParams) uniform() bool {
	for s := range p.Segments {
		if p.Type[s] != p.Type[0] {
			return false
		}
	}
	return true
}

// Bytes moved.
func (p *MatvecTileParams) Bytes() int64 {
	sum := int64(p.Columns) * q8Bytes(int64(p.K))
	for s := range p.Segments {
		sum += weightBytes(p.Type[s], p.Rows[s], p.K) + outBytes(p.Rows[s], p.Columns, p.Bias[s], p.Residual[s])
	}
	return sum
}

func (p *MatvecSwigluParams) config(id ID, dev *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := product(p.Rows, p.K, p.Columns); err != nil {
		return cudart.LaunchConfig{}, err
	}
	if p.Y8 != 0 && p.Rows%chunkLen != 0 {
		return cudart.LaunchConfig{}, shape("rows of %d, no multiple of %d, have no 8-bit form", p.Rows, chunkLen)
	}
	if p.Parts == 0 {
		p.Parts = int32(MatvecParts(int(p.Rows), int(p.K)))
	}
	return tileLaunch(id, dev, int(p.K), int(p.Columns), ceil(int(p.Rows), 2*tileRows), 4, &p.Parts, &p.Resident, true)
}

// Bytes moved.
func (p *MatvecSwigluParams) Bytes() int64 {
	n := int64(p.Rows) * int64(p.Columns)
	sum := 2*weightBytes(p.Type, p.Rows, p.K) + int64(p.Columns)*q8Bytes(int64(p.K))
	if p.Y != 0 {
		sum += 4 * n
	}
	if p.Y8 != 0 {
		sum += q8Bytes(n)
	}
	return sum
}

type (
	tileKernel   = func(*Kernels, Queue, *MatvecTileParams) error
	swigluKernel = func(*Kernels, Queue, *MatvecSwigluParams) error
)

// Forms for up to 1, 2, 4 and 8 columns.
var (
	tileForms = map[int32][4]tileKernel{
		Q4_0: {(*Kernels).MatvecTileQ401, (*Kernels).MatvecTileQ402, (*Kernels).MatvecTileQ404, (*Kernels).MatvecTileQ408},
		Q4_1: {(*Kernels).MatvecTileQ411, (*Kernels).MatvecTileQ412, (*Kernels).MatvecTileQ414, (*Kernels).MatvecTileQ418},
		Q5_0: {(*Kernels).MatvecTileQ501, (*Kernels).MatvecTileQ502, (*Kernels).MatvecTileQ504, (*Kernels).MatvecTileQ508},
		Q5_1: {(*Kernels).MatvecTileQ511, (*Kernels).MatvecTileQ512, (*Kernels).MatvecTileQ514, (*Kernels).MatvecTileQ518},
		Q8_0: {(*Kernels).MatvecTileQ801, (*Kernels).MatvecTileQ802, (*Kernels).MatvecTileQ804, (*Kernels).MatvecTileQ808},
		Q4_K: {(*Kernels).MatvecTileQ4K1, (*Kernels).MatvecTileQ4K2, (*Kernels).MatvecTileQ4K4, (*Kernels).MatvecTileQ4K8},
		Q5_K: {(*Kernels).MatvecTileQ5K1, (*Kernels).MatvecTileQ5K2, (*Kernels).MatvecTileQ5K4, (*Kernels).MatvecTileQ5K8},
		Q6_K: {(*Kernels).MatvecTileQ6K1, (*Kernels).MatvecTileQ6K2, (*Kernels).MatvecTileQ6K4, (*Kernels).MatvecTileQ6K8},
	}
	mixedSuper  = [4]tileKernel{(*Kernels).MatvecTileK1, (*Kernels).MatvecTileK2, (*Kernels).MatvecTileK4, (*Kernels).MatvecTileK8}
	mixedBlocks = [4]tileKernel{(*Kernels).MatvecTile01, (*Kernels).MatvecTile02, (*Kernels).MatvecTile04, (*Kernels).MatvecTile08}
	swigluForms = map[int32][4]swigluKernel{
		Q4_0: {(*Kernels).MatvecSwigluQ401, (*Kernels).MatvecSwigluQ402, (*Kernels).MatvecSwigluQ404, (*Kernels).MatvecSwigluQ408},
		Q4_1: {(*Kernels).MatvecSwigluQ411, (*Kernels).MatvecSwigluQ412, (*Kernels).MatvecSwigluQ414, (*Kernels).MatvecSwigluQ418},
		Q5_0: {(*Kernels).MatvecSwigluQ501, (*Kernels).MatvecSwigluQ502, (*Kernels).MatvecSwigluQ504, (*Kernels).MatvecSwigluQ508},
		Q5_1: {(*Kernels).MatvecSwigluQ511, (*Kernels).MatvecSwigluQ512, (*Kernels).MatvecSwigluQ514, (*Kernels).MatvecSwigluQ518},
		Q8_0: {(*Kernels).MatvecSwigluQ801, (*Kernels).MatvecSwigluQ802, (*Kernels).MatvecSwigluQ804, (*Kernels).MatvecSwigluQ808},
		Q4_K: {(*Kernels).MatvecSwigluQ4K1, (*Kernels).MatvecSwigluQ4K2, (*Kernels).MatvecSwigluQ4K4, (*Kernels).MatvecSwigluQ4K8},
		Q5_K: {(*Kernels).MatvecSwigluQ5K1, (*Kernels).MatvecSwigluQ5K2, (*Kernels).MatvecSwigluQ5K4, (*Kernels).MatvecSwigluQ5K8},
		Q6_K: {(*Kernels).MatvecSwigluQ6K1, (*Kernels).MatvecSwigluQ6K2, (*Kernels).MatvecSwigluQ6K4, (*Kernels).MatvecSwigluQ6K8},
	}
)

// formFor is the index of the form for so many columns, 1 to 8.
func formFor(columns int32) int {
	form := 0
	for n := int32(1); n < columns; n *= 2 {
		form++
	}
	return form
}

// Stackable reports whether one launch of MatvecTile can serve weights of these types.
func Stackable(types ...int32) bool { return len(types) <= 3 && stacked(types) != nil }

func stacked(types []int32) *[4]tileKernel {
	same, super, blocks := true, true, true
	for _, t := range types {
		same = same && t == types[0]
		super = super && (t == Q4_K || t == Q5_K || t == Q6_K)
		blocks = blocks && (t == Q5_0 || t == Q5_1 || t == Q8_0)
	}
	switch {
	case len(types) == 0:
		return nil
	case same:
		if forms, ok := tileForms[types[0]]; ok {
			return &forms
		}
		return nil
	case super:
		return &mixedSuper
	case blocks:
		return &mixedBlocks
	}
	return nil
}

// MatvecTile queues y = w*x + bias + residual for up to 3 weights in layout tile16 whose types are Stackable. More than 8 columns are launches of
// 8 at a time.
func (k *Kernels) MatvecTile(q Queue, p *MatvecTileParams) error {
	if p.Segments < 1 || p.Segments > 3 {
		return shape("%d weights", p.Segments)
	}
	forms := stacked(p.Type[:p.Segments])
	if forms == nil {
		return shape("one product of weight types %v", p.Type[:p.Segments])
	}
	for first := int32(0); first < p.Columns; first += tileColumns {
		part := *p
		part.Columns = min(p.Columns-first, tileColumns)
		part.Q8 += cudart.Ptr(int64(first) * int64(p.K))
		part.Records += cudart.Ptr(int64(first) * int64(p.K/chunkLen) * 8)
		for s := range p.Segments {
			part.Y[s] += cudart.Ptr(4 * int64(first) * int64(p.YStride[s]))
			if part.Residual[s] != 0 {
				part.Residual[s] += cudart.Ptr(4 * int64(first) * int64(p.ResidualStride[s]))
			}
		}
		if err := forms[formFor(part.Columns)](k, q, &part); err != nil {
			return err
		}
	}
	return nil
}

// MatvecSwiglu queues silu(gate*x) * (up*x) for weights of type t in layout tile16. More than 8 columns are launches of 8 at a time.
func (k *Kernels) MatvecSwiglu(q Queue, t int32, p *MatvecSwigluParams) error {
	forms, ok := swigluForms[t]
	if !ok {
		return shape("a product of 8-bit activations with weight type %d", t)
	}
	for first := int32(0); first < p.Columns; first += tileColumns {
		part := *p
		part.Type = t
		part.Columns = min(p.Columns-first, tileColumns)
		part.Q8 += cudart.Ptr(int64(first) * int64(p.K))
		part.Records += cudart.Ptr(int64(first) * int64(p.K/chunkLen) * 8)
		if p.Y != 0 {
			part.Y += cudart.Ptr(4 * int64(first) * int64(p.YStride))
		}
		if p.Y8 != 0 {
			part.Y8 += cudart.Ptr(int64(first) * int64(p.Rows))
			part.YRecords += cudart.Ptr(int64(first) * int64(p.Rows/chunkLen) * 8)
		}
		if err := forms[formFor(part.Columns)](k, q, &part); err != nil {
			return err
		}
	}
	return nil
}

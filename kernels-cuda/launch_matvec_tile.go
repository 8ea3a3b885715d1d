package kernelscuda

import (
	"errors"
	"math"

	"github.com/minfer-go/minfer/cudart"
)

// Of cu/matvec_tile.cuh: warps of a block at most, bytes of a stage, bytes of stages that are kept for all rounds.
const (
	tileWarps   = 10
	stageBytes  = 672
	stagedBytes = 32 << 10
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
	if registers := map[int]int{1: 96, 2: 104}[n]; persistent {
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
	if n := mmaColumns(id); n > 0 {
		return p.mmaConfig(n, dev)
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
	if n := mmaColumns(id); n > 0 {
		return p.mmaConfig(n, dev)
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

// A form is a kernel and the most columns that it is for.
type form[P any] struct {
	upTo   int32
	launch func(*Kernels, Queue, *P) error
}

type forms[P any] []form[P]

// launch takes the first form for so many columns, or where the device has too little shared memory for it those before, in turn; slice(first, n) is
// the product of n columns alone.
func (f forms[P]) launch(k *Kernels, q Queue, columns int32, slice func(first, n int32) P) error {
	at := 0
	for columns > f[at].upTo {
		at++
	}
	for ; ; at-- {
		var err error
		for first, step := int32(0), min(columns, f[at].upTo); first < columns && err == nil; first += step {
			p := slice(first, min(step, columns-first))
			err = f[at].launch(k, q, &p)
		}
		if at == 0 || !errors.Is(err, errRoom) {
			return err
		}
	}
}

// dotOrMma lists forms by dot products for one and two columns and on tensor cores for more, where those are faster.
func dotOrMma[P any](one, two, eight, more func(*Kernels, Queue, *P) error) forms[P] {
	return forms[P]{{1, one}, {2, two}, {8, eight}, {math.MaxInt32, more}}
}

var (
	tileForms = map[int32]forms[MatvecTileParams]{
		Q4_0: dotOrMma((*Kernels).MatvecTileQ401, (*Kernels).MatvecTileQ402, (*Kernels).MatvecMmaQ408, (*Kernels).MatvecMmaQ4016),
		Q4_1: dotOrMma((*Kernels).MatvecTileQ411, (*Kernels).MatvecTileQ412, (*Kernels).MatvecMmaQ418, (*Kernels).MatvecMmaQ4116),
		Q5_0: dotOrMma((*Kernels).MatvecTileQ501, (*Kernels).MatvecTileQ502, (*Kernels).MatvecMmaQ508, (*Kernels).MatvecMmaQ5016),
		Q5_1: dotOrMma((*Kernels).MatvecTileQ511, (*Kernels).MatvecTileQ512, (*Kernels).MatvecMmaQ518, (*Kernels).MatvecMmaQ5116),
		Q8_0: dotOrMma((*Kernels).MatvecTileQ801, (*Kernels).MatvecTileQ802, (*Kernels).MatvecMmaQ808, (*Kernels).MatvecMmaQ8016),
		Q4_K: dotOrMma((*Kernels).MatvecTileQ4K1, (*Kernels).MatvecTileQ4K2, (*Kernels).MatvecMmaQ4K8, (*Kernels).MatvecMmaQ4K16),
		Q5_K: dotOrMma((*Kernels).MatvecTileQ5K1, (*Kernels).MatvecTileQ5K2, (*Kernels).MatvecMmaQ5K8, (*Kernels).MatvecMmaQ5K16),
		Q6_K: dotOrMma((*Kernels).MatvecTileQ6K1, (*Kernels).MatvecTileQ6K2, (*Kernels).MatvecMmaQ6K8, (*Kernels).MatvecMmaQ6K16),
	}
	mixedSuper  = dotOrMma((*Kernels).MatvecTileK1, (*Kernels).MatvecTileK2, (*Kernels).MatvecMmaK8, (*Kernels).MatvecMmaK16)
	mixedBlocks = dotOrMma((*Kernels).MatvecTile01, (*Kernels).MatvecTile02, (*Kernels).MatvecMma08, (*Kernels).MatvecMma016)
	swigluForms = map[int32]forms[MatvecSwigluParams]{
		Q4_0: dotOrMma((*Kernels).MatvecSwigluQ401, (*Kernels).MatvecSwigluQ402, (*Kernels).MatvecMmaSwigluQ408, (*Kernels).MatvecMmaSwigluQ4016),
		Q4_1: dotOrMma((*Kernels).MatvecSwigluQ411, (*Kernels).MatvecSwigluQ412, (*Kernels).MatvecMmaSwigluQ418, (*Kernels).MatvecMmaSwigluQ4116),
		Q5_0: dotOrMma((*Kernels).MatvecSwigluQ501, (*Kernels).MatvecSwigluQ502, (*Kernels).MatvecMmaSwigluQ508, (*Kernels).MatvecMmaSwigluQ5016),
		Q5_1: dotOrMma((*Kernels).MatvecSwigluQ511, (*Kernels).MatvecSwigluQ512, (*Kernels).MatvecMmaSwigluQ518, (*Kernels).MatvecMmaSwigluQ5116),
		Q8_0: dotOrMma((*Kernels).MatvecSwigluQ801, (*Kernels).MatvecSwigluQ802, (*Kernels).MatvecMmaSwigluQ808, (*Kernels).MatvecMmaSwigluQ8016),
		Q4_K: dotOrMma((*Kernels).MatvecSwigluQ4K1, (*Kernels).MatvecSwigluQ4K2, (*Kernels).MatvecMmaSwigluQ4K8, (*Kernels).MatvecMmaSwigluQ4K16),
		Q5_K: dotOrMma((*Kernels).MatvecSwigluQ5K1, (*Kernels).MatvecSwigluQ5K2, (*Kernels).MatvecMmaSwigluQ5K8, (*Kernels).MatvecMmaSwigluQ5K16),
		Q6_K: dotOrMma((*Kernels).MatvecSwigluQ6K1, (*Kernels).MatvecSwigluQ6K2, (*Kernels).MatvecMmaSwigluQ6K8, (*Kernels).MatvecMmaSwigluQ6K16),
	}
)

// Stackable reports whether one launch of MatvecTile can serve weights of these types.
func Stackable(types ...int32) bool { return len(types) <= 3 && stacked(types) != nil }

func stacked(types []int32) forms[MatvecTileParams] {
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
		return tileForms[types[0]]
	case super:
		return mixedSuper
	case blocks:
		return mixedBlocks
	}
	return nil
}

// MatvecTile queues y = w*x + bias + residual for up to 3 weights in layout tile16 whose types are Stackable, whatever the number of columns:
// few by dot products, more on tensor cores, with the same bits.
func (k *Kernels) MatvecTile(q Queue, p *MatvecTileParams) error {
	if p.Segments < 1 || p.Segments > 3 {
		return shape("%d weights", p.Segments)
	}
	forms := stacked(p.Type[:p.Segments])
	if forms == nil {
		return shape("one product of weight types %v", p.Type[:p.Segments])
	}
	return forms.launch(k, q, p.Columns, func(first, n int32) MatvecTileParams {
		part := *p
		part.Columns = n
		part.Q8 += cudart.Ptr(int64(first) * int64(p.K))
		part.Records += cudart.Ptr(int64(first) * int64(p.K/chunkLen) * 8)
		for s := range p.Segments {
			part.Y[s] += cudart.Ptr(4 * int64(first) * int64(p.YStride[s]))
			if part.Residual[s] != 0 {
				part.Residual[s] += cudart.Ptr(4 * int64(first) * int64(p.ResidualStride[s]))
			}
		}
		return part
	})
}

// MatvecSwiglu queues silu(gate*x) * (up*x) for weights of type t in layout tile16, likewise.
func (k *Kernels) MatvecSwiglu(q Queue, t int32, p *MatvecSwigluParams) error {
	forms, ok := swigluForms[t]
	if !ok {
		return shape("a product of 8-bit activations with weight type %d", t)
	}
	return forms.launch(k, q, p.Columns, func(first, n int32) MatvecSwigluParams {
		part := *p
		part.Type, part.Columns = t, n
		part.Q8 += cudart.Ptr(int64(first) * int64(p.K))
		part.Records += cudart.Ptr(int64(first) * int64(p.K/chunkLen) * 8)
		if p.Y != 0 {
			part.Y += cudart.Ptr(4 * int64(first) * int64(p.YStride))
		}
		if p.Y8 != 0 {
			part.Y8 += cudart.Ptr(int64(first) * int64(p.Rows))
			part.YRecords += cudart.Ptr(int64(first) * int64(p.Rows/chunkLen) * 8)
		}
		return part
	})
}

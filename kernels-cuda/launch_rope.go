package kernelscuda

import "github.com/minfer-go/minfer/cudart"

// Row formats of KV regions, as parameters name them (kKv… in cu/kv.cuh).
const (
	KVF32 = 0
	KVF16 = 1
	KVQ8  = 2
)

// kvBytes is the size of n encoded elements.
func kvBytes(format int32, n int) int64 {
	switch format {
	case KVF32:
		return 4 * int64(n)
	case KVF16:
		return 2 * int64(n)
	}
	return int64(n) / 32 * 34
}

// region checks a region's geometry.
func region(format, heads, headDim int32, row int64) error {
	if format < KVF32 || format > KVQ8 {
		return shape("KV format %d", format)
	}
	if heads <= 0 || headDim <= 0 || headDim > maxHeadDim || format == KVQ8 && headDim%32 != 0 {
		return shape("%d heads of %d in KV format %d", heads, headDim, format)
	}
	if row < kvBytes(format, int(heads)*int(headDim)) {
		return shape("cells of %d bytes for %d heads of %d in KV format %d", row, heads, headDim, format)
	}
	return nil
}

const (
	maxHeadDim = 2048
	headWarps  = 4 // heads of a block, one a warp
)

// headGrid is the launch of kernels with a warp a head and a head's elements in shared memory.
func headGrid(rows int32, heads int, headDim int32) (cudart.LaunchConfig, error) {
	if rows < 0 || heads <= 0 || headDim <= 0 || headDim > maxHeadDim || ceil(heads, headWarps) > gridLimit {
		return cudart.LaunchConfig{}, shape("%d rows of %d heads of %d", rows, heads, headDim)
	}
	cfg := grid(int(rows), ceil(heads, headWarps), headWarps*32)
	cfg.SharedBytes = uint32(headWarps * headDim * 4)
	return cfg, nil
}

func (p *RopeTableParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if p.Rows < 0 || p.Pairs <= 0 || int64(p.Rows)*int64(p.Pairs) > 1<<31 {
		return cudart.LaunchConfig{}, shape("a table of %d rows and %d pairs", p.Rows, p.Pairs)
	}
	return grid(ceil(int(p.Rows)*int(p.Pairs), 256), 1, 256), nil
}

// Bytes moved.
func (p *RopeTableParams) Bytes() int64 {
	return 4*int64(p.Rows) + 8*int64(p.Pairs) + 8*int64(p.Rows)*int64(p.Pairs)
}

func (p *RopeParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if p.Pairs < 0 || 2*p.Pairs > p.HeadDim {
		return cudart.LaunchConfig{}, shape("%d pairs in heads of %d", p.Pairs, p.HeadDim)
	}
	return headGrid(p.Rows, int(p.Heads), p.HeadDim)
}

// Bytes moved.
func (p *RopeParams) Bytes() int64 {
	return int64(p.Rows) * (8*int64(p.Heads)*int64(p.HeadDim) + 8*int64(p.Pairs))
}

func (p *QkvRopeStoreParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := region(p.KeyType, p.KvHeads, p.HeadDim, p.KeyRow); err != nil {
		return cudart.LaunchConfig{}, err
	}
	if err := region(p.ValueType, p.KvHeads, p.HeadDim, p.ValueRow); err != nil {
		return cudart.LaunchConfig{}, err
	}
	if p.Pairs < 0 || 2*p.Pairs > p.HeadDim || p.Heads <= 0 {
		return cudart.LaunchConfig{}, shape("%d heads of %d with %d pairs", p.Heads, p.HeadDim, p.Pairs)
	}
	return headGrid(p.Rows, int(p.Heads)+2*int(p.KvHeads), p.HeadDim)
}

// Bytes moved.
func (p *QkvRopeStoreParams) Bytes() int64 {
	n := int(p.KvHeads) * int(p.HeadDim)
	return int64(p.Rows) * (8*int64(p.Heads)*int64(p.HeadDim) + 8*int64(n) + 8*int64(p.Pairs) + kvBytes(p.KeyType, n) + kvBytes(p.ValueType, n))
}

func (p *KvStoreParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := region(p.Type, p.KvHeads, p.HeadDim, p.Row); err != nil {
		return cudart.LaunchConfig{}, err
	}
	return headGrid(p.Rows, int(p.KvHeads), p.HeadDim)
}

// Bytes moved.
func (p *KvStoreParams) Bytes() int64 {
	n := int(p.KvHeads) * int(p.HeadDim)
	return int64(p.Rows) * (4*int64(n) + kvBytes(p.Type, n))
}

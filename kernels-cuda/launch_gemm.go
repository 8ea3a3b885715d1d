package kernelscuda

import (
	"math"

	"github.com/minfer-go/minfer/cudart"
)

// gemmTile is a form of the product on tensor cores: rows of a and of b a block, blocks that fit on a multiprocessor, threads, stages, and
// how long a block's work takes beside the ideal (only the choice of a form depends on it, never the result).
type gemmTile struct {
	m, n, resident, threads, stages int
	cost                            float64
}

var gemmTiles = [...]gemmTile{{128, 256, 1, 256, 4, 1}, {128, 128, 2, 128, 3, 1.05}, {64, 64, 4, 128, 3, 1.5}}

// gemmKernels has the forms of gemmTiles.
var (
	gemmBF16 = [...]ID{KernelGemmBf16128x256, KernelGemmBf16128x128, KernelGemmBf1664x64}
	gemmF16  = [...]ID{KernelGemmF16128x256, KernelGemmF16128x128, KernelGemmF1664x64}
)

func (t *gemmTile) blocks(m, n int) int { return ceil(m, t.m) * ceil(n, t.n) }

// time estimates a product in units of a value's work on one multiprocessor: full rounds of resident blocks; a block alone on
// a multiprocessor takes as long as one that shares it with resident-1 others would in 1/resident + 1/4 of that time.
func (t *gemmTile) time(m, n, processors int) float64 {
	blocks := t.blocks(m, n)
	slots := processors * t.resident
	round := float64(t.m*t.n*t.resident) * t.cost
	last := 0.0
	if rest := blocks % slots; rest > 0 {
		share := float64(ceil(rest, processors)) / float64(t.resident)
		last = round * min(1, share+0.25*(1-share))
	}
	return float64(blocks/slots)*round + last
}

// chooseGemm is the form of least time among those that the device has: the largest needs more shared memory than most do. All give
// the same bits.
func (k *Kernels) chooseGemm(forms []ID, m, n int) ID {
	best, least := forms[0], math.Inf(1)
	for i, id := range forms {
		if t := gemmTiles[i].time(m, n, k.device.Multiprocessors); k.Why(id) == nil && t < least {
			best, least = id, t
		}
	}
	return best
}

func tileOf(id ID) *gemmTile {
	for i := range gemmTiles {
		if id == gemmBF16[i] || id == gemmF16[i] {
			return &gemmTiles[i]
		}
	}
	return &gemmTiles[0]
}

func (p *GemmParams) config(id ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := product(p.N, p.K, p.M); err != nil {
		return cudart.LaunchConfig{}, err
	}
	if p.K%8 != 0 || p.AStride%8 != 0 || p.BStride%8 != 0 || p.A%16 != 0 || p.B%16 != 0 {
		return cudart.LaunchConfig{}, shape("a product over %d with strides %d and %d from %#x and %#x: want multiples of 8 elements and addresses of 16", p.K, p.AStride, p.BStride, p.A, p.B)
	}
	t := tileOf(id)
	cfg := grid(t.blocks(int(p.M), int(p.N)), 1, t.threads)
	cfg.SharedBytes = uint32(t.stages * (t.m + t.n) * 128)
	return cfg, nil
}

// Bytes moved.
func (p *GemmParams) Bytes() int64 {
	return 2*int64(p.K)*(int64(p.M)+int64(p.N)) + outBytes(p.N, p.M, p.Bias, p.Residual)
}

// Operations is the multiplications and additions of a product.
func (p *GemmParams) Operations() int64 { return 2 * int64(p.M) * int64(p.N) * int64(p.K) }

// Gemm queues y = scales * (a*b^T) + bias + residual with operands of bf16, or of f16, in the form of kernel that suits the shape.
func (k *Kernels) Gemm(q Queue, bf16 bool, p *GemmParams) error {
	forms := &gemmF16
	if bf16 {
		forms = &gemmBF16
	}
	return k.GemmForm(q, k.chooseGemm(forms[:], int(p.M), int(p.N)), p)
}

// GemmForm queues the product in the form named.
func (k *Kernels) GemmForm(q Queue, id ID, p *GemmParams) error {
	switch id {
	case KernelGemmBf16128x256:
		return k.GemmBf16128x256(q, p)
	case KernelGemmBf16128x128:
		return k.GemmBf16128x128(q, p)
	case KernelGemmBf1664x64:
		return k.GemmBf1664x64(q, p)
	case KernelGemmF16128x256:
		return k.GemmF16128x256(q, p)
	case KernelGemmF16128x128:
		return k.GemmF16128x128(q, p)
	case KernelGemmF1664x64:
		return k.GemmF1664x64(q, p)
	}
	return shape("%s is no product on tensor cores", id)
}

func (p *GemmF32Params) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := product(p.N, p.K, p.M); err != nil {
		return cudart.LaunchConfig{}, err
	}
	return grid(ceil(int(p.M), 128)*ceil(int(p.N), 128), 1, 256), nil
}

// Bytes moved.
func (p *GemmF32Params) Bytes() int64 {
	return 4*int64(p.K)*(int64(p.M)+int64(p.N)) + outBytes(p.N, p.M, p.Bias, p.Residual)
}

func (p *ExpandParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := rows(p.Rows, p.K); err != nil {
		return cudart.LaunchConfig{}, err
	}
	if p.YStride%8 != 0 || p.YStride < p.K || p.Y%16 != 0 {
		return cudart.LaunchConfig{}, shape("rows of %d with %d from one to the next at %#x: want a multiple of 8 that holds them and an address of 16", p.K, p.YStride, p.Y)
	}
	return grid(ceil(int(p.Rows), tileRows)*ceil(int(p.K), groupLen), 1, 256), nil
}

// Bytes moved.
func (p *ExpandParams) Bytes() int64 {
	return weightBytes(p.Type, p.Rows, p.K) + 2*int64(p.Rows)*int64(p.K)
}

var expands = map[int32][2]func(*Kernels, Queue, *ExpandParams) error{
	Q4_0: {(*Kernels).ExpandQ40, (*Kernels).ExpandTileQ40},
	Q4_1: {(*Kernels).ExpandQ41, (*Kernels).ExpandTileQ41},
	Q5_0: {(*Kernels).ExpandQ50, (*Kernels).ExpandTileQ50},
	Q5_1: {(*Kernels).ExpandQ51, (*Kernels).ExpandTileQ51},
	Q8_0: {(*Kernels).ExpandQ80, (*Kernels).ExpandTileQ80},
	Q4_K: {(*Kernels).ExpandQ4K, (*Kernels).ExpandTileQ4K},
	Q5_K: {(*Kernels).ExpandQ5K, (*Kernels).ExpandTileQ5K},
	Q6_K: {(*Kernels).ExpandQ6K, (*Kernels).ExpandTileQ6K},
}

// Expand queues the rounding of a quantised weight of type t to bf16: from layout raw if Head is null (WStride is then filled in where it is 0),
// else from tile16.
func (k *Kernels) Expand(q Queue, t int32, p *ExpandParams) error {
	forms, ok := expands[t]
	if !ok {
		return shape("weight type %d is not quantised", t)
	}
	stride, err := RawStride(t, int(p.K))
	if err != nil {
		return err
	}
	p.Type = t
	if p.Head != 0 {
		return forms[1](k, q, p)
	}
	if p.WStride == 0 {
		p.WStride = stride
	}
	return forms[0](k, q, p)
}

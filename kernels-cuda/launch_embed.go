package kernelscuda

import "github.com/minfer-go/minfer/cudart"

func (p *GatherRowsParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := rows(p.Rows, p.Width); err != nil {
		return cudart.LaunchConfig{}, err
	}
	y := ceil(int(p.Width), 1024)
	if y > gridLimit {
		return cudart.LaunchConfig{}, shape("rows of %d", p.Width)
	}
	return grid(int(p.Rows), y, 256), nil
}

// Bytes moved.
func (p *GatherRowsParams) Bytes() int64 { return int64(p.Rows) * (4 + 8*int64(p.Width)) }

func (p *KvMoveParams) config(_ ID, dev *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if p.Row <= 0 || p.Row%2 != 0 || p.Dst < 0 || p.Src < 0 || p.Count < 0 {
		return cudart.LaunchConfig{}, shape("%d cells of %d bytes from %d to %d", p.Count, p.Row, p.Src, p.Dst)
	}
	shift := int64(p.Dst) - int64(p.Src)
	threads := min(max(shift, -shift), int64(p.Count)) * (p.Row / 2)
	return grid(int(min((threads+255)/256, int64(dev.Multiprocessors)*16)), 1, 256), nil
}

// Bytes moved.
func (p *KvMoveParams) Bytes() int64 { return 2 * int64(p.Count) * p.Row }

func (p *BatchMatmulParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if p.Batch < 0 || p.M <= 0 || p.N <= 0 || p.K <= 0 || p.Batch > gridLimit || p.M > gridLimit {
		return cudart.LaunchConfig{}, shape("[%d %d %d] by [%d %d %d]", p.Batch, p.M, p.K, p.Batch, p.N, p.K)
	}
	cfg := grid(ceil(int(p.N), 8), int(p.M), 256)
	cfg.GridZ = uint32(p.Batch)
	return cfg, nil
}

// Bytes moved, each operand once.
func (p *BatchMatmulParams) Bytes() int64 {
	m, n, k := int64(p.M), int64(p.N), int64(p.K)
	return 4 * int64(p.Batch) * (m*k + n*k + m*n)
}

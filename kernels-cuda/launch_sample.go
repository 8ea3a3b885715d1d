package kernelscuda

import "github.com/minfer-go/minfer/cudart"

// SampleRow is how a row's token is drawn: parameters as in engine/sample (llama.cpp's order of filters), and the number of [0, 1) that decides. It lies in
// device memory as it does here.
type SampleRow struct {
	Temperature float64 // 0: the most probable token
	TopP        float64 // 1: off
	MinP        float64 // 0: off
	U           float64
	TopK        int32 // 0: off
	_           int32
}

// What tokens below 0 mean.
const (
	TokenBadLogits = -1 // a NaN, +Inf, or nothing above -Inf
	TokenOnHost    = -2 // more candidates than the kernel takes: sample on the host
)

func vocabulary(rows, vocab, stride int32) error {
	if rows < 0 || rows > gridLimit || vocab <= 0 || stride < vocab {
		return shape("%d rows of %d logits, %d apart", rows, vocab, stride)
	}
	return nil
}

func (p *SampleParams) config(_ ID, _ *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := vocabulary(p.Rows, p.Vocab, p.Stride); err != nil {
		return cudart.LaunchConfig{}, err
	}
	return grid(int(p.Rows), 1, 1024), nil
}

// Bytes moved.
func (p *SampleParams) Bytes() int64 { return int64(p.Rows) * (8*int64(p.Vocab) + 44) }

package engine

import modelsqwen "github.com/minfer-go/minfer/models-qwen"

// MemoryEstimate says what a model and a context take, in bytes.
type MemoryEstimate struct {
	Weights int64 `json:"weights"` // the file's tensors (mapped, shared with the page cache)
	KV      int64 `json:"kv"`      // the KV cache at its full size
	Compute int64 `json:"compute"` // activations of the largest step, estimated
}

// Total of all parts.
func (e MemoryEstimate) Total() int64 { return e.Weights + e.KV + e.Compute }

// Memory estimates what the model and a context of these options take.
func (m *Model) Memory(o ContextOptions) (MemoryEstimate, error) { return EstimateMemory(m.net, o) }

// EstimateMemory is Memory for a model that isn't loaded.
func EstimateMemory(net *modelsqwen.Model, o ContextOptions) (MemoryEstimate, error) {
	cfg := &net.Config
	o, err := o.withDefaults(cfg.NCtxTrain)
	if err != nil {
		return MemoryEstimate{}, err
	}
	e := MemoryEstimate{Weights: net.WeightBytes()}
	keyRow, err := o.KeyType.RowBytes(cfg.HeadDim)
	if err != nil {
		return e, err
	}
	valueRow, err := o.ValueType.RowBytes(cfg.HeadDim)
	if err != nil {
		return e, err
	}
	e.KV = int64(keyRow+valueRow) * int64(cfg.NHeadKV) * int64(cfg.NLayer) * int64(o.Ctx) * int64(o.Seqs)
	// Live at once in a block: the residual stream twice, q with k and v, attention output, gate, up and their product.
	width := 3*cfg.NEmbd + 2*(cfg.NHead+cfg.NHeadKV)*cfg.HeadDim + 3*cfg.NFF
	e.Compute = 4 * (int64(o.Batch)*int64(width) + int64(min(o.Batch, maxOutputs))*int64(cfg.NVocab))
	return e, nil
}

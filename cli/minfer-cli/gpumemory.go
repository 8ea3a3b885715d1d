package main

import (
	"fmt"
	"io"

	backendcuda "github.com/minfer-go/minfer/backend-cuda"
	"github.com/minfer-go/minfer/engine"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
)

// deviceMemory is what a model would take on a GPU, in bytes, as the backend asks before it takes a model.
type deviceMemory struct {
	Weights  backendcuda.Footprint `json:"weights"`
	KV       int64                 `json:"kv"`
	Compute  int64                 `json:"compute"`
	Overhead int64                 `json:"overhead"` // kernels, scratch and the like, about
	Total    int64                 `json:"total"`
}

// onDevice estimates it, or says why no GPU runs the model.
func onDevice(o backendcuda.Options, net *modelsqwen.Model, mem engine.MemoryEstimate) (deviceMemory, error) {
	planes, err := o.Footprint(net.Weights())
	return deviceMemory{Weights: planes, KV: mem.KV, Compute: mem.Compute, Overhead: backendcuda.Overhead,
		Total: planes.Bytes + mem.KV + mem.Compute + backendcuda.Overhead}, err
}

// gpuMemory holds what a model was estimated to take on a GPU against what is gone of its free memory. The zero value knows of none.
type gpuMemory struct {
	backend       *backendcuda.Backend
	before, least int64 // free bytes: when the backend was open and empty, and the least seen since
	estimated     deviceMemory
}

// startMemory notes what is free before the weights arrive.
func startMemory(b *backendcuda.Backend, o backendcuda.Options, net *modelsqwen.Model, mem engine.MemoryEstimate) (gpuMemory, error) {
	estimated, err := onDevice(o, net, mem)
	if err != nil {
		return gpuMemory{}, err
	}
	free, _, err := b.Memory()
	return gpuMemory{backend: b, before: free, least: free, estimated: estimated}, err
}

// look notes what is free now. Contexts must still be open for their memory to count.
func (m *gpuMemory) look() error {
	if m.backend == nil {
		return nil
	}
	free, _, err := m.backend.Memory()
	m.least = min(m.least, free)
	return err
}

// print writes one line, for a model on a GPU.
func (m *gpuMemory) print(w io.Writer) {
	if m.backend == nil {
		return
	}
	const mib = 1 << 20
	e := &m.estimated
	fmt.Fprintf(w, "GPU memory: %d MiB used, %d estimated (weights %d, KV cache %d, buffers %d, the rest %d)\n", (m.before-m.least)/mib,
		e.Total/mib, e.Weights.Bytes/mib, e.KV/mib, e.Compute/mib, e.Overhead/mib)
}

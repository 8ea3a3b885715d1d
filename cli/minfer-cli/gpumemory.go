package main

import (
	"fmt"
	"io"

	backendcuda "github.com/minfer-go/minfer/backend-cuda"
	"github.com/minfer-go/minfer/engine"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
)

// gpuMemory holds what a model was estimated to take on a GPU against what is gone of its free memory. The zero value knows of none.
type gpuMemory struct {
	backend                         *backendcuda.Backend
	before, least                   int64 // free bytes: when the backend was open and empty, and the least seen since
	estimated, weights, kv, buffers int64
}

// startMemory notes what is free before the weights arrive.
func startMemory(b *backendcuda.Backend, o backendcuda.Options, net *modelsqwen.Model, mem engine.MemoryEstimate) (gpuMemory, error) {
	planes, err := o.Footprint(net.Weights())
	if err != nil {
		return gpuMemory{}, err
	}
	free, _, err := b.Memory()
	m := gpuMemory{backend: b, before: free, least: free, weights: planes.Bytes, kv: mem.KV, buffers: mem.Compute}
	m.estimated = m.weights + m.kv + m.buffers + backendcuda.Overhead
	return m, err
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
	fmt.Fprintf(w, "GPU memory: %d MiB used, %d estimated (weights %d, KV cache %d, buffers %d, the rest %d)\n", (m.before-m.least)/mib,
		m.estimated/mib, m.weights/mib, m.kv/mib, m.buffers/mib, backendcuda.Overhead/mib)
}

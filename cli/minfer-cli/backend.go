package main

import (
	"fmt"
	"io"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	backendcuda "github.com/minfer-go/minfer/backend-cuda"
	"github.com/minfer-go/minfer/cli/internal/env"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
)

// chooser opens the backend that runs a model: all of it, decided once, with the reason kept.
type chooser struct {
	want       string // auto, cpu or cuda
	cpu        backendcpu.Options
	cuda       backendcuda.Options
	ctx        int // cells of the context that will be made; 0: the default
	key, value kvformat.Format

	chosen graph.Backend
	reason string // why auto took the CPU
	memory gpuMemory
}

// open is engine.LoadOptions.Backend.
func (c *chooser) open(net *modelsqwen.Model) (graph.Backend, error) {
	if c.want != "cpu" {
		b, err := c.openCUDA(net)
		switch {
		case err == nil:
			c.chosen = b
			return b, nil
		case c.want == "cuda":
			return nil, fmt.Errorf("--backend cuda: %w", err)
		}
		c.reason = err.Error()
	}
	b, err := backendcpu.New(c.cpu)
	if err != nil {
		return nil, err
	}
	c.chosen = b
	return b, nil
}

// openCUDA opens the GPU and asks whether it takes the whole model.
func (c *chooser) openCUDA(net *modelsqwen.Model) (*backendcuda.Backend, error) {
	if off, err := env.Bool("MINFER_DISABLE_CUDA"); err != nil {
		return nil, err
	} else if off {
		return nil, fmt.Errorf("MINFER_DISABLE_CUDA is set")
	}
	mem, err := engine.EstimateMemory(net, engine.ContextOptions{Ctx: c.ctx, KeyType: c.key, ValueType: c.value})
	if err != nil {
		return nil, err
	}
	b, err := backendcuda.New(c.cuda)
	if err != nil {
		return nil, err
	}
	if err = b.Admit(net.Weights(), mem.KV+mem.Compute); err == nil {
		c.memory, err = startMemory(b, c.cuda, net, mem)
	}
	if err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// counts prints how often graphs were made and reused, if the environment asks for it.
func (c *chooser) counts(w io.Writer, ctx *engine.Context) error {
	counts, err := env.Bool("MINFER_REBUILD_TRACE")
	if err != nil {
		return err
	}
	if !counts {
		return nil
	}
	s := ctx.Executor().Stats()
	fmt.Fprintf(w, "graphs: %d compiled, %d reused, %d evicted\n", s.Compiled, s.Hits, s.Evicted)
	if b, onGPU := c.chosen.(*backendcuda.Backend); onGPU {
		s := b.Stats()
		fmt.Fprintf(w, "cuda: %d runs, %d of them replayed, %d CUDA graphs made, %d kernels launched one by one\n", s.Runs, s.Replayed, s.Captured, s.Launches)
	}
	return nil
}

// cudaOptions lays the environment's gates over o.
func cudaOptions(o backendcuda.Options, notice func(string)) (backendcuda.Options, error) {
	o.KernelsPath, o.Notice = env.Get("MINFER_CUDA_KERNELS"), notice
	tiles := true
	for name, to := range map[string]*bool{"MINFER_NO_CUDA_GRAPH": &o.NoGraph, "MINFER_NO_PREFILL_CAPTURE": &o.NoPrefillCapture,
		"MINFER_NO_PREFILL_GEMM": &o.NoPrefillGEMM, "MINFER_NO_PREWARM": &o.NoPrewarm, "MINFER_CUDA_TILES": &tiles,
		"MINFER_OP_TIMING": &o.Profile} {
		v, err := env.Bool(name)
		if err != nil {
			return o, err
		}
		*to = v
	}
	o.NoTiles = !tiles
	return o, nil
}

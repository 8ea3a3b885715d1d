package kernelscuda

import (
	"errors"
	"fmt"

	"github.com/minfer-go/minfer/cudart"
)

// errRoom is of a product whose blocks don't fit on the device.
var errRoom = errors.New("too little shared memory")

// Of cu/matvec_mma.cuh: registers of a thread, warps of a block at most, bytes of a warp's table of scales; of the manifest: bytes of shared
// memory that a kernel may have at most.
const (
	mmaRegisters  = 128
	mmaWarps      = 16
	mmaTableBytes = 2048
	mmaShared     = 227 << 10
)

// mmaStageBytes is a group's activations of a block's columns, mmaSumBytes the sums of two tiles, mmaWeightBytes a warp's weights under way
// or in use: half a group twice, of Q8_0 a quarter four times, and two groups' heads.
func mmaStageBytes(columns int) int { return columns*336 + 128 }
func mmaSumBytes(columns int) int   { return columns * 2 * tileRows * 4 }
func mmaWeightBytes(t int32) int {
	switch f := formats[t]; t {
	case Q8_0:
		return 4*2048 + 4*f.head*tileRows
	case Q6_K:
		return 2*3072 + 4*(16+2)*tileRows
	default:
		return 2*2048 + 4*f.head*tileRows
	}
}

// mmaWork is a product on int8 tensor cores as its launch sees it: units are pairs of tiles, a job as many of them as a block has
// at a time. Nothing here enters the result but parts.
type mmaWork struct {
	types             []int32
	k, columns, parts int
	units             int // in all; with swiglu, pairs of a tile of gate and one of up
	swiglu            bool
}

// mmaPlan is how a launch does it.
type mmaPlan struct {
	span, perJob int // parts a warp, units of warps a block
	ahead        int // groups of activations in a warp's ring; 0: all stay in shared memory
	steps        int // sums that a block keeps: 2 where one unit makes both halves of 32 rows
	blocks       int // of a group of columns
	warps        int
	shared       int
	cost         float64
}

// plan weighs the ways to share the work out, in cycles of a multiprocessor by a rough model, which likes many warps: a group takes a warp
// so long, alone, and so many issue slots of a quarter of the multiprocessor; more where it must wait for activations.
func (w *mmaWork) plan(n int, dev *cudart.DeviceInfo) (best mmaPlan, err error) {
	groups, columnGroups := ceil(w.k, groupLen), ceil(w.columns, n)
	weights, mixed := 0, false
	for _, t := range w.types {
		weights = max(weights, mmaWeightBytes(t))
		mixed = mixed || t != w.types[0]
	}
	alone, slots := 1800.0, 600.0
	if n > 8 {
		alone, slots = 2200, 950
	}
	for span := 1; span <= 2; span++ {
		for _, perJob := range []int{1, 2, 3, 4} {
			p := mmaPlan{span: span, perJob: perJob, steps: 1, warps: w.parts / span * perJob}
			jobs := ceil(w.units, perJob)
			if w.swiglu && perJob == 1 {
				p.steps, jobs = 2, ceil(w.units, 2)
			}
			if p.warps > mmaWarps || mixed && perJob > 1 || w.swiglu && perJob == 3 {
				continue
			}
			table := mmaTableBytes
			if span == 1 { // sums take its place
				table = max(0, table-mmaSumBytes(n))
			}
			own := p.warps * (weights + table + p.steps*mmaSumBytes(n))
			for p.ahead = range 3 {
				p.shared = own + groups*mmaStageBytes(n)
				if p.ahead > 0 {
					p.shared = own + p.ahead*p.warps*mmaStageBytes(n)
				}
				if p.shared > min(mmaShared, dev.SharedPerBlockOptin) {
					continue
				}
				fit := min(dev.RegsPerSM/(mmaRegisters*32*p.warps), dev.MaxThreadsPerSM/(32*p.warps), dev.SharedPerSM/(p.shared+dev.SharedReserved))
				if fit < 1 {
					continue
				}
				rounds := ceil(jobs, max(1, dev.Multiprocessors*fit/columnGroups))
				p.blocks = ceil(jobs, rounds)
				if mixed { // a block keeps to one type
					p.blocks = jobs
				}
				active := float64(min(fit, ceil(p.blocks*columnGroups, dev.Multiprocessors)) * p.warps)
				items := float64(p.steps * span * ceil(groups, w.parts)) // groups of a warp
				job := items*max(alone+[]float64{0, 800, 100}[p.ahead], active/4*slots) + 1500
				stage := active / float64(p.warps) * float64(groups*mmaStageBytes(n)) / 40
				if p.cost = float64(rounds)*job + stage; p.ahead > 0 {
					p.cost = float64(rounds) * (job + stage)
				}
				if best.warps == 0 || p.cost < best.cost {
					best = p
				}
			}
		}
	}
	if best.warps == 0 {
		return best, fmt.Errorf("a product over %d with %d partial sums a row: %w", w.k, w.parts, errRoom)
	}
	return best, nil
}

func (w *mmaWork) launch(n int, dev *cudart.DeviceInfo) (p mmaPlan, cfg cudart.LaunchConfig, err error) {
	if w.k%chunkLen != 0 || w.columns < 0 {
		return p, cfg, shape("%d columns of %d", w.columns, w.k)
	}
	if w.parts < 2 || w.parts%2 != 0 || w.parts > 2*tileWarps {
		return p, cfg, shape("%d partial sums a row: want an even number up to %d", w.parts, 2*tileWarps)
	}
	if w.columns == 0 || w.units == 0 {
		return p, cfg, nil
	}
	if p, err = w.plan(n, dev); err != nil {
		return p, cfg, err
	}
	cfg = grid(p.blocks*ceil(w.columns, n), 1, 32*p.warps)
	cfg.SharedBytes = uint32(p.shared)
	return p, cfg, nil
}

func (p *MatvecTileParams) mmaConfig(n int, dev *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	w := mmaWork{types: p.Type[:p.Segments], k: int(p.K), columns: int(p.Columns), parts: int(p.Parts)}
	for s := range p.Segments {
		w.units += ceil(int(p.Rows[s]), 2*tileRows)
	}
	plan, cfg, err := w.launch(n, dev)
	p.Tiles, p.Span, p.Units, p.Resident = int32(w.units), int32(plan.span), int32(plan.perJob), int32(plan.ahead)
	return cfg, err
}

func (p *MatvecSwigluParams) mmaConfig(n int, dev *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	w := mmaWork{types: []int32{p.Type}, k: int(p.K), columns: int(p.Columns), parts: int(p.Parts), units: ceil(int(p.Rows), tileRows), swiglu: true}
	plan, cfg, err := w.launch(n, dev)
	p.Span, p.Units, p.Resident = int32(plan.span), int32(plan.perJob), int32(plan.ahead)
	return cfg, err
}

// mmaColumns is how many columns a block of a kernel on tensor cores takes; 0 for the others.
func mmaColumns(id ID) int {
	switch {
	case id >= KernelMatvecMmaK8 && id < KernelMatvecMmaK16:
		return 8
	case id >= KernelMatvecMmaK16 && id <= KernelMatvecMmaSwigluQ6K16:
		return 16
	}
	return 0
}

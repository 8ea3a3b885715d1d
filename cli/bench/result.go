package bench

import (
	"math"
	"path/filepath"
	"runtime"

	"github.com/klauspost/cpuid/v2"

	"github.com/minfer-go/minfer/graph"
)

// Result of one test.
type Result struct {
	Model   string `json:"model"` // general.name, or the file's
	File    string `json:"file"`
	Size    int64  `json:"model_size"` // bytes of all tensors
	Params  int64  `json:"model_n_params"`
	CPU     string `json:"cpu"`
	Device  string `json:"device"` // that the backend runs on, if it isn't the CPU
	Backend string `json:"backend"`
	Path    string `json:"path"`      // instruction path in use
	Threads int    `json:"n_threads"` // in effect
	TypeK   string `json:"type_k"`
	TypeV   string `json:"type_v"`
	Test    string `json:"test"` // pp512, tg128, b4; with " @ d2048" at a depth
	Kind    string `json:"kind"` // pp, tg or b
	N       int    `json:"n"`
	Depth   int    `json:"n_depth"`

	TokS    float64   `json:"avg_ts"`    // tokens a second: mean of the repetitions
	Stddev  float64   `json:"stddev_ts"` // of a sample, as llama-bench's
	Median  float64   `json:"median_ts"`
	Samples []float64 `json:"samples_ts"`

	GBs   float64 `json:"gb_per_second"`   // weights and KV rows read
	GMACs float64 `json:"gmac_per_second"` // matrix products
	// Limits of this machine for these threads and this path, or of the device's memory, measured about every repetition, and the share of
	// them; 0: not known.
	ReadGBs   float64 `json:"limit_gb_per_second"`
	Int8GMACs float64 `json:"limit_gmac_per_second"`
	ReadShare float64 `json:"share_of_read"`
	Int8Share float64 `json:"share_of_int8"`

	Output string `json:"output"` // what was checked

	Profile []graph.Profile `json:"profile,omitempty"` // sums of the repetitions, if the backend times its work
}

// What Output says: a test whose output is wrong has no result.
const (
	checked     = "finite, best token as in a reference step"
	checkedNear = "finite, within 0.35 standard deviations (rms) of a reference step"
)

func (t *test) result(o Options) Result {
	m := t.model
	r := Result{
		Model: m.Name(), File: filepath.Base(m.Path()), Size: m.Net().WeightBytes(), CPU: CPU(), Device: deviceOf(m), Backend: m.Backend().Name(), Path: pathOf(m), Threads: Threads(m),
		TypeK: o.KeyType.String(), TypeV: o.ValueType.String(), Test: t.name(), Kind: t.kind, N: t.n, Depth: t.depth, Output: checked,
		Profile: t.profile,
	}
	if r.Model == "" {
		r.Model = r.File
	}
	if !bitwise(m) {
		r.Output = checkedNear
	}
	for _, w := range m.Net().Weights() {
		r.Params += int64(w.Shape.Elems())
	}
	r.fill(t.samples, t.tokens(), workOf(m, t, o.KeyType, o.ValueType))
	return r
}

// fill computes the figures from repetitions of so many tokens and so much work.
func (r *Result) fill(samples []sample, tokens int, w work) {
	n := float64(len(samples))
	for _, s := range samples {
		sec := s.time.Seconds()
		r.Samples = append(r.Samples, float64(tokens)/sec)
		r.TokS += float64(tokens) / sec / n
		bytes, macs := float64(w.bytes)/sec, float64(w.macs)/sec
		r.GBs += bytes / 1e9 / n
		r.GMACs += macs / 1e9 / n
		r.ReadGBs += s.limits.ReadBytes / 1e9 / n
		r.Int8GMACs += s.limits.Int8MACs / 1e9 / n
		if s.limits.ReadBytes > 0 {
			r.ReadShare += bytes / s.limits.ReadBytes / n
		}
		if s.limits.Int8MACs > 0 {
			r.Int8Share += macs / s.limits.Int8MACs / n
		}
	}
	r.Median = median(r.Samples)
	for _, x := range r.Samples {
		r.Stddev += (x - r.TokS) * (x - r.TokS)
	}
	r.Stddev = math.Sqrt(r.Stddev / max(n-1, 1))
}

// CPU is the processor's name, or its architecture where it has none.
func CPU() string {
	if name := cpuid.CPU.BrandName; name != "" {
		return name
	}
	return runtime.GOARCH
}

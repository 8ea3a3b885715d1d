package bench

import (
	"errors"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/graph"
)

// Limits are what the machine does at best: bytes read and int8 products a second. Zero: not known, as products are of a GPU.
type Limits = backendcpu.Limits

// prober measures limits: of the CPU, if a model runs there, time and again, as others may use its memory too; of a device that can say once,
// before its first test, since the large buffers that this takes and gives back slow down what runs next.
type prober struct {
	p       *backendcpu.Probe
	devices map[device]Limits
}

// device is a backend with memory of its own.
type device interface {
	Device() string                  // its name
	ReadBandwidth() (float64, error) // GB/s; graph.ErrOutOfMemory where the model leaves no room to measure
}

// MeasureLimits measures what the machine or device that a model is loaded on does at best. It takes some 100 ms.
func MeasureLimits(m *engine.Model) (Limits, error) {
	p, err := newProber(m)
	if err != nil {
		return Limits{}, err
	}
	defer p.close()
	return p.measure(m)
}

// newProber opens the CPU's probe if any of the models runs there.
func newProber(models ...*engine.Model) (p *prober, err error) {
	p = &prober{devices: map[device]Limits{}}
	if path, ok := cpuPath(models); ok {
		p.p, err = backendcpu.NewProbe(path)
	}
	return p, err
}

func (p *prober) measure(m *engine.Model) (Limits, error) {
	if d, ok := m.Backend().(device); ok {
		if l, ok := p.devices[d]; ok {
			return l, nil
		}
		gbs, err := d.ReadBandwidth()
		if err != nil && !errors.Is(err, graph.ErrOutOfMemory) {
			return Limits{}, err
		}
		p.devices[d] = Limits{ReadBytes: gbs * 1e9}
		return p.devices[d], nil
	}
	threads := Threads(m)
	if p.p == nil || threads == 0 {
		return Limits{}, nil
	}
	return p.p.Measure(threads)
}

func (p *prober) close() {
	if p.p != nil {
		p.p.Close()
	}
}

// cpuPath is the instruction path of the models' CPU backend.
func cpuPath(models []*engine.Model) (path string, ok bool) {
	for _, m := range models {
		if b, ok := m.Backend().(*backendcpu.Backend); ok {
			return b.Path(), true
		}
	}
	return "", false
}

// deviceOf names the device in use, or "" for the CPU.
func deviceOf(m *engine.Model) string {
	if d, ok := m.Backend().(device); ok {
		return d.Device()
	}
	return ""
}

// pathOf is the instruction path in use, or "".
func pathOf(m *engine.Model) string {
	if b, ok := m.Backend().(interface{ Path() string }); ok {
		return b.Path()
	}
	return ""
}

// Threads is the number of threads in effect, or 0 for a backend that isn't run by threads.
func Threads(m *engine.Model) int {
	if b, ok := m.Backend().(interface{ Threads() int }); ok {
		return b.Threads()
	}
	return 0
}

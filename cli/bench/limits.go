package bench

import (
	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/engine"
)

// Limits are what the machine does at best: bytes read and int8 products a second. Zero: not known, as for other backends.
type Limits = backendcpu.Limits

// prober measures limits if it was opened.
type prober struct{ p *backendcpu.Probe }

func (p *prober) open(path string) (err error) {
	p.p, err = backendcpu.NewProbe(path)
	return err
}

func (p *prober) measure(threads int) (Limits, error) {
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

// pathOf is the instruction path in use, or "".
func pathOf(m *engine.Model) string {
	if b, ok := m.Backend().(interface{ Path() string }); ok {
		return b.Path()
	}
	return ""
}

// threadsOf is the number of threads in effect, or 0 for a backend that isn't run by threads.
func threadsOf(m *engine.Model) int {
	if b, ok := m.Backend().(interface{ Threads() int }); ok {
		return b.Threads()
	}
	return 0
}

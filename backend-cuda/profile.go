package backendcuda

import (
	"errors"
	"unsafe"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// profiler adds up what each kernel took. Every launch stands between two events, so gaps between kernels don't count and
// programmatic overlap is off: sums are larger than a replayed step.
type profiler struct {
	phases [graph.NumPhases]phase
	events []*cudart.Event
}

// phase is what a phase's programs took.
type phase struct {
	programs int
	kernels  map[kernelscuda.ID]*graph.ProfileLine
}

// profiled runs the program with an event after every kernel and waits for it.
func (p *program) profiled(bd *cudart.Bound) error {
	b, pr := p.b, p.b.profile
	for len(pr.events) <= len(p.launches) {
		e, err := bd.NewEvent(true)
		if err != nil {
			return err
		}
		pr.events = append(pr.events, e)
	}
	if err := pr.events[0].Record(bd, b.stream); err != nil {
		return err
	}
	for i := range p.launches {
		l := &p.launches[i]
		cfg := l.cfg
		cfg.Programmatic = 0
		if err := bd.Launch(b.stream, l.kernel, &cfg, unsafe.Pointer(unsafe.SliceData(l.params)), l.n); err != nil {
			return l.node.Errorf("kernel %s: %w", l.info.ID, err)
		}
		if err := pr.events[i+1].Record(bd, b.stream); err != nil {
			return err
		}
	}
	if err := b.wait(bd); err != nil {
		return err
	}
	b.stats.Launches += uint64(len(p.launches))
	ph := &pr.phases[p.phase]
	if ph.kernels == nil {
		ph.kernels = map[kernelscuda.ID]*graph.ProfileLine{}
	}
	ph.programs++
	for i := range p.launches {
		l := &p.launches[i]
		took, err := pr.events[i+1].Since(bd, pr.events[i])
		if err != nil {
			return err
		}
		k := ph.kernels[l.info.ID]
		if k == nil {
			k = &graph.ProfileLine{Name: l.info.ID.String()}
			ph.kernels[l.info.ID] = k
		}
		k.Calls++
		k.Time += took
		bytes := l.info.Bytes
		if l.attn != nil {
			if bytes, err = b.attended(bd, l); err != nil {
				return err
			}
		}
		k.Bytes += bytes
	}
	return nil
}

// attended is the bytes that a launch of attention moved: the cells in use, by the lengths that the step was given.
func (b *Backend) attended(bd *cudart.Bound, l *launch) (int64, error) {
	n := int(l.attn.Rows)
	values := make([]int32, 2*n)
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
	if err := b.staging.toHost(bd, b.stream, raw[:4*n], l.attn.Lengths, b.last); err != nil {
		return 0, err
	}
	if err := b.staging.toHost(bd, b.stream, raw[4*n:], l.attn.Seqs, b.last); err != nil {
		return 0, err
	}
	return l.attn.Moved(l.info.ID, values[:n], values[n:]), nil
}

func (pr *profiler) close(bd *cudart.Bound) error {
	var errs []error
	for _, e := range pr.events {
		errs = append(errs, e.Destroy(bd))
	}
	pr.events = nil
	return errors.Join(errs...)
}

// Profile gives the time of each kernel; a profile's time is that of its kernels, without the gaps between them. Bytes are those moved, as
// the launcher knows them; attention's for the lengths of each step. Nil without Options.Profile.
func (b *Backend) Profile() (list []graph.Profile) {
	if b.profile == nil {
		return nil
	}
	for i, ph := range &b.profile.phases {
		if ph.programs == 0 {
			continue
		}
		p := graph.Profile{Phase: graph.Phase(i), Steps: ph.programs, Workers: 1}
		for _, k := range ph.kernels {
			p.Lines = append(p.Lines, *k)
			p.Time += k.Time
		}
		p.Sort()
		list = append(list, p)
	}
	return list
}

// ResetProfile forgets what was timed.
func (b *Backend) ResetProfile() {
	if b.profile != nil {
		b.profile.phases = [graph.NumPhases]phase{}
	}
}

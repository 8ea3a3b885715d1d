package backendcuda

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"unsafe"

	"github.com/minfer-go/minfer/cudart"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// profiler adds up what each kernel took. Every launch stands between two events, so gaps between kernels don't count and
// programmatic overlap is off: sums are larger than a replayed step.
type profiler struct {
	kernels map[kernelscuda.ID]*KernelProfile
	events  []*cudart.Event
}

// KernelProfile is one line of a profile.
type KernelProfile struct {
	Name  string  `json:"kernel"`
	Calls int     `json:"calls"`
	MS    float64 `json:"ms"`
	Bytes int64   `json:"bytes"` // moved, as the launcher knows it; attention's for the lengths of each step
}

// GBs is the rate at which the kernel moved its bytes.
func (k KernelProfile) GBs() float64 {
	if k.MS == 0 {
		return 0
	}
	return float64(k.Bytes) / k.MS / 1e6
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
	if pr.kernels == nil {
		pr.kernels = map[kernelscuda.ID]*KernelProfile{}
	}
	for i := range p.launches {
		l := &p.launches[i]
		took, err := pr.events[i+1].Since(bd, pr.events[i])
		if err != nil {
			return err
		}
		k := pr.kernels[l.info.ID]
		if k == nil {
			k = &KernelProfile{Name: l.info.ID.String()}
			pr.kernels[l.info.ID] = k
		}
		k.Calls++
		k.MS += float64(took.Nanoseconds()) / 1e6
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

// Profile gives what was measured since New, the longest first; nil without Options.Profile.
func (b *Backend) Profile() []KernelProfile {
	if b.profile == nil {
		return nil
	}
	var list []KernelProfile
	for _, k := range b.profile.kernels {
		list = append(list, *k)
	}
	slices.SortFunc(list, func(x, y KernelProfile) int { return cmp.Or(cmp.Compare(y.MS, x.MS), cmp.Compare(x.Name, y.Name)) })
	return list
}

// WriteProfile prints a profile as a table. bandwidth is what the device reads in GB/s, 0 if not measured.
func WriteProfile(w io.Writer, list []KernelProfile, bandwidth float64) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kernel\tcalls\tms\tµs a call\tMB\tGB/s\tshare of read\t")
	for _, k := range list {
		share := "-"
		if bandwidth > 0 {
			share = fmt.Sprintf("%.0f %%", 100*k.GBs()/bandwidth)
		}
		fmt.Fprintf(t, "%s\t%d\t%.3f\t%.2f\t%.1f\t%.0f\t%s\t\n", k.Name, k.Calls, k.MS, 1000*k.MS/float64(k.Calls), float64(k.Bytes)/1e6, k.GBs(), share)
	}
	return t.Flush()
}

package graph

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Phase tells steps that feed a prompt from those that go on by a token.
type Phase uint8

const (
	PhasePrompt Phase = iota // some rows are only stored in the cache
	PhaseDecode              // every row's logits are wanted, as when each sequence gets its next token
	NumPhases
)

var phaseNames = [NumPhases]string{"prompt", "decode"}

func (p Phase) String() string { return phaseNames[p] }

// MarshalText gives the phase's name.
func (p Phase) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads it.
func (p *Phase) UnmarshalText(text []byte) error {
	at := slices.Index(phaseNames[:], string(text))
	if at < 0 {
		return fmt.Errorf("graph: there is no phase %q of a profile, only %v", text, phaseNames)
	}
	*p = Phase(at)
	return nil
}

// Phase of a step with these parameters. A prompt of one token counts as decode.
func (p Params) Phase() Phase {
	if p.Outputs >= p.Rows {
		return PhaseDecode
	}
	return PhasePrompt
}

// Profiler is a backend that can time its work. It does so only if it was made to, since that costs time.
type Profiler interface {
	// Profile gives what was timed since ResetProfile, a Profile a phase that there was, the prompt's first; nil if nothing is timed.
	Profile() []Profile
	// ResetProfile forgets it.
	ResetProfile()
}

// Profile says where the time of a phase's steps went.
type Profile struct {
	Phase   Phase         `json:"phase"`
	Steps   int           `json:"steps"`   // programs run: one a step where one backend has the whole graph
	Workers int           `json:"workers"` // that the time was taken of, side by side
	Time    time.Duration `json:"ns"`      // all that was timed; the backend says what that is
	// Lines add up to Time*Workers: a line's time is a sum over the workers. The longest first.
	Lines []ProfileLine `json:"lines"`
}

// ProfileLine is what one kind of work took.
type ProfileLine struct {
	Name  string        `json:"name"`
	Calls int64         `json:"calls"`
	Time  time.Duration `json:"ns"`
	Bytes int64         `json:"bytes,omitempty"` // moved, or read, as the backend counts them; 0: not counted
	MACs  int64         `json:"macs,omitempty"`  // of products with weights; 0: not counted
}

// AddProfiles adds what a second measurement of the same backend found to the first one.
func AddProfiles(to, from []Profile) []Profile {
	for _, p := range from {
		at := slices.IndexFunc(to, func(q Profile) bool { return q.Phase == p.Phase })
		if at < 0 {
			p.Lines = slices.Clone(p.Lines)
			to = append(to, p)
			continue
		}
		sum := &to[at]
		sum.Steps += p.Steps
		sum.Time += p.Time
		for _, l := range p.Lines {
			same := slices.IndexFunc(sum.Lines, func(m ProfileLine) bool { return m.Name == l.Name })
			if same < 0 {
				sum.Lines = append(sum.Lines, l)
				continue
			}
			m := &sum.Lines[same]
			m.Calls, m.Time, m.Bytes, m.MACs = m.Calls+l.Calls, m.Time+l.Time, m.Bytes+l.Bytes, m.MACs+l.MACs
		}
		sum.Sort()
	}
	slices.SortFunc(to, func(x, y Profile) int { return cmp.Compare(x.Phase, y.Phase) })
	return to
}

// Sort puts the longest lines first.
func (p *Profile) Sort() {
	slices.SortFunc(p.Lines, func(x, y ProfileLine) int { return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Name, y.Name)) })
}

// WriteProfile prints a table a phase. readBytes and int8MACs are what the device reads and multiplies at best in a second, for the shares
// of these; 0: not known. Times are means over the workers.
func WriteProfile(w io.Writer, list []Profile, readBytes, int8MACs float64) error {
	for _, p := range list {
		steps, mean := "steps", ""
		if p.Steps == 1 {
			steps = "step"
		}
		if p.Workers > 1 {
			mean = fmt.Sprintf(", means of %d threads", p.Workers)
		}
		if _, err := fmt.Fprintf(w, "%s: %d %s, %.3f ms%s\n", p.Phase, p.Steps, steps, ms(p.Time), mean); err != nil {
			return err
		}
		if err := p.table(w, readBytes, int8MACs); err != nil {
			return err
		}
	}
	return nil
}

// table fits a terminal of 80 columns if names are no longer than those of the CPU's work: with rates of products there is no room for the
// time of a call.
func (p *Profile) table(w io.Writer, readBytes, int8MACs float64) error {
	products := slices.ContainsFunc(p.Lines, func(l ProfileLine) bool { return l.MACs > 0 })
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 1, ' ', tabwriter.AlignRight)
	if products {
		fmt.Fprintln(t, "work\tcalls\tms\tshare\tMB\tGB/s\tof read\tGMAC/s\tof int8\t")
	} else {
		fmt.Fprintln(t, "work\tcalls\tms\tshare\tµs a call\tMB\tGB/s\tof read\t")
	}
	for _, l := range p.Lines {
		took := l.Time.Seconds() / float64(max(p.Workers, 1))
		moved := "-"
		if l.Bytes > 0 {
			moved = short(1, float64(l.Bytes)/1e6)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t", l.Name, l.Calls, short(3, took*1e3), percent(took, p.Time.Seconds()))
		if products {
			fmt.Fprintf(t, "%s\t%s\t%s\t\n", moved, rates(l.Bytes, took, readBytes), rates(l.MACs, took, int8MACs))
		} else {
			fmt.Fprintf(t, "%.2f\t%s\t%s\t\n", ratio(took, float64(l.Calls))*1e6, moved, rates(l.Bytes, took, readBytes))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := io.WriteString(w, line[1:]); err != nil { // the first column is set off like all others
			return err
		}
	}
	return nil
}

// short has fewer decimals for large numbers: nobody reads them.
func short(decimals int, x float64) string {
	if x >= 1000 {
		decimals /= 2
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// rates are two cells: n a second in thousand millions, and the share of the limit.
func rates(n int64, seconds, limit float64) string {
	if n == 0 {
		return "-\t-"
	}
	rate := ratio(float64(n), seconds)
	return fmt.Sprintf("%.1f\t%s", rate/1e9, percent(rate, limit))
}

// percent of a whole that may not be known.
func percent(x, of float64) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*x/of)
}

func ratio(x, y float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

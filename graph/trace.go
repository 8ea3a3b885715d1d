package graph

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Trace watches the nodes of a graph as they run. Graphs that are traced are compiled for it: one program a node, with
// Unit.Traced set so that backends replay nothing; kernels and results are the same, speed is not.
type Trace struct {
	// Values gets each node's result after it ran; vals is reused for the next node. An error ends the run. Views and KV stores
	// are left out. nil: not wanted.
	Values func(n *Node, vals []float32) error
	// Times records how long each node took, for WriteChrome.
	Times bool

	start  time.Time
	events []event
	buf    []float32
}

// event is one complete event of the Trace Event Format (Chrome's about:tracing, Perfetto): times in microseconds.
type event struct {
	Name  string         `json:"name"`
	Cat   string         `json:"cat"`
	Phase string         `json:"ph"`
	TS    float64        `json:"ts"`
	Dur   float64        `json:"dur"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Args  map[string]any `json:"args"`
}

// SetTrace makes graphs compiled from now on traced by t, or no longer traced with nil.
func (e *Executor) SetTrace(t *Trace) { e.trace = t }

// traced runs a step of one node under the graph's trace.
func (c *Compiled) traced(s *step) error {
	t, n, e := c.trace, s.nodes[0], c.exec
	if t.Times {
		if err := e.sync(s.backend); err != nil {
			return err
		}
		e.busy[s.backend] = true
	}
	began := time.Now()
	if err := s.program.Run(); err != nil {
		return err
	}
	if t.Times {
		if err := e.sync(s.backend); err != nil {
			return err
		}
		if t.start.IsZero() {
			t.start = began
		}
		t.events = append(t.events, event{Name: n.Name, Cat: n.Op.String(), Phase: "X",
			TS: float64(began.Sub(t.start).Nanoseconds()) / 1e3, Dur: float64(time.Since(began).Nanoseconds()) / 1e3,
			PID: 1, TID: s.backend, Args: map[string]any{"shape": n.Shape.String(), "backend": e.backends[s.backend].Name()}})
	}
	if t.Values == nil || n.Op.InRegion() || n.Op == OpSample {
		return nil
	}
	at := c.tensor(s.backend, n)
	if k := n.Shape.Elems(); cap(t.buf) < k {
		t.buf = make([]float32, k)
	}
	vals := t.buf[:n.Shape.Elems()]
	if err := e.backends[s.backend].Read(bytesOf(vals), at.Buffer, at.Offset); err != nil {
		return err
	}
	return t.Values(n, vals)
}

// WriteChrome writes the recorded times as Chrome trace JSON (open in Perfetto or chrome://tracing); a row a backend.
func (t *Trace) WriteChrome(w io.Writer) error {
	events := t.events
	if events == nil {
		events = []event{}
	}
	if err := json.NewEncoder(w).Encode(map[string]any{"traceEvents": events, "displayTimeUnit": "ns"}); err != nil {
		return fmt.Errorf("graph: trace: %w", err)
	}
	return nil
}

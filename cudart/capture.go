package cudart

import (
	"errors"
	"fmt"

	"github.com/minfer-go/minfer/cudart/sys"
)

// CaptureMode says which calls spoil a capture: unsafe ones (allocation, event queries, …) of any thread, of this
// thread alone, or none.
type CaptureMode int

// The modes.
const (
	CaptureGlobal      CaptureMode = sys.CaptureGlobal
	CaptureThreadLocal CaptureMode = sys.CaptureThreadLocal
	CaptureRelaxed     CaptureMode = sys.CaptureRelaxed
)

func (m CaptureMode) String() string {
	switch m {
	case CaptureGlobal:
		return "global"
	case CaptureThreadLocal:
		return "thread-local"
	case CaptureRelaxed:
		return "relaxed"
	}
	return fmt.Sprintf("CaptureMode(%d)", int(m))
}

// Capture records into a graph, instead of running, the work that f gives to s (and to streams that f forks from it by
// events and joins again). The window is this call: it begins and ends on this thread, and whatever f does (an error, a
// panic, a call that spoils the capture) it is ended and s is usable again. Inside, b refuses waits, allocation, loading
// and attribute calls. If the driver can't end the window, s stays refused and says so.
//
// f's error comes back wrapped; a spoilt capture is ErrCapture. A panic goes on after the window is ended.
func (b *Bound) Capture(s *Stream, mode CaptureMode, f func() error) (g *Graph, err error) {
	if err := b.outside("beginning a capture"); err != nil {
		return nil, err
	}
	if err := b.on(s); err != nil {
		return nil, err
	}
	if r := b.t.StreamBeginCapture(s.h, int(mode)); r != sys.Success {
		return nil, b.c.fail("StreamBeginCapture", r, fmt.Sprintf("beginning a capture (%s)", mode))
	}
	b.window = s
	returned := false
	defer func() {
		b.window = nil
		h, endErr := b.endCapture(s)
		if returned && err == nil && endErr == nil && h != 0 {
			g = &Graph{c: b.c, h: h}
			return
		}
		if h != 0 {
			if r := b.t.GraphDestroy(h); r != sys.Success {
				endErr = errors.Join(endErr, b.c.fail("GraphDestroy", r, "dropping an unfinished graph"))
			}
		}
		switch {
		case err != nil:
			err = errors.Join(fmt.Errorf("cudart: the capture was ended early: %w", err), endErr)
		case endErr != nil:
			err = endErr
		default:
			err = fmt.Errorf("cudart: ending a capture gave no graph: %w", ErrCapture)
		}
	}()
	err = f()
	returned = true
	return nil, err
}

// endCapture ends the capture of s and makes sure that none is under way.
func (b *Bound) endCapture(s *Stream) (sys.Graph, error) {
	h, r := b.t.StreamEndCapture(s.h)
	if r == sys.Success {
		return h, nil
	}
	err := b.c.fail("StreamEndCapture", r, "ending a capture")
	state, r := b.t.StreamIsCapturing(s.h)
	if r == sys.Success && state == sys.CaptureNone {
		return 0, err
	}
	// The call failed and the window is still open: once more, to drop what it holds.
	if h, r = b.t.StreamEndCapture(s.h); r == sys.Success {
		return h, err
	}
	if state, r = b.t.StreamIsCapturing(s.h); r == sys.Success && state == sys.CaptureNone {
		return 0, err
	}
	broken := fmt.Errorf("cudart: the stream's capture could not be ended, so the stream can't be used: %w", err)
	s.broken.Store(&broken)
	return 0, broken
}

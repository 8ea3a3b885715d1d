package cudatest

import (
	"slices"

	"github.com/minfer-go/minfer/cudart/sys"
)

// capture is a capture under way.
type capture struct {
	mode, thread int
	origin       *stream
	broken       bool
	work         []*op
	open         map[*stream]bool // forked streams with work that isn't joined
}

func (c *capture) add(s *stream, o *op) sys.Result {
	if c.broken {
		return sys.CaptureInvalidated
	}
	c.work = append(c.work, o)
	s.serial++
	if s != c.origin {
		c.open[s] = true
	}
	return sys.Success
}

func (f *Fake) beginCapture(h sys.Stream, mode int) sys.Result {
	defer f.mu.Unlock()
	d, r := f.enter("StreamBeginCapture")
	if r != sys.Success {
		return r
	}
	s, r := f.on(d, h)
	switch {
	case r != sys.Success:
		return r
	case mode < sys.CaptureGlobal || mode > sys.CaptureRelaxed:
		return sys.InvalidValue
	case s.capture != nil:
		return sys.IllegalState
	}
	s.capture = &capture{mode: mode, thread: thread(), origin: s, open: map[*stream]bool{}}
	s.serial = 0
	f.captures = append(f.captures, s.capture)
	return sys.Success
}

// join is StreamWait where the event or the stream is in a capture: it brings a stream in, or back.
func (f *Fake) join(s *stream, e *event) sys.Result {
	c := e.captured
	switch {
	case c == nil: // an event from outside
		s.capture.broken = true
		return sys.CaptureIsolation
	case !slices.Contains(f.captures, c):
		return sys.CapturedEvent
	case s.capture != nil && s.capture != c:
		s.capture.broken, c.broken = true, true
		return sys.CaptureMerge
	case s.capture == nil:
		s.capture, s.serial = c, 0
	case c.open[e.on] && e.on.serial == e.serial:
		delete(c.open, e.on)
		if s != c.origin {
			c.open[s] = true
		}
	}
	return sys.Success
}

func (f *Fake) endCapture(h sys.Stream) (sys.Graph, sys.Result) {
	defer f.mu.Unlock()
	d, r := f.enter("StreamEndCapture")
	if r != sys.Success {
		return 0, r
	}
	s, r := f.on(d, h)
	if r != sys.Success {
		return 0, r
	}
	c := s.capture
	switch {
	case c == nil:
		return 0, sys.IllegalState
	case c.origin != s:
		return 0, sys.CaptureUnmatched
	case c.mode != sys.CaptureRelaxed && c.thread != thread():
		f.violate("StreamEndCapture: on another thread than the one that began it")
		return 0, sys.CaptureWrongThread
	}
	f.captures = slices.DeleteFunc(f.captures, func(x *capture) bool { return x == c })
	for _, x := range f.streams {
		if x.capture == c {
			x.capture = nil
		}
	}
	if c.broken {
		return 0, sys.CaptureInvalidated
	}
	if len(c.open) > 0 {
		return 0, sys.CaptureUnjoined
	}
	g := &graph{dev: d}
	for _, o := range c.work {
		g.nodes = append(g.nodes, &node{h: sys.GraphNode(f.handle()), op: o})
	}
	gh := sys.Graph(f.handle())
	f.graphs[gh] = g
	return gh, sys.Success
}

func (f *Fake) isCapturing(h sys.Stream) (int, sys.Result) {
	defer f.mu.Unlock()
	d, r := f.enter("StreamIsCapturing")
	if r != sys.Success {
		return 0, r
	}
	s, r := f.on(d, h)
	switch {
	case r != sys.Success:
		return 0, r
	case s.capture == nil:
		return sys.CaptureNone, r
	case s.capture.broken:
		return sys.CaptureBroken, r
	}
	return sys.CaptureActive, r
}

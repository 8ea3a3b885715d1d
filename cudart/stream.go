package cudart

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/minfer-go/minfer/cudart/sys"
)

// DefaultSpin is how long a wait polls without a pause before it begins to sleep between polls.
const DefaultSpin = 100 * time.Microsecond

// Stream is a queue of work on the device; non-blocking, so independent of the legacy default stream. Work of one stream
// runs in order. Calls from several goroutines are safe, but their order is then theirs to settle.
type Stream struct {
	// Spin is how long Wait polls without a pause (default DefaultSpin). A wait that ends within it returns in
	// microseconds; later ones are up to a sixteenth of the time waited late. Set it before the stream is shared.
	Spin time.Duration

	c      *Context
	h      sys.Stream
	late   atomic.Bool           // a wait has timed out
	broken atomic.Pointer[error] // a capture could not be ended
}

// NewStream makes a non-blocking stream of normal priority.
func (b *Bound) NewStream() (*Stream, error) {
	if err := b.outside("creating a stream"); err != nil {
		return nil, err
	}
	h, r := b.t.StreamCreate(sys.StreamNonBlocking, 0)
	if r != sys.Success {
		return nil, b.c.fail("StreamCreate", r, "creating a stream")
	}
	return &Stream{c: b.c, h: h, Spin: DefaultSpin}, nil
}

// Query says whether all work given to the stream has ended; the error is that of the work, if it failed.
func (s *Stream) Query(b *Bound) (idle bool, err error) {
	if err := b.on(s); err != nil {
		return false, err
	}
	if b.window == s {
		return false, b.outside("asking the state of a stream")
	}
	switch r := b.t.StreamQuery(s.h); r {
	case sys.Success:
		if s.late.Load() {
			s.c.markIdle(s)
		}
		return true, nil
	case sys.NotReady:
		return false, nil
	default:
		return false, b.c.fail("StreamQuery", r, "asking the state of a stream")
	}
}

// Wait waits until all work given to the stream has ended, at most timeout. what names that work in errors ("decode
// step"). ErrTimeout leaves the work running: then memory and graphs can't be freed until a later Wait or Query has
// seen the stream idle.
func (s *Stream) Wait(b *Bound, timeout time.Duration, what string) error {
	if err := b.on(s); err != nil {
		return err
	}
	if err := b.outside("waiting for a stream"); err != nil {
		return err
	}
	err := b.wait(s, "StreamQuery", timeout, what, func() Result { return b.t.StreamQuery(s.h) })
	if err == nil && s.late.Load() {
		s.c.markIdle(s)
	}
	return err
}

// WaitEvent makes the stream's later work wait, on the device, for what e was last recorded after.
func (s *Stream) WaitEvent(b *Bound, e *Event) error {
	if err := b.on(s); err != nil {
		return err
	}
	if err := b.of(e); err != nil {
		return err
	}
	if r := b.t.StreamWait(s.h, e.h); r != sys.Success {
		return b.c.fail("StreamWait", r, "ordering a stream after an event")
	}
	return nil
}

// Destroy ends the stream. Wait for its work first. A second call is ErrClosed.
func (s *Stream) Destroy(b *Bound) error {
	if err := b.releasing("destroying a stream"); err != nil {
		return err
	}
	switch {
	case s == nil || s.h == 0:
		return closed("destroying a stream")
	case s.c != b.c:
		return invalid("the stream belongs to another context")
	}
	h := s.h
	s.h = 0
	if r := b.t.StreamDestroy(h); r != sys.Success {
		return b.c.fail("StreamDestroy", r, "destroying a stream")
	}
	return nil
}

// wait polls until query no longer says NotReady: first without a pause, then with sleeps that grow with the time waited.
func (b *Bound) wait(s *Stream, call string, timeout time.Duration, what string, query func() Result) error {
	if timeout <= 0 {
		return invalid("waiting for %s: a wait needs a deadline, not %v", what, timeout)
	}
	spin := DefaultSpin
	if s != nil {
		spin = s.Spin
	}
	start := time.Now()
	for {
		r := query()
		if r == sys.Success {
			return nil
		}
		if r != sys.NotReady {
			return b.c.fail(call, r, "waiting for "+what)
		}
		waited := time.Since(start)
		if waited >= timeout {
			err := fmt.Errorf("cudart: waiting for %s: still running after %v: %w", what, timeout, ErrTimeout)
			if s != nil {
				b.c.markStuck(s, err)
			}
			return err
		}
		if waited < spin {
			continue
		}
		time.Sleep(min(max(waited/16, 20*time.Microsecond), time.Millisecond, timeout-waited))
	}
}

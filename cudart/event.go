package cudart

import (
	"sync/atomic"
	"time"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Event marks a point in a stream.
type Event struct {
	c      *Context
	h      sys.Event
	timing bool
	at     atomic.Pointer[Stream] // where it was last recorded
}

// NewEvent makes an event; with timing it also takes the time, which costs a little on the device.
func (b *Bound) NewEvent(timing bool) (*Event, error) {
	if err := b.outside("creating an event"); err != nil {
		return nil, err
	}
	flags := uint32(sys.EventNoTiming)
	if timing {
		flags = sys.EventDefault
	}
	h, r := b.t.EventCreate(flags)
	if r != sys.Success {
		return nil, b.c.fail("EventCreate", r, "creating an event")
	}
	return &Event{c: b.c, h: h, timing: timing}, nil
}

// of checks an event.
func (b *Bound) of(e *Event) error {
	switch {
	case e == nil:
		return invalid("no event given")
	case e.h == 0:
		return closed("using a destroyed event")
	case e.c != b.c:
		return invalid("the event belongs to another context")
	}
	return nil
}

// Record moves the event to the end of the stream's work so far.
func (e *Event) Record(b *Bound, s *Stream) error {
	if err := b.on(s); err != nil {
		return err
	}
	if err := b.of(e); err != nil {
		return err
	}
	if r := b.t.EventRecord(e.h, s.h); r != sys.Success {
		return b.c.fail("EventRecord", r, "recording an event")
	}
	e.at.Store(s)
	return nil
}

// Query says whether the work before the event has ended. An event never recorded has.
func (e *Event) Query(b *Bound) (done bool, err error) {
	if err := b.outside("asking the state of an event"); err != nil {
		return false, err
	}
	if err := b.of(e); err != nil {
		return false, err
	}
	switch r := b.t.EventQuery(e.h); r {
	case sys.Success:
		return true, nil
	case sys.NotReady:
		return false, nil
	default:
		return false, b.c.fail("EventQuery", r, "asking the state of an event")
	}
}

// Wait waits until the work before the event has ended, at most timeout; see Stream.Wait.
func (e *Event) Wait(b *Bound, timeout time.Duration, what string) error {
	if err := b.outside("waiting for an event"); err != nil {
		return err
	}
	if err := b.of(e); err != nil {
		return err
	}
	return b.wait(e.at.Load(), "EventQuery", timeout, what, func() Result { return b.t.EventQuery(e.h) })
}

// Since is the device's time from one event to this one; both with timing, recorded, and their work ended.
func (e *Event) Since(b *Bound, from *Event) (time.Duration, error) {
	if err := b.outside("reading events' times"); err != nil {
		return 0, err
	}
	for _, x := range []*Event{from, e} {
		if err := b.of(x); err != nil {
			return 0, err
		}
		if !x.timing {
			return 0, invalid("the event was made without timing")
		}
	}
	ms, r := b.t.EventElapsed(from.h, e.h)
	if r != sys.Success {
		return 0, b.c.fail("EventElapsed", r, "reading events' times")
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), nil
}

// Destroy ends the event. A second call is ErrClosed.
func (e *Event) Destroy(b *Bound) error {
	if err := b.outside("destroying an event"); err != nil {
		return err
	}
	if err := b.of(e); err != nil {
		return err
	}
	h := e.h
	e.h = 0
	if r := b.t.EventDestroy(h); r != sys.Success {
		return b.c.fail("EventDestroy", r, "destroying an event")
	}
	return nil
}

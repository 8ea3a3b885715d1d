package cudatest

import (
	"time"

	"github.com/minfer-go/minfer/cudart/sys"
)

// stream is a queue of work that waits to be run.
type stream struct {
	dev     *device
	queue   []*op
	polled  bool // a query has answered NotReady since the last new work
	capture *capture
	serial  int // captured work so far, to see what an event covers
}

// op is one piece of work: a function to run, a mark to set, or a mark to wait for. A kernel's can be exchanged in an
// executable graph.
type op struct {
	what   string
	run    func() sys.Result
	set    *mark
	wait   *mark
	kernel *kernel
}

// mark is a point that an event was recorded at.
type mark struct {
	on     *stream
	done   bool
	polled bool
	at     time.Time
}

type event struct {
	dev      *device
	timing   bool
	last     *mark
	captured *capture // recorded inside a capture: which, on which stream, after how much work
	on       *stream
	serial   int
}

func (f *Fake) streamCreate(flags uint32, _ int) (sys.Stream, sys.Result) {
	defer f.mu.Unlock()
	d, r := f.enter("StreamCreate")
	if r != sys.Success {
		return 0, r
	}
	if flags != sys.StreamNonBlocking {
		f.violate("StreamCreate: a stream that waits for the default stream")
	}
	h := sys.Stream(f.handle())
	f.streams[h] = &stream{dev: d}
	return h, r
}

// on finds a stream of the device. mu is held.
func (f *Fake) on(d *device, h sys.Stream) (*stream, sys.Result) {
	s := f.streams[h]
	if s == nil || s.dev != d {
		f.violate("no stream %#x in this context", h)
		return nil, sys.InvalidHandle
	}
	return s, sys.Success
}

// streamOf is enter for calls about a stream.
func (f *Fake) streamOf(call string, h sys.Stream) (*device, *stream, sys.Result) {
	d, r := f.enter(call)
	if r != sys.Success {
		return d, nil, r
	}
	s, r := f.on(d, h)
	return d, s, r
}

// push queues work, or adds it to the stream's capture. mu is held.
func (f *Fake) push(d *device, h sys.Stream, o *op) sys.Result {
	s, r := f.on(d, h)
	if r != sys.Success {
		return r
	}
	if s.capture != nil {
		return s.capture.add(s, o)
	}
	s.queue = append(s.queue, o)
	s.polled = false
	return sys.Success
}

// drain runs the stream's work, up to a mark if one is given; false if it hangs. run is held, mu not.
func (f *Fake) drain(s *stream, until *mark) bool {
	for {
		f.mu.Lock()
		if s.dev.sticky != sys.Success {
			s.queue = nil
		}
		if len(s.queue) == 0 || until != nil && until.done {
			f.mu.Unlock()
			return true
		}
		o := s.queue[0]
		hangs := o.kernel != nil && f.hanging[o.kernel.name]
		f.mu.Unlock()
		if hangs {
			return false
		}
		r := sys.Success
		switch {
		case o.wait != nil && !o.wait.done:
			if !f.drain(o.wait.on, o.wait) {
				return false
			}
		case o.run != nil:
			r = o.run()
		}
		f.mu.Lock()
		if o.set != nil {
			o.set.done, o.set.at = true, time.Now()
		}
		if r != sys.Success && s.dev.sticky == sys.Success {
			s.dev.sticky = r
		}
		if len(s.queue) > 0 {
			s.queue[0] = nil
			s.queue = s.queue[1:]
		}
		f.mu.Unlock()
	}
}

// drainDevice runs all work of a device, for calls that wait for it. run is held, mu not.
func (f *Fake) drainDevice(d *device, call string) sys.Result {
	f.mu.Lock()
	var all []*stream
	for _, s := range f.streams {
		if s.dev == d {
			all = append(all, s)
		}
	}
	f.mu.Unlock()
	for _, s := range all {
		if !f.drain(s, nil) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.violate("%s: would wait for ever, because a kernel hangs", call)
			return sys.NotReady
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return d.sticky
}

func (f *Fake) streamQuery(h sys.Stream) sys.Result {
	f.run.Lock()
	defer f.run.Unlock()
	d, s, r := f.streamOf("StreamQuery", h)
	if r == sys.Success && s.capture != nil {
		s.capture.broken = true
		r = sys.CaptureUnsupported
	}
	if r == sys.Success && len(s.queue) > 0 && !s.polled {
		s.polled = true
		r = sys.NotReady
	}
	f.mu.Unlock()
	if r != sys.Success {
		return r
	}
	if !f.drain(s, nil) {
		return sys.NotReady
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return d.sticky
}

func (f *Fake) streamDestroy(h sys.Stream) sys.Result {
	f.run.Lock()
	defer f.run.Unlock()
	d, s, r := f.streamOf("StreamDestroy", h)
	if r == sys.Success && s.capture != nil {
		s.capture.broken = true
		f.violate("StreamDestroy: the stream is being captured")
		r = sys.CaptureUnsupported
	}
	if r == sys.Success && len(s.queue) > 0 {
		f.violate("StreamDestroy: the stream has work that nobody waited for")
	}
	f.mu.Unlock()
	if r != sys.Success {
		return r
	}
	if !f.drain(s, nil) {
		return sys.NotReady
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, h)
	return d.sticky
}

func (f *Fake) streamWait(h sys.Stream, eh sys.Event) sys.Result {
	defer f.mu.Unlock()
	d, s, r := f.streamOf("StreamWait", h)
	if r != sys.Success {
		return r
	}
	e := f.events[eh]
	if e == nil {
		return sys.InvalidHandle
	}
	if e.captured != nil || s.capture != nil {
		return f.join(s, e)
	}
	if e.last == nil {
		return sys.Success
	}
	return f.push(d, h, &op{what: "StreamWait", wait: e.last})
}

func (f *Fake) eventCreate(flags uint32) (sys.Event, sys.Result) {
	defer f.mu.Unlock()
	d, r := f.enter("EventCreate")
	if r != sys.Success {
		return 0, r
	}
	h := sys.Event(f.handle())
	f.events[h] = &event{dev: d, timing: flags&sys.EventNoTiming == 0}
	return h, r
}

func (f *Fake) eventDestroy(h sys.Event) sys.Result {
	defer f.mu.Unlock()
	_, r := f.enter("EventDestroy")
	if r == sys.Success && f.events[h] == nil {
		r = sys.InvalidHandle
	}
	if r == sys.Success {
		delete(f.events, h)
	}
	return r
}

func (f *Fake) eventRecord(eh sys.Event, h sys.Stream) sys.Result {
	defer f.mu.Unlock()
	d, r := f.enter("EventRecord")
	if r != sys.Success {
		return r
	}
	s, r := f.on(d, h)
	e := f.events[eh]
	if r != sys.Success || e == nil || e.dev != d {
		return sys.InvalidHandle
	}
	if s.capture != nil {
		e.captured, e.on, e.serial, e.last = s.capture, s, s.serial, nil
		return sys.Success
	}
	e.captured, e.last = nil, &mark{on: s}
	return f.push(d, h, &op{what: "EventRecord", set: e.last})
}

func (f *Fake) eventQuery(h sys.Event) sys.Result {
	f.run.Lock()
	defer f.run.Unlock()
	d, r := f.guarded("EventQuery")
	e := f.events[h]
	if r == sys.Success && e == nil {
		r = sys.InvalidHandle
	}
	if r == sys.Success && e.captured != nil {
		e.captured.broken = true
		r = sys.CapturedEvent
	}
	var m *mark
	if r == sys.Success {
		if m = e.last; m == nil || m.done {
			f.mu.Unlock()
			return sys.Success
		}
		if !m.polled {
			m.polled = true
			r = sys.NotReady
		}
	}
	f.mu.Unlock()
	if r != sys.Success {
		return r
	}
	if !f.drain(m.on, m) {
		return sys.NotReady
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return d.sticky
}

func (f *Fake) eventElapsed(from, to sys.Event) (float32, sys.Result) {
	defer f.mu.Unlock()
	_, r := f.enter("EventElapsed")
	if r != sys.Success {
		return 0, r
	}
	a, b := f.events[from], f.events[to]
	switch {
	case a == nil || b == nil || a.last == nil || b.last == nil || !a.timing || !b.timing:
		return 0, sys.InvalidHandle
	case !a.last.done || !b.last.done:
		return 0, sys.NotReady
	}
	return float32(b.last.at.Sub(a.last.at).Seconds() * 1000), sys.Success
}

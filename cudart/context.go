package cudart

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Context is a device's primary context, shared by the whole process. Safe for goroutines.
//
// When the device fails (illegal address, hardware error, …) the context is dead: its first cause is kept and returned
// by every later call (ErrSticky).
type Context struct {
	d      *Driver
	t      *sys.Table
	dev    sys.Device
	handle sys.Context
	info   DeviceInfo
	refs   int // guarded by d.mu
	closed atomic.Bool
	dead   atomic.Pointer[Error]

	mu    sync.Mutex
	spare []*Bound
	stuck map[*Stream]error // streams whose wait has timed out and that weren't seen idle since
}

// Retain gives the primary context of a device, counted: each Retain needs its Release.
func (d *Driver) Retain(ordinal int) (*Context, error) {
	n, err := d.Count()
	if err != nil {
		return nil, err
	}
	if ordinal < 0 || ordinal >= n {
		return nil, fmt.Errorf("cudart: %w: there is no device %d; this machine has %d, counted from 0", ErrUnavailable, ordinal, n)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.contexts[ordinal]; c != nil {
		if e := c.dead.Load(); e != nil {
			return nil, e
		}
		c.refs++
		return c, nil
	}
	c := &Context{d: d, t: d.t, refs: 1, stuck: map[*Stream]error{}}
	if c.dev, err = d.describe(ordinal, &c.info); err != nil {
		return nil, err
	}
	if c.info.ComputeMode == sys.ComputeProhibited {
		return nil, newError(d.t, "DeviceAttribute", sys.DeviceUnavailable, fmt.Sprintf("opening device %d", ordinal))
	}
	h, r := d.t.PrimaryCtxRetain(c.dev)
	if r != sys.Success {
		e := newError(d.t, "PrimaryCtxRetain", r, fmt.Sprintf("opening device %d", ordinal))
		if r == sys.InvalidDevice && c.info.ComputeMode == sys.ComputeExclusive {
			e.kind, e.Advice = classify(sys.DeviceUnavailable)
		}
		if r == sys.OutOfMemory {
			e.Advice = "other processes fill the device's memory: see nvidia-smi"
		}
		return nil, e
	}
	c.handle = h
	d.contexts[ordinal] = c
	return c, nil
}

// Release gives one Retain back. After the last one the context is closed and what was left in it is gone; while a stream
// may hang (ErrTimeout) the driver keeps it, because it would wait for the stream.
func (c *Context) Release() error {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.refs == 0 {
		return closed("releasing a context")
	}
	if c.refs--; c.refs > 0 {
		return nil
	}
	c.closed.Store(true)
	delete(c.d.contexts, c.info.Ordinal)
	if err := c.blocked(fmt.Sprintf("releasing device %d", c.info.Ordinal)); err != nil {
		return err
	}
	if r := c.t.PrimaryCtxRelease(c.dev); r != sys.Success && (c.dead.Load() == nil || !sticky(r)) {
		return newError(c.t, "PrimaryCtxRelease", r, fmt.Sprintf("releasing device %d", c.info.Ordinal))
	}
	return nil
}

// Device describes the context's device.
func (c *Context) Device() DeviceInfo { return c.info }

// Err is nil, or the first cause of the context's death (ErrSticky), or ErrClosed.
func (c *Context) Err() error {
	if e := c.dead.Load(); e != nil {
		return e
	}
	if c.closed.Load() {
		return closed("using a released context")
	}
	return nil
}

// Do runs f on this goroutine with its OS thread held and the context current; its error is f's. b is for f alone: not
// for another goroutine and not for later. Do may be nested, also with another context. It allocates nothing.
func (c *Context) Do(f func(b *Bound) error) (err error) {
	if err := c.Err(); err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, r := c.t.CtxGetCurrent()
	if r != sys.Success {
		return c.fail("CtxGetCurrent", r, "entering the context")
	}
	if before != c.handle {
		if r := c.t.CtxSetCurrent(c.handle); r != sys.Success {
			return c.fail("CtxSetCurrent", r, "entering the context")
		}
	}
	b := c.bind()
	defer func() {
		c.unbind(b)
		if before != c.handle && c.d.retained(before) { // an outer Do with another context goes on with its own
			if r := c.t.CtxSetCurrent(before); r != sys.Success {
				err = errors.Join(err, newError(c.t, "CtxSetCurrent", r, "going back to the outer context"))
			}
		}
	}()
	return f(b)
}

// retained says whether h is a context that someone holds.
func (d *Driver) retained(h sys.Context) bool {
	if h == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.contexts {
		if c.handle == h {
			return true
		}
	}
	return false
}

// fail is the error of a call in this context. The first sticky one kills the context and is what all get from then on.
func (c *Context) fail(call string, r Result, doing string) error {
	e := newError(c.t, call, r, doing)
	if e.kind == ErrSticky {
		c.dead.CompareAndSwap(nil, e)
		return c.dead.Load()
	}
	return e
}

// markStuck notes that a stream's wait has timed out; markIdle that the stream was seen idle.
func (c *Context) markStuck(s *Stream, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stuck[s] = err
	s.late.Store(true)
}

func (c *Context) markIdle(s *Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stuck, s)
	s.late.Store(false)
}

// blocked is the error of a stream that may hang, while there is one. Calls in which the driver waits for the device
// (freeing, unloading) are refused then: a leak is better than a hang.
func (c *Context) blocked(doing string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.stuck {
		return fmt.Errorf("cudart: %s is refused, because it would wait for a stream that may hang: %w", doing, err)
	}
	return nil
}

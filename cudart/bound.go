package cudart

import (
	"fmt"

	"github.com/minfer-go/minfer/cudart/sys"
)

// MaxParams is the most bytes that a kernel's parameter struct may have.
const MaxParams = 4096

// Ptr is an address on the device.
type Ptr = sys.DevicePtr

// Bound is the right to call the device: a context that is current on a held OS thread. Context.Do makes one.
type Bound struct {
	c      *Context
	t      *sys.Table
	args   *launchArgs
	window *Stream // the stream being captured on this Bound, or nil
}

// launchArgs is where a launch's arguments lie during the call. They are copied here so that callers' structs may stay
// on their stacks; it is an object of its own without pointers, as the checks of cgo want.
type launchArgs struct {
	cfg    sys.LaunchConfig
	params [MaxParams]byte
}

func (c *Context) bind() *Bound {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.spare); n > 0 {
		b := c.spare[n-1]
		c.spare = c.spare[:n-1]
		b.c = c
		return b
	}
	return &Bound{c: c, t: c.t, args: new(launchArgs)}
}

func (c *Context) unbind(b *Bound) {
	b.c, b.window = nil, nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spare = append(c.spare, b)
}

// Context is the context that b is bound to.
func (b *Bound) Context() *Context { return b.c }

// check refuses a Bound outside its Do and a dead context.
func (b *Bound) check() error {
	if b == nil || b.c == nil {
		return closed("a Bound is used outside of its Do")
	}
	if e := b.c.dead.Load(); e != nil {
		return e
	}
	return nil
}

// on checks a stream too.
func (b *Bound) on(s *Stream) error {
	if err := b.check(); err != nil {
		return err
	}
	switch {
	case s == nil:
		return invalid("no stream given")
	case s.c != b.c:
		return invalid("the stream belongs to another context")
	case s.h == 0:
		return closed("using a destroyed stream")
	}
	if e := s.broken.Load(); e != nil {
		return *e
	}
	return nil
}

// outside checks b and refuses what must not happen inside a capture window: allocation, loading, attributes, waits.
func (b *Bound) outside(doing string) error {
	if err := b.check(); err != nil {
		return err
	}
	if b.window != nil {
		return fmt.Errorf("cudart: %s inside a capture window: %w", doing, ErrCapture)
	}
	return nil
}

// releasing checks b for a call in which the driver may wait for the device.
func (b *Bound) releasing(doing string) error {
	if err := b.outside(doing); err != nil {
		return err
	}
	return b.c.blocked(doing)
}

// MemInfo says how much of the device's memory is free, and how much there is, in bytes.
func (b *Bound) MemInfo() (free, total int64, err error) {
	if err := b.check(); err != nil {
		return 0, 0, err
	}
	f, t, r := b.t.MemGetInfo()
	if r != sys.Success {
		return 0, 0, b.c.fail("MemGetInfo", r, "asking for free memory")
	}
	return int64(f), int64(t), nil
}

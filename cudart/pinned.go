package cudart

import (
	"fmt"
	"unsafe"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Pinned is host memory that the device can copy from and to: locked in place, outside the Go heap. The copies here
// take nothing else, so that they are asynchronous and never meet memory that Go moves or frees.
type Pinned struct {
	c    *Context
	p    unsafe.Pointer
	size int64
}

// AllocPinned allocates n bytes of pinned host memory, of any content, page-aligned. Locking pages is slow
// (milliseconds for large pieces): keep it.
func (b *Bound) AllocPinned(n int64) (*Pinned, error) {
	if err := b.outside("allocating pinned memory"); err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, invalid("allocating %d bytes of pinned memory", n)
	}
	p, r := b.t.MemHostAlloc(uint64(n))
	if r != sys.Success {
		return nil, b.c.fail("MemHostAlloc", r, fmt.Sprintf("allocating %d bytes of pinned host memory", n))
	}
	return &Pinned{c: b.c, p: p, size: n}, nil
}

// Bytes is the memory itself, until Free. While a copy from or to it is under way its content is the device's.
func (p *Pinned) Bytes() []byte {
	if p.p == nil {
		return nil
	}
	return unsafe.Slice((*byte)(p.p), p.size)
}

// Size is its length in bytes.
func (p *Pinned) Size() int64 { return p.size }

// Free gives the memory back; see Memory.Free. Slices of Bytes must not be used afterwards.
func (p *Pinned) Free(b *Bound) error {
	if err := b.releasing("freeing pinned memory"); err != nil {
		return err
	}
	switch {
	case p == nil || p.p == nil:
		return closed("freeing pinned memory")
	case p.c != b.c:
		return invalid("the memory belongs to another context")
	}
	at := p.p
	p.p = nil
	if r := b.t.MemFreeHost(at); r != sys.Success {
		return b.c.fail("MemFreeHost", r, fmt.Sprintf("freeing %d bytes of pinned host memory", p.size))
	}
	return nil
}

// span checks a range of pinned memory.
func (b *Bound) span(p *Pinned, off, n int64) error {
	switch {
	case p == nil:
		return invalid("no pinned memory given")
	case p.p == nil:
		return closed("copying with freed pinned memory")
	case off < 0 || n < 0 || off > p.size || n > p.size-off:
		return invalid("bytes %d to %d of %d bytes of pinned memory", off, off+n, p.size)
	}
	return nil
}

// CopyToDevice copies n bytes of src from off to the device, in the order of s. src must not change before that is done.
func (b *Bound) CopyToDevice(s *Stream, dst Ptr, src *Pinned, off, n int64) error {
	if err := b.on(s); err != nil {
		return err
	}
	if err := b.span(src, off, n); err != nil || n == 0 {
		return err
	}
	if r := b.t.MemcpyHtoD(dst, unsafe.Add(src.p, off), uint64(n), s.h); r != sys.Success {
		return b.c.fail("MemcpyHtoD", r, fmt.Sprintf("copying %d bytes to the device at %#x", n, dst))
	}
	return nil
}

// CopyToHost copies n bytes from the device to dst from off, in the order of s. They are there when s has been waited for.
func (b *Bound) CopyToHost(s *Stream, dst *Pinned, off int64, src Ptr, n int64) error {
	if err := b.on(s); err != nil {
		return err
	}
	if err := b.span(dst, off, n); err != nil || n == 0 {
		return err
	}
	if r := b.t.MemcpyDtoH(unsafe.Add(dst.p, off), src, uint64(n), s.h); r != sys.Success {
		return b.c.fail("MemcpyDtoH", r, fmt.Sprintf("copying %d bytes from the device at %#x", n, src))
	}
	return nil
}

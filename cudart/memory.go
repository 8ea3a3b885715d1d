package cudart

import (
	"fmt"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Memory is a piece of device memory.
type Memory struct {
	c    *Context
	ptr  Ptr
	size int64
}

// Ptr is the address of its first byte, a multiple of 256.
func (m *Memory) Ptr() Ptr { return m.ptr }

// Size is its length in bytes.
func (m *Memory) Size() int64 { return m.size }

// Alloc allocates n bytes of device memory, of any content. ErrOutOfMemory says how much was asked and free.
func (b *Bound) Alloc(n int64) (*Memory, error) {
	if err := b.outside("allocating device memory"); err != nil {
		return nil, err
	}
	if n <= 0 {
		return nil, invalid("allocating %d bytes of device memory", n)
	}
	p, r := b.t.MemAlloc(uint64(n))
	if r != sys.Success {
		doing := fmt.Sprintf("allocating %d bytes of device memory", n)
		if free, total, q := b.t.MemGetInfo(); q == sys.Success {
			doing += fmt.Sprintf(" (%d of %d are free)", free, total)
		}
		return nil, b.c.fail("MemAlloc", r, doing)
	}
	return &Memory{c: b.c, ptr: p, size: n}, nil
}

// Free gives the memory back. The driver waits here for work under way, so wait for it first, with a deadline; while a
// stream hangs the call is refused (ErrTimeout). A second Free is ErrClosed.
func (m *Memory) Free(b *Bound) error {
	if err := b.releasing("freeing device memory"); err != nil {
		return err
	}
	switch {
	case m == nil || m.ptr == 0:
		return closed("freeing device memory")
	case m.c != b.c:
		return invalid("the memory belongs to another context")
	}
	p := m.ptr
	m.ptr = 0
	if r := b.t.MemFree(p); r != sys.Success {
		return b.c.fail("MemFree", r, fmt.Sprintf("freeing %d bytes of device memory", m.size))
	}
	return nil
}

// CopyDevice copies n bytes on the device, in the order of s. The ranges must not overlap.
func (b *Bound) CopyDevice(s *Stream, dst, src Ptr, n int64) error {
	if err := b.on(s); err != nil {
		return err
	}
	if n < 0 {
		return invalid("copying %d bytes", n)
	}
	if n == 0 {
		return nil
	}
	if r := b.t.MemcpyDtoD(dst, src, uint64(n), s.h); r != sys.Success {
		return b.c.fail("MemcpyDtoD", r, fmt.Sprintf("copying %d bytes on the device from %#x to %#x", n, src, dst))
	}
	return nil
}

// Memset8 sets n bytes to v, in the order of s.
func (b *Bound) Memset8(s *Stream, dst Ptr, v uint8, n int64) error {
	if err := b.on(s); err != nil {
		return err
	}
	if n < 0 {
		return invalid("setting %d bytes", n)
	}
	if n == 0 {
		return nil
	}
	if r := b.t.MemsetD8(dst, v, uint64(n), s.h); r != sys.Success {
		return b.c.fail("MemsetD8", r, fmt.Sprintf("setting %d bytes at %#x", n, dst))
	}
	return nil
}

// Memset32 sets n 32-bit words to v, in the order of s; dst is a multiple of 4.
func (b *Bound) Memset32(s *Stream, dst Ptr, v uint32, n int64) error {
	if err := b.on(s); err != nil {
		return err
	}
	if n < 0 || dst%4 != 0 {
		return invalid("setting %d words at %#x", n, dst)
	}
	if n == 0 {
		return nil
	}
	if r := b.t.MemsetD32(dst, v, uint64(n), s.h); r != sys.Success {
		return b.c.fail("MemsetD32", r, fmt.Sprintf("setting %d words at %#x", n, dst))
	}
	return nil
}

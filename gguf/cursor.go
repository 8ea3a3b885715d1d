package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	// maxHeader bounds what is kept of a header. The largest vocabularies take 20 MB.
	maxHeader = 1 << 30
	// maxNesting bounds arrays of arrays, which are parsed by recursion.
	maxNesting = 8
	firstRead  = 256 << 10
)

// A cursor walks a header from front to back. buf holds the file's first bytes: all of them where the file lies in
// memory, otherwise as many as were needed so far.
type cursor struct {
	src  source // nil where buf is everything
	buf  []byte
	pos  int64
	size int64 // of the file
}

func newCursor(src source) *cursor {
	c := &cursor{src: src, size: src.size()}
	if m, ok := src.(*memory); ok {
		c.buf = m.b
	}
	return c
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrCorrupt)...)
}

func unsupported(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrUnsupported)...)
}

// left is the number of bytes between the cursor and the file's end.
func (c *cursor) left() uint64 { return uint64(c.size - c.pos) }

// take gives the next n bytes and moves past them. what names them in errors.
func (c *cursor) take(n uint64, what string) ([]byte, error) {
	if n > c.left() {
		return nil, corrupt("offset %d: %s needs %d bytes, but the file ends at %d", c.pos, what, n, c.size)
	}
	end := c.pos + int64(n)
	if end > maxHeader {
		return nil, unsupported("offset %d: %s of %d bytes: the header would exceed %d bytes", c.pos, what, n, maxHeader)
	}
	if end > int64(len(c.buf)) {
		if err := c.grow(end); err != nil {
			return nil, err
		}
	}
	b := c.buf[c.pos:end:end]
	c.pos = end
	return b, nil
}

// grow reads on until the first end bytes are there. It at least doubles what is read, so that the sum stays linear.
func (c *cursor) grow(end int64) error {
	n := min(max(end, 2*int64(len(c.buf)), firstRead), c.size)
	buf := make([]byte, n)
	have := copy(buf, c.buf)
	if err := readFullAt(c.src, buf[have:], int64(have)); err != nil {
		return err
	}
	c.buf = buf
	return nil
}

func (c *cursor) u32(what string) (uint32, error) {
	b, err := c.take(4, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64(what string) (uint64, error) {
	b, err := c.take(8, what)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// str reads a string: its length as 64 bits, then its bytes.
func (c *cursor) str(what string) ([]byte, error) {
	b, err := c.take(8, what) // its length; vocabularies have many: nothing is put together for an error that doesn't come
	if err != nil {
		return nil, err
	}
	return c.take(binary.LittleEndian.Uint64(b), what)
}

// value reads a metadata value after its key. The returned value's raw bytes are set later (see parseHeader), since
// the buffer may move while the header is read: start and end are their place.
func (c *cursor) value() (v Value, start, end int64, err error) {
	k, err := c.u32("the value's type")
	if err != nil {
		return v, 0, 0, err
	}
	v.kind, v.count = Kind(k), 1
	n := uint64(1)
	item := v.kind
	if v.kind == Array {
		if v.elem, n, err = c.arrayHead(); err != nil {
			return v, 0, 0, err
		}
		v.count, item = int(n), v.elem
	} else if !v.kind.known() {
		return v, 0, 0, corrupt("offset %d: unknown value type %d", c.pos-4, k)
	}
	start = c.pos
	err = c.skipItems(item, n, 0)
	return v, start, c.pos, err
}

// arrayHead reads an array's element type and count. Every element takes at least a byte, so the count is checked
// against what is left of the file.
func (c *cursor) arrayHead() (Kind, uint64, error) {
	k, err := c.u32("the array's element type")
	if err != nil {
		return 0, 0, err
	}
	elem := Kind(k)
	if !elem.known() {
		return 0, 0, corrupt("offset %d: unknown array element type %d", c.pos-4, k)
	}
	n, err := c.u64("the array's count")
	if err != nil {
		return 0, 0, err
	}
	least := uint64(kinds[elem].bytes)
	switch elem {
	case String:
		least = 8
	case Array:
		least = 12
	}
	if n > c.left()/least || n > math.MaxInt {
		return 0, 0, corrupt("offset %d: an array of %d %s needs at least %d bytes each, but %d bytes are left in the file",
			c.pos-8, n, elem, least, c.left())
	}
	return elem, n, nil
}

// skipItems moves past n values of one kind and checks what can be checked in them.
func (c *cursor) skipItems(k Kind, n uint64, depth int) error {
	switch k {
	case String:
		for range n {
			if _, err := c.str("a string"); err != nil {
				return err
			}
		}
		return nil
	case Array:
		if depth == maxNesting {
			return unsupported("offset %d: arrays nested more than %d deep", c.pos, maxNesting)
		}
		for range n {
			elem, count, err := c.arrayHead()
			if err != nil {
				return err
			}
			if err := c.skipItems(elem, count, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	at := c.pos
	b, err := c.take(n*uint64(kinds[k].bytes), "a value of type "+k.String())
	if err != nil || k != Bool {
		return err
	}
	for i, x := range b {
		if x > 1 {
			return corrupt("offset %d: a bool of value %d, want 0 or 1", at+int64(i), x)
		}
	}
	return nil
}

package backendcpu

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/minfer-go/minfer/graph"
)

// alignment of buffers: a cache line.
const alignment = 64

// mapFrom is the size from which memory comes from the system and not from Go's heap: it is zero without being
// touched, goes back when freed, and a size that can't be had is an error instead of the end of the process.
const mapFrom = 1 << 20

// buffer is host memory, aligned to 64 bytes.
type buffer struct {
	mem    []byte
	mapped bool
}

// Bytes is the size asked for.
func (m *buffer) Bytes() int64 { return int64(len(m.mem)) }

// HostBytes is the memory itself.
func (m *buffer) HostBytes() []byte { return m.mem }

// Alloc gives zeroed memory, aligned to 64 bytes. Errors wrap graph.ErrOutOfMemory.
func (b *Backend) Alloc(bytes int64) (graph.Buffer, error) {
	if bytes < 0 || bytes > math.MaxInt-alignment {
		return nil, fmt.Errorf("backendcpu: a buffer of %d bytes: %w", bytes, graph.ErrOutOfMemory)
	}
	if bytes >= mapFrom {
		if free, ok := availableMemory(); ok && bytes > free {
			return nil, fmt.Errorf("backendcpu: a buffer of %d MiB, the system has %d MiB available: %w", bytes>>20, free>>20, graph.ErrOutOfMemory)
		}
		mem, err := mapMemory(int(bytes))
		if err != nil {
			return nil, fmt.Errorf("backendcpu: a buffer of %d bytes: %w: %w", bytes, graph.ErrOutOfMemory, err)
		}
		if mem != nil {
			return &buffer{mem, true}, nil
		}
	}
	mem := make([]byte, int(bytes)+alignment)
	skip := -uintptr(unsafe.Pointer(&mem[0])) & (alignment - 1)
	return &buffer{mem: mem[skip:][:bytes:bytes]}, nil
}

// Free gives a buffer back. Programs and slices that use it must be done with.
func (b *Backend) Free(buf graph.Buffer) {
	if m, ok := buf.(*buffer); ok && m != nil {
		if m.mapped {
			unmapMemory(m.mem)
		}
		*m = buffer{}
	}
}

// Write copies src into a buffer.
func (b *Backend) Write(dst graph.Buffer, offset int64, src []byte) error {
	at, err := span(dst, offset, int64(len(src)))
	copy(at, src)
	return err
}

// Read copies from a buffer.
func (b *Backend) Read(dst []byte, src graph.Buffer, offset int64) error {
	at, err := span(src, offset, int64(len(dst)))
	copy(dst, at)
	return err
}

// CopyCells moves n cells of a region; the ranges may overlap.
func (b *Backend) CopyCells(r graph.KVRegion, dst, src, n int) error {
	if n < 0 || dst < 0 || src < 0 || dst > r.Cells-n || src > r.Cells-n {
		return fmt.Errorf("backendcpu: copy of %d cells from %d to %d: the region has %d", n, src, dst, r.Cells)
	}
	from, err := span(r.Buffer, int64(src)*r.RowBytes, int64(n)*r.RowBytes)
	if err != nil {
		return err
	}
	to, err := span(r.Buffer, int64(dst)*r.RowBytes, int64(n)*r.RowBytes)
	copy(to, from)
	return err
}

func span(b graph.Buffer, offset, n int64) ([]byte, error) {
	m, ok := b.(*buffer)
	if !ok || m == nil {
		return nil, fmt.Errorf("backendcpu: a %T is no buffer of this backend", b)
	}
	if offset < 0 || n < 0 || offset > m.Bytes()-n {
		return nil, fmt.Errorf("backendcpu: bytes [%d, %d) of a buffer of %d", offset, offset+n, m.Bytes())
	}
	return m.mem[offset:][:n:n], nil
}

// floatsOf views little-endian float32 bytes, or copies them if they aren't aligned.
func floatsOf(data []byte) []float32 {
	if len(data) < 4 {
		return nil
	}
	if uintptr(unsafe.Pointer(&data[0]))%4 != 0 {
		copied := make([]float32, len(data)/4)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&copied[0])), 4*len(copied)), data)
		return copied
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&data[0])), len(data)/4)
}

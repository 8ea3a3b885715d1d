package backendcuda

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// buffer is memory of the device that graphs compute in.
type buffer struct {
	mem   *cudart.Memory
	bytes int64
}

// Bytes is the length asked for.
func (b *buffer) Bytes() int64 { return b.bytes }

// pool keeps freed buffers for reuse by exact length: the buffers of a graph come back when a graph of the same shape is
// compiled again. generation changes whenever memory is taken from or given back to the driver.
type pool struct {
	free       map[int64][]*cudart.Memory
	kept       int64 // bytes in free
	held       int64 // bytes taken from the driver, kept ones included
	generation uint64
}

// maxKept bounds the bytes that lie unused; maxKeptBuffer those of one buffer: larger ones (KV regions) go back at once.
const (
	maxKept       = 256 << 20
	maxKeptBuffer = 64 << 20
)

// take gives an unused buffer of n bytes, nil if there is none.
func (p *pool) take(n int64) *cudart.Memory {
	list := p.free[n]
	if len(list) == 0 {
		return nil
	}
	m := list[len(list)-1]
	p.free[n] = list[:len(list)-1]
	p.kept -= n
	return m
}

func (p *pool) put(b *cudart.Bound, m *cudart.Memory) error {
	n := m.Size()
	if n > maxKeptBuffer || p.kept+n > maxKept {
		p.held -= n
		p.generation++
		return m.Free(b)
	}
	if p.free == nil {
		p.free = map[int64][]*cudart.Memory{}
	}
	p.free[n] = append(p.free[n], m)
	p.kept += n
	return nil
}

// trim gives all unused buffers back to the driver.
func (p *pool) trim(b *cudart.Bound) error {
	var errs []error
	for n, list := range p.free {
		for _, m := range list {
			errs = append(errs, m.Free(b))
			p.held -= n
			p.generation++
		}
	}
	clear(p.free)
	p.kept = 0
	return errors.Join(errs...)
}

// buffer takes memory for a graph from the pool, else from the driver.
func (b *Backend) buffer(bd *cudart.Bound, n int64) (*cudart.Memory, error) {
	if m := b.pool.take(n); m != nil {
		return m, nil
	}
	m, err := b.alloc(bd, n)
	if err != nil {
		return nil, err
	}
	b.pool.held += n
	b.pool.generation++
	return m, nil
}

// alloc takes memory from the driver, which gets the pool's unused buffers back if it has too little. It would wait for the stream
// then, without a deadline: so the stream is waited for first.
func (b *Backend) alloc(bd *cudart.Bound, n int64) (*cudart.Memory, error) {
	m, err := bd.Alloc(n)
	if !errors.Is(err, cudart.ErrOutOfMemory) || b.pool.kept == 0 {
		return m, err
	}
	if err := b.wait(bd); err != nil {
		return nil, err
	}
	if err := b.pool.trim(bd); err != nil {
		return nil, err
	}
	return bd.Alloc(n)
}

// Alloc gives zeroed device memory. Errors wrap graph.ErrOutOfMemory where that is the cause.
func (b *Backend) Alloc(n int64) (graph.Buffer, error) {
	if n < 0 {
		return nil, fmt.Errorf("backendcuda: a buffer of %d bytes", n)
	}
	buf := &buffer{bytes: n}
	err := b.do(func(bd *cudart.Bound) (err error) {
		if buf.mem, err = b.buffer(bd, max(n, 1)); err != nil {
			return err
		}
		if err = bd.Memset8(b.stream, buf.mem.Ptr(), 0, buf.mem.Size()); err != nil {
			err = errors.Join(err, b.pool.put(bd, buf.mem))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("backendcuda: a buffer of %d bytes: %w", n, outOfMemory(err))
	}
	return buf, nil
}

// Free takes a buffer back. Work that was queued with it is done first, since the stream orders reuse.
func (b *Backend) Free(g graph.Buffer) {
	buf, ok := g.(*buffer)
	if !ok || buf.mem == nil {
		return
	}
	err := b.do(func(bd *cudart.Bound) error { return b.pool.put(bd, buf.mem) })
	if err != nil {
		b.opts.Notice(fmt.Sprintf("CUDA: memory could not be given back: %v", err))
	}
	buf.mem = nil
}

// CopyCells moves cells of a KV region on the device; the ranges may overlap.
func (b *Backend) CopyCells(r graph.KVRegion, dst, src, n int) error {
	at, err := span(r.Buffer, 0, r.RowBytes*int64(r.Cells))
	if err != nil || dst < 0 || src < 0 || n < 0 || n > r.Cells-max(dst, src) {
		return fmt.Errorf("backendcuda: a move of %d cells from %d to %d of %d: %w", n, src, dst, r.Cells, cmp.Or(err, cudart.ErrInvalid))
	}
	if n == 0 || dst == src {
		return nil
	}
	b.last = "a move of KV cells"
	return b.do(func(bd *cudart.Bound) error {
		return b.dev.kernels.KvMove(streamQueue{bd, b.stream}, &kernelscuda.KvMoveParams{Region: at, Row: r.RowBytes, Dst: int32(dst), Src: int32(src), Count: int32(n)})
	})
}

// outOfMemory lets graph's sentinel be found in an error that is the driver's.
func outOfMemory(err error) error {
	if errors.Is(err, cudart.ErrOutOfMemory) && !errors.Is(err, graph.ErrOutOfMemory) {
		return fmt.Errorf("%w: %w", graph.ErrOutOfMemory, err)
	}
	return err
}

// span is the address of bytes [offset, offset+n) of a buffer.
func span(g graph.Buffer, offset, n int64) (cudart.Ptr, error) {
	buf, ok := g.(*buffer)
	switch {
	case !ok || buf.mem == nil:
		return 0, errors.New("the buffer isn't this backend's, or was freed")
	case offset < 0 || n < 0 || offset > buf.bytes-n:
		return 0, fmt.Errorf("bytes %d to %d of a buffer of %d", offset, offset+n, buf.bytes)
	}
	return buf.mem.Ptr() + cudart.Ptr(offset), nil
}

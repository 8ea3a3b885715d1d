package graph

// pool hands out a backend's buffers and takes them back for reuse by exact length. generation changes whenever memory was
// taken from or given to the backend.
type pool struct {
	backend    Backend
	free       map[int64][]Buffer
	held       int64 // bytes taken from the backend and not given back
	buffers    int
	generation uint64
}

func (p *pool) get(bytes int64) (Buffer, error) {
	if f := p.free[bytes]; len(f) > 0 {
		p.free[bytes] = f[:len(f)-1]
		return f[len(f)-1], nil
	}
	b, err := p.backend.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	p.held += bytes
	p.buffers++
	p.generation++
	return b, nil
}

func (p *pool) put(b Buffer, bytes int64) {
	if p.free == nil {
		p.free = map[int64][]Buffer{}
	}
	p.free[bytes] = append(p.free[bytes], b)
}

// trim gives the free buffers back to the backend, which must be idle.
func (p *pool) trim() {
	for bytes, list := range p.free {
		for _, b := range list {
			p.backend.Free(b)
			p.held -= bytes
			p.buffers--
			p.generation++
		}
	}
	clear(p.free)
}

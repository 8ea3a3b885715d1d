package backendcuda

import "github.com/minfer-go/minfer/cudart"

// arena is scratch memory that all programs of a backend share, since only one runs at a time. A program that needs more gets a
// larger one; the old one lives until the last program compiled into it is closed.
type arena struct {
	mem  *cudart.Memory
	refs int
}

// arenaFor gives an arena of at least n bytes, with a reference for the caller; nil for n = 0.
func (b *Backend) arenaFor(bd *cudart.Bound, n int64) (*arena, error) {
	if n == 0 {
		return nil, nil
	}
	if b.arena == nil || b.arena.mem.Size() < n {
		mem, err := b.alloc(bd, n)
		if err != nil {
			return nil, err
		}
		old := b.arena
		b.arena = &arena{mem: mem, refs: 1}
		if old != nil {
			if err := old.drop(bd); err != nil {
				return nil, err
			}
		}
	}
	b.arena.refs++
	return b.arena, nil
}

func (a *arena) drop(bd *cudart.Bound) error {
	if a.refs--; a.refs > 0 {
		return nil
	}
	return a.mem.Free(bd)
}

// scratchPlan hands out offsets of an arena while a program is compiled: freed ranges are reused by exact length.
type scratchPlan struct {
	size int64
	free map[int64][]int64 // offsets by length
}

const scratchAlign = 256

func (s *scratchPlan) take(n int64) (offset, length int64) {
	n = (n + scratchAlign - 1) &^ (scratchAlign - 1)
	if list := s.free[n]; len(list) > 0 {
		s.free[n] = list[:len(list)-1]
		return list[len(list)-1], n
	}
	s.size += n
	return s.size - n, n
}

func (s *scratchPlan) give(offset, length int64) {
	if s.free == nil {
		s.free = map[int64][]int64{}
	}
	s.free[length] = append(s.free[length], offset)
}

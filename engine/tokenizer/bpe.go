package tokenizer

import "sync"

// shortWord is the length in bytes up to which a word is merged by plain scans; longer ones take the heap. Nearly all are short.
const shortWord = 32

// keepScratch is the number of symbols above which a scratch is not kept for the next call.
const keepScratch = 1 << 18

// scratch is the working memory of one long word: a doubly linked list of symbols, by position of their first byte.
type scratch struct {
	symbols []symbol
	heap    []uint64 // rank<<32 | position; the least on top
}

type symbol struct {
	id         int32
	prev, next int32 // -1 at the ends
	rank       uint32
	merged     int32 // what this symbol and the next one merge to, if rank != noRank
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// appendWord appends the ids of one word.
func (t *Tokenizer) appendWord(dst []int32, w string) []int32 {
	if len(w) <= shortWord {
		return t.appendShort(dst, w)
	}
	s := scratches.Get().(*scratch)
	dst = t.appendLong(dst, w, s)
	if cap(s.symbols) <= keepScratch {
		scratches.Put(s)
	}
	return dst
}

// appendShort merges by looking for the lowest rank again after each merge.
func (t *Tokenizer) appendShort(dst []int32, w string) []int32 {
	var ids, merged [shortWord]int32
	var ranks [shortWord]uint32 // of the pair (i, i+1)
	n := 0
	for i := 0; i < len(w); i++ {
		if id := t.bytes[w[i]]; id != NoToken {
			ids[n] = id
			n++
		}
	}
	for i := 0; i+1 < n; i++ {
		ranks[i], merged[i] = t.pairs.find(ids[i], ids[i+1])
	}
	for n > 1 {
		best, at := noRank, 0
		for i, r := range ranks[:n-1] {
			if r < best {
				best, at = r, i
			}
		}
		if best == noRank {
			break
		}
		ids[at] = merged[at]
		n--
		copy(ids[at+1:n], ids[at+2:n+1])
		copy(ranks[at+1:n], ranks[at+2:n+1])
		copy(merged[at+1:n], merged[at+2:n+1])
		if at > 0 {
			ranks[at-1], merged[at-1] = t.pairs.find(ids[at-1], ids[at])
		}
		if at+1 < n {
			ranks[at], merged[at] = t.pairs.find(ids[at], ids[at+1])
		}
	}
	return append(dst, ids[:n]...)
}

// appendLong does the same in O(n log n). A heap entry is stale if its symbol's pair has another rank by now.
func (t *Tokenizer) appendLong(dst []int32, w string, s *scratch) []int32 {
	sym := s.symbols[:0]
	for i := 0; i < len(w); i++ {
		if id := t.bytes[w[i]]; id != NoToken {
			k := int32(len(sym))
			sym = append(sym, symbol{id: id, prev: k - 1, next: k + 1, rank: noRank})
		}
	}
	heap := s.heap[:0]
	defer func() { s.symbols, s.heap = sym, heap }()
	if len(sym) == 0 {
		return dst
	}
	sym[len(sym)-1].next = -1
	for i := 0; i+1 < len(sym); i++ {
		sym[i].rank, sym[i].merged = t.pairs.find(sym[i].id, sym[i+1].id)
		if sym[i].rank != noRank {
			heap = append(heap, uint64(sym[i].rank)<<32|uint64(i))
		}
	}
	for i := len(heap)/2 - 1; i >= 0; i-- {
		siftDown(heap, i)
	}
	// pair works out anew what the symbol at i and its right neighbour merge to.
	pair := func(i int32) {
		a := &sym[i]
		a.rank = noRank
		if a.next < 0 {
			return
		}
		a.rank, a.merged = t.pairs.find(a.id, sym[a.next].id)
		if a.rank != noRank {
			heap = append(heap, uint64(a.rank)<<32|uint64(i))
			siftUp(heap, len(heap)-1)
		}
	}
	for len(heap) > 0 {
		top := heap[0]
		last := len(heap) - 1
		heap[0] = heap[last]
		heap = heap[:last]
		if last > 1 {
			siftDown(heap, 0)
		}
		i := int32(uint32(top))
		a := &sym[i]
		if a.rank != uint32(top>>32) {
			continue
		}
		b := &sym[a.next]
		b.rank = noRank // gone: its entries are stale
		a.id = a.merged
		a.next = b.next
		if b.next >= 0 {
			sym[b.next].prev = i
		}
		pair(i)
		if a.prev >= 0 {
			pair(a.prev)
		}
	}
	for i := int32(0); i >= 0; i = sym[i].next {
		dst = append(dst, sym[i].id)
	}
	return dst
}

func siftDown(h []uint64, i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if h[i] <= h[c] {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

func siftUp(h []uint64, i int) {
	for i > 0 {
		p := (i - 1) / 2
		if h[p] <= h[i] {
			return
		}
		h[i], h[p] = h[p], h[i]
		i = p
	}
}

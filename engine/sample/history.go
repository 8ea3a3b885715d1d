package sample

// history counts the tokens accepted last. Its zero value counts nothing.
type history struct {
	counts []int32 // by id; nil if off
	ring   []int32
	last   int // length of the window, -1 for all
	next   int // where in a full ring the next one goes
}

func newHistory(vocab, last int) history { return history{counts: make([]int32, vocab), last: last} }

func (h *history) add(id int32) {
	if h.counts == nil {
		return
	}
	h.counts[id]++
	if h.last < 0 || len(h.ring) < h.last {
		h.ring = append(h.ring, id)
		return
	}
	h.counts[h.ring[h.next]]--
	h.ring[h.next] = id
	h.next = (h.next + 1) % h.last
}

// each calls f once for each distinct token of the window.
func (h *history) each(f func(id int32, count int)) {
	for _, id := range h.ring {
		if n := h.counts[id]; n > 0 {
			f(id, int(n))
			h.counts[id] = -n // seen
		}
	}
	for _, id := range h.ring {
		if n := h.counts[id]; n < 0 {
			h.counts[id] = -n
		}
	}
}

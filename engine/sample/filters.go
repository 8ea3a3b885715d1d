package sample

import (
	"fmt"
	"math"
	"slices"
)

// before is the order of candidates: the higher logit first, of equals the lower id.
func before(a, b candidate) bool { return a.logit > b.logit || a.logit == b.logit && a.id < b.id }

func after(a, b candidate) bool { return before(b, a) }

func compareLogit(a, b candidate) int {
	if before(a, b) {
		return -1
	}
	if before(b, a) {
		return 1
	}
	return 0
}

func errLogit(id int, x float32) error {
	return fmt.Errorf("sample: the logit of token %d is %v: %w", id, x, ErrLogits)
}

func errNone() error {
	return fmt.Errorf("sample: no token has a logit above -Inf: %w", ErrLogits)
}

// best leaves the k best candidates, sorted. The k best so far are a heap with the worst on top, so nearly all logits are settled by one comparison,
// which NaN fails too.
func (s *Sampler) best(logits []float32, k int) error {
	heap := s.cands[:0]
	worst := float32(math.Inf(-1))
	for _, r := range s.allowed {
		part := logits[r.From:r.To]
		for i, x := range part {
			if x <= worst {
				continue
			}
			id := int(r.From) + i
			if x != x || x > math.MaxFloat32 {
				return errLogit(id, x)
			}
			c := candidate{id: int32(id), logit: x}
			if len(heap) < k {
				heap = append(heap, c)
				if len(heap) == k {
					heapify(heap, after)
					worst = heap[0].logit
				}
				continue
			}
			heap[0] = c
			siftDown(heap, 0, after)
			worst = heap[0].logit
		}
	}
	s.cands = heap
	if len(heap) == 0 {
		return errNone()
	}
	slices.SortFunc(heap, compareLogit)
	return nil
}

// all leaves every token above -Inf, in the order of the ids.
func (s *Sampler) all(logits []float32) error {
	if cap(s.cands) < s.vocab {
		s.cands = make([]candidate, 0, s.vocab)
	}
	s.cands = s.cands[:0]
	for _, r := range s.allowed {
		for i, x := range logits[r.From:r.To] {
			id := int(r.From) + i
			if x != x || x > math.MaxFloat32 {
				return errLogit(id, x)
			}
			if x >= -math.MaxFloat32 {
				s.cands = append(s.cands, candidate{id: int32(id), logit: x})
			}
		}
	}
	if len(s.cands) == 0 {
		return errNone()
	}
	return nil
}

// weigh sets the weights to exp((logit - highest) / temperature).
func (s *Sampler) weigh(temperature float64) {
	top := s.cands[0].logit
	for _, c := range s.cands {
		top = max(top, c.logit)
	}
	for i := range s.cands {
		s.cands[i].weight = exp((float64(s.cands[i].logit) - float64(top)) / temperature)
	}
}

func (s *Sampler) sum() (sum float64) {
	for i := range s.cands {
		sum += s.cands[i].weight
	}
	return sum
}

// takePrefix keeps candidates, first by the order, until their share of all weights is p or more (more than p if over is set).
func (s *Sampler) takePrefix(p float64, over bool, order func(a, b candidate) bool) {
	goal := p * s.sum()
	heap, kept, cum := s.cands, s.spare[:0], 0.0
	heapify(heap, order)
	for len(heap) > 0 {
		kept = append(kept, heap[0])
		cum += heap[0].weight
		if cum > goal || cum == goal && !over {
			break
		}
		heap = pop(heap, order)
	}
	s.spare = kept
	s.cands = append(s.cands[:0], kept...) // back into the large buffer
}

// topP keeps the most probable candidates that make up p together.
func (s *Sampler) topP(p float64, sorted bool) {
	if !sorted {
		s.takePrefix(p, false, before)
		return
	}
	goal, cum := p*s.sum(), 0.0
	for i := range s.cands {
		cum += s.cands[i].weight
		if cum >= goal {
			s.cands = s.cands[:i+1]
			return
		}
	}
}

// typical keeps the candidates whose surprise -log p is nearest to the expected one, until they make up more than p. With d = logit - highest,
// -log p = log(sum) - d, so its distance from the mean is that of d from the mean of d: no logarithm is needed.
func (s *Sampler) typical(p float64) {
	top := s.cands[0].logit
	for _, c := range s.cands {
		top = max(top, c.logit)
	}
	mean, sum := 0.0, 0.0
	for _, c := range s.cands {
		mean += float64(c.weight * (float64(c.logit) - float64(top)))
		sum += c.weight
	}
	mean = mean/sum + float64(top)
	s.takePrefix(p, true, func(a, b candidate) bool {
		x, y := math.Abs(float64(a.logit)-mean), math.Abs(float64(b.logit)-mean)
		return x < y || x == y && a.id < b.id
	})
}

// minP keeps the candidates with at least p times the highest probability. It keeps their order.
func (s *Sampler) minP(p float64) {
	top := 0.0
	for i := range s.cands {
		top = max(top, s.cands[i].weight)
	}
	kept := s.cands[:0]
	for _, c := range s.cands {
		if c.weight >= p*top {
			kept = append(kept, c)
		}
	}
	s.cands = kept
}

// heapify puts the first by the order on top.
func heapify(h []candidate, first func(a, b candidate) bool) {
	for i := len(h)/2 - 1; i >= 0; i-- {
		siftDown(h, i, first)
	}
}

func pop(h []candidate, first func(a, b candidate) bool) []candidate {
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	siftDown(h, 0, first)
	return h
}

func siftDown(h []candidate, i int, first func(a, b candidate) bool) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && first(h[c+1], h[c]) {
			c++
		}
		if !first(h[c], h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

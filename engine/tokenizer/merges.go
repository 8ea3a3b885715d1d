package tokenizer

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
)

// noRank is the rank of a pair that can't merge. Ranks are positions in the list of merges.
const noRank = ^uint32(0)

// pairTable finds the merge of two neighbours: a hash table with open addressing, 16 bytes a slot, at most 2/3 full. Its hash is
// seeded at random, so that no file can be made to collide.
type pairTable struct {
	slots []pairSlot
	shift uint8
	mul   uint64
}

type pairSlot struct {
	left, right int32
	rank        uint32 // position + 1; 0 marks an empty slot
	merged      int32
}

func newPairTable(n int) pairTable {
	logSize := max(4, bits.Len(uint(n+n/2)))
	return pairTable{slots: make([]pairSlot, 1<<logSize), shift: uint8(64 - logSize), mul: rand.Uint64() | 1}
}

func (p *pairTable) slot(left, right int32) uint64 {
	return ((uint64(uint32(left))<<32 | uint64(uint32(right))) * p.mul) >> p.shift
}

// find returns the rank of the pair and what it merges to; noRank if it doesn't.
func (p *pairTable) find(left, right int32) (rank uint32, merged int32) {
	mask := uint64(len(p.slots) - 1)
	for i := p.slot(left, right) & mask; ; i = (i + 1) & mask {
		s := &p.slots[i]
		if s.rank == 0 {
			return noRank, NoToken
		}
		if s.left == left && s.right == right {
			return s.rank - 1, s.merged
		}
	}
}

// add enters a merge; of two for one pair the first stays.
func (p *pairTable) add(m pairSlot) {
	mask := uint64(len(p.slots) - 1)
	for i := p.slot(m.left, m.right) & mask; ; i = (i + 1) & mask {
		s := &p.slots[i]
		if s.rank == 0 {
			*s = m
			return
		}
		if s.left == m.left && s.right == m.right {
			return
		}
	}
}

// border is the place of the space between a merge's two tokens, or -1. A part may not be empty, so the search starts at the second byte.
func border(merge string) int {
	if len(merge) > 2 {
		if sp := strings.IndexByte(merge[1:], ' ') + 1; sp > 0 && sp < len(merge)-1 {
			return sp
		}
	}
	return -1
}

func checkMerges(merges []string) error {
	for rank, m := range merges {
		if border(m) < 0 {
			return fmt.Errorf("tokenizer: merge %d (%.80q): want two tokens with a space between them: %w", rank, m, ErrCorrupt)
		}
	}
	return nil
}

// buildPairs resolves the merges' texts to ids, on all CPUs: it is the longest part of loading a small model. A merge of a token that isn't
// mergeable is left out.
func buildPairs(merges, tokens []string, mergeable func(int32) bool) pairTable {
	index := newStringIndex(tokens, mergeable)
	found := make([]pairSlot, len(merges))
	const least = 4096 // merges for which another goroutine pays
	parts := max(1, min(runtime.GOMAXPROCS(0), len(merges)/least))
	var all sync.WaitGroup
	for i := range parts {
		lo, hi := len(merges)*i/parts, len(merges)*(i+1)/parts
		all.Go(func() { resolve(found, merges, lo, hi, index, mergeable) })
	}
	table := newPairTable(len(merges))
	all.Wait()
	for _, m := range found {
		if m.rank != 0 {
			table.add(m)
		}
	}
	return table
}

// resolve fills found[lo:hi] with the merges that can apply.
func resolve(found []pairSlot, merges []string, lo, hi int, index *stringIndex, mergeable func(int32) bool) {
	tokens := index.tokens
	buf := make([]byte, 0, 256)
	guess := int32(0) // merged tokens mostly stand in the vocabulary in the order of the merges
	for rank := lo; rank < hi; rank++ {
		m := merges[rank]
		sp := border(m)
		l, r := m[:sp], m[sp+1:]
		left, right := index.find(l), index.find(r)
		merged := NoToken
		if g := int(guess); g < len(tokens) && len(tokens[g]) == len(l)+len(r) && tokens[g][:len(l)] == l && tokens[g][len(l):] == r &&
			mergeable(guess) {
			merged = guess
		} else {
			buf = append(append(buf[:0], l...), r...)
			merged = index.find(string(buf))
		}
		if left == NoToken || right == NoToken || merged == NoToken {
			continue // it can never apply; files with such merges exist, and llama.cpp loads them
		}
		guess = merged + 1
		if mergeable(left) && mergeable(right) && mergeable(merged) {
			found[rank] = pairSlot{left: left, right: right, rank: uint32(rank) + 1, merged: merged}
		}
	}
}

// stringIndex finds a token's id by its text. Only buildPairs needs it.
type stringIndex struct {
	tokens []string
	slots  []indexSlot
	mask   uint64
	seed   maphash.Seed
}

type indexSlot struct {
	hash uint32
	id   int32 // id + 1; 0 marks an empty slot
}

// newStringIndex enters all tokens. Of equal ones it keeps the first that is mergeable, else the first.
func newStringIndex(tokens []string, mergeable func(int32) bool) *stringIndex {
	size := 1 << bits.Len(uint(len(tokens)+len(tokens)/2))
	x := &stringIndex{tokens: tokens, slots: make([]indexSlot, size), mask: uint64(size - 1), seed: maphash.MakeSeed()}
	for id, s := range tokens {
		slot, hash := x.locate(s)
		switch {
		case slot.id == 0:
			*slot = indexSlot{hash, int32(id) + 1}
		case !mergeable(slot.id-1) && mergeable(int32(id)):
			slot.id = int32(id) + 1
		}
	}
	return x
}

// locate returns the slot of s, or the empty one where it belongs, and the hash to enter there.
func (x *stringIndex) locate(s string) (*indexSlot, uint32) {
	h := maphash.String(x.seed, s)
	for i := h & x.mask; ; i = (i + 1) & x.mask {
		slot := &x.slots[i]
		if slot.id == 0 {
			return slot, uint32(h >> 32)
		}
		if slot.hash == uint32(h>>32) && x.tokens[slot.id-1] == s {
			return slot, slot.hash
		}
	}
}

func (x *stringIndex) find(s string) int32 {
	slot, _ := x.locate(s)
	return slot.id - 1
}

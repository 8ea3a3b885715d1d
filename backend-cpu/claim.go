package backendcpu

import (
	"sync/atomic"

	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
)

// claim hands the outputs of a step out to whichever worker is free: a core that is slowed down, by a neighbour on the same silicon
// or by the memory it sits at, gets less. Pieces shrink towards the end, so that all finish together. Which worker computes an output
// has no influence on it.
type claim struct {
	_    [64]byte // alone in its cache line
	next atomic.Int64
	_    [64]byte
}

// claimUnit is what pieces are multiples of: the smallest range that roundings of activations and panels can be split at.
const claimUnit = matmul.SplitRows

// reset makes all of it available again; program.Run calls it before a step can run.
func (c *claim) reset() { c.next.Store(0) }

// take gives the next piece of total outputs, [lo,hi), or false if none is left.
func (c *claim) take(total, workers int) (lo, hi int, ok bool) {
	for {
		at := c.next.Load()
		left := total - int(at)
		if left <= 0 {
			return 0, 0, false
		}
		n := left
		if workers > 1 {
			n = left / (2 * workers)
			if n >= 4*claimUnit { // whole groups of panels
				n -= n % (4 * claimUnit)
			} else {
				n = max(claimUnit, n-n%claimUnit)
			}
		}
		n = min(n, left)
		if c.next.CompareAndSwap(at, at+int64(n)) {
			return int(at), int(at) + n, true
		}
	}
}

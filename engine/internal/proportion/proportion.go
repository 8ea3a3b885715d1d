// Package proportion holds the time of some work against that of other work, for tests of how work grows. On a loaded machine both take longer, so no
// bound in seconds is needed.
package proportion

import (
	"testing"
	"time"
)

// Rounds of a comparison. What is within the limit after the least is, and within half of it at once; what isn't after the most isn't: the best times of
// so many rounds by turns are hardly those of a busy machine.
const (
	least = 3
	most  = 8
)

// AtMost fails the test unless work takes at most limit times as long as unit, by the shortest runs of each.
func AtMost(t testing.TB, limit float64, unit, work func()) {
	t.Helper()
	if u, w, ok := compare(limit, unit, work); !ok {
		t.Errorf("%v, which is %.1f times the unit's %v: want %g times at most", w, float64(w)/float64(u), u, limit)
	}
}

func compare(limit float64, unit, work func()) (u, w time.Duration, ok bool) {
	u, w = time.Hour, time.Hour
	for round := range most {
		u, w = min(u, timed(unit)), min(w, timed(work))
		if x := float64(w) / float64(u); x <= limit/2 || round >= least-1 && x <= limit {
			return u, w, true
		}
	}
	return u, w, false
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return max(time.Since(start), 1)
}

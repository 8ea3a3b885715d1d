package proportion

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// turns of a loop that isn't optimised away.
func turns(n int) func() {
	return func() {
		x := uint64(n)
		for range n {
			x = x*6364136223846793005 + 1442695040888963407
		}
		sink = x
	}
}

var sink uint64

func TestCompare(t *testing.T) {
	const n = 200_000
	_, _, ok := compare(8, turns(n), turns(4*n))
	require.True(t, ok)
	u, w, ok := compare(8, turns(n), turns(16*n))
	require.False(t, ok, "16 times the work in %v and %v", u, w)
}

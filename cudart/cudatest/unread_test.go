package cudatest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each way to lose a result is found, by type: also through variables; what is read, or has a reason, is not.
func TestUnreadResults(t *testing.T) {
	found, err := UnreadResults("testdata/careless")
	require.NoError(t, err)
	var got []string
	for _, line := range found {
		_, after, ok := strings.Cut(line, "careless.go:")
		require.True(t, ok, line)
		got = append(got, after)
	}
	require.Equal(t, []string{
		"12: the result of t.CtxSynchronize is not read",
		"13: the result of t.MemAlloc is not read",
		"15: the result of free is not read",
		"16: the result of m.Free is not read",
		"17: the result of s.Wait is not read",
		"18: the result of s.Destroy is not read",
		"20: the result of b.Alloc is not read",
		"21: the result of b.Alloc is not read",
	}, got)
}

// A folder without a module is an error, not a clean bill.
func TestUnreadResultsErrors(t *testing.T) {
	_, err := UnreadResults(t.TempDir())
	require.ErrorContains(t, err, "go list")
}

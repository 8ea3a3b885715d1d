package cudart_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart/cudatest"
)

// No result of a driver call goes unread in this module.
func TestResultsAreRead(t *testing.T) {
	_, goErr := exec.LookPath("go")
	_, sourceErr := os.Stat("lint_test.go")
	if goErr != nil || sourceErr != nil {
		t.Skip("the test reads sources with the go command, and one of them isn't here")
	}
	found, err := cudatest.UnreadResults(".")
	require.NoError(t, err)
	require.Empty(t, found)
}

package cudart_test

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart/cudatest"
)

// No result of a driver call goes unread in this module.
func TestResultsAreRead(t *testing.T) {
	if _, err := exec.LookPath("go"); errors.Is(err, exec.ErrNotFound) {
		t.Skip("the test reads sources, and there is no go command here")
	}
	found, err := cudatest.UnreadResults(".")
	require.NoError(t, err)
	require.Empty(t, found)
}

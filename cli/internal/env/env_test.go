package env

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestValuesAndDefaults(t *testing.T) {
	t.Setenv("MINFER_THREADS", "3")
	n, err := Int("MINFER_THREADS")
	require.NoError(t, err)
	assert.Equal(t, 3, n)
	require.NoError(t, os.Unsetenv("MINFER_THREADS"))
	n, err = Int("MINFER_THREADS")
	require.NoError(t, err)
	assert.Zero(t, n)
	assert.NoError(t, Check())
	assert.Panics(t, func() { Get("HOME") }, "only gates are read")
}

func TestMalformedAndUnknownAreErrors(t *testing.T) {
	t.Setenv("MINFER_THREADS", "2.5")
	assert.ErrorContains(t, Check(), `MINFER_THREADS="2.5"`)
	t.Setenv("MINFER_THREADS", "2")
	t.Setenv("MINFER_THREDS", "2")
	assert.ErrorContains(t, Check(), "MINFER_THREDS is not known")
}

func TestDocumentListsEveryGate(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/environment.md")
	require.NoError(t, err)
	for _, g := range Gates {
		assert.Contains(t, string(doc), "| "+g.Name+" | "+g.Type+" | ", "docs/environment.md")
		assert.Contains(t, string(doc), g.Meaning, "docs/environment.md")
	}
}

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

func TestAnotherName(t *testing.T) {
	on, err := Bool("MINFER_CUDA_TILES")
	require.NoError(t, err)
	assert.True(t, on)
	t.Setenv("MINFER_Q6K_DPL", "0")
	require.NoError(t, Check())
	on, err = Bool("MINFER_CUDA_TILES")
	require.NoError(t, err)
	assert.False(t, on)
	t.Setenv("MINFER_Q6K_DPL", "maybe")
	assert.ErrorContains(t, Check(), `MINFER_Q6K_DPL="maybe"`)
	t.Setenv("MINFER_Q6K_DPL", "0")
	t.Setenv("MINFER_CUDA_TILES", "1")
	assert.ErrorContains(t, Check(), "MINFER_Q6K_DPL is another name of MINFER_CUDA_TILES")
	for alias, gate := range aliases {
		assert.NotPanics(t, func() { Get(gate) }, alias)
		assert.False(t, known(alias), alias)
	}
}

func TestDocumentListsEveryGate(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/environment.md")
	require.NoError(t, err)
	for _, g := range Gates {
		assert.Contains(t, string(doc), "| "+g.Name+" | "+g.Type+" | ", "docs/environment.md")
		assert.Contains(t, string(doc), g.Meaning, "docs/environment.md")
	}
	for alias := range aliases {
		assert.Contains(t, string(doc), "`"+alias+"`", "docs/environment.md")
	}
}

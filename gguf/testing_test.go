package gguf_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/minfer-go/minfer/gguf"
	"github.com/stretchr/testify/require"
)

// models lists the tiny reference models.
func models(t testing.TB) []string {
	paths, err := filepath.Glob("testdata/*.gguf")
	require.NoError(t, err)
	require.Len(t, paths, 2)
	return paths
}

// openAll opens the same file in every way there is.
func openAll(t *testing.T, path string) map[string]*gguf.File {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	out := map[string]*gguf.File{}
	out["path"], err = gguf.Open(path)
	require.NoError(t, err)
	out["bytes"], err = gguf.OpenBytes(data)
	require.NoError(t, err)
	odd := append([]byte{0}, data...)[1:]
	out["odd bytes"], err = gguf.OpenBytes(odd)
	require.NoError(t, err)
	out["reader"], err = gguf.OpenReaderAt(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, f := range out {
			require.NoError(t, f.Close())
		}
	})
	return out
}

// write builds a file with a Writer.
func write(t testing.TB, opts gguf.WriterOptions, fill func(w *gguf.Writer)) []byte {
	var buf bytes.Buffer
	w, err := gguf.NewWriter(&buf, opts)
	require.NoError(t, err)
	fill(w)
	require.NoError(t, w.Close())
	return buf.Bytes()
}

package gguf_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/quant"
	"github.com/stretchr/testify/require"
)

// shardBytes makes part no (from 0) of a model with one tensor a part.
func shardBytes(t *testing.T, no, count, tensors int, name string) []byte {
	return write(t, gguf.WriterOptions{}, func(w *gguf.Writer) {
		if no == 0 {
			require.NoError(t, w.Set("general.architecture", "test"))
		}
		require.NoError(t, w.Set("split.no", uint16(no)))
		require.NoError(t, w.Set("split.count", uint16(count)))
		require.NoError(t, w.Set("split.tensors.count", int32(tensors)))
		require.NoError(t, w.AddTensor(name, quant.I8, 10))
		require.NoError(t, w.WriteTensor(name, bytes.Repeat([]byte{byte('0' + no)}, 10)))
	})
}

// splitModel writes a model of three parts and gives their paths.
func splitModel(t *testing.T) []string {
	prefix := filepath.Join(t.TempDir(), "model")
	var paths []string
	for i, name := range []string{"a", "b", "c"} {
		path := gguf.ShardPath(prefix, i+1, 3)
		require.NoError(t, os.WriteFile(path, shardBytes(t, i, 3, 3, name), 0o600))
		paths = append(paths, path)
	}
	return paths
}

func TestSplitOpensByAnyPart(t *testing.T) {
	paths := splitModel(t)
	require.Equal(t, "model-00002-of-00003.gguf", filepath.Base(paths[1]))
	var print string
	for _, path := range paths {
		f, err := gguf.Open(path)
		require.NoError(t, err)
		require.Equal(t, paths, f.Paths())
		arch, err := gguf.Need[string](f, "general.architecture")
		require.NoError(t, err)
		require.Equal(t, "test", arch)
		require.Len(t, f.Tensors(), 3)
		for i, x := range f.Tensors() {
			require.Equal(t, i, x.Shard)
			b, err := f.TensorBytes(x)
			require.NoError(t, err)
			require.Equal(t, bytes.Repeat([]byte{byte('0' + i)}, 10), b)
		}
		p, err := f.Fingerprint()
		require.NoError(t, err)
		if print != "" {
			require.Equal(t, print, p)
		}
		print = p

		var merged bytes.Buffer
		_, err = f.WriteTo(&merged)
		require.NoError(t, err)
		m, err := gguf.OpenBytes(merged.Bytes())
		require.NoError(t, err)
		require.Len(t, m.Tensors(), 3)
		_, ok := m.Value("split.count")
		require.False(t, ok)
		require.NoError(t, f.Close())
	}
}

func TestSplitFaults(t *testing.T) {
	t.Run("a part is missing", func(t *testing.T) {
		paths := splitModel(t)
		require.NoError(t, os.Remove(paths[1]))
		_, err := gguf.Open(paths[2])
		require.ErrorIs(t, err, gguf.ErrMissingShard)
		require.ErrorContains(t, err, paths[1])
		require.ErrorContains(t, err, "part 2 of 3")
	})
	t.Run("a part of another model", func(t *testing.T) {
		paths := splitModel(t)
		require.NoError(t, os.WriteFile(paths[1], shardBytes(t, 2, 3, 3, "x"), 0o600))
		_, err := gguf.Open(paths[0])
		require.ErrorIs(t, err, gguf.ErrCorrupt)
		require.ErrorContains(t, err, "part 3 of 3, want part 2 of 3")
	})
	t.Run("a broken part", func(t *testing.T) {
		paths := splitModel(t)
		require.NoError(t, os.WriteFile(paths[2], []byte("GGUF"), 0o600))
		_, err := gguf.Open(paths[0])
		require.ErrorIs(t, err, gguf.ErrCorrupt)
		require.ErrorContains(t, err, paths[2])
	})
	t.Run("a tensor twice", func(t *testing.T) {
		paths := splitModel(t)
		require.NoError(t, os.WriteFile(paths[2], shardBytes(t, 2, 3, 3, "a"), 0o600))
		_, err := gguf.Open(paths[0])
		require.ErrorIs(t, err, gguf.ErrCorrupt)
		require.ErrorContains(t, err, `tensor "a" is also in `+paths[0])
	})
	t.Run("tensors missing", func(t *testing.T) {
		paths := splitModel(t)
		require.NoError(t, os.WriteFile(paths[2], shardBytes(t, 2, 3, 9, "c"), 0o600))
		_, err := gguf.Open(paths[2])
		require.ErrorContains(t, err, "3 tensors, but key \"split.tensors.count\" says 9")
	})
	t.Run("renamed", func(t *testing.T) {
		paths := splitModel(t)
		other := filepath.Join(filepath.Dir(paths[0]), "renamed.gguf")
		require.NoError(t, os.Rename(paths[0], other))
		_, err := gguf.Open(other)
		require.ErrorIs(t, err, gguf.ErrUnsupported)
		require.ErrorContains(t, err, "NAME-00001-of-00003.gguf")
	})
	t.Run("joined with cat", func(t *testing.T) {
		paths := splitModel(t)
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}} {
			var all []byte
			for _, i := range order {
				b, err := os.ReadFile(paths[i])
				require.NoError(t, err)
				all = append(all, b...)
			}
			joined := filepath.Join(filepath.Dir(paths[0]), "all.gguf")
			require.NoError(t, os.WriteFile(joined, all, 0o600))
			_, err := gguf.Open(joined)
			require.ErrorIs(t, err, gguf.ErrUnsupported)
			require.ErrorContains(t, err, "`cat`")
		}
	})
	t.Run("as bytes", func(t *testing.T) {
		_, err := gguf.OpenBytes(shardBytes(t, 1, 3, 3, "b"))
		require.ErrorIs(t, err, gguf.ErrUnsupported)
		require.ErrorContains(t, err, "part 2 of a model split into 3")
	})
}

package gguf_test

import (
	"bytes"
	"testing"

	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/gguf/gguftest"
	"github.com/stretchr/testify/require"
)

// touch opens b and, where that works, reads all there is to read. It must not panic.
func touch(t *testing.T, b []byte) *gguf.File {
	f, err := gguf.OpenBytes(b)
	if err != nil {
		require.True(t, isSentinel(err), "%v", err)
		return nil
	}
	for _, kv := range f.Metadata() {
		_ = kv.Value.Any()
		_ = kv.Value.String()
	}
	for _, x := range f.Tensors() {
		data, err := f.TensorBytes(x)
		require.NoError(t, err)
		require.Len(t, data, int(x.Size))
		if x.Type.Supported() {
			_, err = f.TensorFloats(x)
			require.NoError(t, err)
		}
	}
	_, err = f.Fingerprint()
	require.NoError(t, err)
	return f
}

func seeds(f *testing.F) {
	f.Add(gguftest.Valid())
	for _, c := range gguftest.Malformed() {
		if len(c.Data) < 4096 {
			f.Add(c.Data)
		}
	}
}

// FuzzRead: whatever the bytes, reading gives a file or an error; behind a reader it gives the same.
func FuzzRead(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		file := touch(t, b)
		other, err := gguf.OpenReaderAt(bytes.NewReader(b), int64(len(b)))
		require.Equal(t, file == nil, err != nil)
		if file != nil {
			require.Equal(t, file.Tensors(), other.Tensors())
		}
	})
}

// FuzzRoundTrip: what can be read can be written, holds the same, and is written the same again.
func FuzzRoundTrip(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		file := touch(t, b)
		if file == nil || file.Alignment() > 1<<16 {
			return // Padding would be larger than what the fuzzer looks for.
		}
		var once, twice bytes.Buffer
		_, err := file.WriteTo(&once)
		require.NoError(t, err)
		again, err := gguf.OpenBytes(once.Bytes())
		if err != nil {
			// Tensor data that happens to look like a second file at the new place of the end.
			require.ErrorContains(t, err, "second GGUF file")
			return
		}
		require.Equal(t, len(file.Metadata()), len(again.Metadata()))
		for i, kv := range file.Metadata() {
			require.Equal(t, kv.Key, again.Metadata()[i].Key)
			require.Equal(t, kv.Value.String(), again.Metadata()[i].Value.String())
		}
		require.Len(t, again.Tensors(), len(file.Tensors()))
		for i, x := range file.Tensors() {
			y := again.Tensors()[i]
			require.Equal(t, x.Name, y.Name)
			want, err := file.TensorBytes(x)
			require.NoError(t, err)
			got, err := again.TensorBytes(y)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), x.Name)
		}
		_, err = again.WriteTo(&twice)
		require.NoError(t, err)
		require.True(t, bytes.Equal(once.Bytes(), twice.Bytes()))
	})
}

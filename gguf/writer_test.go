package gguf_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/quant"
	"github.com/stretchr/testify/require"
)

// What was read and is written again is the same, byte for byte.
func TestRewriteIsByteEqual(t *testing.T) {
	for _, path := range models(t) {
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		for how, f := range openAll(t, path) {
			var buf bytes.Buffer
			n, err := f.WriteTo(&buf)
			require.NoError(t, err)
			require.Equal(t, int64(len(want)), n)
			require.True(t, bytes.Equal(want, buf.Bytes()), "%s %s", path, how)
		}
	}
}

func TestWriterAlignmentAndVersion(t *testing.T) {
	for _, align := range []uint32{1, 8, 64, 4096} {
		for _, version := range []int{2, 3} {
			data := write(t, gguf.WriterOptions{Version: version}, func(w *gguf.Writer) {
				require.NoError(t, w.Set("general.alignment", align))
				require.NoError(t, w.AddTensor("a", quant.F32, 3, 2))
				require.NoError(t, w.AddTensor("b", quant.Q8_0, 64))
				require.NoError(t, w.AddTensor("c", quant.I8, 5))
				require.NoError(t, w.WriteTensor("a", bytes.Repeat([]byte{1}, 24)))
				require.NoError(t, w.WriteTensorFrom("b", strings.NewReader(strings.Repeat("b", 68))))
				require.NoError(t, w.WriteTensor("c", []byte("hello")))
			})
			f, err := gguf.OpenBytes(data)
			require.NoError(t, err)
			require.Equal(t, version, f.Version())
			require.Equal(t, int(align), f.Alignment())
			require.Zero(t, len(data)%int(align))
			for _, x := range f.Tensors() {
				require.Zero(t, x.Offset%int64(align))
			}
			c, ok := f.Tensor("c")
			require.True(t, ok)
			b, err := f.TensorBytes(c)
			require.NoError(t, err)
			require.Equal(t, "hello", string(b))
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	_, err := gguf.NewWriter(io.Discard, gguf.WriterOptions{Version: 1})
	require.ErrorIs(t, err, gguf.ErrUnsupported)
	fresh := func() *gguf.Writer {
		w, err := gguf.NewWriter(io.Discard, gguf.WriterOptions{})
		require.NoError(t, err)
		return w
	}
	w := fresh()
	require.NoError(t, w.Set("k", uint32(1)))
	require.ErrorContains(t, w.Set("k", uint32(1)), "already there")
	require.ErrorContains(t, w.Set("", "x"), "is empty")
	require.ErrorContains(t, w.Set("int", 1), "int is no metadata type")
	require.ErrorContains(t, w.Set("zero", gguf.Value{}), "empty value")
	require.ErrorContains(t, w.Set("mixed", []any{uint8(1), "a"}), "element 1")
	require.ErrorContains(t, w.Set("general.alignment", uint32(12)), "power of two")
	require.ErrorContains(t, w.AddTensor("t", quant.Q4_K, 100), "no whole number")
	require.ErrorContains(t, w.AddTensor("t", quant.F32), "0 dimensions")
	require.ErrorContains(t, w.AddTensor("t", quant.F32, 2, -1), "must be positive")
	require.ErrorContains(t, w.AddTensor("t", quant.F32, math.MaxInt, 2), "must be positive")
	require.ErrorContains(t, w.AddTensor("t", quant.Type(99), 1), "unknown type")
	require.NoError(t, w.AddTensor("t", quant.F32, 2))
	require.ErrorContains(t, w.AddTensor("t", quant.F32, 2), "already there")
	require.ErrorContains(t, w.Set("general.alignment", uint32(64)), "before tensors")
	require.ErrorContains(t, w.WriteTensor("other", nil), `"t" comes next`)
	require.ErrorContains(t, w.Close(), "1 of 1 tensors are missing")

	w = fresh()
	require.NoError(t, w.AddTensor("t", quant.F32, 2))
	require.ErrorContains(t, w.WriteTensor("t", make([]byte, 7)), "got 7 bytes, want 8")
	require.ErrorContains(t, w.Set("late", "x"), "already written")
	require.ErrorContains(t, w.AddTensor("late", quant.F32, 1), "already written")
	require.ErrorIs(t, w.WriteTensorFrom("t", strings.NewReader("short")), io.ErrUnexpectedEOF)

	w = fresh()
	require.ErrorContains(t, w.WriteTensor("t", nil), "all 0 tensors")
}

type brokenWriter struct{}

var errDisk = errors.New("disk full")

func (brokenWriter) Write([]byte) (int, error) { return 0, errDisk }

func TestWriterReportsWriteErrors(t *testing.T) {
	w, err := gguf.NewWriter(brokenWriter{}, gguf.WriterOptions{})
	require.NoError(t, err)
	require.NoError(t, w.AddTensor("t", quant.I8, 4<<20))
	require.ErrorIs(t, w.WriteTensor("t", make([]byte, 4<<20)), errDisk)
	w, err = gguf.NewWriter(brokenWriter{}, gguf.WriterOptions{})
	require.NoError(t, err)
	require.ErrorIs(t, w.Close(), errDisk)
}

package gguf_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/minfer-go/minfer/gguf"
	"github.com/stretchr/testify/require"
)

// isSentinel reports whether err wraps an error of the package for bad files.
func isSentinel(err error) bool {
	return errors.Is(err, gguf.ErrCorrupt) || errors.Is(err, gguf.ErrUnsupported)
}

// values holds one of every kind, and arrays of every kind.
func values() []any {
	return []any{
		uint8(200), int8(-100), uint16(60000), int16(-30000), uint32(4e9), int32(-2e9), float32(1.5), true, "text ☃",
		uint64(math.MaxUint64), int64(math.MinInt64), 1e300, "", false,
		[]uint8{1, 255}, []int8{-1, 1}, []uint16{1, 65535}, []int16{-1}, []uint32{7}, []int32{-7, 8}, []float32{0.5, -2},
		[]bool{true, false, true}, []string{"a", "", "long enough"}, []uint64{1 << 63}, []int64{-1 << 62}, []float64{0.1},
		[]string{}, []uint32{},
		[]any{[]int32{1, 2}, []string{"x"}, []any{[]bool{true}}},
	}
}

func metadataFile(t *testing.T) *gguf.File {
	data := write(t, gguf.WriterOptions{}, func(w *gguf.Writer) {
		for i, v := range values() {
			require.NoError(t, w.Set(key(i), v))
		}
	})
	f, err := gguf.OpenReaderAt(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return f
}

func key(i int) string { return string(rune('A' + i)) }

func TestEveryKindRoundTrips(t *testing.T) {
	f := metadataFile(t)
	require.Len(t, f.Metadata(), len(values()))
	for i, want := range values() {
		kv := f.Metadata()[i]
		require.Equal(t, key(i), kv.Key)
		require.Equal(t, want, kv.Value.Any())
		require.NotEmpty(t, kv.Value.String())
	}
}

func TestConversions(t *testing.T) {
	set := func(v any) *gguf.File {
		data := write(t, gguf.WriterOptions{}, func(w *gguf.Writer) { require.NoError(t, w.Set("k", v)) })
		f, err := gguf.OpenBytes(data)
		require.NoError(t, err)
		return f
	}
	i, err := gguf.Need[int](set(uint16(7)), "k")
	require.NoError(t, err)
	require.Equal(t, 7, i)
	u, err := gguf.Need[uint32](set(int64(1<<31)), "k")
	require.NoError(t, err)
	require.Equal(t, uint32(1<<31), u)
	g, err := gguf.Need[float64](set(float32(0.25)), "k")
	require.NoError(t, err)
	require.Equal(t, 0.25, g)
	s, err := gguf.Need[[]int](set([]uint8{1, 2}), "k")
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, s)

	bad := func(err error, want string) {
		t.Helper()
		require.ErrorIs(t, err, gguf.ErrKind)
		require.ErrorContains(t, err, `key "k"`)
		require.ErrorContains(t, err, want)
	}
	_, err = gguf.Need[int8](set(uint32(128)), "k")
	bad(err, "128 doesn't fit int8")
	_, err = gguf.Need[uint64](set(int32(-1)), "k")
	bad(err, "-1 doesn't fit uint64")
	_, err = gguf.Need[int64](set(uint64(1<<63)), "k")
	bad(err, "doesn't fit int64")
	_, err = gguf.Need[[]uint8](set([]int32{3, 300}), "k")
	bad(err, "element 1, 300, doesn't fit uint8")
	_, err = gguf.Need[string](set(uint8(1)), "k")
	bad(err, "it is uint8, want a string")
	_, err = gguf.Need[int](set("1"), "k")
	bad(err, "it is string, want one integer")
	_, err = gguf.Need[int](set(float32(1)), "k")
	bad(err, "want one integer")
	_, err = gguf.Need[bool](set(uint8(1)), "k")
	bad(err, "want a bool")
	_, err = gguf.Need[[]string](set([]int32{1}), "k")
	bad(err, "it is an array of 1 int32, want an array of strings")
	_, err = gguf.Need[[]float32](set(float32(1)), "k")
	bad(err, "want an array of floats")
	_, err = gguf.Need[[]bool](set(true), "k")
	bad(err, "want an array of bools")
}

// Absent and of another type are told apart.
func TestAbsentKeys(t *testing.T) {
	f := metadataFile(t)
	_, ok, err := gguf.Get[int](f, "none")
	require.NoError(t, err)
	require.False(t, ok)
	n, err := gguf.GetOr(f, "none", 5)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	_, err = gguf.Need[int](f, "none")
	require.ErrorIs(t, err, gguf.ErrNoKey)
	require.ErrorContains(t, err, `"none"`)
	_, err = gguf.GetOr(f, key(8), 5)
	require.ErrorIs(t, err, gguf.ErrKind)
	_, ok = f.Value("none")
	require.False(t, ok)
}

func TestValueString(t *testing.T) {
	for _, c := range []struct {
		in   any
		want string
	}{
		{uint32(7), "7"}, {float32(1e-6), "1e-06"}, {true, "true"}, {"a\nb", `"a\nb"`}, {[]string{"x", "y"}, `["x", "y"]`},
		{[]int32{1, 2, 3, 4, 5, 6, 7}, "[1, 2, 3, 4, 5, 6, … 7 in all]"}, {[]any{[]int32{1}, []int32{}}, "[[1], []]"},
	} {
		v, err := gguf.NewValue(c.in)
		require.NoError(t, err)
		require.Equal(t, c.want, v.String())
	}
	long, err := gguf.NewValue(string(bytes.Repeat([]byte("ä"), 500)))
	require.NoError(t, err)
	require.Less(t, len(long.String()), 300)
}

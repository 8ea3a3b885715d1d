package gguf_test

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/gguf/gguftest"
	"github.com/minfer-go/minfer/quant"
	"github.com/stretchr/testify/require"
)

func TestReferenceModel(t *testing.T) {
	for how, f := range openAll(t, "testdata/tiny-qwen2w-q4_k_m.gguf") {
		t.Run(how, func(t *testing.T) {
			require.Equal(t, 3, f.Version())
			require.Equal(t, 32, f.Alignment())
			require.Equal(t, int64(838240), f.Size())

			arch, err := gguf.Need[string](f, "general.architecture")
			require.NoError(t, err)
			require.Equal(t, "qwen2", arch)
			layers, err := gguf.Need[int](f, "qwen2.block_count")
			require.NoError(t, err)
			require.Equal(t, 2, layers)
			eps, err := gguf.Need[float32](f, "qwen2.attention.layer_norm_rms_epsilon")
			require.NoError(t, err)
			require.Equal(t, float32(1e-6), eps)
			bos, ok, err := gguf.Get[bool](f, "tokenizer.ggml.add_bos_token")
			require.NoError(t, err)
			require.True(t, ok)
			require.False(t, bos)
			tokens, err := gguf.Need[[]string](f, "tokenizer.ggml.tokens")
			require.NoError(t, err)
			require.Len(t, tokens, 512)
			require.Equal(t, "<|im_end|>", tokens[506])
			types, err := gguf.Need[[]int32](f, "tokenizer.ggml.token_type")
			require.NoError(t, err)
			require.Len(t, types, 512)
			require.Equal(t, int32(5), types[511])

			emb, ok := f.Tensor("token_embd.weight")
			require.True(t, ok)
			require.Equal(t, quant.Q6_K, emb.Type)
			require.Equal(t, []int{256, 512}, emb.Shape)
			require.Equal(t, 256, emb.Cols())
			require.Equal(t, 512, emb.Rows())
			require.Equal(t, int64(512*210), emb.Size)
			_, ok = f.Tensor("output.weight")
			require.False(t, ok)

			norm, ok := f.Tensor("output_norm.weight")
			require.True(t, ok)
			w, err := f.TensorFloats(norm)
			require.NoError(t, err)
			require.Len(t, w, 256)
			for _, x := range w {
				require.False(t, math.IsNaN(float64(x)))
			}
		})
	}
}

// All ways of opening give the same keys, tensors, bytes and fingerprint.
func TestWaysOfOpeningAgree(t *testing.T) {
	for _, path := range models(t) {
		files := openAll(t, path)
		ref := files["path"]
		want, err := ref.Fingerprint()
		require.NoError(t, err)
		require.Len(t, want, 64)
		for how, f := range files {
			require.Equal(t, ref.Tensors(), f.Tensors(), how)
			require.Equal(t, len(ref.Metadata()), len(f.Metadata()))
			for i, kv := range f.Metadata() {
				require.Equal(t, ref.Metadata()[i].Key, kv.Key)
				require.Equal(t, ref.Metadata()[i].Value.Any(), kv.Value.Any())
			}
			for _, x := range f.Tensors() {
				a, err := ref.TensorBytes(x)
				require.NoError(t, err)
				b, err := f.TensorBytes(x)
				require.NoError(t, err)
				require.True(t, bytes.Equal(a, b), x.Name)
				r, err := f.TensorReader(x)
				require.NoError(t, err)
				c, err := io.ReadAll(r)
				require.NoError(t, err)
				require.True(t, bytes.Equal(a, c), x.Name)
			}
			got, err := f.Fingerprint()
			require.NoError(t, err)
			require.Equal(t, want, got, how)
		}
	}
}

// countingReader remembers the furthest byte read.
type countingReader struct {
	*bytes.Reader
	furthest int64
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	c.furthest = max(c.furthest, off+int64(len(p)))
	return c.Reader.ReadAt(p, off)
}

// Opening behind a reader reads about the header, not the weights.
func TestOpenReadsNoWeights(t *testing.T) {
	data := write(t, gguf.WriterOptions{}, func(w *gguf.Writer) {
		require.NoError(t, w.Set("k", "v"))
		require.NoError(t, w.AddTensor("big", quant.I8, 4<<20))
		require.NoError(t, w.WriteTensor("big", make([]byte, 4<<20)))
	})
	r := &countingReader{Reader: bytes.NewReader(data)}
	_, err := gguf.OpenReaderAt(r, int64(len(data)))
	require.NoError(t, err)
	require.Less(t, r.furthest, int64(300<<10))
}

func TestMalformed(t *testing.T) {
	cases := gguftest.Malformed()
	require.GreaterOrEqual(t, len(cases), 20)
	dir := t.TempDir()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			path := filepath.Join(dir, "bad.gguf")
			require.NoError(t, os.WriteFile(path, c.Data, 0o600))
			for how, open := range map[string]func() (*gguf.File, error){
				"bytes":  func() (*gguf.File, error) { return gguf.OpenBytes(c.Data) },
				"reader": func() (*gguf.File, error) { return gguf.OpenReaderAt(bytes.NewReader(c.Data), int64(len(c.Data))) },
				"path":   func() (*gguf.File, error) { return gguf.Open(path) },
			} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				f, err := open()
				runtime.ReadMemStats(&after)
				require.Nil(t, f, how)
				require.ErrorContains(t, err, c.Want, how)
				require.ErrorContains(t, err, "gguf: ", how)
				require.NotContains(t, err.Error(), "\n")
				require.Less(t, len(err.Error()), 400+len(path), "a line that a terminal can show")
				require.True(t, isSentinel(err), "%v", err)
				if how == "path" {
					require.ErrorContains(t, err, path)
				}
				for try := 0; ; try++ { // this process may be stopped meanwhile
					start := time.Now()
					_, _ = open() // as above
					if took := time.Since(start); took < time.Second {
						break
					}
					require.Less(t, try, 3, "%s: takes over a second", how)
				}
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20+8*len(c.Data)), how)
			}
		})
	}
}

// Cutting a file anywhere gives an error, never a panic; so does changing any byte, or the change is harmless.
func TestEveryCutAndFlip(t *testing.T) {
	valid := gguftest.Valid()
	_, err := gguf.OpenBytes(valid)
	require.NoError(t, err)
	for n := range valid[:len(valid)-16] { // The last 16 bytes are padding.
		_, err := gguf.OpenBytes(valid[:n])
		require.Error(t, err, "cut at %d", n)
		require.True(t, isSentinel(err), "cut at %d: %v", n, err)
	}
	for i := range valid {
		for _, x := range []byte{1, 0x80, 0xff} {
			b := bytes.Clone(valid)
			b[i] ^= x
			touch(t, b)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	_, err := gguf.Open(filepath.Join(t.TempDir(), "none.gguf"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "none.gguf")
	_, err = gguf.Open(t.TempDir())
	require.ErrorContains(t, err, "no regular file")
	_, err = gguf.OpenReaderAt(bytes.NewReader(nil), -1)
	require.Error(t, err)
	// A reader that ends before the size it was given with.
	_, err = gguf.OpenReaderAt(bytes.NewReader(gguftest.Valid()[:40]), 1000)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestClosed(t *testing.T) {
	f, err := gguf.Open(models(t)[0])
	require.NoError(t, err)
	x := f.Tensors()[0]
	name, err := gguf.Need[string](f, "general.architecture")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	require.NotEmpty(t, name) // a copy: it outlives the mapping
	_, err = f.TensorBytes(x)
	require.ErrorIs(t, err, gguf.ErrClosed)
	_, err = gguf.Need[string](f, "general.architecture")
	require.ErrorIs(t, err, gguf.ErrClosed)
	_, err = f.Fingerprint()
	require.ErrorIs(t, err, gguf.ErrClosed)
	_, err = f.WriteTo(io.Discard)
	require.ErrorIs(t, err, gguf.ErrClosed)
}

// TensorBytes is asked for a tensor that the caller made up.
func TestForeignTensorInfo(t *testing.T) {
	f, err := gguf.OpenBytes(gguftest.Valid())
	require.NoError(t, err)
	for _, x := range []gguf.TensorInfo{
		{Name: "x", Shard: 1}, {Name: "x", Shard: -1}, {Name: "x", Offset: -1, Size: 1}, {Name: "x", Offset: 1, Size: math.MaxInt64},
		{Name: "x", Offset: math.MaxInt64, Size: 1}, {Name: "x", Size: -1},
	} {
		_, err := f.TensorBytes(x)
		require.ErrorContains(t, err, `tensor "x"`)
	}
}

func TestFingerprintSeesChanges(t *testing.T) {
	data, err := os.ReadFile(models(t)[0])
	require.NoError(t, err)
	print := func(b []byte) string {
		f, err := gguf.OpenBytes(b)
		require.NoError(t, err)
		s, err := f.Fingerprint()
		require.NoError(t, err)
		return s
	}
	base := print(data)
	f, err := gguf.OpenBytes(data)
	require.NoError(t, err)
	for _, x := range f.Tensors() {
		b := bytes.Clone(data)
		b[x.Offset] ^= 1
		require.NotEqual(t, base, print(b), "first byte of %s", x.Name)
		b = bytes.Clone(data)
		b[x.Offset+x.Size-1] ^= 1
		require.NotEqual(t, base, print(b), "last byte of %s", x.Name)
	}
	i := bytes.Index(data, []byte("general.name"))
	b := bytes.Clone(data)
	b[i+12+4+8] ^= 1
	require.NotEqual(t, base, print(b), "a letter of the name")
	require.NotEqual(t, base, print(append(bytes.Clone(data), 0)), "the size")
}

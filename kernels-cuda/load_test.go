package kernelscuda

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
)

// within runs f on a fake device that knows the kernels of this package, all but those that without names.
func within(t *testing.T, opt cudatest.Options, without string, f func(*cudatest.Fake, *cudart.Bound)) {
	fake := cudatest.New(opt)
	for id := range NumKernels {
		if id.String() != without {
			fake.Register(id.String(), func(*sys.LaunchConfig, unsafe.Pointer) {})
		}
	}
	if abi := abiPrefix + ManifestHash; abi != without {
		fake.Register(abi, func(*sys.LaunchConfig, unsafe.Pointer) {})
	}
	ctx, err := cudart.NewDriver(fake.Table()).Retain(0)
	require.NoError(t, err)
	require.NoError(t, ctx.Do(func(b *cudart.Bound) error {
		f(fake, b)
		return nil
	}))
	require.NoError(t, ctx.Release())
	require.Empty(t, fake.Violations())
}

type recorder struct {
	cfg  []cudart.LaunchConfig
	info []KernelInfo
	name []string
}

func (r *recorder) Launch(k *cudart.Kernel, cfg cudart.LaunchConfig, _ unsafe.Pointer, _ uintptr, info KernelInfo) error {
	r.cfg, r.info, r.name = append(r.cfg, cfg), append(r.info, info), append(r.name, k.Name())
	return nil
}

func TestLoad(t *testing.T) {
	within(t, cudatest.Options{}, "", func(fake *cudatest.Fake, b *cudart.Bound) {
		k, err := Load(b, []byte("image"))
		require.NoError(t, err)
		big := 0
		for id := range NumKernels {
			require.NoError(t, k.Why(id))
			require.Equal(t, id.String(), k.Kernel(id).Name())
			if table[id].shared > staticLimit {
				require.Equal(t, table[id].shared, k.Kernel(id).SharedLimit())
				big++
			}
		}
		require.Positive(t, big)

		q := &recorder{}
		p := &ElementwiseParams{A: 16, B: 16, Y: 16, Rows: 3, Width: 2000, AStride: 2000, BStride: 2000, YStride: 2000}
		require.NoError(t, k.AddF32(q, p))
		require.Equal(t, []cudart.LaunchConfig{{GridX: 3, GridY: 2, GridZ: 1, BlockX: 256, BlockY: 1, BlockZ: 1}}, q.cfg)
		require.Equal(t, []KernelInfo{{ID: KernelAddF32, Bytes: 3 * 2000 * 12}}, q.info)
		require.Equal(t, []string{"add_f32"}, q.name)
		p.Rows = 0
		require.NoError(t, k.AddF32(q, p))
		require.Len(t, q.cfg, 1, "no rows: nothing to launch")
		counts := fake.Counts()
		none := discard{}
		require.Zero(t, testing.AllocsPerRun(10, func() {
			p.Rows = 1
			if k.AddF32(none, p) != nil {
				panic("refused")
			}
		}), "launching allocates nothing")
		require.Equal(t, counts, fake.Counts(), "nor does it call the driver by itself")
		require.NoError(t, k.Close(b))
		require.NoError(t, k.Close(b))
	})
}

type discard struct{}

func (discard) Launch(*cudart.Kernel, cudart.LaunchConfig, unsafe.Pointer, uintptr, KernelInfo) error {
	return nil
}

func TestLoadRefusesAnotherBuild(t *testing.T) {
	for without, want := range map[string]string{abiPrefix + ManifestHash: "make kernels", "add_f32": "add_f32"} {
		within(t, cudatest.Options{}, without, func(fake *cudatest.Fake, b *cudart.Bound) {
			_, err := Load(b, []byte("image"))
			require.ErrorContains(t, err, want)
			require.NotContains(t, err.Error(), "\n")
			if want == "make kernels" {
				require.ErrorIs(t, err, ErrUnavailable)
			}
			require.Zero(t, fake.Live()["Library"], "the image is given back: %v", fake.Live())
		})
	}
}

func TestLoadLeavesOutWhatDoesNotFit(t *testing.T) {
	small := cudatest.Options{Attributes: map[int]int{sys.AttrMaxSharedPerBlockOpt: 64 << 10}}
	within(t, small, "", func(_ *cudatest.Fake, b *cudart.Bound) {
		k, err := Load(b, []byte("image"))
		require.NoError(t, err)
		id := KernelAttnPrefillF16F16D128
		require.ErrorIs(t, k.Why(id), ErrUnavailable)
		require.ErrorContains(t, k.Why(id), "attn_prefill_f16_f16_d128")
		require.NotContains(t, k.Why(id).Error(), "\n", "one line")
		p := &AttnParams{Y: 16, KeyRow: 256, ValueRow: 256, Rows: 1, Heads: 1, KvHeads: 1, HeadDim: 128, Cells: 1, KeyType: KVF16, ValueType: KVF16}
		require.ErrorIs(t, k.Attn(id, discard{}, p), ErrUnavailable)
		require.NoError(t, k.Why(KernelAttnDecodeF16F16D128))
		require.NoError(t, k.Close(b))
	})
	require.ErrorIs(t, (&Kernels{}).Why(NumKernels), ErrUnavailable)
	require.Equal(t, "kernel(-1)", ID(-1).String())
}

func TestRefusedShapes(t *testing.T) {
	k := &Kernels{device: cudart.DeviceInfo{Multiprocessors: 4}}
	q := discard{}
	attn := AttnParams{Y: 16, KeyRow: 1024, ValueRow: 1024, Rows: 1, Heads: 4, KvHeads: 2, HeadDim: 64, Cells: 9, KeyType: KVF16, ValueType: KVF16}
	bad := func(change func(*AttnParams)) *AttnParams {
		p := attn
		change(&p)
		return &p
	}
	for name, err := range map[string]error{
		"8-bit form of 40":  k.AddF32(q, &ElementwiseParams{Rows: 1, Width: 40, Q8: 16}),
		"negative rows":     k.RmsnormF32(q, &RmsNormParams{Rows: -1, Width: 40}),
		"no width":          k.SoftmaxF32(q, &SoftmaxParams{Rows: 1, Inner: 1}),
		"q8_0 heads of 40":  k.KvStoreF32(q, &KvStoreParams{Rows: 1, KvHeads: 1, HeadDim: 40, Row: 100, Type: KVQ8}),
		"short cells":       k.KvStoreF32(q, &KvStoreParams{Rows: 1, KvHeads: 1, HeadDim: 64, Row: 127, Type: KVF16}),
		"unknown format":    k.KvStoreF32(q, &KvStoreParams{Rows: 1, KvHeads: 1, HeadDim: 64, Row: 127, Type: 3}),
		"too many pairs":    k.RopeF32(q, &RopeParams{Rows: 1, Heads: 1, HeadDim: 64, Pairs: 33}),
		"odd cells":         k.KvMove(q, &KvMoveParams{Row: 33, Count: 1, Dst: 1}),
		"stride of logits":  k.SampleF32(q, &SampleParams{Rows: 1, Vocab: 10, Stride: 9}),
		"heads over KV":     k.AttnDecodeF32(q, bad(func(p *AttnParams) { p.Heads = 3 })),
		"heads of 260":      k.AttnDecodeF32(q, bad(func(p *AttnParams) { p.HeadDim = 260; p.KeyRow, p.ValueRow = 9999, 9999 })),
		"another form":      k.AttnDecodeF16F16D128(q, &attn),
		"no cells":          k.AttnDecodeF32(q, bad(func(p *AttnParams) { p.Cells = 0 })),
		"prefill to 8 bits": k.AttnPrefillF16F16D64(q, bad(func(p *AttnParams) { p.Q8 = 16 })),
		"plain to 8 bits":   k.AttnReferenceF32(q, bad(func(p *AttnParams) { p.Q8 = 16 })),
		"plain to nowhere":  k.AttnReferenceF32(q, bad(func(p *AttnParams) { p.Y = 0 })),
	} {
		require.ErrorIs(t, err, ErrShape, name)
	}
}

func TestAttnGridIsOfParamsAlone(t *testing.T) {
	p := &AttnParams{Rows: 1, Heads: 28, KvHeads: 4, HeadDim: 128, Cells: 32768, KeyRow: 1024, ValueRow: 1024, KeyType: KVF16, ValueType: KVF16}
	cfg, err := p.config(KernelAttnDecodeF16F16D128, &cudart.DeviceInfo{Multiprocessors: 132})
	require.NoError(t, err)
	require.Equal(t, cudart.LaunchConfig{GridX: 66, GridY: 4, GridZ: 1, BlockX: 256, BlockY: 1, BlockZ: 1}, cfg)
	parts, states, counters := p.Scratch()
	require.Equal(t, [3]int64{28 * 256 * 128 * 4, 28 * 256 * 8, 16}, [3]int64{parts, states, counters})
	require.Equal(t, KernelAttnDecodeF16F16D128, AttnDecode(KVF16, KVF16, 128))
	require.Equal(t, KernelAttnDecodeF32, AttnDecode(KVF32, KVF16, 128))
}

func TestFind(t *testing.T) {
	_, err := Find(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotContains(t, err.Error(), "\n", "one line")

	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("not a fatbin at all"), 0o600))
	_, err = Find(bad)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "make -C kernels-cuda kernels")

	good := filepath.Join(t.TempDir(), FileName)
	image := append(append([]byte{}, fatbinMagic...), make([]byte, 60)...)
	require.NoError(t, os.WriteFile(good, image, 0o600))
	got, err := Find(good)
	require.NoError(t, err)
	require.Equal(t, image, got)

	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	if len(embedded) == 0 {
		_, err = Find("")
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorContains(t, err, "make -C kernels-cuda kernels")
	}
	cache, err := cacheDir()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(cache, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(cache, FileName), image, 0o600))
	if len(embedded) == 0 {
		got, err = Find("")
		require.NoError(t, err)
		require.Equal(t, image, got)
	}
}

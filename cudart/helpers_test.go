package cudart_test

import (
	"errors"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
	"github.com/minfer-go/minfer/cudart/sys"
)

const second = time.Second

// addParams are those of the kernel "add": it adds to each of n words.
type addParams struct {
	at     cudart.Ptr
	n, add uint32
}

// world is a driver with a context and an image of kernels with "add": a fake, or the machine's own.
type world struct {
	*testing.T
	fake  *cudatest.Fake // nil on a real device
	d     *cudart.Driver
	c     *cudart.Context
	image []byte
}

// newFake is a fake driver with the kernel "add".
func newFake(opt cudatest.Options) *cudatest.Fake {
	fake := cudatest.New(opt)
	fake.Register("add", func(cfg *sys.LaunchConfig, params unsafe.Pointer) {
		p := (*addParams)(params)
		words := cudatest.Slice[uint32](fake, p.at, int(p.n))
		for i := range min(len(words), int(cfg.GridX*cfg.BlockX)) {
			words[i] += p.add
		}
	})
	return fake
}

// newWorld makes one on a fake, with failures by rule.
func newWorld(t *testing.T, opt cudatest.Options, rules string) *world {
	t.Helper()
	w := &world{T: t, fake: newFake(opt), image: []byte("image")}
	w.open(w.fake.Table(), rules)
	return w
}

func (w *world) open(table *sys.Table, rules string) {
	w.Helper()
	if rules != "" {
		in, err := cudatest.ParseInject(rules)
		require.NoError(w, err)
		table = in.Wrap(table)
	}
	var err error
	w.d = cudart.NewDriver(table)
	w.c, err = w.d.Retain(0)
	require.NoError(w, err)
}

// onBoth runs a test on a fake and on the machine's device. make takes the names of optional functions to do without.
func onBoth(t *testing.T, f func(t *testing.T, make func(rules string, without ...string) *world)) {
	t.Run("fake", func(t *testing.T) {
		f(t, func(rules string, without ...string) *world {
			return newWorld(t, cudatest.Options{Without: without}, rules)
		})
	})
	t.Run("device", func(t *testing.T) {
		table := deviceTable(t)
		f(t, func(rules string, without ...string) *world {
			w := &world{T: t, image: deviceKernels()}
			own := *table
			for _, name := range without {
				reflect.ValueOf(&own).Elem().FieldByName(name).SetZero()
			}
			w.open(&own, rules)
			return w
		})
	})
}

// clean gives the context back. On a fake nothing may be left over then and no rule have been broken.
func (w *world) clean() {
	w.Helper()
	require.NoError(w, w.c.Release())
	if w.fake != nil {
		require.Empty(w, w.fake.Live())
		require.Empty(w, w.fake.Violations())
	}
}

// graphs is how many graphs there are, as far as that can be known.
func (w *world) graphs() int {
	if w.fake == nil {
		return 0
	}
	return w.fake.Live()["graphs"]
}

func (w *world) do(f func(b *cudart.Bound)) {
	w.Helper()
	require.NoError(w, w.c.Do(func(b *cudart.Bound) error { f(b); return nil }))
}

// rig is what a test of launches needs.
type rig struct {
	t   require.TestingT
	s   *cudart.Stream
	m   *cudart.Memory
	p   *cudart.Pinned
	lib *cudart.Library
	add *cudart.Kernel
	fs  *cudart.Stream // of fork, with its events
	fe  [2]*cudart.Event
}

const rigWords = 64

func newRig(t require.TestingT, b *cudart.Bound, image []byte) *rig {
	r := &rig{t: t}
	var err error
	r.s, err = b.NewStream()
	require.NoError(t, err)
	r.m, err = b.Alloc(4 * rigWords)
	require.NoError(t, err)
	r.p, err = b.AllocPinned(4 * rigWords)
	require.NoError(t, err)
	r.lib, err = b.LoadLibrary(image)
	require.NoError(t, err)
	r.add, err = r.lib.Kernel(b, "add")
	require.NoError(t, err)
	r.fs, err = b.NewStream()
	require.NoError(t, err)
	for i := range r.fe {
		r.fe[i], err = b.NewEvent(false)
		require.NoError(t, err)
	}
	require.NoError(t, b.Memset32(r.s, r.m.Ptr(), 1, rigWords))
	return r
}

func (r *rig) close(b *cudart.Bound) {
	require.NoError(r.t, r.s.Wait(b, second, "the rest"))
	require.NoError(r.t, r.lib.Unload(b))
	require.NoError(r.t, r.p.Free(b))
	require.NoError(r.t, r.m.Free(b))
	require.NoError(r.t, r.s.Destroy(b))
	require.NoError(r.t, r.fs.Destroy(b))
	for _, e := range r.fe {
		require.NoError(r.t, e.Destroy(b))
	}
}

// fork adds 10 on its stream and 100 on another that it forks, and may join.
func (r *rig) fork(b *cudart.Bound, join bool) error {
	if err := r.launch(b, 10); err != nil {
		return err
	}
	other := *r
	other.s = r.fs
	err := errors.Join(r.fe[0].Record(b, r.s), r.fs.WaitEvent(b, r.fe[0]), other.launch(b, 100))
	if join {
		err = errors.Join(err, r.fe[1].Record(b, r.fs), r.s.WaitEvent(b, r.fe[1]))
	}
	return err
}

var rigLaunch = cudart.LaunchConfig{GridX: 1, BlockX: rigWords}

func (r *rig) launch(b *cudart.Bound, add uint32) error {
	p := addParams{r.m.Ptr(), rigWords, add}
	return b.Launch(r.s, r.add, &rigLaunch, unsafe.Pointer(&p), unsafe.Sizeof(p))
}

// value waits and reads the first word.
func (r *rig) value(b *cudart.Bound) uint32 {
	require.NoError(r.t, b.CopyToHost(r.s, r.p, 0, r.m.Ptr(), 4*rigWords))
	require.NoError(r.t, r.s.Wait(b, second, "the words"))
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&r.p.Bytes()[0])), rigWords)
	require.Equal(r.t, words[0], words[rigWords-1])
	return words[0]
}

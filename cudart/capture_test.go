package cudart_test

import (
	"errors"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/cudatest"
)

var modes = []cudart.CaptureMode{cudart.CaptureGlobal, cudart.CaptureThreadLocal, cudart.CaptureRelaxed}

// Captured work doesn't run; replayed, it runs as often as launched, and reads memory as it is then.
func TestCapture(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string, ...string) *world) {
		for _, mode := range modes {
			t.Run(mode.String(), func(t *testing.T) {
				w := open("")
				w.do(func(b *cudart.Bound) {
					r := newRig(t, b, w.image)
					g, err := b.Capture(r.s, mode, func() error {
						if err := r.launch(b, 10); err != nil {
							return err
						}
						return r.launch(b, 100)
					})
					require.NoError(t, err)
					n, err := g.Len(b)
					require.NoError(t, err)
					require.Equal(t, 2, n)
					require.EqualValues(t, 1, r.value(b))
					x, err := g.Instantiate(b)
					require.NoError(t, err)
					require.NoError(t, x.Upload(b, r.s))
					require.NoError(t, x.Launch(b, r.s))
					require.NoError(t, x.Launch(b, r.s))
					require.EqualValues(t, 221, r.value(b))
					require.NoError(t, g.Destroy(b))
					require.NoError(t, x.Launch(b, r.s))
					require.EqualValues(t, 331, r.value(b))
					require.NoError(t, x.Destroy(b))
					require.ErrorIs(t, x.Launch(b, r.s), cudart.ErrClosed)
					require.ErrorIs(t, x.Destroy(b), cudart.ErrClosed)
					require.ErrorIs(t, g.Destroy(b), cudart.ErrClosed)
					r.close(b)
				})
				w.clean()
			})
		}
	})
}

// However a window ends, it is ended, nothing is left over and the stream works.
func TestCaptureEndsAlways(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string, ...string) *world) {
		mark := errors.New("mark")
		ways := map[string]struct {
			rules string
			f     func(b *cudart.Bound, r *rig) error
			is    error
		}{
			"f fails":             {"", func(*cudart.Bound, *rig) error { return mark }, mark},
			"f fails after work":  {"", func(b *cudart.Bound, r *rig) error { return errors.Join(r.launch(b, 1), mark) }, mark},
			"begin fails":         {"StreamBeginCapture:1=NOT_SUPPORTED", nil, cudart.ErrUnsupported},
			"launch fails":        {"Launch:1=OUT_OF_MEMORY", func(b *cudart.Bound, r *rig) error { return r.launch(b, 1) }, cudart.ErrOutOfMemory},
			"end fails":           {"StreamEndCapture:1=UNKNOWN", func(b *cudart.Bound, r *rig) error { return r.launch(b, 1) }, nil},
			"end fails and state": {"StreamEndCapture:1=UNKNOWN,StreamIsCapturing:1=UNKNOWN", func(b *cudart.Bound, r *rig) error { return r.launch(b, 1) }, nil},
			"spoilt": {"", func(b *cudart.Bound, r *rig) error {
				return b.Context().Do(func(inner *cudart.Bound) error { // which doesn't know of the window: the driver refuses
					_, err := inner.Alloc(1)
					return err
				})
			}, cudart.ErrCapture},
			"spoilt and ignored": {"", func(b *cudart.Bound, r *rig) error {
				_, err := b.Alloc(1)
				require.ErrorIs(r.t, err, cudart.ErrCapture)
				return b.Context().Do(func(inner *cudart.Bound) error {
					_, err := inner.Alloc(1)
					require.ErrorIs(r.t, err, cudart.ErrCapture)
					return nil
				})
			}, cudart.ErrCapture},
			"fork not joined": {"", func(b *cudart.Bound, r *rig) error { return r.fork(b, false) }, cudart.ErrCapture},
		}
		for name, way := range ways {
			t.Run(name, func(t *testing.T) {
				w := open(way.rules)
				w.do(func(b *cudart.Bound) {
					r := newRig(t, b, w.image)
					g, err := b.Capture(r.s, cudart.CaptureThreadLocal, func() error { return way.f(b, r) })
					require.Nil(t, g)
					require.Error(t, err)
					if way.is != nil {
						require.ErrorIs(t, err, way.is)
					}
					require.Zero(t, w.graphs())
					require.NoError(t, r.launch(b, 1), "the stream works, and so does the next capture")
					require.EqualValues(t, 2, r.value(b))
					g, err = b.Capture(r.s, cudart.CaptureGlobal, func() error { return r.launch(b, 1) })
					require.NoError(t, err)
					require.NoError(t, g.Destroy(b))
					r.close(b)
				})
				w.clean()
			})
		}
	})
}

// A panic in a window passes on, with the window ended.
func TestCapturePanics(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string, ...string) *world) {
		w := open("")
		w.do(func(b *cudart.Bound) {
			r := newRig(t, b, w.image)
			require.PanicsWithValue(t, "out", func() {
				_, err := b.Capture(r.s, cudart.CaptureThreadLocal, func() error {
					require.NoError(t, r.launch(b, 1))
					panic("out")
				})
				require.NoError(t, err)
			})
			require.Zero(t, w.graphs())
			require.NoError(t, r.launch(b, 1))
			require.EqualValues(t, 2, r.value(b))
			r.close(b)
		})
		w.clean()
	})
}

// A stream whose window the driver doesn't end is refused from then on, with the reason.
func TestCaptureStuck(t *testing.T) {
	w := newWorld(t, cudatest.Options{}, "StreamEndCapture:1+=UNKNOWN")
	w.do(func(b *cudart.Bound) {
		r := newRig(t, b, w.image)
		_, err := b.Capture(r.s, cudart.CaptureThreadLocal, func() error { return nil })
		require.ErrorContains(t, err, "could not be ended")
		require.ErrorContains(t, r.launch(b, 1), "could not be ended")
		require.ErrorContains(t, r.s.Wait(b, second, "x"), "could not be ended")
	})
}

// Inside a window the Bound refuses what has no place there, before the driver sees it.
func TestWindowRefuses(t *testing.T) {
	w := newWorld(t, cudatest.Options{}, "")
	w.do(func(b *cudart.Bound) {
		r := newRig(t, b, w.image)
		e, err := b.NewEvent(true)
		require.NoError(t, err)
		require.NoError(t, r.s.Wait(b, second, "the start"))
		before := w.fake.Counts()
		var refused []error
		g, err := b.Capture(r.s, cudart.CaptureRelaxed, func() error {
			add := func(err error) { refused = append(refused, err) }
			_, err := b.Alloc(1)
			add(err)
			_, err = b.AllocPinned(1)
			add(err)
			_, err = b.LoadLibrary([]byte{1})
			add(err)
			_, err = r.lib.Kernel(b, "add")
			add(err)
			_, err = b.NewStream()
			add(err)
			_, err = b.NewEvent(false)
			add(err)
			_, err = b.NewGraph()
			add(err)
			_, err = r.s.Query(b)
			add(err)
			_, err = e.Query(b)
			add(err)
			_, err = r.add.BlocksPerMultiprocessor(b, 1, 0)
			add(err)
			_, err = b.Capture(r.s, cudart.CaptureRelaxed, func() error { return nil })
			add(err)
			add(r.s.Wait(b, second, "x"))
			add(e.Wait(b, second, "x"))
			add(r.m.Free(b))
			add(r.p.Free(b))
			add(r.lib.Unload(b))
			add(r.s.Destroy(b))
			add(e.Destroy(b))
			add(r.add.SetSharedLimit(b, 1))
			return nil
		})
		require.NoError(t, err)
		for i, err := range refused {
			require.ErrorIs(t, err, cudart.ErrCapture, i)
			require.ErrorContains(t, err, "inside a capture window", i)
		}
		after := w.fake.Counts()
		for name, n := range after {
			if name != "StreamBeginCapture" && name != "StreamEndCapture" {
				require.Equal(t, before[name], n, name)
			}
		}
		require.NoError(t, g.Destroy(b))
		require.NoError(t, e.Destroy(b))
		r.close(b)
	})
	w.clean()
}

// A window may fork to a second stream and join it.
func TestCaptureForks(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string, ...string) *world) {
		w := open("")
		w.do(func(b *cudart.Bound) {
			r := newRig(t, b, w.image)
			g, err := b.Capture(r.s, cudart.CaptureGlobal, func() error { return r.fork(b, true) })
			require.NoError(t, err)
			x, err := g.Instantiate(b)
			require.NoError(t, err)
			require.NoError(t, x.Launch(b, r.s))
			require.EqualValues(t, 111, r.value(b))
			require.NoError(t, x.Destroy(b))
			require.NoError(t, g.Destroy(b))
			r.close(b)
		})
		w.clean()
	})
}

// Explicit nodes run in the order of their edges, normal and programmatic; parameters change in place.
func TestGraph(t *testing.T) {
	onBoth(t, func(t *testing.T, open func(string, ...string) *world) {
		for name, without := range map[string][]string{
			"programmatic edges": nil,
			"without":            {"GraphAddEdgesProg", "GraphUpload"},
		} {
			t.Run(name, func(t *testing.T) {
				w := open("", without...)
				w.do(func(b *cudart.Bound) {
					r := newRig(t, b, w.image)
					g, err := b.NewGraph()
					require.NoError(t, err)
					node := func(cfg cudart.LaunchConfig, add uint32, deps ...cudart.Node) cudart.Node {
						p := addParams{r.m.Ptr(), rigWords, add}
						n, err := g.AddKernel(b, deps, r.add, &cfg, unsafe.Pointer(&p), unsafe.Sizeof(p))
						require.NoError(t, err)
						return n
					}
					programmatic := rigLaunch
					programmatic.Programmatic = 1
					first := node(rigLaunch, 10)
					second := node(programmatic, 100, first)
					third := node(rigLaunch, 1000, second)
					err = g.AddDependencyProgrammatic(b, first, third)
					if without != nil || w.c.Device().Major < 9 {
						require.ErrorIs(t, err, cudart.ErrUnsupported)
					} else {
						require.NoError(t, err)
						require.ErrorIs(t, g.AddDependencyProgrammatic(b, first, first), cudart.ErrInvalid)
						if w.fake != nil {
							require.Equal(t, 3, w.fake.Counts()["GraphAddEdgesProg"])
						}
					}
					x, err := g.Instantiate(b)
					require.NoError(t, err)
					require.NoError(t, x.Upload(b, r.s))
					require.NoError(t, x.Launch(b, r.s))
					require.EqualValues(t, 1111, r.value(b))
					p := addParams{r.m.Ptr(), rigWords, 5}
					require.NoError(t, x.SetKernel(b, second, r.add, &programmatic, unsafe.Pointer(&p), unsafe.Sizeof(p)))
					require.NoError(t, x.Launch(b, r.s))
					require.EqualValues(t, 1111+1015, r.value(b))
					require.NoError(t, x.Update(b, g), "back to the graph's own parameters")
					require.NoError(t, x.Launch(b, r.s))
					require.EqualValues(t, 1111+1015+1110, r.value(b))

					other, err := b.NewGraph()
					require.NoError(t, err)
					require.ErrorIs(t, x.Update(b, other), cudart.ErrUpdate)
					require.NoError(t, other.Destroy(b))
					require.NoError(t, x.Destroy(b))
					require.NoError(t, g.Destroy(b))
					_, err = g.Instantiate(b)
					require.ErrorIs(t, err, cudart.ErrClosed)
					r.close(b)
				})
				w.clean()
			})
		}
	})
}

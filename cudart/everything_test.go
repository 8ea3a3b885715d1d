package cudart_test

import (
	"errors"
	"unsafe"

	"github.com/minfer-go/minfer/cudart"
)

// everything goes once through what the package does and checks the sums. It stops at the first error, giving back
// nothing but the context.
func everything(d *cudart.Driver, image []byte) (err error) {
	c, err := d.Retain(0)
	if err != nil {
		return err
	}
	err = c.Do(func(b *cudart.Bound) error { return everythingIn(b, image) })
	return errors.Join(err, c.Release())
}

func everythingIn(b *cudart.Bound, image []byte) error {
	var (
		r     = &rig{}
		steps = []func() error{}
		e     *cudart.Event
		g     *cudart.Graph
		x     *cudart.Exec
		built *cudart.Graph
		node  cudart.Node
		err   error
	)
	step := func(f func() error) { steps = append(steps, f) }
	params := func(add uint32) (unsafe.Pointer, uintptr) {
		p := &addParams{r.m.Ptr(), rigWords, add}
		return unsafe.Pointer(p), unsafe.Sizeof(*p)
	}
	programmatic := rigLaunch
	programmatic.Programmatic = 1
	step(func() error { _, _, err = b.MemInfo(); return err })
	step(func() error { r.s, err = b.NewStream(); return err })
	step(func() error { e, err = b.NewEvent(true); return err })
	step(func() error { r.m, err = b.Alloc(4 * rigWords); return err })
	step(func() error { r.p, err = b.AllocPinned(4 * rigWords); return err })
	step(func() error { r.lib, err = b.LoadLibrary(image); return err })
	step(func() error { r.add, err = r.lib.Kernel(b, "add"); return err })
	step(func() error { return r.add.SetSharedLimit(b, 100<<10) })
	step(func() error { _, err = r.add.BlocksPerMultiprocessor(b, 32, 0); return err })
	step(func() error { return b.Memset8(r.s, r.m.Ptr(), 0, 4*rigWords) })
	step(func() error { return b.Memset32(r.s, r.m.Ptr(), 1, rigWords) })
	step(func() error { return e.Record(b, r.s) })
	step(func() error { return r.launch(b, 10) })
	step(func() error { return e.Wait(b, second, "the event") })
	step(func() error { _, err = e.Since(b, e); return err })
	step(func() error { return r.s.WaitEvent(b, e) })
	step(func() error {
		g, err = b.Capture(r.s, cudart.CaptureThreadLocal, func() error { return r.launch(b, 100) })
		return err
	})
	step(func() error { x, err = g.Instantiate(b); return err })
	step(func() error { return x.Upload(b, r.s) })
	step(func() error { return x.Launch(b, r.s) })
	step(func() error { return x.Update(b, g) })
	step(func() error { built, err = b.NewGraph(); return err })
	step(func() error {
		p, n := params(1000)
		if node, err = built.AddKernel(b, nil, r.add, &rigLaunch, p, n); err != nil {
			return err
		}
		_, err = built.AddKernel(b, []cudart.Node{node}, r.add, &programmatic, p, n)
		return err
	})
	step(func() error { return x.Destroy(b) })
	step(func() error { x, err = built.Instantiate(b); return err })
	step(func() error { p, n := params(5000); return x.SetKernel(b, node, r.add, &rigLaunch, p, n) })
	step(func() error { return x.Launch(b, r.s) })
	step(func() error { return b.CopyDevice(r.s, r.m.Ptr()+128, r.m.Ptr(), 128) })
	step(func() error { return b.CopyToHost(r.s, r.p, 0, r.m.Ptr(), 4*rigWords) })
	step(func() error { return r.s.Wait(b, second, "everything") })
	step(func() error {
		if v := *(*uint32)(unsafe.Pointer(&r.p.Bytes()[0])); v != 6111 {
			return errors.New("a wrong sum")
		}
		return b.CopyToDevice(r.s, r.m.Ptr(), r.p, 0, 4*rigWords)
	})
	step(func() error { return r.s.Wait(b, second, "the end") })
	step(func() error { return x.Destroy(b) })
	step(func() error { return g.Destroy(b) })
	step(func() error { return built.Destroy(b) })
	step(func() error { return e.Destroy(b) })
	step(func() error { return r.lib.Unload(b) })
	step(func() error { return r.p.Free(b) })
	step(func() error { return r.m.Free(b) })
	step(func() error { return r.s.Destroy(b) })
	for _, f := range steps {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

package cudart

import (
	"fmt"
	"sync/atomic"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Library is a loaded image of kernels: a fatbin, a cubin or PTX.
type Library struct {
	c *Context
	h sys.Library
}

// KernelAttributes are what the compiler and the driver say about a kernel on this device.
type KernelAttributes struct {
	Registers    int // 32-bit, per thread
	LocalBytes   int // per thread: spills and arrays
	StaticShared int // bytes per block
	MaxThreads   int // per block
	Binary       int // architecture of the code in use: 90
}

// Kernel is a kernel of a library. Its limits are set while it is prepared; after that it is safe for goroutines.
type Kernel struct {
	c      *Context
	h      sys.Kernel
	fn     sys.Function
	name   string
	attrs  KernelAttributes
	shared atomic.Uint32 // dynamic shared memory allowed a launch
}

// LoadLibrary loads an image; the bytes are copied. An image without code for the device, or one built by a newer CUDA
// than the driver's, is ErrUnavailable with what to do.
func (b *Bound) LoadLibrary(image []byte) (*Library, error) {
	if err := b.outside("loading kernels"); err != nil {
		return nil, err
	}
	if len(image) == 0 {
		return nil, invalid("loading an empty image of kernels")
	}
	h, r := b.t.LibraryLoad(image)
	if r != sys.Success {
		info := b.c.info
		return nil, b.c.fail("LibraryLoad", r, fmt.Sprintf("loading kernels (%d bytes) for %s, sm_%d, driver CUDA %s",
			len(image), info.Name, info.Arch(), VersionString(b.c.d.version)))
	}
	return &Library{c: b.c, h: h}, nil
}

// Unload removes the library; its kernels must not be used afterwards, their work must have ended.
func (l *Library) Unload(b *Bound) error {
	if err := b.releasing("unloading kernels"); err != nil {
		return err
	}
	switch {
	case l == nil || l.h == 0:
		return closed("unloading kernels")
	case l.c != b.c:
		return invalid("the library belongs to another context")
	}
	h := l.h
	l.h = 0
	if r := b.t.LibraryUnload(h); r != sys.Success {
		return b.c.fail("LibraryUnload", r, "unloading kernels")
	}
	return nil
}

// Kernel finds a kernel by its entry point's name, loads its code onto the device (drivers load lazily otherwise, in
// the first launch) and reads its attributes. A missing one is ErrNotFound.
func (l *Library) Kernel(b *Bound, name string) (*Kernel, error) {
	if err := b.outside("preparing a kernel"); err != nil {
		return nil, err
	}
	switch {
	case l == nil || l.h == 0:
		return nil, closed("preparing kernel " + name)
	case l.c != b.c:
		return nil, invalid("the library belongs to another context")
	}
	h, r := b.t.LibraryKernel(l.h, name)
	if r != sys.Success {
		return nil, b.c.fail("LibraryKernel", r, fmt.Sprintf("looking for kernel %q", name))
	}
	k := &Kernel{c: b.c, h: h, name: name}
	if k.fn, r = b.t.KernelFunction(h); r != sys.Success {
		return nil, b.c.fail("KernelFunction", r, fmt.Sprintf("loading kernel %q for sm_%d", name, b.c.info.Arch()))
	}
	if b.t.FuncLoad != nil {
		if r = b.t.FuncLoad(k.fn); r != sys.Success {
			return nil, b.c.fail("FuncLoad", r, fmt.Sprintf("loading kernel %q for sm_%d", name, b.c.info.Arch()))
		}
	}
	var dynamic int
	for _, a := range []struct {
		attr int
		to   *int
	}{
		{sys.FuncRegisters, &k.attrs.Registers}, {sys.FuncLocalBytes, &k.attrs.LocalBytes},
		{sys.FuncSharedBytes, &k.attrs.StaticShared}, {sys.FuncMaxThreads, &k.attrs.MaxThreads},
		{sys.FuncBinaryVersion, &k.attrs.Binary}, {sys.FuncMaxDynamicShared, &dynamic},
	} {
		if *a.to, r = b.t.KernelAttribute(a.attr, h, b.c.dev); r != sys.Success {
			return nil, b.c.fail("KernelAttribute", r, fmt.Sprintf("reading attribute %d of kernel %q", a.attr, name))
		}
	}
	k.shared.Store(uint32(max(0, dynamic)))
	return k, nil
}

// Name is the entry point's name.
func (k *Kernel) Name() string { return k.name }

// Attributes are the kernel's needs and limits.
func (k *Kernel) Attributes() KernelAttributes { return k.attrs }

// SharedLimit is how many bytes of dynamic shared memory a launch may ask for.
func (k *Kernel) SharedLimit() int { return int(k.shared.Load()) }

// of checks a kernel.
func (k *Kernel) of(b *Bound) error {
	if k == nil {
		return invalid("no kernel given")
	}
	if k.c != b.c {
		return invalid("kernel %s belongs to another context", k.name)
	}
	return nil
}

// SetSharedLimit allows launches up to n bytes of dynamic shared memory; over 48 KiB a kernel needs this. More than the
// device has is ErrUnsupported, with the figures, before any call.
func (k *Kernel) SetSharedLimit(b *Bound, n int) error {
	if err := b.outside("setting a kernel's shared memory"); err != nil {
		return err
	}
	if err := k.of(b); err != nil {
		return err
	}
	if n < 0 {
		return invalid("kernel %s: %d bytes of shared memory", k.name, n)
	}
	if most := b.c.info.SharedPerBlockOptin - k.attrs.StaticShared; n > most {
		return fmt.Errorf("cudart: kernel %s: %d bytes of dynamic shared memory, where %s allows %d beside %d static ones: %w",
			k.name, n, b.c.info.Name, most, k.attrs.StaticShared, ErrUnsupported)
	}
	if r := b.t.KernelSetAttr(sys.FuncMaxDynamicShared, n, k.h, b.c.dev); r != sys.Success {
		return b.c.fail("KernelSetAttr", r, fmt.Sprintf("allowing kernel %s %d bytes of dynamic shared memory", k.name, n))
	}
	k.shared.Store(uint32(n))
	return nil
}

// BlocksPerMultiprocessor is how many blocks of such a launch one multiprocessor holds at once. A cooperative launch
// may have at most that many times DeviceInfo.Multiprocessors blocks.
func (k *Kernel) BlocksPerMultiprocessor(b *Bound, threads, dynamicShared int) (int, error) {
	if err := b.outside("asking for a kernel's occupancy"); err != nil {
		return 0, err
	}
	if err := k.of(b); err != nil {
		return 0, err
	}
	if threads <= 0 || dynamicShared < 0 {
		return 0, invalid("occupancy of kernel %s with %d threads and %d bytes of shared memory", k.name, threads, dynamicShared)
	}
	n, r := b.t.OccupancyBlocks(k.fn, threads, uint64(dynamicShared))
	if r != sys.Success {
		return 0, b.c.fail("OccupancyBlocks", r, fmt.Sprintf("asking for the occupancy of kernel %s", k.name))
	}
	return n, nil
}

// Clusters is how many clusters of such a launch the device holds at once; ErrUnsupported without clusters.
func (k *Kernel) Clusters(b *Bound, cfg *LaunchConfig) (int, error) {
	if err := b.outside("asking for a kernel's occupancy"); err != nil {
		return 0, err
	}
	if err := k.of(b); err != nil {
		return 0, err
	}
	if b.t.OccupancyClusters == nil || !b.c.info.Clusters {
		return 0, fmt.Errorf("cudart: clusters on %s: %w", b.c.info.Name, ErrUnsupported)
	}
	b.args.cfg = *cfg
	n, r := b.t.OccupancyClusters(k.fn, &b.args.cfg)
	if r != sys.Success {
		return 0, b.c.fail("OccupancyClusters", r, fmt.Sprintf("asking how many clusters of kernel %s fit", k.name))
	}
	return n, nil
}

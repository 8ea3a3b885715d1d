package cudatest

import (
	"errors"
	"fmt"
	"runtime/debug"
	"unsafe"

	"github.com/minfer-go/minfer/cudart/sys"
)

// KernelFunc is a kernel as a Go function of the whole grid. params points at a copy of the launch's struct, cfg at one of
// its configuration; both are read only. It reaches device memory by Fake.Bytes and Slice, and calls no driver function.
type KernelFunc func(cfg *sys.LaunchConfig, params unsafe.Pointer)

// Attributes of a registered kernel; zero fields are 32 registers and 1024 threads.
type Attributes struct {
	Registers, LocalBytes, StaticShared, MaxThreads int
}

// code is a registered kernel.
type code struct {
	run   KernelFunc
	attrs Attributes
}

// kernel is a kernel of a loaded library.
type kernel struct {
	*code
	name   string
	lib    sys.Library
	shared int
	loaded bool
}

// Register gives a kernel's name its function. Every loaded library has all registered kernels.
func (f *Fake) Register(name string, run KernelFunc) { f.RegisterWith(name, Attributes{}, run) }

// RegisterWith is Register with attributes.
func (f *Fake) RegisterWith(name string, a Attributes, run KernelFunc) {
	if a.Registers == 0 {
		a.Registers = 32
	}
	if a.MaxThreads == 0 {
		a.MaxThreads = 1024
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.code[name] = &code{run: run, attrs: a}
}

// Hang makes launches of a kernel last until Resume.
func (f *Fake) Hang(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hanging[name] = true
}

// Resume ends Hang.
func (f *Fake) Resume(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hanging, name)
}

func (f *Fake) libraryLoad(image []byte) (sys.Library, sys.Result) {
	defer f.mu.Unlock()
	_, r := f.guarded("LibraryLoad")
	if r == sys.Success && len(image) == 0 {
		r = sys.InvalidImage
	}
	if r != sys.Success {
		return 0, r
	}
	h := sys.Library(f.handle())
	f.libraries[h] = true
	return h, r
}

func (f *Fake) libraryUnload(h sys.Library) sys.Result {
	f.run.Lock()
	defer f.run.Unlock()
	d, r := f.guarded("LibraryUnload")
	if r == sys.Success && !f.libraries[h] {
		r = sys.InvalidHandle
	}
	f.mu.Unlock()
	if r != sys.Success {
		return r
	}
	if r = f.drainDevice(d, "LibraryUnload"); r != sys.Success {
		return r
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.libraries, h)
	for k, v := range f.kernels {
		if v.lib == h {
			delete(f.kernels, k)
		}
	}
	return sys.Success
}

func (f *Fake) libraryKernel(h sys.Library, name string) (sys.Kernel, sys.Result) {
	defer f.mu.Unlock()
	_, r := f.enter("LibraryKernel")
	switch {
	case r != sys.Success:
		return 0, r
	case !f.libraries[h]:
		return 0, sys.InvalidHandle
	case f.code[name] == nil:
		return 0, sys.NotFound
	}
	for k, v := range f.kernels {
		if v.lib == h && v.name == name {
			return k, r
		}
	}
	k := sys.Kernel(f.handle())
	c := f.code[name]
	f.kernels[k] = &kernel{code: c, name: name, lib: h, shared: max(0, 48<<10-c.attrs.StaticShared)}
	return k, r
}

// kernelOf is enter for calls about a kernel.
func (f *Fake) kernelOf(call string, h sys.Kernel) (*kernel, sys.Result) {
	_, r := f.enter(call)
	k := f.kernels[h]
	if r == sys.Success && k == nil {
		r = sys.InvalidHandle
	}
	return k, r
}

func (f *Fake) kernelFunction(h sys.Kernel) (sys.Function, sys.Result) {
	defer f.mu.Unlock()
	_, r := f.kernelOf("KernelFunction", h)
	return sys.Function(h), r
}

func (f *Fake) funcLoad(h sys.Function) sys.Result {
	defer f.mu.Unlock()
	_, r := f.guarded("FuncLoad")
	k := f.kernels[sys.Kernel(h)]
	if r == sys.Success && k == nil {
		r = sys.InvalidHandle
	}
	if r == sys.Success {
		k.loaded = true
	}
	return r
}

func (f *Fake) funcLoaded(h sys.Function) (int, sys.Result) {
	defer f.mu.Unlock()
	k, r := f.kernelOf("FuncLoaded", sys.Kernel(h))
	if r == sys.Success && k.loaded {
		return 1, r
	}
	return 0, r
}

func (f *Fake) kernelAttribute(attr int, h sys.Kernel, _ sys.Device) (int, sys.Result) {
	defer f.mu.Unlock()
	k, r := f.kernelOf("KernelAttribute", h)
	if r != sys.Success {
		return 0, r
	}
	v, ok := map[int]int{
		sys.FuncMaxThreads: k.attrs.MaxThreads, sys.FuncSharedBytes: k.attrs.StaticShared, sys.FuncLocalBytes: k.attrs.LocalBytes,
		sys.FuncRegisters: k.attrs.Registers, sys.FuncMaxDynamicShared: k.shared,
		sys.FuncBinaryVersion: 10*f.attribute(sys.AttrComputeMajor) + f.attribute(sys.AttrComputeMinor),
	}[attr]
	if !ok {
		return 0, sys.InvalidValue
	}
	return v, r
}

func (f *Fake) kernelSetAttr(attr, value int, h sys.Kernel, _ sys.Device) sys.Result {
	defer f.mu.Unlock()
	k, r := f.kernelOf("KernelSetAttr", h)
	switch {
	case r != sys.Success:
		return r
	case attr != sys.FuncMaxDynamicShared || value < 0 || value > f.attribute(sys.AttrMaxSharedPerBlockOpt)-k.attrs.StaticShared:
		return sys.InvalidValue
	}
	k.shared = value
	return r
}

func (f *Fake) occupancyBlocks(h sys.Function, threads int, shared uint64) (int, sys.Result) {
	defer f.mu.Unlock()
	k, r := f.kernelOf("OccupancyBlocks", sys.Kernel(h))
	if r != sys.Success {
		return 0, r
	}
	return f.resident(k, threads, int(shared)), r
}

// resident is how many blocks a multiprocessor holds, by threads, registers and shared memory.
func (f *Fake) resident(k *kernel, threads, shared int) int {
	n := min(f.attribute(sys.AttrMaxBlocksPerSM), f.attribute(sys.AttrMaxThreadsPerSM)/threads,
		f.attribute(sys.AttrMaxRegistersPerSM)/(threads*k.attrs.Registers))
	per := shared + k.attrs.StaticShared + f.attribute(sys.AttrReservedShared)
	return min(n, f.attribute(sys.AttrMaxSharedPerSM)/max(1, per))
}

func (f *Fake) occupancyClusters(h sys.Function, cfg *sys.LaunchConfig) (int, sys.Result) {
	defer f.mu.Unlock()
	_, r := f.enter("OccupancyClusters")
	k := f.kernels[sys.Kernel(h)]
	switch {
	case r != sys.Success:
		return 0, r
	case k == nil || cfg.ClusterX == 0:
		return 0, sys.InvalidValue
	}
	blocks := f.resident(k, int(cfg.BlockX*cfg.BlockY*cfg.BlockZ), int(cfg.SharedBytes)) * f.attribute(sys.AttrMultiprocessors)
	return blocks / int(cfg.ClusterX*cfg.ClusterY*cfg.ClusterZ), r
}

func (f *Fake) launch(h sys.Kernel, cfg *sys.LaunchConfig, s sys.Stream, params unsafe.Pointer, n uint64) sys.Result {
	defer f.mu.Unlock()
	d, r := f.enter("Launch")
	if r != sys.Success {
		return r
	}
	o, r := f.kernelOp(h, cfg, params, n)
	if r != sys.Success {
		return r
	}
	return f.push(d, s, o)
}

// kernelOp checks a launch as the driver does and makes work of it, with copies of its arguments. mu is held.
func (f *Fake) kernelOp(h sys.Kernel, cfg *sys.LaunchConfig, params unsafe.Pointer, n uint64) (*op, sys.Result) {
	k := f.kernels[h]
	if k == nil {
		f.violate("a launch of no kernel (%#x)", h)
		return nil, sys.InvalidHandle
	}
	threads := uint64(cfg.BlockX) * uint64(cfg.BlockY) * uint64(cfg.BlockZ)
	blocks := uint64(cfg.GridX) * uint64(cfg.GridY) * uint64(cfg.GridZ)
	cluster := uint64(cfg.ClusterX) * uint64(cfg.ClusterY) * uint64(cfg.ClusterZ)
	switch {
	case threads == 0 || blocks == 0 || threads > uint64(k.attrs.MaxThreads) || int(cfg.SharedBytes) > k.shared:
		return nil, sys.InvalidValue
	case cfg.ClusterX != 0 && (cluster == 0 || cluster > 8 || cfg.GridX%cfg.ClusterX != 0 || cfg.GridY%cfg.ClusterY != 0 || cfg.GridZ%cfg.ClusterZ != 0):
		return nil, sys.InvalidClusterSize
	case cfg.Cooperative != 0 && blocks > uint64(f.resident(k, int(threads), int(cfg.SharedBytes))*f.attribute(sys.AttrMultiprocessors)):
		return nil, sys.CooperativeTooLarge
	}
	k.loaded = true
	c := *cfg
	words := make([]uint64, (n+7)/8+1)
	copy(bytesOf(words, n), unsafe.Slice((*byte)(params), n))
	return &op{what: k.name, kernel: k, run: func() sys.Result {
		return f.execute(k, &c, unsafe.Pointer(unsafe.SliceData(words)))
	}}, sys.Success
}

// execute runs a kernel; what it panics with becomes a failure of the device.
func (f *Fake) execute(k *kernel, cfg *sys.LaunchConfig, params unsafe.Pointer) (r sys.Result) {
	defer func() {
		switch p := recover(); e := p.(type) {
		case nil:
		case fault:
			r = f.failed("kernel "+k.name, e.why, sys.IllegalAddress)
		case error:
			var bad fault
			if errors.As(e, &bad) {
				r = f.failed("kernel "+k.name, bad.why, sys.IllegalAddress)
				return
			}
			r = f.crashed(k, fmt.Sprint(e))
		default:
			r = f.crashed(k, fmt.Sprint(p))
		}
	}()
	k.run(cfg, params)
	return sys.Success
}

// crashed notes a kernel whose Go function panicked.
func (f *Fake) crashed(k *kernel, why string) sys.Result {
	return f.failed("kernel "+k.name+" panicked", why+"\n"+string(debug.Stack()), sys.LaunchFailed)
}

// Package cudatest stands in for the CUDA driver in tests: Fake is a driver in pure Go, Inject makes calls fail, and
// UnreadResults finds calls whose results nobody reads.
package cudatest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Options of a Fake; the zero value is one device of 1 GiB like an H200, on a driver of CUDA 13.0.
type Options struct {
	Devices    int         // 0: one; -1: none
	Memory     int64       // bytes of each device; 0: 1 GiB
	Driver     int         // CUDA version as 13000; 0: 13.0
	Attributes map[int]int // device attributes (sys.Attr…) that differ
	Without    []string    // optional functions that this driver lacks
}

// Fake is a driver in pure Go. Device memory is host memory behind addresses of its own. Work waits in its stream and
// runs when someone asks for it: the first StreamQuery (EventQuery) after new work answers NotReady, the next runs it;
// freeing and destroying run it too. Kernels are Go functions. Faults are found and reported as sticky illegal
// addresses: addresses that are unknown, beyond their allocation or freed. What a real driver would not notice or would
// hang on is listed by Violations. Safe for goroutines.
type Fake struct {
	opt Options
	run sync.Mutex // held while queued work runs; before mu
	mu  sync.Mutex // guards the rest

	started    bool
	counts     map[string]int
	violations []string
	devices    []*device
	current    map[int]sys.Context // by OS thread
	next       uintptr             // handles
	address    uint64
	blocks     []*block // device memory by address
	freed      []*block // some of the latest
	pinned     map[uintptr]*pinned
	streams    map[sys.Stream]*stream
	events     map[sys.Event]*event
	code       map[string]*code
	libraries  map[sys.Library]bool
	kernels    map[sys.Kernel]*kernel
	graphs     map[sys.Graph]*graph
	execs      map[sys.GraphExec]*exec
	captures   []*capture
	hanging    map[string]bool
}

// device is a device with its primary context.
type device struct {
	ordinal int
	ctx     sys.Context
	refs    int
	used    int64
	sticky  sys.Result
}

// New makes a fake driver.
func New(opt Options) *Fake {
	if opt.Devices == 0 {
		opt.Devices = 1
	}
	if opt.Memory == 0 {
		opt.Memory = 1 << 30
	}
	if opt.Driver == 0 {
		opt.Driver = 13000
	}
	f := &Fake{opt: opt, counts: map[string]int{}, current: map[int]sys.Context{}, next: 0x1000, address: 0x7_0000_0000,
		pinned: map[uintptr]*pinned{}, streams: map[sys.Stream]*stream{}, events: map[sys.Event]*event{},
		code: map[string]*code{}, libraries: map[sys.Library]bool{}, kernels: map[sys.Kernel]*kernel{},
		graphs: map[sys.Graph]*graph{}, execs: map[sys.GraphExec]*exec{}, hanging: map[string]bool{}}
	for i := range max(0, opt.Devices) {
		f.devices = append(f.devices, &device{ordinal: i, ctx: sys.Context(f.handle())})
	}
	return f
}

// Table gives the driver's functions.
func (f *Fake) Table() *sys.Table {
	t := &sys.Table{
		Init: f.init, DriverVersion: f.driverVersion,
		DeviceCount: f.deviceCount, DeviceGet: f.deviceGet, DeviceName: f.deviceName, DeviceUUID: f.deviceUUID,
		DeviceTotalMem: f.deviceTotalMem, DeviceAttribute: f.deviceAttribute,
		PrimaryCtxRetain: f.ctxRetain, PrimaryCtxRelease: f.ctxRelease, CtxSetCurrent: f.ctxSetCurrent,
		CtxGetCurrent: f.ctxGetCurrent, CtxSynchronize: f.ctxSynchronize,
		MemGetInfo: f.memGetInfo, MemAlloc: f.memAlloc, MemFree: f.memFree, MemHostAlloc: f.memHostAlloc, MemFreeHost: f.memFreeHost,
		MemcpyHtoD: f.memcpyHtoD, MemcpyDtoH: f.memcpyDtoH, MemcpyDtoD: f.memcpyDtoD, MemsetD8: f.memsetD8, MemsetD32: f.memsetD32,
		StreamCreate: f.streamCreate, StreamDestroy: f.streamDestroy, StreamQuery: f.streamQuery, StreamWait: f.streamWait,
		StreamBeginCapture: f.beginCapture, StreamEndCapture: f.endCapture, StreamIsCapturing: f.isCapturing,
		EventCreate: f.eventCreate, EventDestroy: f.eventDestroy, EventRecord: f.eventRecord, EventQuery: f.eventQuery, EventElapsed: f.eventElapsed,
		LibraryLoad: f.libraryLoad, LibraryUnload: f.libraryUnload, LibraryKernel: f.libraryKernel, KernelFunction: f.kernelFunction,
		KernelAttribute: f.kernelAttribute, KernelSetAttr: f.kernelSetAttr, FuncLoad: f.funcLoad, FuncLoaded: f.funcLoaded,
		OccupancyBlocks: f.occupancyBlocks, OccupancyClusters: f.occupancyClusters, Launch: f.launch,
		GraphCreate: f.graphCreate, GraphDestroy: f.graphDestroy, GraphAddKernel: f.graphAddKernel, GraphNodeCount: f.graphNodeCount,
		GraphInstantiate: f.graphInstantiate, GraphExecUpdate: f.graphExecUpdate, GraphExecSetNode: f.graphExecSetNode,
		GraphLaunch: f.graphLaunch, GraphUpload: f.graphUpload, GraphExecDestroy: f.graphExecDestroy, GraphAddEdgesProg: f.graphAddEdge,
		ErrorName:   func(r sys.Result) (string, sys.Result) { return r.String(), sys.Success },
		ErrorString: func(r sys.Result) (string, sys.Result) { return "as the fake driver says", sys.Success },
	}
	for _, name := range f.opt.Without {
		v := reflect.ValueOf(t).Elem().FieldByName(name)
		v.SetZero()
	}
	return t
}

// Counts gives the calls so far by their names in sys.Table.
func (f *Fake) Counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

// Violations lists what was done against the rules and a real driver would have answered by garbage, a hang or nothing.
func (f *Fake) Violations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.violations)
}

// Live counts what has not been given back: memory, bytes, pinned, streams, events, libraries, graphs, execs, contexts.
// What is zero is left out.
func (f *Fake) Live() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	live := map[string]int{"memory": len(f.blocks), "pinned": len(f.pinned), "streams": len(f.streams), "events": len(f.events),
		"libraries": len(f.libraries), "graphs": len(f.graphs), "execs": len(f.execs)}
	for _, d := range f.devices {
		live["bytes"] += int(d.used)
		live["contexts"] += d.refs
	}
	maps.DeleteFunc(live, func(_ string, n int) bool { return n == 0 })
	return live
}

// SetMemory changes what each device has, for later allocations.
func (f *Fake) SetMemory(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opt.Memory = n
}

// Bytes is n bytes of device memory, for kernels and for tests that look. In a kernel a bad address ends the kernel as an
// illegal access; elsewhere it panics.
func (f *Fake) Bytes(p sys.DevicePtr, n int64) []byte {
	if n == 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	data, why := f.find(p, n)
	if why != "" {
		panic(fault{why})
	}
	return data
}

// Slice is n values of device memory; see Fake.Bytes.
func Slice[T any](f *Fake, p sys.DevicePtr, n int) []T {
	if n == 0 {
		return nil
	}
	var v T
	data := f.Bytes(p, int64(n)*int64(unsafe.Sizeof(v)))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), n)
}

// fault is what Bytes panics with.
type fault struct{ why string }

func (e fault) Error() string { return e.why }

func (f *Fake) violate(format string, args ...any) {
	if len(f.violations) < 1000 {
		f.violations = append(f.violations, fmt.Sprintf(format, args...))
	}
}

func (f *Fake) handle() uintptr {
	f.next += 16
	return f.next
}

// enter counts a call that needs a context and locks mu, which the caller unlocks. The device is that of the context
// which is current on this thread; a failed one refuses everything.
func (f *Fake) enter(name string) (*device, sys.Result) {
	f.mu.Lock()
	f.counts[name]++
	if !f.started {
		return nil, sys.NotInitialized
	}
	ctx := f.current[thread()]
	for _, d := range f.devices {
		if d.ctx == ctx && d.refs > 0 {
			return d, d.sticky
		}
	}
	f.violate("%s: no context is current on this thread", name)
	return nil, sys.InvalidContext
}

// guarded is enter for calls that a capture forbids: it spoils the captures that forbid them here.
func (f *Fake) guarded(name string) (*device, sys.Result) {
	d, r := f.enter(name)
	if r != sys.Success {
		return d, r
	}
	me := thread()
	for _, c := range f.captures {
		if c.mode == sys.CaptureGlobal || c.mode == sys.CaptureThreadLocal && c.thread == me {
			c.broken = true
			r = sys.CaptureUnsupported
		}
	}
	return d, r
}

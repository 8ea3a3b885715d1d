// Package sys is the lowest layer: the CUDA driver API as a table of functions. The real table is filled by dlopen
// (driver_cgo.go); tests put functions of their own in its place or wrap one with failures (Intercept).
//
// Functions keep the driver's names without their "cu" prefix and version suffix, and its meaning. Every one returns
// a Result, which the caller must read. Nothing here locks threads or checks arguments: package cudart does.
package sys

import "unsafe"

// Result is a CUresult.
type Result int32

// Handles of the driver. DevicePtr is an address on the device.
type (
	Device    int32
	DevicePtr uint64
	Context   uintptr
	Stream    uintptr
	Event     uintptr
	Library   uintptr
	Kernel    uintptr
	Function  uintptr
	Graph     uintptr
	GraphNode uintptr
	GraphExec uintptr
)

// LaunchConfig is a launch without its parameters. Its memory layout is that of struct mf_launch in driver_cgo.go.
type LaunchConfig struct {
	GridX, GridY, GridZ          uint32
	BlockX, BlockY, BlockZ       uint32
	SharedBytes                  uint32
	ClusterX, ClusterY, ClusterZ uint32 // 0: no cluster
	Programmatic                 uint32 // 1: may start before the stream's previous kernel has ended
	Cooperative                  uint32 // 1: all blocks are resident together
}

// Table holds the driver's functions. A nil field is an optional function that this driver lacks. A parameter block
// (params, n) is one POD struct of n bytes without Go pointers; the driver copies it before the call returns.
type Table struct {
	Init          func() Result
	DriverVersion func() (int, Result)

	DeviceCount     func() (int, Result)
	DeviceGet       func(ordinal int) (Device, Result)
	DeviceName      func(Device) (string, Result)
	DeviceUUID      func(Device) ([16]byte, Result)
	DeviceTotalMem  func(Device) (uint64, Result)
	DeviceAttribute func(attr int, d Device) (int, Result)

	PrimaryCtxRetain  func(Device) (Context, Result)
	PrimaryCtxRelease func(Device) Result
	CtxSetCurrent     func(Context) Result
	CtxGetCurrent     func() (Context, Result)
	CtxSynchronize    func() Result

	MemGetInfo    func() (free, total uint64, r Result)
	MemAlloc      func(bytes uint64) (DevicePtr, Result)
	MemFree       func(DevicePtr) Result
	MemHostAlloc  func(bytes uint64) (unsafe.Pointer, Result)
	MemFreeHost   func(unsafe.Pointer) Result
	MemcpyHtoD    func(dst DevicePtr, src unsafe.Pointer, n uint64, s Stream) Result
	MemcpyDtoH    func(dst unsafe.Pointer, src DevicePtr, n uint64, s Stream) Result
	MemcpyDtoD    func(dst, src DevicePtr, n uint64, s Stream) Result
	MemsetD8      func(dst DevicePtr, v uint8, n uint64, s Stream) Result
	MemsetD32     func(dst DevicePtr, v uint32, n uint64, s Stream) Result
	StreamCreate  func(flags uint32, priority int) (Stream, Result)
	StreamDestroy func(Stream) Result
	StreamQuery   func(Stream) Result
	StreamWait    func(Stream, Event) Result

	StreamBeginCapture func(Stream, int) Result
	StreamEndCapture   func(Stream) (Graph, Result)
	StreamIsCapturing  func(Stream) (int, Result)

	EventCreate  func(flags uint32) (Event, Result)
	EventDestroy func(Event) Result
	EventRecord  func(Event, Stream) Result
	EventQuery   func(Event) Result
	EventElapsed func(from, to Event) (float32, Result)

	LibraryLoad       func(image []byte) (Library, Result)
	LibraryUnload     func(Library) Result
	LibraryKernel     func(Library, string) (Kernel, Result)
	KernelFunction    func(Kernel) (Function, Result)
	KernelAttribute   func(attr int, k Kernel, d Device) (int, Result)
	KernelSetAttr     func(attr, value int, k Kernel, d Device) Result
	FuncLoad          func(Function) Result        // optional
	FuncLoaded        func(Function) (int, Result) // optional: 0 not loaded, 1 loaded
	OccupancyBlocks   func(f Function, blockSize int, shared uint64) (int, Result)
	OccupancyClusters func(f Function, cfg *LaunchConfig) (int, Result) // optional
	Launch            func(k Kernel, cfg *LaunchConfig, s Stream, params unsafe.Pointer, n uint64) Result

	GraphCreate       func() (Graph, Result)
	GraphDestroy      func(Graph) Result
	GraphAddKernel    func(g Graph, deps []GraphNode, k Kernel, cfg *LaunchConfig, params unsafe.Pointer, n uint64) (GraphNode, Result)
	GraphNodeCount    func(Graph) (int, Result)
	GraphInstantiate  func(Graph) (GraphExec, Result)
	GraphExecUpdate   func(GraphExec, Graph) (detail int, r Result)
	GraphExecSetNode  func(e GraphExec, node GraphNode, k Kernel, cfg *LaunchConfig, params unsafe.Pointer, n uint64) Result
	GraphLaunch       func(GraphExec, Stream) Result
	GraphUpload       func(GraphExec, Stream) Result // optional
	GraphExecDestroy  func(GraphExec) Result
	GraphAddEdgesProg func(g Graph, from, to GraphNode) Result // optional: programmatic dependency between kernel nodes

	ErrorName   func(Result) (string, Result)
	ErrorString func(Result) (string, Result)
}

// Package kernelscuda holds minfer's CUDA kernels: their sources (cu/), the image they are built into, and one typed launcher
// for each.
//
// A kernel takes one struct of device addresses, sizes and strides. A launcher works out grid, block and shared memory from that
// struct and the device alone, never from data on the device, and hands the launch to a Queue. So a launch can be recorded and
// replayed: what changes from step to step (tokens, positions, lengths, cells) is read from device memory.
//
// Every kernel says griddepcontrol.wait on all of its threads before it touches memory, so any launch may carry the programmatic
// attribute (programmatic dependent launch), which is the queue's choice.
//
// Classes. The bitwise ones give a row the same bits whatever other rows run beside it and however the work is split; the others
// have a Tolerance that says what they differ by and why.
package kernelscuda

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/minfer-go/minfer/cudart"
)

// ErrUnavailable is wrapped by errors about an image that isn't there or doesn't fit, and kernels that the device can't run.
var ErrUnavailable = errors.New("kernels are not available")

// ErrShape is wrapped by errors about parameters that a kernel doesn't support.
var ErrShape = errors.New("unsupported shape")

// ID names a kernel: KernelAddF32 and so on.
type ID int

// String is the entry point's name.
func (id ID) String() string {
	if id < 0 || id >= NumKernels {
		return fmt.Sprintf("kernel(%d)", int(id))
	}
	return table[id].symbol
}

// Tolerance is empty for kernels of the bitwise class. For others it says what the result differs by, and why.
func (id ID) Tolerance() string { return table[id].tolerance }

type descriptor struct {
	symbol    string
	shared    int  // most dynamic shared memory
	elastic   bool // less where the device has less
	tolerance string
	only      string // architecture whose image alone has it
}

// KernelInfo is what a queue may want to know of a launch beside its configuration.
type KernelInfo struct {
	ID    ID
	Bytes int64 // that the kernel moves between memory and the chip at least, each byte of its operands once
}

// Queue takes launches: on a stream at once, as nodes of a graph, or timed. params points to n bytes that are read before Launch
// returns. It is called with the kernels' context current.
type Queue interface {
	Launch(k *cudart.Kernel, cfg cudart.LaunchConfig, params unsafe.Pointer, n uintptr, info KernelInfo) error
}

// Kernels is a loaded image. Its methods may be called from several goroutines.
type Kernels struct {
	library *cudart.Library
	device  cudart.DeviceInfo
	kernels [NumKernels]*cudart.Kernel
	why     [NumKernels]error
}

// Why is nil if the kernel can be launched, or the reason why not on this device.
func (k *Kernels) Why(id ID) error {
	if id < 0 || id >= NumKernels {
		return fmt.Errorf("kernelscuda: there is no %s: %w", id, ErrUnavailable)
	}
	return k.why[id]
}

// Kernel is the loaded entry point, nil if Why says so.
func (k *Kernels) Kernel(id ID) *cudart.Kernel { return k.kernels[id] }

// Device is what the kernels were loaded for.
func (k *Kernels) Device() *cudart.DeviceInfo { return &k.device }

func (k *Kernels) launch(q Queue, id ID, cfg cudart.LaunchConfig, params unsafe.Pointer, n uintptr, bytes int64) error {
	if k.kernels[id] == nil {
		return k.why[id]
	}
	if cfg.GridX == 0 || cfg.GridY == 0 || cfg.GridZ == 0 {
		return nil // no rows
	}
	return q.Launch(k.kernels[id], cfg, params, n, KernelInfo{ID: id, Bytes: bytes})
}

func refused(id ID, err error) error { return fmt.Errorf("kernelscuda: %s: %w", id, err) }

// shape makes an error of a kernel that was asked for what it doesn't do.
func shape(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrShape)...)
}

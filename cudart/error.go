package cudart

import (
	"errors"
	"fmt"
	"strings"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Result is the driver's CUresult.
type Result = sys.Result

// What a caller can do about an error. Test with errors.Is.
var (
	// ErrUnavailable: no driver, no device, a driver that is too old or a device that the kernels don't fit.
	ErrUnavailable = errors.New("CUDA is not available")
	// ErrBusy: the device exists but another process has it for itself. It is also ErrUnavailable.
	ErrBusy = fmt.Errorf("the device is busy: %w", ErrUnavailable)
	// ErrOutOfMemory: device or pinned memory is exhausted. The context lives on.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrTimeout: a wait reached its deadline. The work it waited for may still be running.
	ErrTimeout = errors.New("deadline exceeded")
	// ErrSticky: the device failed in earlier work and the context is dead; every later call returns the first cause.
	ErrSticky = errors.New("the device context is dead")
	// ErrCapture: a capture was refused, broken or ended early. The stream is usable again.
	ErrCapture = errors.New("stream capture failed")
	// ErrUpdate: an executable graph can't take the change; instantiate a new one.
	ErrUpdate = errors.New("the executable graph can't be updated")
	// ErrUnsupported: this device or driver lacks the feature.
	ErrUnsupported = errors.New("not supported")
	// ErrNotFound: the image has no such kernel.
	ErrNotFound = errors.New("not found")
	// ErrClosed: the object has been freed, destroyed or released, or a Bound outlived its Do.
	ErrClosed = errors.New("already closed")
	// ErrInvalid: an argument is out of range or belongs to another context.
	ErrInvalid = errors.New("invalid argument")
)

// Error is a failed call of the driver. Its sentinel (see the Err variables) comes by errors.Is.
type Error struct {
	Call   string // the function, as in sys.Table: the driver's name without "cu"
	Code   Result
	Name   string // "CUDA_ERROR_OUT_OF_MEMORY"
	Detail string // the driver's text
	Doing  string // what was being done, with sizes and names
	Advice string // what to do about it; may be empty
	kind   error  // sentinel, or nil
}

func (e *Error) Error() string {
	var s strings.Builder
	s.WriteString("cudart: ")
	if e.kind == ErrSticky {
		fmt.Fprintf(&s, "the device failed in earlier work: %s (%d, %s), seen by %s while %s", e.Name, e.Code, e.Detail, e.Call, e.Doing)
	} else {
		fmt.Fprintf(&s, "%s: %s: %s (%d, %s)", e.Doing, e.Call, e.Name, e.Code, e.Detail)
	}
	if e.Advice != "" {
		s.WriteString("; ")
		s.WriteString(e.Advice)
	}
	return s.String()
}

// Unwrap gives the sentinel.
func (e *Error) Unwrap() error { return e.kind }

// sticky says that a result leaves its context unusable (cuda.h: "any further CUDA work will return the same error").
func sticky(r Result) bool {
	switch r {
	case sys.IllegalAddress, sys.LaunchTimeout, sys.Assert, sys.HardwareStackError, sys.IllegalInstruction,
		sys.MisalignedAddress, sys.InvalidAddressSpace, sys.InvalidPC, sys.LaunchFailed, sys.ECCUncorrectable,
		sys.NvlinkUncorrectable, sys.Contained, sys.ContextDestroyed, sys.TensorMemoryLeak:
		return true
	}
	return false
}

// classify gives a result's sentinel and, where one sentence helps, what to do.
func classify(r Result) (kind error, advice string) {
	if sticky(r) {
		return ErrSticky, "this context can't be used any more: restart the process"
	}
	switch r {
	case sys.OutOfMemory:
		return ErrOutOfMemory, ""
	case sys.NoDevice:
		return ErrUnavailable, "the driver is there but shows no device: see what nvidia-smi lists, unset CUDA_VISIBLE_DEVICES, " +
			"and give a container its devices (docker run --gpus all)"
	case sys.DeviceUnavailable:
		return ErrBusy, "another process has the device for itself, or its compute mode forbids contexts: end that process, " +
			"choose another device, or run nvidia-smi -c DEFAULT"
	case sys.StubLibrary:
		return ErrUnavailable, "libcuda.so.1 is the toolkit's stub, not a driver: take the toolkit's stubs folder out of LD_LIBRARY_PATH"
	case sys.SystemDriverMismatch:
		return ErrUnavailable, "the driver's library and kernel module are of different versions: restart the machine or reload the nvidia module"
	case sys.SystemNotReady:
		return ErrUnavailable, "the system isn't ready: start nvidia-fabricmanager (NVSwitch machines) or the MPS server"
	case sys.CallRequiresNewerDriver:
		return ErrUnavailable, "install a newer NVIDIA driver"
	case sys.NotInitialized:
		return ErrUnavailable, ""
	case sys.InvalidDevice:
		return ErrUnavailable, "choose a device that nvidia-smi lists"
	case sys.NoBinaryForGPU:
		return ErrUnavailable, "the kernels were built without code for this device: build them again with its architecture in ARCHS"
	case sys.UnsupportedPTXVersion:
		return ErrUnavailable, "the driver is older than the compiler that built these kernels: install a newer driver, or build them with an older nvcc"
	case sys.InvalidImage, sys.InvalidPTX, sys.InvalidSource:
		return ErrUnavailable, "the kernels' file is damaged or too new for this driver: build it again, or install a newer driver"
	case sys.CaptureUnsupported, sys.CaptureInvalidated, sys.CaptureMerge, sys.CaptureUnmatched, sys.CaptureUnjoined,
		sys.CaptureIsolation, sys.CaptureImplicit, sys.CapturedEvent, sys.CaptureWrongThread:
		return ErrCapture, ""
	case sys.GraphExecUpdateFailure:
		return ErrUpdate, "instantiate the graph anew"
	case sys.NotSupported, sys.NotPermitted, sys.InvalidClusterSize:
		return ErrUnsupported, ""
	case sys.CooperativeTooLarge:
		return ErrInvalid, "more blocks than the device holds at once: ask Kernel.BlocksPerMultiprocessor first"
	case sys.LaunchOutOfResources:
		return ErrInvalid, "too many threads or too much shared memory for this kernel"
	case sys.InvalidValue, sys.InvalidHandle, sys.InvalidContext:
		return ErrInvalid, ""
	case sys.NotFound:
		return ErrNotFound, ""
	}
	return nil, ""
}

// newError builds the error of a call, asking the driver for the code's name and text.
func newError(t *sys.Table, call string, r Result, doing string) *Error {
	e := &Error{Call: call, Code: r, Doing: doing, Name: r.String(), Detail: "no description"}
	if t != nil && t.ErrorName != nil && t.ErrorString != nil {
		if s, q := t.ErrorName(r); q == sys.Success && s != "" {
			e.Name = s
		}
		if s, q := t.ErrorString(r); q == sys.Success && s != "" {
			e.Detail = s
		}
	}
	e.kind, e.Advice = classify(r)
	return e
}

// invalid is an argument refused before any call.
func invalid(format string, args ...any) error {
	return fmt.Errorf("cudart: %s: %w", fmt.Sprintf(format, args...), ErrInvalid)
}

func closed(what string) error { return fmt.Errorf("cudart: %s: %w", what, ErrClosed) }

package sys

import (
	"fmt"
	"slices"
	"strings"
)

const prefix = "CUDA_ERROR_"

var resultNames = map[Result]string{
	InvalidValue:            "INVALID_VALUE",
	OutOfMemory:             "OUT_OF_MEMORY",
	NotInitialized:          "NOT_INITIALIZED",
	StubLibrary:             "STUB_LIBRARY",
	CallRequiresNewerDriver: "CALL_REQUIRES_NEWER_DRIVER",
	DeviceUnavailable:       "DEVICE_UNAVAILABLE",
	NoDevice:                "NO_DEVICE",
	InvalidDevice:           "INVALID_DEVICE",
	InvalidImage:            "INVALID_IMAGE",
	InvalidContext:          "INVALID_CONTEXT",
	NoBinaryForGPU:          "NO_BINARY_FOR_GPU",
	ECCUncorrectable:        "ECC_UNCORRECTABLE",
	InvalidPTX:              "INVALID_PTX",
	NvlinkUncorrectable:     "NVLINK_UNCORRECTABLE",
	UnsupportedPTXVersion:   "UNSUPPORTED_PTX_VERSION",
	Contained:               "CONTAINED",
	InvalidSource:           "INVALID_SOURCE",
	InvalidHandle:           "INVALID_HANDLE",
	IllegalState:            "ILLEGAL_STATE",
	NotFound:                "NOT_FOUND",
	NotReady:                "NOT_READY",
	IllegalAddress:          "ILLEGAL_ADDRESS",
	LaunchOutOfResources:    "LAUNCH_OUT_OF_RESOURCES",
	LaunchTimeout:           "LAUNCH_TIMEOUT",
	ContextDestroyed:        "CONTEXT_IS_DESTROYED",
	Assert:                  "ASSERT",
	HardwareStackError:      "HARDWARE_STACK_ERROR",
	IllegalInstruction:      "ILLEGAL_INSTRUCTION",
	MisalignedAddress:       "MISALIGNED_ADDRESS",
	InvalidAddressSpace:     "INVALID_ADDRESS_SPACE",
	InvalidPC:               "INVALID_PC",
	LaunchFailed:            "LAUNCH_FAILED",
	CooperativeTooLarge:     "COOPERATIVE_LAUNCH_TOO_LARGE",
	TensorMemoryLeak:        "TENSOR_MEMORY_LEAK",
	NotPermitted:            "NOT_PERMITTED",
	NotSupported:            "NOT_SUPPORTED",
	SystemNotReady:          "SYSTEM_NOT_READY",
	SystemDriverMismatch:    "SYSTEM_DRIVER_MISMATCH",
	CaptureUnsupported:      "STREAM_CAPTURE_UNSUPPORTED",
	CaptureInvalidated:      "STREAM_CAPTURE_INVALIDATED",
	CaptureMerge:            "STREAM_CAPTURE_MERGE",
	CaptureUnmatched:        "STREAM_CAPTURE_UNMATCHED",
	CaptureUnjoined:         "STREAM_CAPTURE_UNJOINED",
	CaptureIsolation:        "STREAM_CAPTURE_ISOLATION",
	CaptureImplicit:         "STREAM_CAPTURE_IMPLICIT",
	CapturedEvent:           "CAPTURED_EVENT",
	CaptureWrongThread:      "STREAM_CAPTURE_WRONG_THREAD",
	GraphExecUpdateFailure:  "GRAPH_EXEC_UPDATE_FAILURE",
	InvalidClusterSize:      "INVALID_CLUSTER_SIZE",
	Unknown:                 "UNKNOWN",
}

// String gives the name that the driver would give, for the results known here.
func (r Result) String() string {
	if r == Success {
		return "CUDA_SUCCESS"
	}
	if s, ok := resultNames[r]; ok {
		return prefix + s
	}
	return fmt.Sprintf("CUresult %d", int32(r))
}

// ResultByName finds a failure by its name, in any case, with or without CUDA_ERROR_.
func ResultByName(name string) (Result, bool) {
	name = strings.TrimPrefix(strings.ToUpper(name), prefix)
	for r, s := range resultNames {
		if s == name {
			return r, true
		}
	}
	return Success, false
}

// ResultNames lists the names that ResultByName knows, without their prefix, sorted.
func ResultNames() []string {
	out := make([]string, 0, len(resultNames))
	for _, s := range resultNames {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

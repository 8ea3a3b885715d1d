package sys

// Results that callers tell apart (cuda.h, CUresult).
const (
	Success                 Result = 0
	InvalidValue            Result = 1
	OutOfMemory             Result = 2
	NotInitialized          Result = 3
	StubLibrary             Result = 34
	CallRequiresNewerDriver Result = 36
	DeviceUnavailable       Result = 46
	NoDevice                Result = 100
	InvalidDevice           Result = 101
	InvalidImage            Result = 200
	InvalidContext          Result = 201
	NoBinaryForGPU          Result = 209
	ECCUncorrectable        Result = 214
	InvalidPTX              Result = 218
	NvlinkUncorrectable     Result = 220
	UnsupportedPTXVersion   Result = 222
	Contained               Result = 226
	InvalidSource           Result = 300
	InvalidHandle           Result = 400
	IllegalState            Result = 401
	NotFound                Result = 500
	NotReady                Result = 600
	IllegalAddress          Result = 700
	LaunchOutOfResources    Result = 701
	LaunchTimeout           Result = 702
	ContextDestroyed        Result = 709
	Assert                  Result = 710
	HardwareStackError      Result = 714
	IllegalInstruction      Result = 715
	MisalignedAddress       Result = 716
	InvalidAddressSpace     Result = 717
	InvalidPC               Result = 718
	LaunchFailed            Result = 719
	CooperativeTooLarge     Result = 720
	TensorMemoryLeak        Result = 721
	NotPermitted            Result = 800
	NotSupported            Result = 801
	SystemNotReady          Result = 802
	SystemDriverMismatch    Result = 803
	CaptureUnsupported      Result = 900
	CaptureInvalidated      Result = 901
	CaptureMerge            Result = 902
	CaptureUnmatched        Result = 903
	CaptureUnjoined         Result = 904
	CaptureIsolation        Result = 905
	CaptureImplicit         Result = 906
	CapturedEvent           Result = 907
	CaptureWrongThread      Result = 908
	GraphExecUpdateFailure  Result = 910
	InvalidClusterSize      Result = 912
	Unknown                 Result = 999
)

// Compute modes that AttrComputeMode reports.
const (
	ComputeDefault    = 0
	ComputeProhibited = 2
	ComputeExclusive  = 3
)

// Device attributes (CUdevice_attribute).
const (
	AttrMaxThreadsPerBlock   = 1
	AttrMaxGridX             = 5
	AttrMaxGridY             = 6
	AttrMaxGridZ             = 7
	AttrMaxSharedPerBlock    = 8
	AttrWarpSize             = 10
	AttrMaxRegistersPerBlock = 12
	AttrClockKHz             = 13
	AttrMultiprocessors      = 16
	AttrIntegrated           = 18
	AttrComputeMode          = 20
	AttrConcurrentKernels    = 31
	AttrPCIBus               = 33
	AttrPCIDevice            = 34
	AttrMemoryClockKHz       = 36
	AttrMemoryBusBits        = 37
	AttrL2Bytes              = 38
	AttrMaxThreadsPerSM      = 39
	AttrAsyncEngines         = 40
	AttrPCIDomain            = 50
	AttrComputeMajor         = 75
	AttrComputeMinor         = 76
	AttrMaxSharedPerSM       = 81
	AttrMaxRegistersPerSM    = 82
	AttrCooperativeLaunch    = 95
	AttrMaxSharedPerBlockOpt = 97
	AttrMaxBlocksPerSM       = 106
	AttrReservedShared       = 111
	AttrClusterLaunch        = 120
)

// Function attributes (CUfunction_attribute).
const (
	FuncMaxThreads       = 0
	FuncSharedBytes      = 1
	FuncLocalBytes       = 3
	FuncRegisters        = 4
	FuncBinaryVersion    = 6
	FuncMaxDynamicShared = 8
)

// Flags and modes.
const (
	StreamNonBlocking = 1
	EventDefault      = 0
	EventNoTiming     = 2

	CaptureGlobal      = 0
	CaptureThreadLocal = 1
	CaptureRelaxed     = 2
)

// CaptureNone, CaptureActive, CaptureBroken are states that StreamIsCapturing reports.
const (
	CaptureNone   = 0
	CaptureActive = 1
	CaptureBroken = 2
)

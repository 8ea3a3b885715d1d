package sys

// Symbols that the real table needs. Without a required one the driver is too old; without an optional one a feature
// is absent and its Table field nil. The order is that of enum mf_symbol in driver_cgo.go.
var requiredSymbols = []string{
	"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetUuid_v2",
	"cuDeviceTotalMem_v2", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2",
	"cuCtxSetCurrent", "cuCtxGetCurrent", "cuCtxSynchronize", "cuMemGetInfo_v2", "cuMemAlloc_v2", "cuMemFree_v2",
	"cuMemHostAlloc", "cuMemFreeHost", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2",
	"cuMemsetD8Async", "cuMemsetD32Async", "cuStreamCreateWithPriority", "cuStreamDestroy_v2", "cuStreamQuery",
	"cuStreamWaitEvent", "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuStreamIsCapturing", "cuEventCreate",
	"cuEventDestroy_v2", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime", "cuLibraryLoadData",
	"cuLibraryUnload", "cuLibraryGetKernel", "cuKernelGetFunction", "cuKernelGetAttribute", "cuKernelSetAttribute",
	"cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuLaunchKernelEx", "cuGraphCreate", "cuGraphDestroy",
	"cuGraphAddKernelNode_v2", "cuGraphGetNodes", "cuGraphInstantiateWithFlags", "cuGraphExecUpdate_v2",
	"cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch", "cuGraphExecDestroy",
	"cuGraphKernelNodeSetAttribute", "cuGetErrorName", "cuGetErrorString",
}

var optionalSymbols = []string{"cuOccupancyMaxActiveClusters", "cuGraphUpload", "cuGraphAddDependencies_v2", "cuFuncLoad",
	"cuFuncIsLoaded"}

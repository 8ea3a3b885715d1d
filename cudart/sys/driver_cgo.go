//go:build cgo && linux

package sys

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The prototypes below are our own, of the driver API's stable ABI (64-bit); no CUDA header is needed to build this.
enum mf_symbol {
	F_cuInit,
	F_cuDriverGetVersion,
	F_cuDeviceGetCount,
	F_cuDeviceGet,
	F_cuDeviceGetName,
	F_cuDeviceGetUuid_v2,
	F_cuDeviceTotalMem_v2,
	F_cuDeviceGetAttribute,
	F_cuDevicePrimaryCtxRetain,
	F_cuDevicePrimaryCtxRelease_v2,
	F_cuCtxSetCurrent,
	F_cuCtxGetCurrent,
	F_cuCtxSynchronize,
	F_cuMemGetInfo_v2,
	F_cuMemAlloc_v2,
	F_cuMemFree_v2,
	F_cuMemHostAlloc,
	F_cuMemFreeHost,
	F_cuMemcpyHtoDAsync_v2,
	F_cuMemcpyDtoHAsync_v2,
	F_cuMemcpyDtoDAsync_v2,
	F_cuMemsetD8Async,
	F_cuMemsetD32Async,
	F_cuStreamCreateWithPriority,
	F_cuStreamDestroy_v2,
	F_cuStreamQuery,
	F_cuStreamWaitEvent,
	F_cuStreamBeginCapture_v2,
	F_cuStreamEndCapture,
	F_cuStreamIsCapturing,
	F_cuEventCreate,
	F_cuEventDestroy_v2,
	F_cuEventRecord,
	F_cuEventQuery,
	F_cuEventElapsedTime,
	F_cuLibraryLoadData,
	F_cuLibraryUnload,
	F_cuLibraryGetKernel,
	F_cuKernelGetFunction,
	F_cuKernelGetAttribute,
	F_cuKernelSetAttribute,
	F_cuOccupancyMaxActiveBlocksPerMultiprocessor,
	F_cuLaunchKernelEx,
	F_cuGraphCreate,
	F_cuGraphDestroy,
	F_cuGraphAddKernelNode_v2,
	F_cuGraphGetNodes,
	F_cuGraphInstantiateWithFlags,
	F_cuGraphExecUpdate_v2,
	F_cuGraphExecKernelNodeSetParams_v2,
	F_cuGraphLaunch,
	F_cuGraphExecDestroy,
	F_cuGraphKernelNodeSetAttribute,
	F_cuGetErrorName,
	F_cuGetErrorString,
	F_cuOccupancyMaxActiveClusters,
	F_cuGraphUpload,
	F_cuGraphAddDependencies_v2,
	F_cuFuncLoad,
	F_cuFuncIsLoaded,
	F_COUNT
};
static void *mf_fn[F_COUNT];
static void *mf_handle;

// mf_open loads the library; 0, or -1 with the loader's message in err. The caller holds its OS thread: dlerror's
// text belongs to the thread.
static int mf_open(char *err, size_t n) {
	dlerror();
	mf_handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (mf_handle) return 0;
	const char *e = dlerror();
	strncpy(err, e ? e : "unknown reason", n - 1);
	return -1;
}
static int mf_resolve(int i, const char *name) {
	mf_fn[i] = dlsym(mf_handle, name);
	return mf_fn[i] != NULL;
}

struct mf_launch { uint32_t grid[3], block[3], shared, cluster[3], programmatic, cooperative; };

typedef struct { uint32_t id; char pad[4]; union { char pad[64]; int value; uint32_t dim[3]; } v; } mf_attr;
typedef struct { uint32_t grid[3], block[3], shared; void *stream; mf_attr *attrs; uint32_t count; } mf_config;
typedef struct { void *func; uint32_t grid[3], block[3], shared; void **params; void **extra; void *kern; void *ctx; } mf_node;
typedef struct { unsigned char from_port, to_port, type, reserved[5]; } mf_edge;
_Static_assert(sizeof(mf_attr) == 72, "CUlaunchAttribute");
_Static_assert(sizeof(mf_config) == 56 && offsetof(mf_config, stream) == 32, "CUlaunchConfig");
_Static_assert(sizeof(mf_node) == 72 && offsetof(mf_node, params) == 40, "CUDA_KERNEL_NODE_PARAMS_v2");
_Static_assert(sizeof(mf_edge) == 8, "CUgraphEdgeData");
_Static_assert(sizeof(struct mf_launch) == 48, "sys.LaunchConfig");

#define FN(name, ...) ((int (*)(__VA_ARGS__))mf_fn[F_##name])
typedef uintptr_t H;
#define P(h) ((void *)(h))

static void mf_fill(mf_config *c, mf_attr *a, const struct mf_launch *l, H stream) {
	memset(c, 0, sizeof *c);
	memset(a, 0, 3 * sizeof *a);
	memcpy(c->grid, l->grid, sizeof c->grid);
	memcpy(c->block, l->block, sizeof c->block);
	c->shared = l->shared;
	c->stream = P(stream);
	c->attrs = a;
	if (l->cluster[0]) { a[c->count].id = 4; memcpy(a[c->count++].v.dim, l->cluster, 12); }
	if (l->programmatic) { a[c->count].id = 6; a[c->count++].v.value = 1; }
	if (l->cooperative) { a[c->count].id = 2; a[c->count++].v.value = 1; }
}
static int mf_kernel_launch(H k, const struct mf_launch *l, H stream, void *params) {
	mf_config c; mf_attr a[3]; void *args[1] = {params};
	mf_fill(&c, a, l, stream);
	return FN(cuLaunchKernelEx, const mf_config *, void *, void **, void **)(&c, P(k), args, NULL);
}
static int mf_max_clusters(int *n, H f, const struct mf_launch *l) {
	mf_config c; mf_attr a[3];
	mf_fill(&c, a, l, 0);
	return FN(cuOccupancyMaxActiveClusters, int *, void *, const mf_config *)(n, P(f), &c);
}
static void mf_fill_node(mf_node *n, void **args, H k, const struct mf_launch *l, void *params) {
	memset(n, 0, sizeof *n);
	memcpy(n->grid, l->grid, sizeof n->grid);
	memcpy(n->block, l->block, sizeof n->block);
	n->shared = l->shared;
	args[0] = params;
	n->params = args;
	n->kern = P(k);
}
static int mf_graph_add_kernel(H *out, H g, const H *deps, size_t nd, H k, const struct mf_launch *l, void *params) {
	mf_node n; void *args[1];
	mf_fill_node(&n, args, k, l, params);
	int r = FN(cuGraphAddKernelNode_v2, H *, void *, const H *, size_t, const mf_node *)(out, P(g), deps, nd, &n);
	// A node's attributes are set apart; in a graph, programmatic order is an edge's, not the node's.
	mf_config c; mf_attr a[3]; struct mf_launch plain = *l;
	plain.programmatic = 0;
	mf_fill(&c, a, &plain, 0);
	for (uint32_t i = 0; r == 0 && i < c.count; i++)
		r = FN(cuGraphKernelNodeSetAttribute, void *, int, const void *)(P(*out), a[i].id, &a[i].v);
	return r;
}
static int mf_graph_exec_set(H e, H node, H k, const struct mf_launch *l, void *params) {
	mf_node n; void *args[1];
	mf_fill_node(&n, args, k, l, params);
	return FN(cuGraphExecKernelNodeSetParams_v2, void *, void *, const mf_node *)(P(e), P(node), &n);
}
static int mf_graph_edge(H g, H from, H to) {
	mf_edge e = {1, 0, 1, {0}}; // from the programmatic port, a programmatic dependency
	void *f = P(from), *t = P(to);
	return FN(cuGraphAddDependencies_v2, void *, void **, void **, const mf_edge *, size_t)(P(g), &f, &t, &e, 1);
}
static int mf_graph_update(H e, H g, int *detail) {
	struct { int result; void *node, *from; } info = {0};
	int r = FN(cuGraphExecUpdate_v2, void *, void *, void *)(P(e), P(g), &info);
	*detail = info.result;
	return r;
}

static int mf_init(void) { return FN(cuInit, unsigned)(0); }
static int mf_version(int *v) { return FN(cuDriverGetVersion, int *)(v); }
static int mf_dev_count(int *v) { return FN(cuDeviceGetCount, int *)(v); }
static int mf_dev_get(int *d, int i) { return FN(cuDeviceGet, int *, int)(d, i); }
static int mf_dev_name(char *s, int n, int d) { return FN(cuDeviceGetName, char *, int, int)(s, n, d); }
static int mf_dev_uuid(void *u, int d) { return FN(cuDeviceGetUuid_v2, void *, int)(u, d); }
static int mf_dev_mem(size_t *n, int d) { return FN(cuDeviceTotalMem_v2, size_t *, int)(n, d); }
static int mf_dev_attr(int *v, int a, int d) { return FN(cuDeviceGetAttribute, int *, int, int)(v, a, d); }
static int mf_ctx_retain(H *c, int d) { return FN(cuDevicePrimaryCtxRetain, H *, int)(c, d); }
static int mf_ctx_release(int d) { return FN(cuDevicePrimaryCtxRelease_v2, int)(d); }
static int mf_ctx_set(H c) { return FN(cuCtxSetCurrent, void *)(P(c)); }
static int mf_ctx_get(H *c) { return FN(cuCtxGetCurrent, H *)(c); }
static int mf_ctx_sync(void) { return FN(cuCtxSynchronize, void)(); }
static int mf_mem_info(size_t *f, size_t *t) { return FN(cuMemGetInfo_v2, size_t *, size_t *)(f, t); }
static int mf_mem_alloc(uint64_t *p, size_t n) { return FN(cuMemAlloc_v2, uint64_t *, size_t)(p, n); }
static int mf_mem_free(uint64_t p) { return FN(cuMemFree_v2, uint64_t)(p); }
static int mf_host_alloc(void **p, size_t n) { return FN(cuMemHostAlloc, void **, size_t, unsigned)(p, n, 0); }
static int mf_host_free(void *p) { return FN(cuMemFreeHost, void *)(p); }
static int mf_htod(uint64_t d, void *s, size_t n, H st) { return FN(cuMemcpyHtoDAsync_v2, uint64_t, void *, size_t, void *)(d, s, n, P(st)); }
static int mf_dtoh(void *d, uint64_t s, size_t n, H st) { return FN(cuMemcpyDtoHAsync_v2, void *, uint64_t, size_t, void *)(d, s, n, P(st)); }
static int mf_dtod(uint64_t d, uint64_t s, size_t n, H st) { return FN(cuMemcpyDtoDAsync_v2, uint64_t, uint64_t, size_t, void *)(d, s, n, P(st)); }
static int mf_set8(uint64_t d, unsigned char v, size_t n, H st) { return FN(cuMemsetD8Async, uint64_t, unsigned char, size_t, void *)(d, v, n, P(st)); }
static int mf_set32(uint64_t d, unsigned v, size_t n, H st) { return FN(cuMemsetD32Async, uint64_t, unsigned, size_t, void *)(d, v, n, P(st)); }
static int mf_stream_create(H *s, unsigned f, int p) { return FN(cuStreamCreateWithPriority, H *, unsigned, int)(s, f, p); }
static int mf_stream_destroy(H s) { return FN(cuStreamDestroy_v2, void *)(P(s)); }
static int mf_stream_query(H s) { return FN(cuStreamQuery, void *)(P(s)); }
static int mf_stream_wait(H s, H e) { return FN(cuStreamWaitEvent, void *, void *, unsigned)(P(s), P(e), 0); }
static int mf_cap_begin(H s, int m) { return FN(cuStreamBeginCapture_v2, void *, int)(P(s), m); }
static int mf_cap_end(H s, H *g) { return FN(cuStreamEndCapture, void *, H *)(P(s), g); }
static int mf_cap_is(H s, int *v) { return FN(cuStreamIsCapturing, void *, int *)(P(s), v); }
static int mf_event_create(H *e, unsigned f) { return FN(cuEventCreate, H *, unsigned)(e, f); }
static int mf_event_destroy(H e) { return FN(cuEventDestroy_v2, void *)(P(e)); }
static int mf_event_record(H e, H s) { return FN(cuEventRecord, void *, void *)(P(e), P(s)); }
static int mf_event_query(H e) { return FN(cuEventQuery, void *)(P(e)); }
static int mf_event_elapsed(float *ms, H a, H b) { return FN(cuEventElapsedTime, float *, void *, void *)(ms, P(a), P(b)); }
static int mf_lib_load(H *l, void *image) { return FN(cuLibraryLoadData, H *, void *, void *, void *, unsigned, void *, void *, unsigned)(l, image, NULL, NULL, 0, NULL, NULL, 0); }
static int mf_lib_unload(H l) { return FN(cuLibraryUnload, void *)(P(l)); }
static int mf_lib_kernel(H *k, H l, const char *n) { return FN(cuLibraryGetKernel, H *, void *, const char *)(k, P(l), n); }
static int mf_kernel_func(H *f, H k) { return FN(cuKernelGetFunction, H *, void *)(f, P(k)); }
static int mf_kernel_attr(int *v, int a, H k, int d) { return FN(cuKernelGetAttribute, int *, int, void *, int)(v, a, P(k), d); }
static int mf_kernel_set(int a, int v, H k, int d) { return FN(cuKernelSetAttribute, int, int, void *, int)(a, v, P(k), d); }
static int mf_func_load(H f) { return FN(cuFuncLoad, void *)(P(f)); }
static int mf_func_loaded(int *v, H f) { return FN(cuFuncIsLoaded, int *, void *)(v, P(f)); }
static int mf_occupancy(int *n, H f, int b, size_t s) { return FN(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *, void *, int, size_t)(n, P(f), b, s); }
static int mf_graph_create(H *g) { return FN(cuGraphCreate, H *, unsigned)(g, 0); }
static int mf_graph_destroy(H g) { return FN(cuGraphDestroy, void *)(P(g)); }
static int mf_graph_count(H g, size_t *n) { return FN(cuGraphGetNodes, void *, void *, size_t *)(P(g), NULL, n); }
static int mf_graph_inst(H *e, H g) { return FN(cuGraphInstantiateWithFlags, H *, void *, unsigned long long)(e, P(g), 0); }
static int mf_graph_launch(H e, H s) { return FN(cuGraphLaunch, void *, void *)(P(e), P(s)); }
static int mf_graph_upload(H e, H s) { return FN(cuGraphUpload, void *, void *)(P(e), P(s)); }
static int mf_exec_destroy(H e) { return FN(cuGraphExecDestroy, void *)(P(e)); }
static int mf_err_name(int r, const char **s) { return FN(cuGetErrorName, int, const char **)(r, s); }
static int mf_err_string(int r, const char **s) { return FN(cuGetErrorString, int, const char **)(r, s); }

#cgo noescape mf_kernel_launch
#cgo nocallback mf_kernel_launch
#cgo noescape mf_ctx_get
#cgo nocallback mf_ctx_get
#cgo noescape mf_graph_launch
#cgo nocallback mf_graph_launch
#cgo noescape mf_stream_query
#cgo nocallback mf_stream_query
#cgo noescape mf_event_query
#cgo nocallback mf_event_query
#cgo noescape mf_graph_exec_set
#cgo nocallback mf_graph_exec_set
#cgo noescape mf_graph_add_kernel
#cgo nocallback mf_graph_add_kernel
*/
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

var opened struct {
	once  sync.Once
	table *Table
	err   error
}

// Open loads libcuda.so.1 and resolves its functions, once a process; the library stays loaded. The error is an
// *UnavailableError. It makes no call into the driver: that begins with Table.Init.
func Open() (*Table, error) {
	opened.once.Do(func() { opened.table, opened.err = open() })
	return opened.table, opened.err
}

func open() (*Table, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var msg [512]C.char
	if C.mf_open(&msg[0], C.size_t(len(msg))) != 0 {
		return nil, &UnavailableError{Reason: "no NVIDIA driver: " + C.GoString(&msg[0])}
	}
	resolve := func(i int, name string) bool {
		s := C.CString(name)
		defer C.free(unsafe.Pointer(s))
		return C.mf_resolve(C.int(i), s) != 0
	}
	for i, name := range requiredSymbols {
		if !resolve(i, name) {
			return nil, &UnavailableError{Symbol: name, Reason: "the NVIDIA driver is too old: it has no function " + name + "; install a driver for CUDA 12.4 or later"}
		}
	}
	t := realTable()
	missing := map[string]bool{}
	for i, name := range optionalSymbols {
		missing[name] = !resolve(len(requiredSymbols)+i, name)
	}
	if missing["cuOccupancyMaxActiveClusters"] {
		t.OccupancyClusters = nil
	}
	if missing["cuGraphUpload"] {
		t.GraphUpload = nil
	}
	if missing["cuGraphAddDependencies_v2"] {
		t.GraphAddEdgesProg = nil
	}
	if missing["cuFuncLoad"] {
		t.FuncLoad = nil
	}
	if missing["cuFuncIsLoaded"] {
		t.FuncLoaded = nil
	}
	return t, nil
}

func h[T ~uintptr](v T) C.H { return C.H(v) }

func launch(cfg *LaunchConfig) *C.struct_mf_launch { return (*C.struct_mf_launch)(unsafe.Pointer(cfg)) }

// handle calls a function that writes a handle.
func handle[T ~uintptr](f func(*C.H) C.int) (T, Result) {
	var v C.H
	r := f(&v)
	return T(v), Result(r)
}

func integer(f func(*C.int) C.int) (int, Result) {
	var v C.int
	r := f(&v)
	return int(v), Result(r)
}

func realTable() *Table {
	return &Table{
		Init:          func() Result { return Result(C.mf_init()) },
		DriverVersion: func() (int, Result) { return integer(func(v *C.int) C.int { return C.mf_version(v) }) },

		DeviceCount: func() (int, Result) { return integer(func(v *C.int) C.int { return C.mf_dev_count(v) }) },
		DeviceGet: func(i int) (Device, Result) {
			d, r := integer(func(v *C.int) C.int { return C.mf_dev_get(v, C.int(i)) })
			return Device(d), r
		},
		DeviceName: func(d Device) (string, Result) {
			var s [256]C.char
			r := C.mf_dev_name(&s[0], 256, C.int(d))
			return C.GoString(&s[0]), Result(r)
		},
		DeviceUUID: func(d Device) (u [16]byte, r Result) {
			r = Result(C.mf_dev_uuid(unsafe.Pointer(&u), C.int(d)))
			return u, r
		},
		DeviceTotalMem: func(d Device) (uint64, Result) {
			var n C.size_t
			r := C.mf_dev_mem(&n, C.int(d))
			return uint64(n), Result(r)
		},
		DeviceAttribute: func(a int, d Device) (int, Result) {
			return integer(func(v *C.int) C.int { return C.mf_dev_attr(v, C.int(a), C.int(d)) })
		},

		PrimaryCtxRetain: func(d Device) (Context, Result) {
			return handle[Context](func(v *C.H) C.int { return C.mf_ctx_retain(v, C.int(d)) })
		},
		PrimaryCtxRelease: func(d Device) Result { return Result(C.mf_ctx_release(C.int(d))) },
		CtxSetCurrent:     func(c Context) Result { return Result(C.mf_ctx_set(h(c))) },
		CtxGetCurrent: func() (Context, Result) {
			var v C.H // written out, so that it stays on the stack: Do calls this each time
			r := C.mf_ctx_get(&v)
			return Context(v), Result(r)
		},
		CtxSynchronize: func() Result { return Result(C.mf_ctx_sync()) },

		MemGetInfo: func() (uint64, uint64, Result) {
			var f, t C.size_t
			r := C.mf_mem_info(&f, &t)
			return uint64(f), uint64(t), Result(r)
		},
		MemAlloc: func(n uint64) (DevicePtr, Result) {
			var p C.uint64_t
			r := C.mf_mem_alloc(&p, C.size_t(n))
			return DevicePtr(p), Result(r)
		},
		MemFree: func(p DevicePtr) Result { return Result(C.mf_mem_free(C.uint64_t(p))) },
		MemHostAlloc: func(n uint64) (unsafe.Pointer, Result) {
			var p unsafe.Pointer
			r := C.mf_host_alloc(&p, C.size_t(n))
			return p, Result(r)
		},
		MemFreeHost: func(p unsafe.Pointer) Result { return Result(C.mf_host_free(p)) },
		MemcpyHtoD: func(d DevicePtr, s unsafe.Pointer, n uint64, st Stream) Result {
			return Result(C.mf_htod(C.uint64_t(d), s, C.size_t(n), h(st)))
		},
		MemcpyDtoH: func(d unsafe.Pointer, s DevicePtr, n uint64, st Stream) Result {
			return Result(C.mf_dtoh(d, C.uint64_t(s), C.size_t(n), h(st)))
		},
		MemcpyDtoD: func(d, s DevicePtr, n uint64, st Stream) Result {
			return Result(C.mf_dtod(C.uint64_t(d), C.uint64_t(s), C.size_t(n), h(st)))
		},
		MemsetD8: func(d DevicePtr, v uint8, n uint64, st Stream) Result {
			return Result(C.mf_set8(C.uint64_t(d), C.uchar(v), C.size_t(n), h(st)))
		},
		MemsetD32: func(d DevicePtr, v uint32, n uint64, st Stream) Result {
			return Result(C.mf_set32(C.uint64_t(d), C.uint(v), C.size_t(n), h(st)))
		},
		StreamCreate: func(f uint32, p int) (Stream, Result) {
			return handle[Stream](func(v *C.H) C.int { return C.mf_stream_create(v, C.uint(f), C.int(p)) })
		},
		StreamDestroy: func(s Stream) Result { return Result(C.mf_stream_destroy(h(s))) },
		StreamQuery:   func(s Stream) Result { return Result(C.mf_stream_query(h(s))) },
		StreamWait:    func(s Stream, e Event) Result { return Result(C.mf_stream_wait(h(s), h(e))) },

		StreamBeginCapture: func(s Stream, m int) Result { return Result(C.mf_cap_begin(h(s), C.int(m))) },
		StreamEndCapture: func(s Stream) (Graph, Result) {
			return handle[Graph](func(v *C.H) C.int { return C.mf_cap_end(h(s), v) })
		},
		StreamIsCapturing: func(s Stream) (int, Result) {
			return integer(func(v *C.int) C.int { return C.mf_cap_is(h(s), v) })
		},

		EventCreate: func(f uint32) (Event, Result) {
			return handle[Event](func(v *C.H) C.int { return C.mf_event_create(v, C.uint(f)) })
		},
		EventDestroy: func(e Event) Result { return Result(C.mf_event_destroy(h(e))) },
		EventRecord:  func(e Event, s Stream) Result { return Result(C.mf_event_record(h(e), h(s))) },
		EventQuery:   func(e Event) Result { return Result(C.mf_event_query(h(e))) },
		EventElapsed: func(a, b Event) (float32, Result) {
			var ms C.float
			r := C.mf_event_elapsed(&ms, h(a), h(b))
			return float32(ms), Result(r)
		},

		LibraryLoad: func(image []byte) (Library, Result) {
			// The driver may keep reading the image until the library is unloaded (lazy loading): give it memory of its own,
			// with a zero behind it, because it reads what it takes for PTX up to one.
			p := C.malloc(C.size_t(len(image) + 1))
			own := unsafe.Slice((*byte)(p), len(image)+1)
			copy(own, image)
			own[len(image)] = 0
			l, r := handle[Library](func(v *C.H) C.int { return C.mf_lib_load(v, p) })
			if r != Success {
				C.free(p)
				return 0, r
			}
			images.Store(l, p)
			return l, r
		},
		LibraryUnload: func(l Library) Result {
			r := Result(C.mf_lib_unload(h(l)))
			if p, ok := images.LoadAndDelete(l); ok && r == Success {
				C.free(p.(unsafe.Pointer))
			}
			return r
		},
		LibraryKernel: func(l Library, name string) (Kernel, Result) {
			s := C.CString(name)
			defer C.free(unsafe.Pointer(s))
			return handle[Kernel](func(v *C.H) C.int { return C.mf_lib_kernel(v, h(l), s) })
		},
		KernelFunction: func(k Kernel) (Function, Result) {
			return handle[Function](func(v *C.H) C.int { return C.mf_kernel_func(v, h(k)) })
		},
		KernelAttribute: func(a int, k Kernel, d Device) (int, Result) {
			return integer(func(v *C.int) C.int { return C.mf_kernel_attr(v, C.int(a), h(k), C.int(d)) })
		},
		KernelSetAttr: func(a, value int, k Kernel, d Device) Result {
			return Result(C.mf_kernel_set(C.int(a), C.int(value), h(k), C.int(d)))
		},
		FuncLoad: func(f Function) Result { return Result(C.mf_func_load(h(f))) },
		FuncLoaded: func(f Function) (int, Result) {
			return integer(func(v *C.int) C.int { return C.mf_func_loaded(v, h(f)) })
		},
		OccupancyBlocks: func(f Function, block int, shared uint64) (int, Result) {
			return integer(func(v *C.int) C.int { return C.mf_occupancy(v, h(f), C.int(block), C.size_t(shared)) })
		},
		OccupancyClusters: func(f Function, cfg *LaunchConfig) (int, Result) {
			return integer(func(v *C.int) C.int { return C.mf_max_clusters(v, h(f), launch(cfg)) })
		},
		Launch: func(k Kernel, cfg *LaunchConfig, s Stream, params unsafe.Pointer, n uint64) Result {
			return Result(C.mf_kernel_launch(h(k), launch(cfg), h(s), params))
		},

		GraphCreate:  func() (Graph, Result) { return handle[Graph](func(v *C.H) C.int { return C.mf_graph_create(v) }) },
		GraphDestroy: func(g Graph) Result { return Result(C.mf_graph_destroy(h(g))) },
		GraphAddKernel: func(g Graph, deps []GraphNode, k Kernel, cfg *LaunchConfig, params unsafe.Pointer, n uint64) (GraphNode, Result) {
			var v C.H
			r := C.mf_graph_add_kernel(&v, h(g), (*C.H)(unsafe.Pointer(unsafe.SliceData(deps))), C.size_t(len(deps)), h(k), launch(cfg), params)
			return GraphNode(v), Result(r)
		},
		GraphNodeCount: func(g Graph) (int, Result) {
			var n C.size_t
			r := C.mf_graph_count(h(g), &n)
			return int(n), Result(r)
		},
		GraphInstantiate: func(g Graph) (GraphExec, Result) {
			return handle[GraphExec](func(v *C.H) C.int { return C.mf_graph_inst(v, h(g)) })
		},
		GraphExecUpdate: func(e GraphExec, g Graph) (int, Result) {
			return integer(func(v *C.int) C.int { return C.mf_graph_update(h(e), h(g), v) })
		},
		GraphExecSetNode: func(e GraphExec, node GraphNode, k Kernel, cfg *LaunchConfig, params unsafe.Pointer, n uint64) Result {
			return Result(C.mf_graph_exec_set(h(e), h(node), h(k), launch(cfg), params))
		},
		GraphLaunch:       func(e GraphExec, s Stream) Result { return Result(C.mf_graph_launch(h(e), h(s))) },
		GraphUpload:       func(e GraphExec, s Stream) Result { return Result(C.mf_graph_upload(h(e), h(s))) },
		GraphExecDestroy:  func(e GraphExec) Result { return Result(C.mf_exec_destroy(h(e))) },
		GraphAddEdgesProg: func(g Graph, from, to GraphNode) Result { return Result(C.mf_graph_edge(h(g), h(from), h(to))) },

		ErrorName: func(r Result) (string, Result) {
			var s *C.char
			e := C.mf_err_name(C.int(r), &s)
			return C.GoString(s), Result(e)
		},
		ErrorString: func(r Result) (string, Result) {
			var s *C.char
			e := C.mf_err_string(C.int(r), &s)
			return C.GoString(s), Result(e)
		},
	}
}

// images holds the C copies of loaded library images, by Library.
var images sync.Map

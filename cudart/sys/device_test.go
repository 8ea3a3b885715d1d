package sys

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// addPTX adds a number to each of n 32-bit words.
const addPTX = `.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .align 8 .b8 p[16])
{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	ld.param.u32 %r1, [p+8];
	ld.param.u32 %r2, [p+12];
	cvta.to.global.u64 %d1, %d1;
	mov.u32 %r3, %ctaid.x;
	mov.u32 %r4, %ntid.x;
	mov.u32 %r5, %tid.x;
	mad.lo.s32 %r6, %r3, %r4, %r5;
	setp.ge.u32 %p1, %r6, %r1;
	@%p1 bra done;
	mul.wide.u32 %d2, %r6, 4;
	add.s64 %d3, %d1, %d2;
	ld.global.u32 %r7, [%d3];
	add.u32 %r7, %r7, %r2;
	st.global.u32 [%d3], %r7;
done:
	ret;
}
`

type addParams struct {
	at     DevicePtr
	n, add uint32
}

// TestDriver calls the real driver through every family of functions: it says that our prototypes are the driver's.
func TestDriver(t *testing.T) {
	d, err := Open()
	if err != nil {
		t.Skipf("needs an NVIDIA driver and device: %v", err)
	}
	runtime.LockOSThread() // a context is current per thread
	defer runtime.UnlockOSThread()
	ok := func(r Result) {
		t.Helper()
		if r != 0 {
			name, _ := d.ErrorName(r)
			require.Zero(t, r, name)
		}
	}
	ok(d.Init())
	version, r := d.DriverVersion()
	ok(r)
	require.GreaterOrEqual(t, version, 12000)
	count, r := d.DeviceCount()
	ok(r)
	require.Positive(t, count)
	dev, r := d.DeviceGet(0)
	ok(r)
	name, r := d.DeviceName(dev)
	ok(r)
	uuid, r := d.DeviceUUID(dev)
	ok(r)
	require.NotZero(t, uuid)
	total, r := d.DeviceTotalMem(dev)
	ok(r)
	ctx, r := d.PrimaryCtxRetain(dev)
	ok(r)
	defer func() { ok(d.PrimaryCtxRelease(dev)) }()
	ok(d.CtxSetCurrent(ctx))
	current, r := d.CtxGetCurrent()
	ok(r)
	require.Equal(t, ctx, current)
	free, all, r := d.MemGetInfo()
	ok(r)
	require.LessOrEqual(t, free, all)
	t.Logf("%s, driver CUDA %d, %d MiB, %d free", name, version, total>>20, free>>20)

	const n = 1 << 20
	mem, r := d.MemAlloc(4 * n)
	ok(r)
	defer func() { ok(d.MemFree(mem)) }()
	pinned, r := d.MemHostAlloc(4 * n)
	ok(r)
	defer func() { ok(d.MemFreeHost(pinned)) }()
	words := unsafe.Slice((*uint32)(pinned), n)
	const nonBlocking = 1
	stream, r := d.StreamCreate(nonBlocking, 0)
	ok(r)
	defer func() { ok(d.StreamDestroy(stream)) }()
	wait := func() {
		t.Helper()
		ok(d.CtxSynchronize())
	}
	want := func(v uint32) {
		t.Helper()
		clear(words)
		ok(d.MemcpyDtoH(pinned, mem, 4*n, stream))
		wait()
		require.Equal(t, v, words[0])
		require.Equal(t, v, words[n-1])
	}
	ok(d.MemsetD32(mem, 5, n, stream))
	want(5)
	for i := range words {
		words[i] = 7
	}
	ok(d.MemcpyHtoD(mem, pinned, 4*n, stream))
	want(7)

	lib, r := d.LibraryLoad([]byte(addPTX))
	ok(r)
	defer func() { ok(d.LibraryUnload(lib)) }()
	kernel, r := d.LibraryKernel(lib, "add")
	ok(r)
	fn, r := d.KernelFunction(kernel)
	ok(r)
	blocks, r := d.OccupancyBlocks(fn, 256, 0)
	ok(r)
	require.Positive(t, blocks)
	cfg := LaunchConfig{GridX: n / 256, GridY: 1, GridZ: 1, BlockX: 256, BlockY: 1, BlockZ: 1}
	p := addParams{mem, n, 3}
	from, r := d.EventCreate(0)
	ok(r)
	to, r := d.EventCreate(0)
	ok(r)
	ok(d.EventRecord(from, stream))
	ok(d.Launch(kernel, &cfg, stream, unsafe.Pointer(&p), uint64(unsafe.Sizeof(p))))
	ok(d.EventRecord(to, stream))
	want(10)
	ms, r := d.EventElapsed(from, to)
	ok(r)
	require.Positive(t, ms)
	ok(d.EventDestroy(from))
	ok(d.EventDestroy(to))

	// Programmatic launch, then capture and replay (thread-local mode).
	cfg.Programmatic = 1
	ok(d.Launch(kernel, &cfg, stream, unsafe.Pointer(&p), uint64(unsafe.Sizeof(p))))
	cfg.Programmatic = 0
	want(13)
	const threadLocal = 1
	ok(d.StreamBeginCapture(stream, threadLocal))
	state, r := d.StreamIsCapturing(stream)
	ok(r)
	require.Equal(t, 1, state)
	ok(d.Launch(kernel, &cfg, stream, unsafe.Pointer(&p), uint64(unsafe.Sizeof(p))))
	captured, r := d.StreamEndCapture(stream)
	ok(r)
	nodes, r := d.GraphNodeCount(captured)
	ok(r)
	require.Equal(t, 1, nodes)
	exec, r := d.GraphInstantiate(captured)
	ok(r)
	ok(d.GraphLaunch(exec, stream))
	ok(d.GraphLaunch(exec, stream))
	want(19)
	ok(d.GraphExecDestroy(exec))
	ok(d.GraphDestroy(captured))

	// Explicit nodes: two in a row, and another parameter for the second.
	g, r := d.GraphCreate()
	ok(r)
	first, r := d.GraphAddKernel(g, nil, kernel, &cfg, unsafe.Pointer(&p), uint64(unsafe.Sizeof(p)))
	ok(r)
	second, r := d.GraphAddKernel(g, []GraphNode{first}, kernel, &cfg, unsafe.Pointer(&p), uint64(unsafe.Sizeof(p)))
	ok(r)
	exec, r = d.GraphInstantiate(g)
	ok(r)
	ok(d.GraphLaunch(exec, stream))
	want(25)
	p.add = 100
	ok(d.GraphExecSetNode(exec, second, kernel, &cfg, unsafe.Pointer(&p), uint64(unsafe.Sizeof(p))))
	ok(d.GraphLaunch(exec, stream))
	want(128)
	ok(d.GraphExecDestroy(exec))
	ok(d.GraphDestroy(g))

	// Errors come back as results with names.
	_, r = d.MemAlloc(1 << 60)
	require.NotZero(t, r)
	text, r2 := d.ErrorName(r)
	ok(r2)
	require.True(t, strings.HasPrefix(text, "CUDA_ERROR_"), text)
	_, r = d.LibraryKernel(lib, "no_such_kernel")
	require.NotZero(t, r)
}

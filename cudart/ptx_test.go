package cudart_test

import (
	"strings"

	"github.com/minfer-go/minfer/cudart"
)

// kernelsPTX holds the kernels of the device tests: add (as the fake's), spin for some nanoseconds, and shared, which
// writes a word of dynamic shared memory and copies it out.
const kernelsPTX = `.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry add(.param .align 8 .b8 p[16])
{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	ld.param.u32 %r1, [p+8];
	ld.param.u32 %r2, [p+12];
	cvta.to.global.u64 %d1, %d1;
	// WAIT
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
.visible .entry spin(.param .align 8 .b8 p[8])
{
	.reg .pred %p<2>;
	.reg .b64 %d<5>;
	ld.param.u64 %d1, [p];
	mov.u64 %d2, %globaltimer;
again:
	mov.u64 %d3, %globaltimer;
	sub.u64 %d4, %d3, %d2;
	setp.lt.u64 %p1, %d4, %d1;
	@%p1 bra again;
	ret;
}
.visible .entry shared(.param .align 8 .b8 p[16])
{
	.reg .b32 %r<5>;
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [p];
	ld.param.u32 %r1, [p+8];
	ld.param.u32 %r2, [p+12];
	cvta.to.global.u64 %d1, %d1;
	mov.u32 %r3, dynamic;
	add.u32 %r3, %r3, %r1;
	st.shared.u32 [%r3], %r2;
	ld.shared.u32 %r4, [%r3];
	st.global.u32 [%d1], %r4;
	ret;
}
`

// deviceImage is kernelsPTX for a compute capability. From sm_90 on add waits for the kernel before it, as one that is
// launched programmatically must.
func deviceImage(major int) []byte {
	if major < 9 {
		return []byte(kernelsPTX)
	}
	return []byte(strings.NewReplacer(".target sm_80", ".target sm_90", "// WAIT", "griddepcontrol.wait;").Replace(kernelsPTX))
}

// hopperPTX needs sm_90: cluster writes its cluster's blocks; chain makes x ← 3x + a of what the kernel before it left,
// and lets the one after it start at once.
const hopperPTX = `.version 8.0
.target sm_90
.address_size 64
.visible .entry cluster(.param .align 8 .b8 p[16])
{
	.reg .b32 %r<2>;
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [p];
	cvta.to.global.u64 %d1, %d1;
	mov.u32 %r1, %cluster_nctaid.x;
	st.global.u32 [%d1], %r1;
	ret;
}
.visible .entry chain(.param .align 8 .b8 p[16])
{
	.reg .b32 %r<4>;
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [p];
	ld.param.u32 %r1, [p+12];
	cvta.to.global.u64 %d1, %d1;
	griddepcontrol.launch_dependents;
	griddepcontrol.wait;
	ld.global.u32 %r2, [%d1];
	mad.lo.u32 %r3, %r2, 3, %r1;
	st.global.u32 [%d1], %r3;
	ret;
}
`

// sharedParams are those of the kernel "shared".
type sharedParams struct {
	to         cudart.Ptr
	offset, is uint32
}

// All inline PTX of the project. Each function is one instruction, or a fixed few, with the name of the PTX manual in its
// comment (PTX ISA 9.0). Everything else is written in CUDA C++.
#pragma once
#ifdef MINFER_EMULATED  // kernels tested on the CPU: _emu/include
#include <emulated_ptx.cuh>
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

// griddepcontrol.launch_dependents: the next kernel of the stream, if it was launched with the programmatic attribute, may start
// as soon as every block has said so. Nothing is promised about what this kernel has written by then. Without the attribute,
// or before sm_90, nothing happens.
__device__ __forceinline__ void pdl_launch_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// griddepcontrol.wait: until the kernels before this one have ended and what they wrote can be seen. Every thread of every
// block calls it before it reads or writes anything another kernel touches, and before it ends: a block that ended without
// waiting would let the kernel after the next one start too early.
__device__ __forceinline__ void pdl_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// ld.global.L1::no_allocate.v4: 16 aligned bytes that are read once (weights). Not marked as read-only on purpose: the compiler
// sinks such loads down to their use, and a run of loads in flight becomes one after the other.
__device__ __forceinline__ uint4 load_stream16(const void* p) {
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}

__device__ __forceinline__ uint2 load_stream8(const void* p) {
    uint2 v;
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}

__device__ __forceinline__ uint32_t load_stream4(const void* p) {
    uint32_t v;
    asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

// No instruction: keeps the compiler from moving memory accesses across, where it would run out of registers doing so.
__device__ __forceinline__ void compiler_fence() { asm volatile("" ::: "memory"); }

// The address of shared memory as the instructions below want it.
__device__ __forceinline__ uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// cp.async.cg.shared.global: copies 16 aligned bytes to shared memory in the background; where valid is false 16 zero bytes,
// and p isn't read.
__device__ __forceinline__ void cp_async16(void* shared, const void* p, bool valid = true) {
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(p), "r"(bytes) : "memory");
}

// cp.async.ca of 4 or 8 bytes, for rows whose addresses are no multiple of 16.
__device__ __forceinline__ void cp_async8(void* shared, const void* p, bool valid = true) {
    int bytes = valid ? 8 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(shared)), "l"(p), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async4(void* shared, const void* p, bool valid = true) {
    int bytes = valid ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)), "l"(p), "r"(bytes) : "memory");
}

// cp.async.commit_group and wait_group: wait until at most PENDING of this thread's groups are under way. Other threads'
// copies are seen after a barrier.
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// ldmatrix.x4 (.trans): four 8x8 matrices of 16-bit elements; lane i gives the address of row i%8 of matrix i/8.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(shared))
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(shared))
                 : "memory");
}

__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], const void* shared) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(shared))
                 : "memory");
}

// mma.sync.m16n8k16: d += a*b with a 16x16 (row), b 16x8 (column), d 16x8 in float32. With g = lane/4, t = lane%4:
// a[0] is row g, columns 2t,2t+1; a[1] row g+8; a[2] row g, columns 2t+8,2t+9; a[3] row g+8 of those;
// b[0] is column g, rows 2t,2t+1; b[1] rows 2t+8,2t+9; d[0],d[1] row g, columns 2t,2t+1; d[2],d[3] row g+8.
__device__ __forceinline__ void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// mma.sync.m16n8k32 of 8-bit integers into int32, d = a*b + c in every element, b signed: fragments as above with four k elements a
// register (columns 4t … 4t+3 and 16 more).
__device__ __forceinline__ void mma_s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int c) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c));
}

// The same with a unsigned.
__device__ __forceinline__ void mma_u8s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int c) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c));
}

// mma.sync.m16n8k16 of int8: a0 is row g, columns 4t … 4t+3, a1 row g+8; b column g, rows 4t … 4t+3.
__device__ __forceinline__ void mma_s8_k16(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, int c) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(c));
}
#endif

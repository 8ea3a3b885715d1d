// A CUDA device on the CPU, enough to run this module's kernels where there is no GPU: one block after the other, each of
// its threads a coroutine. Warp and block operations are meeting points of the threads; a thread that others wait for in vain is
// an error, not a hang. Shared memory holds NaNs when a block begins. Floating point is that of the host: IEEE, with fmaf where
// a kernel says so.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define MINFER_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __restrict__
#define __constant__ static const
#define __shared__ static
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define DYNAMIC_SHARED

using std::isfinite;
using std::max;
using std::min;

struct dim3 { unsigned x, y, z; };
struct uint2 { unsigned x, y; };
struct int2 { int x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct char4 { signed char x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline char4 make_char4(signed char x, signed char y, signed char z, signed char w) { return {x, y, z, w}; }

extern dim3 threadIdx, blockIdx, blockDim, gridDim;
alignas(16) extern unsigned char dynamic_shared[228 << 10];

namespace emulator {
// Meets the living threads of the warp or the block; returns when all are there.
void meet_warp();
void meet_block();
// A slot for each lane of the calling thread's warp.
uint64_t* slots();
int lane();
bool lane_alive(int lane);

template <class T>
T exchange(T v, int from) {
    static_assert(sizeof(T) <= 8, "one slot");
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    slots()[lane()] = bits;
    meet_warp();
    uint64_t got = slots()[from & 31];
    if (!lane_alive(from & 31)) {
        fprintf(stderr, "emulator: a shuffle reads a lane that has ended\n");
        abort();
    }
    meet_warp();
    T out;
    memcpy(&out, &got, sizeof out);
    return out;
}
}  // namespace emulator

template <class T> T __shfl_sync(unsigned, T v, int from, int width = 32) { return emulator::exchange(v, (emulator::lane() & ~(width - 1)) | (from & (width - 1))); }
template <class T> T __shfl_xor_sync(unsigned, T v, int mask, int = 32) { return emulator::exchange(v, emulator::lane() ^ mask); }
template <class T> T __shfl_down_sync(unsigned, T v, int d, int width = 32) {
    int at = emulator::lane() & (width - 1);
    return emulator::exchange(v, at + d < width ? emulator::lane() + d : emulator::lane());
}
template <class T> T __shfl_up_sync(unsigned, T v, int d, int width = 32) {
    int at = emulator::lane() & (width - 1);
    return emulator::exchange(v, at >= d ? emulator::lane() - d : emulator::lane());
}
inline unsigned __ballot_sync(unsigned, bool v) {
    emulator::slots()[emulator::lane()] = v;
    emulator::meet_warp();
    unsigned out = 0;
    for (int i = 0; i < 32; i++) out |= (emulator::lane_alive(i) && emulator::slots()[i]) ? 1u << i : 0;
    emulator::meet_warp();
    return out;
}
inline bool __any_sync(unsigned m, bool v) { return __ballot_sync(m, v) != 0; }
inline bool __all_sync(unsigned m, bool v) { return __ballot_sync(m, !v) == 0; }
inline void __syncwarp(unsigned = ~0u) { emulator::meet_warp(); }
inline void __syncthreads() { emulator::meet_block(); }
inline int __syncthreads_or(int v) {
    static int any;
    __syncthreads();
    any = 0;
    __syncthreads();
    if (v) any = 1;
    __syncthreads();
    return any;
}
inline int __syncthreads_and(int v) { return !__syncthreads_or(!v); }
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T> T atomicAdd(T* p, T v) { T was = *p; *p = was + v; return was; }
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> T __ldg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }

inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline int __float2int_rn(float x) { return (int)nearbyintf(x); }
inline float __int2float_rn(int x) { return (float)x; }
inline unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
inline int __float_as_int(float x) { int u; memcpy(&u, &x, 4); return u; }
inline float __uint_as_float(unsigned u) { float x; memcpy(&x, &u, 4); return x; }
inline float __int_as_float(int u) { float x; memcpy(&x, &u, 4); return x; }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    uint64_t v = (uint64_t)b << 32 | a;
    unsigned out = 0;
    for (int i = 0; i < 4; i++) out |= (unsigned)(v >> ((s >> (4 * i) & 7) * 8) & 255) << (8 * i);
    return out;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(int v) { return v ? __builtin_clz(v) : 32; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
    return c;
}
inline int __dp4a(unsigned a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int)(unsigned char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
    return c;
}
inline void sincospi(double x, double* s, double* c) {
    long double r = fmodl((long double)x, 2.0L) * 3.14159265358979323846264338327950288L;
    *s = (double)sinl(r);
    *c = (double)cosl(r);
}

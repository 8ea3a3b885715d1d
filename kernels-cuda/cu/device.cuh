// What kernels of all families share: loads, reductions in a fixed order, 16-bit formats, rounding of activations to 8 bits.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "params.cuh"
#include "ptx.cuh"

// All dynamic shared memory goes by this name: the images of all files are linked into one.
#ifndef MINFER_EMULATED
#define DYNAMIC_SHARED extern __shared__ __align__(16) unsigned char dynamic_shared[]
#endif

constexpr int kWarp = 32;

__device__ __forceinline__ int lane_id() { return threadIdx.x & (kWarp - 1); }
__device__ __forceinline__ int warp_id() { return threadIdx.x / kWarp; }

// Reductions over a warp by the butterfly: every lane gets the same bits, the order depends on nothing.
template <int LANES = kWarp>
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

template <int LANES = kWarp>
__device__ __forceinline__ int warp_sum(int v) {
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

// Largest value; a NaN is passed over, as fmaxf does.
template <int LANES = kWarp>
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    return v;
}

// block_sum adds over a block of WARPS warps: within warps, then the warps' sums in ascending order. Every thread gets the
// result. slots has room for WARPS values; a barrier stands before and after its use, so that it may be used again.
template <int WARPS>
__device__ __forceinline__ float block_sum(float v, float* slots) {
    v = warp_sum(v);
    if (WARPS == 1) return v;
    __syncthreads();
    if (lane_id() == 0) slots[warp_id()] = v;
    __syncthreads();
    float sum = slots[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) sum += slots[w];
    return sum;
}

template <int WARPS>
__device__ __forceinline__ float block_max(float v, float* slots) {
    v = warp_max(v);
    if (WARPS == 1) return v;
    __syncthreads();
    if (lane_id() == 0) slots[warp_id()] = v;
    __syncthreads();
    float m = slots[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) m = fmaxf(m, slots[w]);
    return m;
}

// The same for any block size, known at run time: the warps' sums are added by the butterfly of one warp. slots has 32 values.
__device__ __forceinline__ float block_sum(float v, float* slots) {
    v = warp_sum(v);
    if (blockDim.x == kWarp) return v;
    __syncthreads();
    if (lane_id() == 0) slots[warp_id()] = v;
    __syncthreads();
    return warp_sum(lane_id() < (int)blockDim.x / kWarp ? slots[lane_id()] : 0.0f);
}

__device__ __forceinline__ float block_max(float v, float* slots) {
    v = warp_max(v);
    if (blockDim.x == kWarp) return v;
    __syncthreads();
    if (lane_id() == 0) slots[warp_id()] = v;
    __syncthreads();
    return warp_max(lane_id() < (int)blockDim.x / kWarp ? slots[lane_id()] : slots[0]);
}

// 16-bit formats, both ways. To nearest, ties to even; beyond the range infinite.
__device__ __forceinline__ float f16_to_f32(uint16_t h) { return __half2float(__ushort_as_half(h)); }
__device__ __forceinline__ uint16_t f32_to_f16(float x) { return __half_as_ushort(__float2half_rn(x)); }
__device__ __forceinline__ float bf16_to_f32(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }
__device__ __forceinline__ float2 f16x2_to_f32(uint32_t h) { return __half22float2(*reinterpret_cast<const __half2*>(&h)); }
__device__ __forceinline__ float2 bf16x2_to_f32(uint32_t h) {
    return make_float2(__uint_as_float(h << 16), __uint_as_float(h & 0xffff0000u));
}

// Four consecutive floats from an address that is a multiple of 16, or one by one.
__device__ __forceinline__ float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
__device__ __forceinline__ void store4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }

// May rows that begin at p, stride elements apart, be read and written 16 bytes at a time?
__device__ __forceinline__ bool aligned16(const void* p, int stride) { return ((uintptr_t)p & 15) == 0 && (stride & 3) == 0; }

// Elements i … i+3 of a row of width elements, zeros beyond its end. vector: the row is aligned16, i a multiple of 4.
__device__ __forceinline__ float4 load_row4(const float* row, int i, int width, bool vector) {
    if (vector && i + 4 <= width) return load4(row + i);
    float4 v = make_float4(0, 0, 0, 0);
    if (i < width) v.x = row[i];
    if (i + 1 < width) v.y = row[i + 1];
    if (i + 2 < width) v.z = row[i + 2];
    if (i + 3 < width) v.w = row[i + 3];
    return v;
}

__device__ __forceinline__ void store_row4(float* row, int i, int width, bool vector, float4 v) {
    if (vector && i + 4 <= width) {
        store4(row + i, v);
        return;
    }
    if (i < width) row[i] = v.x;
    if (i + 1 < width) row[i + 1] = v.y;
    if (i + 2 < width) row[i + 2] = v.z;
    if (i + 3 < width) row[i + 3] = v.w;
}

// x / (1 + exp(-x))
__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

// One rounded activation block's record: 32 values x ~ d*q; sums of q over the first and second 16 (formats: README.md).
struct Q8Record {
    float d;
    int16_t s0, s1;
};
static_assert(sizeof(Q8Record) == 8, "layout");

// One value rounded with its block's id = 127/amax: to nearest even, NaN to 0, within -127 … 127 (ADR 0001).
__device__ __forceinline__ int q8_round(float x, float id) {
    float y = __fmul_rn(x, id);
    return y == y ? __float2int_rn(fminf(fmaxf(y, -127.0f), 127.0f)) : 0;
}

// q8_magnitude is |x| for the search of amax on the bits, where NaN stands above infinity, as ADR 0001 wants.
__device__ __forceinline__ uint32_t q8_magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

__device__ __forceinline__ float q8_inverse(float amax) { return amax == 0.0f ? 0.0f : __fdiv_rn(127.0f, amax); }
__device__ __forceinline__ float q8_scale(float amax) { return __fdiv_rn(amax, 127.0f); }

// q8a_store4 rounds a block of 32 held by 8 neighbouring lanes, 4 values each in order, and writes it: quants is where the block's
// 32 int8 go, record where its record does. All 32 lanes of the warp call it; lanes with write == false only take part.
__device__ __forceinline__ void q8a_store4(float4 v, int8_t* quants, Q8Record* record, bool write) {
    uint32_t top = max(max(q8_magnitude(v.x), q8_magnitude(v.y)), max(q8_magnitude(v.z), q8_magnitude(v.w)));
#pragma unroll
    for (int o = 4; o > 0; o /= 2) top = max(top, __shfl_xor_sync(0xffffffffu, top, o));
    float amax = __uint_as_float(top), id = q8_inverse(amax);
    int a = q8_round(v.x, id), b = q8_round(v.y, id), c = q8_round(v.z, id), d = q8_round(v.w, id);
    int sum = a + b + c + d;
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    int other = __shfl_xor_sync(0xffffffffu, sum, 4);
    if (!write) return;
    int at = lane_id() & 7;
    reinterpret_cast<char4*>(quants)[at] = make_char4((char)a, (char)b, (char)c, (char)d);
    if (at == 0) *record = Q8Record{q8_scale(amax), (int16_t)sum, (int16_t)other};
}

// q8a_store1 is the same for a block held by a warp, one value a lane.
__device__ __forceinline__ void q8a_store1(float v, int8_t* quants, Q8Record* record, bool write) {
    uint32_t top = q8_magnitude(v);
#pragma unroll
    for (int o = 16; o > 0; o /= 2) top = max(top, __shfl_xor_sync(0xffffffffu, top, o));
    float amax = __uint_as_float(top), id = q8_inverse(amax);
    int q = q8_round(v, id), sum = q;
#pragma unroll
    for (int o = 8; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    int other = __shfl_xor_sync(0xffffffffu, sum, 16);
    if (!write) return;
    quants[lane_id()] = (int8_t)q;
    if (lane_id() == 0) *record = Q8Record{q8_scale(amax), (int16_t)sum, (int16_t)other};
}

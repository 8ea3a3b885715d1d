// What the attention kernels share: how a row's positions are cut into chunks, and how chunks are combined.
//
// The positions of a row are taken in chunks of 128, counted from the sequence's start. A chunk's part is its largest score m (in units of
// log2), the sum l of 2^(score - m) and the sums o[e] of 2^(score - m) * v[e]; it depends on that chunk and row alone. Parts are
// combined with weights w_c = 2^(m_c - max m): l in 32 lanes by c mod 32, ascending, then by the butterfly; o in 8 sums by c mod 8,
// ascending, which are then added in order. So the bits don't depend on how many blocks share the chunks or on other rows.
#pragma once
#include "kv.cuh"

namespace attn {

constexpr int kChunk = 128;
constexpr int kHeads = 8;      // query heads that a block takes together: they share loads of K and V
constexpr int kClasses = 8;    // of chunks when they are combined
constexpr int kMaxDim = 256;   // of the split form
constexpr float kLog2e = 1.4426950408889634f;

__device__ __forceinline__ int chunks_of(int length) { return (length + kChunk - 1) / kChunk; }

// Where the part of chunk c of a row and head is; states hold pairs (m, l).
__device__ __forceinline__ int64_t part_index(const AttnParams& p, int row, int head, int c) {
    return ((int64_t)row * p.heads + head) * chunks_of(p.cells) + c;
}

// Two floats, each as two f16, hi + lo.
__device__ __forceinline__ void split_f16(float x, float y, uint32_t& hi, uint32_t& lo) {
    __half hx = __float2half_rn(x), hy = __float2half_rn(y);
    hi = (uint32_t)__half_as_ushort(hx) | (uint32_t)__half_as_ushort(hy) << 16;
    lo = (uint32_t)f32_to_f16(x - __half2float(hx)) | (uint32_t)f32_to_f16(y - __half2float(hy)) << 16;
}

__device__ __forceinline__ uint32_t pack_f16(float x, float y) { return (uint32_t)f32_to_f16(x) | (uint32_t)f32_to_f16(y) << 16; }

// The power of two that brings a magnitude to 2^10 … 2^11 (1 for zero), and, for the other way, its inverse.
__device__ __forceinline__ float to_kilo(float amax) {
    int exponent = (__float_as_uint(amax) >> 23) & 255;
    return exponent == 0 ? 1.0f : __uint_as_float((uint32_t)min(264 - exponent, 254) << 23);
}

// Two of four int8 as a pair of f16: 0x6400 + u is 1024 + u.
__device__ __forceinline__ uint32_t levels_f16(uint32_t flipped, uint32_t selector) {
    uint32_t v = __byte_perm(flipped, 0x64646464u, selector);
    __half2 h = __hsub2(*reinterpret_cast<__half2*>(&v), __half2half2(__ushort_as_half(0x6480)));  // 1152
    return *reinterpret_cast<uint32_t*>(&h);
}

// The query heads of one block: those first … first+count-1 of one KV head.
struct Group {
    int kv_head, first, count;

    __device__ __forceinline__ Group(const AttnParams& p, int index) {
        int size = p.heads / p.kv_heads, passes = (size + kHeads - 1) / kHeads;
        kv_head = index / passes;
        int skip = index % passes * kHeads;
        first = kv_head * size + skip;
        count = min(kHeads, size - skip);
    }
};

// write gives 4 elements of a head's result, of unit u = element/4; all lanes of the warp call it, in order of u.
__device__ __forceinline__ void write(const AttnParams& p, int row, int head, int u, bool valid, float4 v) {
    int at = head * p.head_dim + 4 * u;
    if (p.y && valid) {
        float* y = p.y + (int64_t)row * p.y_stride + at;
        if (aligned16(p.y, p.y_stride)) {
            store4(y, v);
        } else {
            y[0] = v.x, y[1] = v.y, y[2] = v.z, y[3] = v.w;
        }
    }
    if (p.q8) {
        int64_t width = (int64_t)p.heads * p.head_dim, block = at / 32;
        q8a_store4(v, p.q8 + row * width + block * 32, (Q8Record*)p.records + row * (width / 32) + block, valid);
    }
}

// A row of length 0: zeros for one head, by a warp.
__device__ __forceinline__ void write_zeros(const AttnParams& p, int row, int head) {
    for (int u = 0; u < p.head_dim / 4; u += kWarp) {
        write(p, row, head, u + lane_id(), u + lane_id() < p.head_dim / 4, make_float4(0, 0, 0, 0));
    }
}

// The largest m and the weighted sum of l over a row's chunks; by a warp, every lane gets them.
__device__ __forceinline__ void combine_states(const float2* states, int chunks, float& m, float& l) {
    m = -INFINITY;
    for (int c = lane_id(); c < chunks; c += kWarp) m = fmaxf(m, __ldcg(states + c).x);
    m = warp_max(m);
    l = 0;
    for (int c = lane_id(); c < chunks; c += kWarp) {
        float2 s = __ldcg(states + c);
        l = fmaf(exp2f(s.x - m), s.y, l);
    }
    l = warp_sum(l);
}

__device__ __forceinline__ void add_weighted(float4& acc, float w, float4 v) {
    acc.x = fmaf(w, v.x, acc.x);
    acc.y = fmaf(w, v.y, acc.y);
    acc.z = fmaf(w, v.z, acc.z);
    acc.w = fmaf(w, v.w, acc.w);
}

__device__ __forceinline__ void add_to(float4& acc, float4 v) { acc.x += v.x, acc.y += v.y, acc.z += v.z, acc.w += v.w; }

// combine_head combines one head's chunks by one warp and writes the result.
__device__ __forceinline__ void combine_head(const AttnParams& p, int row, int head, int chunks) {
    int64_t at = part_index(p, row, head, 0);
    const float2* states = reinterpret_cast<const float2*>(p.states) + at;
    float m, l;
    combine_states(states, chunks, m, l);
    float inv = 1.0f / l;
    int units = p.head_dim / 4;
    for (int base = 0; base < units; base += kWarp) {
        int u = base + lane_id();
        const float4* o = reinterpret_cast<const float4*>(p.parts) + at * units + min(u, units - 1);
        float4 acc[kClasses];
#pragma unroll
        for (int k = 0; k < kClasses; k++) acc[k] = make_float4(0, 0, 0, 0);
        for (int c = 0; c < chunks; c += kClasses) {
#pragma unroll
            for (int k = 0; k < kClasses; k++) {
                if (c + k < chunks) add_weighted(acc[k], exp2f(__ldcg(states + c + k).x - m), __ldcg(o + (int64_t)(c + k) * units));
            }
        }
#pragma unroll
        for (int k = 1; k < kClasses; k++) add_to(acc[0], acc[k]);
        write(p, row, head, u, u < units, make_float4(acc[0].x * inv, acc[0].y * inv, acc[0].z * inv, acc[0].w * inv));
    }
}

// finish is called by every thread of a block whose chunks' parts are written. With counters, the last of the workers blocks of this
// row and group combines all chunks, a head a warp.
__device__ __forceinline__ void finish(const AttnParams& p, int row, const Group& group, int chunks, int workers) {
    if (!p.counters) return;
    __shared__ int last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        int32_t* counter = p.counters + (int64_t)row * gridDim.y + blockIdx.y;
        last = atomicAdd(counter, 1) == workers - 1;
        if (last) *counter = 0;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int h = warp_id(); h < group.count; h += blockDim.x / kWarp) combine_head(p, row, group.first + h, chunks);
}

}  // namespace attn

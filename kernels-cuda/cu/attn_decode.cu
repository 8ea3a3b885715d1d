// kernel              inputs                                       result                          launch                               moves
// attn_decode_f32     q [rows, heads, head_dim] f32; K, V regions  parts of chunks; with counters  grid (splits, groups, rows), 256     K and V of the row's positions once a
//                     of any of f32, f16, q8_0; lengths, run       y and q8 too                    threads; a block takes the chunks    group, q, y; parts twice
//                     tables                                                                       split, split+splits, … of a row
//                                                                                                  and up to 8 heads of one KV head
// attn_combine_f32    parts, lengths                               y, q8                           grid (heads, rows), 256 threads      parts once, y, q8
// attn_reference_f32  as attn_decode_f32                           y                               grid (heads, rows), 32 threads       for tests: one warp, no chunks
//
// Chunks and their order: attn.cuh; both ways to combine give the same bits. Splits follow from cells, rows and the device, never from
// lengths: blocks beyond a row's last chunk end at once. Limits: head_dim a multiple of 8 up to 256 (reference: any). Class: bitwise
// independent of other rows and of splits; float32 throughout.
#include "attn.cuh"

namespace attn {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kUnits = kMaxDim / 4 / kWarp;  // of 4 elements, a lane

// Elements 4u … 4u+3 of one head's encoded row.
__device__ __forceinline__ float4 decode4(const unsigned char* row, int type, int u) {
    if (type == kKvF32) return reinterpret_cast<const float4*>(row)[u];
    if (type == kKvF16) {
        uint2 v = reinterpret_cast<const uint2*>(row)[u];
        float2 a = f16x2_to_f32(v.x), b = f16x2_to_f32(v.y);
        return make_float4(a.x, a.y, b.x, b.y);
    }
    const uint16_t* block = reinterpret_cast<const uint16_t*>(row + u / 8 * 34);
    float d = f16_to_f32(block[0]);
    uint32_t a = block[1 + u % 8 * 2], b = block[2 + u % 8 * 2];
    return make_float4(d * (float)(int8_t)a, d * (float)(int8_t)(a >> 8), d * (float)(int8_t)b, d * (float)(int8_t)(b >> 8));
}

__device__ __forceinline__ float dot4(float4 a, float4 b, float acc) {
    return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, acc))));
}

// Sums eight values over the lanes of a warp; lane i gets the sum of value i/4.
__device__ __forceinline__ float sum_eight(const float (&v)[8]) {
    int lane = lane_id();
    float a[4], b[2];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float keep = lane & 16 ? v[i + 4] : v[i], give = lane & 16 ? v[i] : v[i + 4];
        a[i] = keep + __shfl_xor_sync(0xffffffffu, give, 16);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float keep = lane & 8 ? a[i + 2] : a[i], give = lane & 8 ? a[i] : a[i + 2];
        b[i] = keep + __shfl_xor_sync(0xffffffffu, give, 8);
    }
    float keep = lane & 4 ? b[1] : b[0], give = lane & 4 ? b[0] : b[1];
    float s = keep + __shfl_xor_sync(0xffffffffu, give, 4);
    s += __shfl_xor_sync(0xffffffffu, s, 2);
    return s + __shfl_xor_sync(0xffffffffu, s, 1);
}

struct alignas(16) Shared {
    float sums[kThreads * 4 * kHeads];  // of threads' shares of o
    float p[kChunk][kHeads];            // scores, then their powers
    int32_t cell[kChunk];
};

}  // namespace attn

extern "C" __global__ void __launch_bounds__(256) attn_decode_f32(const AttnParams p) {
    using namespace attn;
    __shared__ Shared s;
    pdl_launch_dependents();
    pdl_wait();
    int row = blockIdx.z, split = blockIdx.x, lane = lane_id(), warp = warp_id();
    Group group(p, blockIdx.y);
    int length = p.lengths[row], chunks = chunks_of(length), units = p.head_dim / 4;
    if (length <= 0 && split == 0 && p.counters) {
        for (int h = warp; h < group.count; h += kWarps) write_zeros(p, row, group.first + h);
    }
    if (split >= chunks) return;
    Runs runs(p.seq_runs, p.runs, p.seqs[row]);

    float4 q[kHeads][kUnits];
#pragma unroll
    for (int h = 0; h < kHeads; h++) {
#pragma unroll
        for (int i = 0; i < kUnits; i++) {
            int u = lane + i * kWarp;
            q[h][i] = make_float4(0, 0, 0, 0);
            const float* x = p.q + (int64_t)row * p.q_stride + (group.first + h) * p.head_dim;
            if (h < group.count) q[h][i] = load_row4(x, 4 * u, p.head_dim, aligned16(p.q, p.q_stride));
        }
    }
    const unsigned char* keys = (const unsigned char*)p.keys + group.kv_head * kv_bytes(p.key_type, p.head_dim);
    const unsigned char* values = (const unsigned char*)p.values + group.kv_head * kv_bytes(p.value_type, p.head_dim);

    for (int c = split; c < chunks; c += gridDim.x) {
        int n = min(kChunk, length - c * kChunk);
        __syncthreads();
        if (threadIdx.x < kChunk) s.cell[threadIdx.x] = threadIdx.x < n ? runs.cell(c * kChunk + threadIdx.x) : 0;
        __syncthreads();

        // Scores: a warp a position.
        for (int j = warp; j < n; j += kWarps) {
            const unsigned char* k = keys + s.cell[j] * p.key_row;
            float acc[kHeads];
#pragma unroll
            for (int h = 0; h < kHeads; h++) acc[h] = 0;
#pragma unroll
            for (int i = 0; i < kUnits; i++) {
                int u = lane + i * kWarp;
                if (u >= units) continue;
                float4 x = decode4(k, p.key_type, u);
#pragma unroll
                for (int h = 0; h < kHeads; h++) acc[h] = dot4(x, q[h][i], acc[h]);
            }
            float score = sum_eight(acc);
            if (lane % 4 == 0) s.p[j][lane / 4] = score * (p.scale * kLog2e);
        }
        __syncthreads();

        // Powers and their sum: a warp a head.
        if (warp < group.count) {
            float m = -INFINITY, l = 0;
            for (int j = lane; j < n; j += kWarp) m = fmaxf(m, s.p[j][warp]);
            m = warp_max(m);
            for (int j = lane; j < n; j += kWarp) {
                float e = exp2f(s.p[j][warp] - m);
                s.p[j][warp] = e;
                l += e;
            }
            l = warp_sum(l);
            if (lane == 0) reinterpret_cast<float2*>(p.states)[part_index(p, row, group.first + warp, c)] = make_float2(m, l);
        }
        __syncthreads();

        // Values: a thread takes 4 elements of every shares-th position.
        int shares = kThreads / units, share = threadIdx.x / units, u = threadIdx.x % units;
        float4 o[kHeads];
#pragma unroll
        for (int h = 0; h < kHeads; h++) o[h] = make_float4(0, 0, 0, 0);
        if (share < shares) {
#pragma unroll 4
            for (int j = share; j < n; j += shares) {
                float4 v = decode4(values + s.cell[j] * p.value_row, p.value_type, u);
                float4 a = load4(&s.p[j][0]), b = load4(&s.p[j][4]);
                add_weighted(o[0], a.x, v), add_weighted(o[1], a.y, v), add_weighted(o[2], a.z, v), add_weighted(o[3], a.w, v);
                add_weighted(o[4], b.x, v), add_weighted(o[5], b.y, v), add_weighted(o[6], b.z, v), add_weighted(o[7], b.w, v);
            }
#pragma unroll
            for (int h = 0; h < kHeads; h++) store4(s.sums + ((share * kHeads + h) * units + u) * 4, o[h]);
        }
        __syncthreads();
        for (int i = threadIdx.x; i < group.count * units; i += kThreads) {
            float4 sum = make_float4(0, 0, 0, 0);
            for (int k = 0; k < shares; k++) add_to(sum, load4(s.sums + (k * kHeads * units + i) * 4));
            int h = i / units;
            store4(p.parts + (part_index(p, row, group.first + h, c) * units + i % units) * 4, sum);
        }
    }
    finish(p, row, group, chunks, min(chunks, (int)gridDim.x));
}

extern "C" __global__ void __launch_bounds__(256) attn_combine_f32(const AttnParams p) {
    using namespace attn;
    __shared__ float4 sums[kClasses][kMaxDim / 4];
    pdl_launch_dependents();
    pdl_wait();
    int head = blockIdx.x, row = blockIdx.y, chunks = chunks_of(p.lengths[row]), units = p.head_dim / 4, warp = warp_id();
    if (chunks <= 0) {
        if (warp == 0) write_zeros(p, row, head);
        return;
    }
    int64_t at = part_index(p, row, head, 0);
    const float2* states = reinterpret_cast<const float2*>(p.states) + at;
    float m, l;
    combine_states(states, chunks, m, l);
    for (int u = lane_id(); u < units; u += kWarp) {
        const float4* o = reinterpret_cast<const float4*>(p.parts) + at * units + u;
        float4 acc = make_float4(0, 0, 0, 0);
#pragma unroll 4
        for (int c = warp; c < chunks; c += kClasses) add_weighted(acc, exp2f(__ldcg(states + c).x - m), __ldcg(o + (int64_t)c * units));
        sums[warp][u] = acc;
    }
    __syncthreads();
    if (warp != 0) return;
    float inv = 1.0f / l;
    for (int base = 0; base < units; base += kWarp) {
        int u = base + lane_id(), i = min(u, units - 1);
        float4 acc = sums[0][i];
#pragma unroll
        for (int k = 1; k < kClasses; k++) add_to(acc, sums[k][i]);
        write(p, row, head, u, u < units, make_float4(acc.x * inv, acc.y * inv, acc.z * inv, acc.w * inv));
    }
}

// The formula as it stands, in float32: scores twice (largest, then powers), lanes over elements.
extern "C" __global__ void __launch_bounds__(32) attn_reference_f32(const AttnParams p) {
    using namespace attn;
    pdl_launch_dependents();
    pdl_wait();
    int head = blockIdx.x, row = blockIdx.y, kv_head = head / (p.heads / p.kv_heads), n = p.head_dim, length = p.lengths[row];
    Runs runs(p.seq_runs, p.runs, p.seqs[row]);
    const float* q = p.q + (int64_t)row * p.q_stride + head * n;
    const unsigned char* keys = (const unsigned char*)p.keys + kv_head * kv_bytes(p.key_type, n);
    const unsigned char* values = (const unsigned char*)p.values + kv_head * kv_bytes(p.value_type, n);
    auto element = [](const unsigned char* x, int type, int e) {
        if (type == kKvF32) return reinterpret_cast<const float*>(x)[e];
        if (type == kKvF16) return f16_to_f32(reinterpret_cast<const uint16_t*>(x)[e]);
        return f16_to_f32(*reinterpret_cast<const uint16_t*>(x + e / 32 * 34)) * (float)(int8_t)x[e / 32 * 34 + 2 + e % 32];
    };
    auto score = [&](int j) {
        const unsigned char* k = keys + runs.cell(j) * p.key_row;
        float acc = 0;
        for (int e = lane_id(); e < n; e += kWarp) acc = fmaf(q[e], element(k, p.key_type, e), acc);
        return warp_sum(acc) * p.scale;
    };
    float m = -INFINITY, l = 0;
    for (int j = 0; j < length; j++) m = fmaxf(m, score(j));
    for (int j = 0; j < length; j++) l += expf(score(j) - m);
    for (int base = 0; base < n; base += kWarp) {
        int e = base + lane_id();
        float acc = 0;
        for (int j = 0; j < length; j++) {
            float w = expf(score(j) - m);
            if (e < n) acc = fmaf(w, element(values + runs.cell(j) * p.value_row, p.value_type, e), acc);
        }
        if (e < n) p.y[(int64_t)row * p.y_stride + head * n + e] = length > 0 ? acc / l : 0;
    }
}

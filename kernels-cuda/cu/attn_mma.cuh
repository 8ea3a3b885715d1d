// Split attention over f16 and q8_0 caches by tensor cores, up to 8 query heads of one KV head a block: they are the 8 columns of
// mma.m16n8k16, positions (scores) and head elements (values) its rows. The launch is that of attn_decode_f32, with head_dim*2
// threads; chunks, parts and their order are those of attn.cuh.
//
// Precision is that of float32: what the cache holds (f16 values, or 8-bit levels, whose scales are applied to float32 sums)
// enters exactly; queries and powers enter as the sum of two f16 after scaling by a power of two that brings the largest to 2^10,
// so what is left out is under 2^-24 of it. Sums are float32.
#pragma once
#include "attn.cuh"

namespace attn {

// A lane's 8 elements 8t … 8t+7 of window w of 32 elements of a key, as four pairs of f16, and the window's scale.
template <int TYPE>
struct KeyWindow;

template <>
struct KeyWindow<kKvF16> {
    uint4 raw;
    __device__ __forceinline__ void load(const unsigned char* row, int w, int t) { raw = *reinterpret_cast<const uint4*>(row + w * 64 + t * 16); }
    __device__ __forceinline__ uint4 pairs() const { return raw; }
    __device__ __forceinline__ float scale() const { return 1.0f; }
};

template <>
struct KeyWindow<kKvQ8> {
    uint32_t a, b;
    uint16_t d;
    // Blocks of 34 bytes begin at even addresses only.
    __device__ __forceinline__ void load(const unsigned char* row, int w, int t) {
        const uint16_t* block = reinterpret_cast<const uint16_t*>(row + w * 34);
        const uint16_t* q = block + 1 + 4 * t;
        d = block[0];
        a = q[0] | (uint32_t)q[1] << 16;
        b = q[2] | (uint32_t)q[3] << 16;
    }
    __device__ __forceinline__ uint4 pairs() const {
        uint32_t x = a ^ 0x80808080u, y = b ^ 0x80808080u;
        return make_uint4(levels_f16(x, 0x4140), levels_f16(x, 0x4342), levels_f16(y, 0x4140), levels_f16(y, 0x4342));
    }
    __device__ __forceinline__ float scale() const { return f16_to_f32(d); }
};

template <int D>
struct MmaShared {
    static constexpr int kWarps = D / 16;
    uint4 hi[D / 32][kWarp], lo[D / 32][kWarp];  // the queries as second operands: by window and lane
    float p[kHeads][kChunk + 4];                 // powers, by head
    float top[kWarps][kHeads], sum[kWarps][kHeads];
    uint16_t scale[D / 32][kChunk];              // of values in q8_0: f16, by block and position
    int32_t cell[kChunk];
};

// Values of 16 positions and 16 elements, 2g and 2g+1 of the warp's 16 in the rows g and g+8 of the product's first operand: a lane
// loads its two elements of positions 2t, 2t+1, 2t+8, 2t+9.
template <int TYPE>
struct ValueStep;

template <>
struct ValueStep<kKvF16> {
    uint32_t v[4];
    __device__ __forceinline__ void load(int i, const unsigned char* head, int e) { v[i] = *reinterpret_cast<const uint32_t*>(head + 2 * e); }
    __device__ __forceinline__ void operand(uint32_t (&a)[4]) const {
        a[0] = __byte_perm(v[0], v[1], 0x5410), a[1] = __byte_perm(v[0], v[1], 0x7632);
        a[2] = __byte_perm(v[2], v[3], 0x5410), a[3] = __byte_perm(v[2], v[3], 0x7632);
    }
};

template <>
struct ValueStep<kKvQ8> {
    uint16_t v[4];
    __device__ __forceinline__ void load(int i, const unsigned char* head, int e) {
        v[i] = *reinterpret_cast<const uint16_t*>(head + e / 32 * 34 + 2 + e % 32);
    }
    __device__ __forceinline__ void operand(uint32_t (&a)[4]) const {
        uint32_t x = __byte_perm(v[0], v[1], 0x5140) ^ 0x80808080u, y = __byte_perm(v[2], v[3], 0x5140) ^ 0x80808080u;
        a[0] = levels_f16(x, 0x4140), a[1] = levels_f16(x, 0x4342);
        a[2] = levels_f16(y, 0x4140), a[3] = levels_f16(y, 0x4342);
    }
};

template <int D, int KT, int VT>
__device__ __forceinline__ void decode_mma(const AttnParams& p, MmaShared<D>& s) {
    constexpr int kWarps = MmaShared<D>::kWarps, kTiles = 8 / kWarps, kWindows = D / 32, kSteps = kChunk / 16;
    pdl_launch_dependents();
    int row = blockIdx.z, split = blockIdx.x, lane = lane_id(), warp = warp_id(), g = lane / 4, t = lane % 4;
    Group group(p, blockIdx.y);
    if (!p.early) pdl_wait();
    int length = p.lengths[row], chunks = chunks_of(length);
    Runs runs(p.seq_runs, p.runs, p.seqs[row]);
    // Beyond a chunk's end its last position stands in, with powers of 0.
    auto find_cells = [&](int c) {
        for (int j = threadIdx.x; j < kChunk; j += kWarps * kWarp) s.cell[j] = runs.cell(min(c * kChunk + j, length - 1));
    };
    if (p.early) {
        if (split < chunks) find_cells(split);
        pdl_wait();
    }
    if (length <= 0 && split == 0 && p.counters) {
        for (int h = warp; h < group.count; h += kWarps) write_zeros(p, row, group.first + h);
    }
    if (split >= chunks) return;

    // The queries, head g in column g of the second operand: elements 8t … 8t+7 of each window.
    float x[kWindows][8], amax = 0;
#pragma unroll
    for (int w = 0; w < kWindows; w++) {
        const float* q = p.q + (int64_t)row * p.q_stride + (group.first + g) * D + w * 32 + t * 8;
        bool vector = aligned16(p.q, p.q_stride);
        int width = g < group.count ? 8 : 0;
        float4 a = load_row4(q, 0, width, vector), b = load_row4(q, 4, width, vector);
        x[w][0] = a.x, x[w][1] = a.y, x[w][2] = a.z, x[w][3] = a.w;
        x[w][4] = b.x, x[w][5] = b.y, x[w][6] = b.z, x[w][7] = b.w;
#pragma unroll
        for (int i = 0; i < 8; i++) amax = fmaxf(amax, fabsf(x[w][i]));
    }
    amax = fmaxf(amax, __shfl_xor_sync(0xffffffffu, amax, 1));
    amax = fmaxf(amax, __shfl_xor_sync(0xffffffffu, amax, 2));
    float factor = to_kilo(amax), back = p.scale * kLog2e / factor;
    float back0 = __shfl_sync(0xffffffffu, back, 8 * t), back1 = __shfl_sync(0xffffffffu, back, 8 * t + 4);  // of heads 2t, 2t+1
#pragma unroll
    for (int w = 0; w < kWindows; w++) {
        if (warp != w) continue;
        uint4 hi, lo;
        split_f16(x[w][0] * factor, x[w][1] * factor, hi.x, lo.x);
        split_f16(x[w][2] * factor, x[w][3] * factor, hi.y, lo.y);
        split_f16(x[w][4] * factor, x[w][5] * factor, hi.z, lo.z);
        split_f16(x[w][6] * factor, x[w][7] * factor, hi.w, lo.w);
        s.hi[w][lane] = hi, s.lo[w][lane] = lo;
    }
    const unsigned char* keys = (const unsigned char*)p.keys + group.kv_head * kv_bytes(KT, D);
    const unsigned char* values = (const unsigned char*)p.values + group.kv_head * kv_bytes(VT, D);
    int element = warp * 16 + 2 * g;

    for (int c = split; c < chunks; c += gridDim.x) {
        int n = min(kChunk, length - c * kChunk);
        if (!p.early || c != split) find_cells(c);
        __syncthreads();

        // Half of the values are loaded before the scores need their keys, half while they are turned into powers.
        ValueStep<VT> v[kSteps];
        auto load_values = [&](int first) {
#pragma unroll
            for (int k = 0; k < kSteps / 2; k++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int cell = s.cell[16 * (first + k) + 2 * t + (i & 1) + (i & 2) * 4];
                    v[first + k].load(i, values + cell * p.value_row, element);
                }
            }
        };
        load_values(0);
        __syncwarp();  // else the compiler moves these loads down to their use
        if (VT == kKvQ8) {
            for (int i = threadIdx.x; i < kWindows * kChunk; i += kWarps * kWarp) {
                int cell = s.cell[i % kChunk];
                s.scale[i / kChunk][i % kChunk] = *reinterpret_cast<const uint16_t*>(values + cell * p.value_row + i / kChunk * 34);
            }
        }
        float score[kTiles][4], top0 = -INFINITY, top1 = -INFINITY;
#pragma unroll
        for (int tile = 0; tile < kTiles; tile++) {
            int first = (warp * kTiles + tile) * 16 + g, cell0 = s.cell[first], cell1 = s.cell[first + 8];
            KeyWindow<KT> k0[kWindows], k1[kWindows];
#pragma unroll
            for (int w = 0; w < kWindows; w++) {
                k0[w].load(keys + cell0 * p.key_row, w, t);
                k1[w].load(keys + cell1 * p.key_row, w, t);
            }
            float acc[4] = {0, 0, 0, 0};
#pragma unroll
            for (int w = 0; w < kWindows; w++) {
                uint4 a0 = k0[w].pairs(), a1 = k1[w].pairs();
                uint32_t a[2][4] = {{a0.x, a1.x, a0.y, a1.y}, {a0.z, a1.z, a0.w, a1.w}};
                float part[4] = {0, 0, 0, 0};
                float(&to)[4] = KT == kKvF16 ? acc : part;
                uint4 lo = s.lo[w][lane], hi = s.hi[w][lane];
                mma_f16(to, a[0], lo.x, lo.y);
                mma_f16(to, a[0], hi.x, hi.y);
                mma_f16(to, a[1], lo.z, lo.w);
                mma_f16(to, a[1], hi.z, hi.w);
                if (KT == kKvQ8) {
                    float d0 = k0[w].scale(), d1 = k1[w].scale();
                    acc[0] = fmaf(d0, part[0], acc[0]), acc[1] = fmaf(d0, part[1], acc[1]);
                    acc[2] = fmaf(d1, part[2], acc[2]), acc[3] = fmaf(d1, part[3], acc[3]);
                }
            }
            score[tile][0] = first < n ? acc[0] * back0 : -INFINITY;
            score[tile][1] = first < n ? acc[1] * back1 : -INFINITY;
            score[tile][2] = first + 8 < n ? acc[2] * back0 : -INFINITY;
            score[tile][3] = first + 8 < n ? acc[3] * back1 : -INFINITY;
            top0 = fmaxf(top0, fmaxf(score[tile][0], score[tile][2]));
            top1 = fmaxf(top1, fmaxf(score[tile][1], score[tile][3]));
        }
        load_values(kSteps / 2);
#pragma unroll
        for (int o = 4; o < kWarp; o *= 2) {
            top0 = fmaxf(top0, __shfl_xor_sync(0xffffffffu, top0, o));
            top1 = fmaxf(top1, __shfl_xor_sync(0xffffffffu, top1, o));
        }
        if (g == 0) s.top[warp][2 * t] = top0, s.top[warp][2 * t + 1] = top1;
        __syncthreads();
#pragma unroll
        for (int w = 0; w < kWarps; w++) top0 = fmaxf(top0, s.top[w][2 * t]), top1 = fmaxf(top1, s.top[w][2 * t + 1]);
        float sum0 = 0, sum1 = 0;
#pragma unroll
        for (int tile = 0; tile < kTiles; tile++) {
            int first = (warp * kTiles + tile) * 16 + g;
            float e0 = exp2f(score[tile][0] - top0), e1 = exp2f(score[tile][1] - top1);
            float e2 = exp2f(score[tile][2] - top0), e3 = exp2f(score[tile][3] - top1);
            s.p[2 * t][first] = e0, s.p[2 * t + 1][first] = e1;
            s.p[2 * t][first + 8] = e2, s.p[2 * t + 1][first + 8] = e3;
            sum0 += e0 + e2, sum1 += e1 + e3;
        }
#pragma unroll
        for (int o = 4; o < kWarp; o *= 2) {
            sum0 += __shfl_xor_sync(0xffffffffu, sum0, o);
            sum1 += __shfl_xor_sync(0xffffffffu, sum1, o);
        }
        if (g == 0) s.sum[warp][2 * t] = sum0, s.sum[warp][2 * t + 1] = sum1;
        __syncthreads();
        if (threadIdx.x < group.count) {
            float m = s.top[0][threadIdx.x], l = s.sum[0][threadIdx.x];
            for (int w = 1; w < kWarps; w++) m = fmaxf(m, s.top[w][threadIdx.x]), l += s.sum[w][threadIdx.x];
            reinterpret_cast<float2*>(p.states)[part_index(p, row, group.first + threadIdx.x, c)] = make_float2(m, l);
        }

        // Values. Powers are at most 1: times 2^10. With q8_0 the values' scales go to the powers, so these are brought into range
        // by the largest scale of the chunk.
        float up = 1024.0f, down = 1.0f / 1024.0f;
        if (VT == kKvQ8) {
            float largest = 0;
            for (int j = lane; j < kChunk; j += kWarp) largest = fmaxf(largest, fabsf(f16_to_f32(s.scale[element / 32][j])));
            up = to_kilo(warp_max(largest));
            down = 1.0f / up;
        }
        float acc[4] = {0, 0, 0, 0};
#pragma unroll
        for (int k = 0; k < kSteps; k++) {
            float2 e0 = *reinterpret_cast<const float2*>(&s.p[g][16 * k + 2 * t]);
            float2 e1 = *reinterpret_cast<const float2*>(&s.p[g][16 * k + 2 * t + 8]);
            float f[4] = {up, up, up, up};
            if (VT == kKvQ8) {
                const uint32_t* pair = reinterpret_cast<const uint32_t*>(&s.scale[element / 32][16 * k + 2 * t]);
                float2 d0 = f16x2_to_f32(pair[0]), d1 = f16x2_to_f32(pair[4]);
                f[0] *= d0.x, f[1] *= d0.y, f[2] *= d1.x, f[3] *= d1.y;
            }
            uint32_t a[4], hi0, lo0, hi1, lo1;
            compiler_fence();
            v[k].operand(a);
            split_f16(e0.x * f[0], e0.y * f[1], hi0, lo0);
            split_f16(e1.x * f[2], e1.y * f[3], hi1, lo1);
            mma_f16(acc, a, lo0, lo1);
            mma_f16(acc, a, hi0, hi1);
        }
        // Rows g and g+8 are elements 2g and 2g+1, columns heads 2t and 2t+1.
        if (2 * t < group.count) {
            float* o = p.parts + part_index(p, row, group.first + 2 * t, c) * D + element;
            *reinterpret_cast<float2*>(o) = make_float2(acc[0] * down, acc[2] * down);
        }
        if (2 * t + 1 < group.count) {
            float* o = p.parts + part_index(p, row, group.first + 2 * t + 1, c) * D + element;
            *reinterpret_cast<float2*>(o) = make_float2(acc[1] * down, acc[3] * down);
        }
    }
    finish(p, row, group, chunks, min(chunks, (int)gridDim.x));
}

}  // namespace attn

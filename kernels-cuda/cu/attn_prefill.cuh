// Attention of many rows on tensor cores: online softmax over tiles of 64 positions (Dao 2023: FlashAttention-2), 128 queries a
// block, 16 a warp. A query is a row and a head of one KV head's group: query i of the launch is row i/group, head i%group, so all heads
// of a group share the tiles of K and V, and few rows still fill a block.
//
// Rows of a block may belong to several sequences: their tiles are gone through sequence after sequence, each query under its own
// length (0 for those of others). Causality is in the lengths.
//
// Precision. Queries are the sum of two f16, after scaling by a power of two, and keys enter exactly (f16, or 8-bit levels whose
// scales are applied to float32 sums): scores are as exact as float32 ones. The powers of two, at most 1, and values in q8_0 are
// rounded to f16; values in q8_0 are taken times 1/16 first, so that they are in range up to 10^6. Sums are float32.
#pragma once
#include "attn.cuh"

namespace attn {

constexpr int kQueries = 128, kTile = 64, kPrefillThreads = 256;

template <int D, int KT, int VT>
struct PrefillShared {
    static constexpr int kStride = D + 8;  // elements: rows begin in different banks
    static constexpr int kScales = KT == kKvQ8 ? D / 32 : 1;
    // As _gen/manifest_attn.go has it.
    static constexpr int kBytes = 8 * D / 16 * 32 * 16 + 2 * 64 * (D + 8) * 2 + kScales * 256 + 2 * 256 + 2 * 512;

    uint4 lo[kPrefillThreads / kWarp][D / 16][kWarp];  // the lower parts of the queries, as first operands
    uint16_t k[kTile][kStride], v[kTile][kStride];
    float scale[kScales][kTile];
    int32_t cell[2][kTile];
    int32_t seq[kQueries], length[kQueries];  // by row of the block
};

// load_tile brings one head's rows of a tile to shared memory as f16: values, levels (with scales apart), or values times 1/16.
template <int D, int TYPE, bool LEVELS>
__device__ __forceinline__ void load_tile(uint16_t (*to)[D + 8], float (*scale)[kTile], const unsigned char* head, int64_t row, const int32_t* cells) {
    if (TYPE == kKvF16) {
        constexpr int kPieces = D / 8;
        for (int i = threadIdx.x; i < kTile * kPieces; i += kPrefillThreads) {
            int j = i / kPieces, piece = i % kPieces;
            cp_async16(&to[j][piece * 8], head + cells[j] * row + piece * 16);
        }
        return;
    }
    constexpr int kPairs = D / 2, kPerBlock = 16;
#pragma unroll 4
    for (int i = threadIdx.x; i < kTile * kPairs; i += kPrefillThreads) {
        int j = i / kPairs, pair = i % kPairs;
        const uint16_t* block = reinterpret_cast<const uint16_t*>(head + cells[j] * row + pair / kPerBlock * 34);
        uint32_t levels = levels_f16((uint32_t)block[1 + pair % kPerBlock] ^ 0x80808080u, 0x4140);
        if (LEVELS) {
            if (pair % kPerBlock == 0) scale[pair / kPerBlock][j] = f16_to_f32(block[0]);
        } else {
            float d = f16_to_f32(block[0]) * 0.0625f;
            float2 x = f16x2_to_f32(levels);
            levels = (uint32_t)f32_to_f16(x.x * d) | (uint32_t)f32_to_f16(x.y * d) << 16;
        }
        *reinterpret_cast<uint32_t*>(&to[j][pair * 2]) = levels;
    }
}

// One row of queries of a lane: its row and head, and the state of the online softmax.
struct Query {
    int row, head, length;
    float back, m, l;
};

template <int D, int KT, int VT>
__device__ __forceinline__ void prefill(const AttnParams& p, PrefillShared<D, KT, VT>& s) {
    constexpr int kSteps = D / 16;
    pdl_launch_dependents();
    pdl_wait();
    int lane = lane_id(), warp = warp_id(), g = lane / 4, t = lane % 4, kv_head = blockIdx.y, size = p.heads / p.kv_heads;
    int first = (gridDim.x - 1 - blockIdx.x) * kQueries;  // the longest rows begin first
    int row0 = first / size, rows = min(p.rows, (first + kQueries - 1) / size + 1) - row0;
    for (int i = threadIdx.x; i < rows; i += kPrefillThreads) {
        s.seq[i] = p.seqs[row0 + i];
        s.length[i] = p.lengths[row0 + i];
    }
    __syncthreads();

    // The lane's queries are rows g and g+8 of its warp's 16.
    Query query[2];
    uint32_t hi[kSteps][4];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        Query& q = query[i];
        int index = first + warp * 16 + g + 8 * i;
        bool valid = index < p.rows * size;
        q.row = valid ? index / size : row0;
        q.head = kv_head * size + index % size;
        q.length = valid ? s.length[q.row - row0] : 0;
        q.m = -INFINITY, q.l = 0;
        const float* x = p.q + (int64_t)q.row * p.q_stride + q.head * D + 2 * t;
        float amax = 0;
#pragma unroll
        for (int k = 0; k < kSteps; k++) {
            amax = fmaxf(amax, fmaxf(fmaxf(fabsf(x[16 * k]), fabsf(x[16 * k + 1])), fmaxf(fabsf(x[16 * k + 8]), fabsf(x[16 * k + 9]))));
        }
        amax = fmaxf(amax, __shfl_xor_sync(0xffffffffu, amax, 1));
        amax = fmaxf(amax, __shfl_xor_sync(0xffffffffu, amax, 2));
        float factor = to_kilo(amax);
        q.back = p.scale * kLog2e / factor;
#pragma unroll
        for (int k = 0; k < kSteps; k++) {
            uint32_t* lo = &s.lo[warp][k][lane].x;  // read by this lane alone
            split_f16(x[16 * k] * factor, x[16 * k + 1] * factor, hi[k][i], lo[i]);
            split_f16(x[16 * k + 8] * factor, x[16 * k + 9] * factor, hi[k][i + 2], lo[i + 2]);
        }
    }
    float o[D / 8][4];
#pragma unroll
    for (int n = 0; n < D / 8; n++) o[n][0] = o[n][1] = o[n][2] = o[n][3] = 0;

    const unsigned char* keys = (const unsigned char*)p.keys + kv_head * kv_bytes(KT, D);
    const unsigned char* values = (const unsigned char*)p.values + kv_head * kv_bytes(VT, D);
    for (int begin = 0, end; begin < rows; begin = end) {
        int longest = 0;
        for (end = begin; end < rows && s.seq[end] == s.seq[begin]; end++) longest = max(longest, s.length[end]);
        if (longest == 0) continue;
        Runs runs(p.seq_runs, p.runs, s.seq[begin]);
        int limit[2];
#pragma unroll
        for (int i = 0; i < 2; i++) limit[i] = query[i].row - row0 >= begin && query[i].row - row0 < end ? query[i].length : 0;

        auto find_cells = [&](int tile) {
            int j = tile * kTile + threadIdx.x;
            if (threadIdx.x < kTile && tile * kTile < longest) s.cell[tile & 1][threadIdx.x] = runs.cell(min(j, longest - 1));
        };
        auto load_keys = [&](int tile) {
            if (tile * kTile < longest) load_tile<D, KT, true>(s.k, s.scale, keys, p.key_row, s.cell[tile & 1]);
            cp_async_commit();
        };
        auto load_values = [&](int tile) {
            if (tile * kTile < longest) load_tile<D, VT, false>(s.v, nullptr, values, p.value_row, s.cell[tile & 1]);
            cp_async_commit();
        };
        __syncthreads();
        find_cells(0);
        __syncthreads();
        load_keys(0);
        load_values(0);
        for (int tile = 0; tile * kTile < longest; tile++) {
            find_cells(tile + 1);
            cp_async_wait<1>();
            __syncthreads();

            // Scores. With q8_0 two steps are a block of 32, whose sum is multiplied with the keys' scales.
            constexpr int kTogether = KT == kKvQ8 ? 2 : 1;
            float score[kTile / 8][4];
#pragma unroll
            for (int n = 0; n < kTile / 8; n++) score[n][0] = score[n][1] = score[n][2] = score[n][3] = 0;
#pragma unroll
            for (int k0 = 0; k0 < kSteps; k0 += kTogether) {
                uint32_t lo[kTogether][4];
#pragma unroll
                for (int k = 0; k < kTogether; k++) {
                    uint4 v = s.lo[warp][k0 + k][lane];
                    lo[k][0] = v.x, lo[k][1] = v.y, lo[k][2] = v.z, lo[k][3] = v.w;
                }
#pragma unroll
                for (int n = 0; n < kTile / 8; n += 2) {
                    float part[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
                    float(&a0)[4] = KT == kKvQ8 ? part[0] : score[n], (&a1)[4] = KT == kKvQ8 ? part[1] : score[n + 1];
#pragma unroll
                    for (int k = 0; k < kTogether; k++) {
                        uint32_t b[4];
                        ldmatrix_x4(b, &s.k[n * 8 + lane / 16 * 8 + lane % 8][(k0 + k) * 16 + lane / 8 % 2 * 8]);
                        mma_f16(a0, lo[k], b[0], b[1]);
                        mma_f16(a1, lo[k], b[2], b[3]);
                        mma_f16(a0, hi[k0 + k], b[0], b[1]);
                        mma_f16(a1, hi[k0 + k], b[2], b[3]);
                    }
                    if (KT == kKvF16) continue;
                    float2 d0 = *reinterpret_cast<const float2*>(&s.scale[k0 / 2][n * 8 + 2 * t]);
                    float2 d1 = *reinterpret_cast<const float2*>(&s.scale[k0 / 2][n * 8 + 8 + 2 * t]);
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        score[n][i] = fmaf(i % 2 ? d0.y : d0.x, part[0][i], score[n][i]);
                        score[n + 1][i] = fmaf(i % 2 ? d1.y : d1.x, part[1][i], score[n + 1][i]);
                    }
                }
            }
            __syncthreads();
            load_keys(tile + 1);

            // Powers, and what the sums so far are to be multiplied with.
#pragma unroll
            for (int i = 0; i < 2; i++) {
                Query& q = query[i];
                float m = q.m;
#pragma unroll
                for (int n = 0; n < kTile / 8; n++) {
#pragma unroll
                    for (int c = 0; c < 2; c++) {
                        float& x = score[n][2 * i + c];
                        x = tile * kTile + n * 8 + 2 * t + c < limit[i] ? x * q.back : -INFINITY;
                        m = fmaxf(m, x);
                    }
                }
                m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 1));
                m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, 2));
                float base = m == -INFINITY ? 0.0f : m, fade = exp2f(q.m - base), sum = 0;
                q.m = m;
#pragma unroll
                for (int n = 0; n < kTile / 8; n++) {
#pragma unroll
                    for (int c = 0; c < 2; c++) {
                        score[n][2 * i + c] = exp2f(score[n][2 * i + c] - base);
                        sum += score[n][2 * i + c];
                    }
                }
                q.l = q.l * fade + sum;
#pragma unroll
                for (int n = 0; n < D / 8; n++) o[n][2 * i] *= fade, o[n][2 * i + 1] *= fade;
            }
            cp_async_wait<1>();
            __syncthreads();
#pragma unroll
            for (int k = 0; k < kTile / 16; k++) {
                uint32_t a[4] = {pack_f16(score[2 * k][0], score[2 * k][1]), pack_f16(score[2 * k][2], score[2 * k][3]),
                                 pack_f16(score[2 * k + 1][0], score[2 * k + 1][1]), pack_f16(score[2 * k + 1][2], score[2 * k + 1][3])};
#pragma unroll
                for (int n = 0; n < D / 8; n += 2) {
                    uint32_t b[4];
                    ldmatrix_x4_trans(b, &s.v[k * 16 + lane % 16][n * 8 + lane / 16 * 8]);
                    mma_f16(o[n], a, b[0], b[1]);
                    mma_f16(o[n + 1], a, b[2], b[3]);
                }
            }
            __syncthreads();
            load_values(tile + 1);
        }
        cp_async_wait<0>();
    }

#pragma unroll
    for (int i = 0; i < 2; i++) {
        const Query& q = query[i];
        float l = q.l;
        l += __shfl_xor_sync(0xffffffffu, l, 1);
        l += __shfl_xor_sync(0xffffffffu, l, 2);
        if (first + warp * 16 + g + 8 * i >= p.rows * size) continue;
        float inv = q.length > 0 ? (VT == kKvQ8 ? 16.0f : 1.0f) / l : 0.0f;
        float* y = p.y + (int64_t)q.row * p.y_stride + q.head * D + 2 * t;
#pragma unroll
        for (int n = 0; n < D / 8; n++) y[n * 8] = o[n][2 * i] * inv, y[n * 8 + 1] = o[n][2 * i + 1] * inv;
    }
}

}  // namespace attn

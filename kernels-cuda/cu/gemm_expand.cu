// kernel                 inputs                                        result                      launch                      moves
// expand_TYPE            w [rows, k] quantised TYPE, layout raw        y [rows][y_stride] bf16     a block of 256 threads a    a weight's bytes in,
// expand_tile_TYPE       the same in layout tile16                                                 group of 16 rows            2 out
//
// The weights of a product on the tensor cores, once before it: what package quant decodes to, rounded to bf16 (to nearest, ties to
// even). y: a multiple of 16, y_stride one of 8 elements. k is a multiple of the type's block. Bitwise class.
#include "quant.cuh"

namespace expand {

using namespace quant;

constexpr int kThreads = 256;

template <int T, bool TILE>
__device__ __forceinline__ void run(const ExpandParams& p) {
    pdl_launch_dependents();
    pdl_wait();
    int groups = (p.k + kGroup - 1) / kGroup;
    int group = blockIdx.x % groups, tile = blockIdx.x / groups;
    int part = threadIdx.x % 4, chunk = threadIdx.x / 4 % kChunks, at = group * kGroup + chunk * kChunk + part * 8;
    if (at >= p.k) return;
#pragma unroll
    for (int i = 0; i < kTile / (kThreads / kWarp); i++) {
        int row = tile * kTile + warp_id() + i * (kThreads / kWarp);
        if (row >= p.rows) return;
        float v[8];
        if (TILE) {
            decode8<T>(Tile<T>(Planes{p.w, p.head, p.tail}, row, group, p.k), chunk, part, v);
        } else {
            decode8<T>(Raw<T>(p.w + (int64_t)row * p.w_stride, group, p.k), chunk, part, v);
        }
        uint32_t u[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            __nv_bfloat162 two = __floats2bfloat162_rn(v[2 * j], v[2 * j + 1]);
            u[j] = *reinterpret_cast<uint32_t*>(&two);
        }
        *reinterpret_cast<uint4*>(p.y + (int64_t)row * p.y_stride + at) = make_uint4(u[0], u[1], u[2], u[3]);
    }
}

}  // namespace expand

#define EXPAND(name, type)                                                                                                                \
    extern "C" __global__ void __launch_bounds__(256) expand_##name(const ExpandParams p) { expand::run<quant::type, false>(p); }          \
    extern "C" __global__ void __launch_bounds__(256) expand_tile_##name(const ExpandParams p) { expand::run<quant::type, true>(p); }

EXPAND(q4_0, Q4_0)
EXPAND(q4_1, Q4_1)
EXPAND(q5_0, Q5_0)
EXPAND(q5_1, Q5_1)
EXPAND(q8_0, Q8_0)
EXPAND(q4_k, Q4_K)
EXPAND(q5_k, Q5_K)
EXPAND(q6_k, Q6_K)

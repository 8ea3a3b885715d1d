// kernel                 inputs                                             result           launch                          moves
// matvec_mma_TYPE_N      up to 3 weights [rows, k] TYPE, layout tile16,     y [columns,      N = 8, 16: columns a block,     weights once for all
//                        with bias and residual or null each; q8            rows] f32 of     any number in all; a warp a     blocks of the same rows (L2),
//                        [columns][k], records [columns][k/32]              each weight      part or two; blocks walk        q8 and records, y, biases,
//                                                                                            over units of 32 rows           residuals once
// matvec_mma_k_N         the same, each weight of its own TYPE among Q4_K, Q5_K, Q6_K        a block a unit
// matvec_mma_0_N         the same among Q5_0, Q5_1, Q8_0                                     a block a unit
//
// y = w*x + bias + residual; residual may be y. Bitwise class, the bits of matvec_tile with equal `parts`; parts is even, at most 20. Weights are
// read before griddepcontrol.wait: nothing may write them while products are queued.
#include "matvec_mma.cuh"

namespace matvec {

struct Unit {
    int segment, first; // which weight, the first of its two tiles
};

__device__ __forceinline__ Unit unit_at(const MatvecTileParams& p, int unit) {
    Unit at{0, unit};
#pragma unroll
    for (int s = 0; s < 2; s++) {
        int units = (p.rows[s] + 2 * kTile - 1) / (2 * kTile);
        if (at.segment == s && s + 1 < p.segments && at.first >= units) at = Unit{s + 1, at.first - units};
    }
    at.first *= 2;
    return at;
}

template <int T, int NT>
__device__ __forceinline__ void mma_tiles(const MatvecTileParams& p) {
    DYNAMIC_SHARED;
    using Walk = MmaWalk<T, NT>;
    int column_groups = (p.columns + Walk::kColumns - 1) / Walk::kColumns, column = blockIdx.x % column_groups * Walk::kColumns;
    int columns = min(Walk::kColumns, p.columns - column);
    Walk walk(Columns{p.q8 + (int64_t)column * p.k, (const Q8Record*)p.records + (int64_t)column * (p.k / kChunk), p.k, columns},
              MmaPlan{p.parts, p.span, p.units, p.resident, 1}, dynamic_shared);
    // Where there are no units or tiles left, the last one once more.
    auto where = [&](int job, int, int r) {
        Unit at = unit_at(p, min(job * p.units + walk.unit, p.tiles - 1));
        int s = at.segment, last = (p.rows[s] + kTile - 1) / kTile - 1;
        return Tile<T>(Planes{p.data[s], p.head[s], p.tail[s]}, min(at.first + r, last) * kTile, 0, p.k);
    };
    auto finish = [&](int job) {
        for (int i = threadIdx.x; i < p.units * Walk::kColumns * 2 * kTile; i += blockDim.x) {
            int local = i % (2 * kTile), j = i / (2 * kTile) % Walk::kColumns, of = i / (2 * kTile * Walk::kColumns), unit = job * p.units + of;
            if (unit >= p.tiles || j >= columns) continue;
            Unit at = unit_at(p, unit);
            int s = at.segment, row = at.first * kTile + local;
            if (row < p.rows[s]) {
                float v = walk.total(of, 0, local / kTile, j, local % kTile);
                p.y[s][(int64_t)(column + j) * p.y_stride[s] + row] = matvec::finish(v, p.bias[s], p.residual[s], row, column + j, p.residual_stride[s]);
            }
        }
    };
    walk.go(blockIdx.x / column_groups, gridDim.x / column_groups, (p.tiles + p.units - 1) / p.units, where, finish);
}

}  // namespace matvec

#define MATVEC_MMA(name, type, n)                                                                                     \
    extern "C" __global__ void __maxnreg__(MMA_REGISTERS) matvec_mma_##name##_##n(const MatvecTileParams p) {         \
        pdl_launch_dependents();                                                                                      \
        matvec::mma_tiles<quant::type, n / 8>(p);                                                                     \
    }
#define MATVEC_MMAS(name, type)                                                                                       \
    MATVEC_MMA(name, type, 8)                                                                                         \
    MATVEC_MMA(name, type, 16)

MATVEC_MMAS(q4_0, Q4_0)
MATVEC_MMAS(q4_1, Q4_1)
MATVEC_MMAS(q5_0, Q5_0)
MATVEC_MMAS(q5_1, Q5_1)
MATVEC_MMAS(q8_0, Q8_0)
MATVEC_MMAS(q4_k, Q4_K)
MATVEC_MMAS(q5_k, Q5_K)
MATVEC_MMAS(q6_k, Q6_K)

#define MATVEC_MMA_MIXED(n)                                                                                           \
    extern "C" __global__ void __maxnreg__(MMA_REGISTERS) matvec_mma_k_##n(const MatvecTileParams p) {                \
        pdl_launch_dependents();                                                                                      \
        switch (p.type[matvec::unit_at(p, blockIdx.x / ((p.columns + n - 1) / n)).segment]) {                         \
            case quant::Q4_K: matvec::mma_tiles<quant::Q4_K, n / 8>(p); break;                                        \
            case quant::Q5_K: matvec::mma_tiles<quant::Q5_K, n / 8>(p); break;                                        \
            default: matvec::mma_tiles<quant::Q6_K, n / 8>(p);                                                        \
        }                                                                                                             \
    }                                                                                                                 \
    extern "C" __global__ void __maxnreg__(MMA_REGISTERS) matvec_mma_0_##n(const MatvecTileParams p) {                \
        pdl_launch_dependents();                                                                                      \
        switch (p.type[matvec::unit_at(p, blockIdx.x / ((p.columns + n - 1) / n)).segment]) {                         \
            case quant::Q5_0: matvec::mma_tiles<quant::Q5_0, n / 8>(p); break;                                        \
            case quant::Q5_1: matvec::mma_tiles<quant::Q5_1, n / 8>(p); break;                                        \
            default: matvec::mma_tiles<quant::Q8_0, n / 8>(p);                                                        \
        }                                                                                                             \
    }

MATVEC_MMA_MIXED(8)
MATVEC_MMA_MIXED(16)

// kernel                    inputs                                          result                       launch                         moves
// matvec_mma_swiglu_TYPE_N  gate and up [rows, k] TYPE, layout tile16;      y [columns, rows] f32 of     N = 8, 16: columns a block,    weights, q8 and
//                           q8 [columns][k], records [columns][k/32]        silu(gate*x) * (up*x), or    any number in all; blocks      records, y or y8
//                                                                           null; y8 [columns][rows],    walk over runs of 32 rows      once
//                                                                           y_records, or null
//
// The bits of matvec_swiglu with equal `parts`. Bitwise class. y8 wants rows to be a multiple of 32. Weights are read before griddepcontrol.wait.
#include "matvec_mma.cuh"

namespace matvec {

// A unit is a tile of gate and the same of up; two make a run: one after the other, or side by side in two units of warps, of which a
// block may have more.
template <int T, int NT>
__device__ __forceinline__ void mma_swiglu(const MatvecSwigluParams& p) {
    DYNAMIC_SHARED;
    using Walk = MmaWalk<T, NT>;
    pdl_launch_dependents();
    int column_groups = (p.columns + Walk::kColumns - 1) / Walk::kColumns, column = blockIdx.x % column_groups * Walk::kColumns;
    int columns = min(Walk::kColumns, p.columns - column), tiles = (p.rows + kTile - 1) / kTile, runs = (tiles + 1) / 2;
    int beside = max(1, p.units / 2); // runs of a job
    Walk walk(Columns{p.q8 + (int64_t)column * p.k, (const Q8Record*)p.records + (int64_t)column * (p.k / kChunk), p.k, columns},
              MmaPlan{p.parts, p.span, p.units, p.resident, p.units == 1 ? 2 : 1}, dynamic_shared);
    auto where = [&](int job, int step, int r) {
        int tile = min(2 * job * beside + step + walk.unit, tiles - 1); // where there are no more, the last once more
        return Tile<T>(Planes{p.data[r], p.head[r], p.tail[r]}, tile * kTile, 0, p.k);
    };
    auto finish = [&](int job) {
        int lane = lane_id(), second = lane / kTile;
        for (int i = warp_id(); i < beside * columns; i += blockDim.x / kWarp) {
            int local = i / columns, j = i % columns, run = job * beside + local, row = run * kWarp + lane;
            if (run >= runs) continue;
            int of = p.units == 1 ? 0 : 2 * local + second, step = p.units == 1 ? second : 0;
            float gate = walk.total(of, step, 0, j, lane % kTile), up = walk.total(of, step, 1, j, lane % kTile);
            float v = silu(gate) * up;
            if (p.y && row < p.rows) p.y[(int64_t)(column + j) * p.y_stride + row] = v;
            if (p.y8) q8a_store1(v, p.y8 + (int64_t)(column + j) * p.rows + run * kWarp, (Q8Record*)p.y_records + (int64_t)(column + j) * (p.rows / kWarp) + run, true);
        }
    };
    walk.go(blockIdx.x / column_groups, gridDim.x / column_groups, (runs + beside - 1) / beside, where, finish);
}

}  // namespace matvec

#define MATVEC_MMA_SWIGLU(name, type, n)                                                                              \
    extern "C" __global__ void __maxnreg__(MMA_REGISTERS) matvec_mma_swiglu_##name##_##n(const MatvecSwigluParams p) { matvec::mma_swiglu<quant::type, n / 8>(p); }
#define MATVEC_MMA_SWIGLUS(name, type)                                                                                \
    MATVEC_MMA_SWIGLU(name, type, 8)                                                                                  \
    MATVEC_MMA_SWIGLU(name, type, 16)

MATVEC_MMA_SWIGLUS(q4_0, Q4_0)
MATVEC_MMA_SWIGLUS(q4_1, Q4_1)
MATVEC_MMA_SWIGLUS(q5_0, Q5_0)
MATVEC_MMA_SWIGLUS(q5_1, Q5_1)
MATVEC_MMA_SWIGLUS(q8_0, Q8_0)
MATVEC_MMA_SWIGLUS(q4_k, Q4_K)
MATVEC_MMA_SWIGLUS(q5_k, Q5_K)
MATVEC_MMA_SWIGLUS(q6_k, Q6_K)

// kernel                  inputs                                             result                       launch                        moves
// matvec_swiglu_TYPE_N    gate and up [rows, k] TYPE, layout tile16;         y [columns, rows] f32 of     N = 1, 2: most columns.       weights, q8 and
//                         q8 [columns][k], records [columns][k/32]           silu(gate*x) * (up*x), or    16*parts threads; a block     records, y or y8
//                                                                            null; y8 [columns][rows],    walks over runs of 32 rows    once
//                                                                            y_records, or null
//
// The sums are those of matvec_tile; rounding to 8 bits those of quantize_q8: 32 rows of the product are one block of activations of
// the next weight. Bitwise class. y8 wants rows to be a multiple of 32. Weights are read before griddepcontrol.wait.
#include "matvec_tile.cuh"

namespace matvec {

constexpr int kJobRows = 2 * kTile; // rows of the product that a block makes at a time: two tiles of gate, two of up

template <int T, int COLUMNS>
__device__ __forceinline__ void swiglu(const MatvecSwigluParams& p) {
    DYNAMIC_SHARED;
    pdl_launch_dependents();
    Walk<T, COLUMNS> walk(Columns{p.q8, (const Q8Record*)p.records, p.k, p.columns}, p.parts, p.resident, dynamic_shared);
    int runs = (p.rows + kJobRows - 1) / kJobRows, tiles = (p.rows + kTile - 1) / kTile;
    // Step u of a run: gate's first and second tile, then up's. A second tile that isn't there is its first once more.
    auto load = [&](int run, int u, int round) {
        Planes w = u < 2 ? Planes{p.data[0], p.head[0], p.tail[0]} : Planes{p.data[1], p.head[1], p.tail[1]};
        walk.load(w, min(2 * run + u % 2, tiles - 1), round);
    };
    load(blockIdx.x, 0, 0);
    pdl_wait();
    walk.begin();
    for (int run = blockIdx.x; run < runs; run += gridDim.x) {
        for (int u = 0; u < 4; u++) {
            float acc[COLUMNS] = {};
            for (int r = 0; r < walk.rounds; r++) {
                walk.multiply(r, acc);
                if (r + 1 < walk.rounds) {
                    load(run, u, r + 1);
                } else if (u < 3) {
                    load(run, u + 1, 0);
                } else if (run + gridDim.x < runs) {
                    load(run + gridDim.x, 0, 0);
                }
            }
            walk.put(u, acc);
        }
        __syncthreads();
        int lane = lane_id(), row = run * kJobRows + lane;
        for (int column = warp_id(); column < p.columns; column += p.parts / 2) {
            float gate = walk.total(lane / kTile, column, lane % kTile), up = walk.total(2 + lane / kTile, column, lane % kTile);
            float v = silu(gate) * up;
            if (p.y && row < p.rows) p.y[(int64_t)column * p.y_stride + row] = v;
            if (p.y8) q8a_store1(v, p.y8 + (int64_t)column * p.rows + run * kJobRows, (Q8Record*)p.y_records + (int64_t)column * (p.rows / kJobRows) + run, true);
        }
        __syncthreads(); // the sums are read before the next run's are written
    }
}

}  // namespace matvec

#define MATVEC_SWIGLU(name, type, n, registers)                                                                       \
    extern "C" __global__ void __maxnreg__(TILE_REGISTERS(registers)) matvec_swiglu_##name##_##n(const MatvecSwigluParams p) { matvec::swiglu<quant::type, n>(p); }
#define MATVEC_SWIGLUS(name, type, one, two)                                                                          \
    MATVEC_SWIGLU(name, type, 1, one)                                                                                 \
    MATVEC_SWIGLU(name, type, 2, two)

MATVEC_SWIGLUS(q4_0, Q4_0, 88, 104)
MATVEC_SWIGLUS(q4_1, Q4_1, 88, 104)
MATVEC_SWIGLUS(q5_0, Q5_0, 88, 104)
MATVEC_SWIGLUS(q5_1, Q5_1, 96, 104)
MATVEC_SWIGLUS(q8_0, Q8_0, 128, 144)
MATVEC_SWIGLUS(q4_k, Q4_K, 80, 96)
MATVEC_SWIGLUS(q5_k, Q5_K, 96, 112)
MATVEC_SWIGLUS(q6_k, Q6_K, 96, 104)

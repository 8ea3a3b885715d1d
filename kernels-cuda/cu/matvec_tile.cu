// kernel                 inputs                                             result           launch                          moves
// matvec_tile_TYPE_N     up to 3 weights [rows, k] TYPE, layout tile16,     y [columns,      N = 1, 2: most columns.         weights, q8 and
//                        with bias and residual or null each; q8            rows] f32 of     16*parts threads; blocks walk   records, y, biases,
//                        [columns][k], records [columns][k/32]              each weight      over tiles of 16 rows           residuals once
// matvec_tile_k_N        the same, each weight of its own TYPE among Q4_K, Q5_K, Q6_K        a block a tile
// matvec_tile_0_N        the same among Q5_0, Q5_1, Q8_0                                     a block a tile
//
// y = w*x + bias + residual; residual may be y. Bitwise class, the bits of matvec_raw with equal `parts` (matvec.cuh); parts is even, at most
// 20. Weights are read before griddepcontrol.wait: nothing may write them while products are queued. Shared memory: activations of all
// rounds or of one (`resident`), and two slots of sums.
#include "matvec_tile.cuh"

namespace matvec {

struct Place {
    int segment, tile; // which weight, which of its tiles
};

__device__ __forceinline__ Place place(const MatvecTileParams& p, int tile) {
    Place at{0, tile};
#pragma unroll
    for (int s = 0; s < 2; s++) {
        int tiles = (p.rows[s] + kTile - 1) / kTile;
        if (at.segment == s && s + 1 < p.segments && at.tile >= tiles) at = Place{s + 1, at.tile - tiles};
    }
    return at;
}

__device__ __forceinline__ Planes planes(const MatvecTileParams& p, int s) { return Planes{p.data[s], p.head[s], p.tail[s]}; }

template <int T, int COLUMNS>
__device__ __forceinline__ void tiles(const MatvecTileParams& p) {
    DYNAMIC_SHARED;
    Walk<T, COLUMNS> walk(Columns{p.q8, (const Q8Record*)p.records, p.k, p.columns}, p.parts, p.resident, dynamic_shared);
    int tile = blockIdx.x, turn = 0;
    Place now = place(p, tile);
    walk.load(planes(p, now.segment), now.tile, 0);
    pdl_wait();
    walk.begin();
    while (tile < p.tiles) {
        int next = tile + gridDim.x;
        Place then = place(p, next);
        float acc[COLUMNS] = {};
        for (int r = 0; r < walk.rounds; r++) {
            walk.multiply(r, acc);
            if (r + 1 < walk.rounds) {
                walk.load(planes(p, now.segment), now.tile, r + 1);
            } else if (next < p.tiles) {
                walk.load(planes(p, then.segment), then.tile, 0);
            }
        }
        walk.put(turn, acc);
        __syncthreads();
        int s = now.segment;
        for (int i = threadIdx.x; i < COLUMNS * kTile; i += blockDim.x) {
            int column = i / kTile, row = now.tile * kTile + i % kTile;
            if (column < p.columns && row < p.rows[s]) {
                float v = finish(walk.total(turn, column, i % kTile), p.bias[s], p.residual[s], row, column, p.residual_stride[s]);
                p.y[s][(int64_t)column * p.y_stride[s] + row] = v;
            }
        }
        tile = next, now = then, turn ^= 1;
    }
}

}  // namespace matvec

#define MATVEC_TILE(name, type, n, registers)                                                                         \
    extern "C" __global__ void __maxnreg__(TILE_REGISTERS(registers)) matvec_tile_##name##_##n(const MatvecTileParams p) {\
        pdl_launch_dependents();                                                                                      \
        matvec::tiles<quant::type, n>(p);                                                                             \
    }
#define MATVEC_TILES(name, type, one, two)                                                                            \
    MATVEC_TILE(name, type, 1, one)                                                                                   \
    MATVEC_TILE(name, type, 2, two)

MATVEC_TILES(q4_0, Q4_0, 88, 104)
MATVEC_TILES(q4_1, Q4_1, 88, 104)
MATVEC_TILES(q5_0, Q5_0, 88, 104)
MATVEC_TILES(q5_1, Q5_1, 96, 104)
MATVEC_TILES(q8_0, Q8_0, 128, 144)
MATVEC_TILES(q4_k, Q4_K, 80, 96)
MATVEC_TILES(q5_k, Q5_K, 96, 112)
MATVEC_TILES(q6_k, Q6_K, 96, 104)

#define MATVEC_MIXED(n, registers)                                                                                    \
    extern "C" __global__ void __maxnreg__(TILE_REGISTERS(registers)) matvec_tile_k_##n(const MatvecTileParams p) {   \
        pdl_launch_dependents();                                                                                      \
        switch (p.type[matvec::place(p, blockIdx.x).segment]) {                                                       \
            case quant::Q4_K: matvec::tiles<quant::Q4_K, n>(p); break;                                                \
            case quant::Q5_K: matvec::tiles<quant::Q5_K, n>(p); break;                                                \
            default: matvec::tiles<quant::Q6_K, n>(p);                                                                \
        }                                                                                                             \
    }                                                                                                                 \
    extern "C" __global__ void __maxnreg__(TILE_REGISTERS(registers)) matvec_tile_0_##n(const MatvecTileParams p) {   \
        pdl_launch_dependents();                                                                                      \
        switch (p.type[matvec::place(p, blockIdx.x).segment]) {                                                       \
            case quant::Q5_0: matvec::tiles<quant::Q5_0, n>(p); break;                                                \
            case quant::Q5_1: matvec::tiles<quant::Q5_1, n>(p); break;                                                \
            default: matvec::tiles<quant::Q8_0, n>(p);                                                                \
        }                                                                                                             \
    }

MATVEC_MIXED(1, 120)
MATVEC_MIXED(2, 136)

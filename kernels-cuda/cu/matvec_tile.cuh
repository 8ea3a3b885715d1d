// The walk of a block over tiles of 16 rows: a lane is a row, a warp's halves take two neighbouring groups (parts 2w and 2w+1 of the
// sum, see matvec.cuh), rounds go on by `parts` groups. Weights are loaded before what they meet is waited for; a warp stages just the
// activations that it needs, for itself. Only the sums cross warps.
#pragma once
#include "matvec.cuh"

// Registers are capped so that two kernels' blocks fit on a multiprocessor: one computes, the next holds its first weights. Before
// sm_90 kernels don't overlap, and the same code wants more: as many as a block of 320 threads may have, 3 of whose warps share a quarter
// of the registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define TILE_REGISTERS(n) 168
#else
#define TILE_REGISTERS(n) n
#endif

namespace matvec {

constexpr int kTileWarps = 10; // at most, a block

// A stage is one column of a warp's two groups: twice 256 int8, the second moved by 16 bytes so that the halves of the warp meet
// no bank twice, then 16 records.
constexpr int kStageGroup = kGroup + 16;
constexpr int kStageRecords = 2 * kStageGroup;
constexpr int kStage = kStageRecords + 2 * kChunks * (int)sizeof(Q8Record);

// Activations as the block finds them.
struct Columns {
    const int8_t* q8;
    const Q8Record* records;
    int k, columns;
};

template <int T, int COLUMNS>
struct Walk {
    Columns x;
    int groups, parts, rounds, resident, first, row;
    unsigned char* stages; // the warp's own
    float* sums;           // the block's: [warps][COLUMNS][16] for each slot
    int staged;
    Group<T> g;

    __device__ __forceinline__ Walk(const Columns& x, int parts, int resident, unsigned char* shared)
        : x(x), groups((x.k + kGroup - 1) / kGroup), parts(parts), resident(resident), staged(0) {
        rounds = (groups + parts - 1) / parts;
        first = 2 * warp_id();
        row = lane_id() % kTile;
        stages = shared + warp_id() * resident * COLUMNS * kStage;
        sums = reinterpret_cast<float*>(shared + parts / 2 * resident * COLUMNS * kStage);
    }

    // load brings a tile's weights of a round into registers.
    __device__ __forceinline__ void load(const Planes& w, int tile, int round) {
        int i = first + lane_id() / kTile + round * parts;
        if (i < groups) {
            g.load(Tile<T>(w, tile * kTile + row, i, x.k));
        } else {
            g.clear();
        }
        __syncwarp(); // keeps the loads here, together
    }

    // stage copies a round's activations to a slot.
    __device__ __forceinline__ void stage(int round, int slot) {
        int lane = lane_id(), group = first + round * parts;
        int at = group * kGroup + lane * 16, block = group * kChunks + lane;
        unsigned char* to = stages + slot * COLUMNS * kStage;
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            int column = min(j, x.columns - 1);
            int4 v = make_int4(0, 0, 0, 0);
            int2 r = make_int2(0, 0);
            if (at < x.k) v = __ldcg(reinterpret_cast<const int4*>(x.q8 + (int64_t)column * x.k + at));
            if (lane < 16 && block < x.k / kChunk) r = __ldcg(reinterpret_cast<const int2*>(x.records + (int64_t)column * (x.k / kChunk) + block));
            *reinterpret_cast<int4*>(to + j * kStage + lane * 16 + lane / 16 * 16) = v;
            if (lane < 16) *reinterpret_cast<int2*>(to + j * kStage + kStageRecords + lane * 8) = r;
        }
    }

    // begin stages what there is room for.
    __device__ __forceinline__ void begin() {
#pragma unroll 1
        for (int r = 0; r < min(resident, rounds); r++) stage(r, r);
        __syncwarp();
    }

    // multiply adds what load brought.
    __device__ __forceinline__ void multiply(int round, float (&acc)[COLUMNS]) {
        int slot = round;
        if (resident < rounds) {
            slot = 0;
            if (staged != round) {
                __syncwarp();
                stage(round, 0);
                __syncwarp();
                staged = round;
            }
        }
        const unsigned char* from = stages + slot * COLUMNS * kStage;
        const unsigned char* levels = from + lane_id() / kTile * kStageGroup;
        const unsigned char* records = from + kStageRecords + lane_id() / kTile * (kChunks * 8);
        group<T, COLUMNS>(g, kChunks, acc, [&](int j, int c, int4& lo, int4& hi, Q8Record& r) {
            const int4* q = reinterpret_cast<const int4*>(levels + j * kStage + c * kChunk);
            lo = q[0], hi = q[1];
            r = *reinterpret_cast<const Q8Record*>(records + j * kStage + c * 8);
        });
    }

    __device__ __forceinline__ float* slot(int i) const { return sums + i * (parts / 2 * COLUMNS * kTile); }

    // put writes the warp's sums, its two parts added.
    __device__ __forceinline__ void put(int i, float (&acc)[COLUMNS]) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) {
            float v = __fadd_rn(acc[j], __shfl_xor_sync(0xffffffffu, acc[j], kTile));
            if (lane_id() < kTile) slot(i)[(warp_id() * COLUMNS + j) * kTile + row] = v;
        }
    }

    // total adds the warps' sums of a column and row, neighbours first.
    __device__ __forceinline__ float total(int i, int column, int at) const {
        float v[16];
#pragma unroll
        for (int w = 0; w < 16; w++) v[w] = w < kTileWarps && w < parts / 2 ? slot(i)[(w * COLUMNS + column) * kTile + at] : 0.0f;
#pragma unroll
        for (int o = 1; o < 16; o *= 2) {
#pragma unroll
            for (int w = 0; w < 16; w += 2 * o) v[w] = __fadd_rn(v[w], v[w + o]);
        }
        return v[0];
    }
};

}  // namespace matvec

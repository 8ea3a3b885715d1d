// kernel                 inputs                                             result           launch                          moves
// matvec_raw_TYPE_N      w [rows, k] TYPE, layout raw; q8 [columns][k],     y [columns,      N = 1 or 8 columns a block.     each weight once for
//                        records [columns][k/32]; bias [rows] and           rows] f32        128 threads, a row of weights   every N columns; q8
//                        residual [columns, rows] or null                                    takes `parts` lanes; grid       and records; y, bias,
//                                                                                            (rows, columns/N)               residual
//
// y = w*x + bias + residual; residual may be y. Bitwise class: see matvec.cuh for the order of the sum; `parts` at most 32.
// TYPE: the quantised ones. k is a multiple of the type's block. This is the form for any shape and the reference of matvec_tile;
// loads are 16 bytes for Q4_K and Q5_K, 2 or 4 for others.
#include "matvec.cuh"

namespace matvec {

constexpr int kRawWarps = 4;

template <int T, int COLUMNS>
__device__ __forceinline__ void raw(const MatvecParams& p) {
    pdl_launch_dependents();
    int lanes = 1; // of a row: the power of two from parts on
    while (lanes < p.parts) lanes *= 2;
    int part = lane_id() % lanes;
    int row = (blockIdx.x * kRawWarps + warp_id()) * (kWarp / lanes) + lane_id() / lanes;
    int groups = part < p.parts && row < p.rows ? (p.k + kGroup - 1) / kGroup : 0;
    const uint8_t* w = p.w + (int64_t)row * p.w_stride;
    Group<T> g;
    if (part < groups) g.load(Raw<T>(w, part, p.k));
    pdl_wait();

    int first = blockIdx.y * COLUMNS;
    float acc[COLUMNS] = {};
    for (int i = part; i < groups; i += p.parts) {
        if (i != part) g.load(Raw<T>(w, i, p.k));
        group<T, COLUMNS>(g, p.k / kChunk - i * kChunks, acc, [&](int j, int c, int4& lo, int4& hi, Q8Record& r) {
            int column = min(first + j, p.columns - 1);
            const int4* x = reinterpret_cast<const int4*>(p.q8 + (int64_t)column * p.k + i * kGroup + c * kChunk);
            lo = x[0], hi = x[1];
            r = reinterpret_cast<const Q8Record*>(p.records)[(int64_t)column * (p.k / kChunk) + i * kChunks + c];
        });
    }
#pragma unroll
    for (int o = 1; o < kMaxParts; o *= 2) {
        if (o < lanes) {
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) acc[j] += __shfl_xor_sync(0xffffffffu, acc[j], o);
        }
    }
    if (part != 0 || row >= p.rows) return;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        int column = first + j;
        if (column < p.columns) p.y[(int64_t)column * p.y_stride + row] = finish(acc[j], p.bias, p.residual, row, column, p.residual_stride);
    }
}

}  // namespace matvec

#define MATVEC_RAW(name, type)                                                                                                       \
    extern "C" __global__ void __launch_bounds__(128) matvec_raw_##name##_1(const MatvecParams p) { matvec::raw<quant::type, 1>(p); } \
    extern "C" __global__ void __launch_bounds__(128) matvec_raw_##name##_8(const MatvecParams p) { matvec::raw<quant::type, 8>(p); }

MATVEC_RAW(q4_0, Q4_0)
MATVEC_RAW(q4_1, Q4_1)
MATVEC_RAW(q5_0, Q5_0)
MATVEC_RAW(q5_1, Q5_1)
MATVEC_RAW(q8_0, Q8_0)
MATVEC_RAW(q4_k, Q4_K)
MATVEC_RAW(q5_k, Q5_K)
MATVEC_RAW(q6_k, Q6_K)

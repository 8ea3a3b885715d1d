// kernel                 inputs                                                     result        launch                      moves
// gemm_bf16_TILE         a [m, a_stride] bf16, b [n, b_stride] bf16                 y [m, n] f32  tiles of TILE (rows of a by  a and b once at
// gemm_f16_TILE          the same in f16, scales [m] f32 or null                                  rows of b), 128 or 256       best, y, residual
//                                                                                                 threads, grid (tiles)
//
// y = scales * (a*b^T) + bias + residual; bias [n], residual [m, n] (may be y) and scales or null. a and b: addresses multiples of 16, strides of 8
// elements; k a multiple of 8; m, n any. Tensor cores (mma.sync.m16n8k16), float32 sums over k in ascending steps of 16 whatever the
// tile, so a row of y depends neither on m nor on the choice of tile. 64 columns of k a stage, three or four stages of
// cp.async, shared rows of 128 bytes with 16-byte units exchanged (unit ^ row mod 8), so that ldmatrix meets no bank twice.
#include "device.cuh"

namespace gemm {

constexpr int kDepth = 64;           // of k a stage
constexpr int kUnits = kDepth / 8;   // of 16 bytes in a shared row
constexpr int kRowBytes = kDepth * 2;
constexpr int kGroupM = 16;          // tiles of a that run side by side over the same b

template <int BM, int BN, int WM, int WN, int STAGES>
struct Shape {
    static constexpr int kWarps = (BM / WM) * (BN / WN), kThreads = kWarps * kWarp;
    static constexpr int kStage = (BM + BN) * kRowBytes;
    static constexpr int kLoadRows = kThreads / kUnits; // rows that all threads copy at a time
};

template <bool BF16>
__device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if (BF16) {
        mma_bf16(d, a, b0, b1);
    } else {
        mma_f16(d, a, b0, b1);
    }
}

// Copies rows [first, first+ROWS) of x, columns [k0, k0+64), to shared memory; zeros beyond rows and k.
template <int ROWS, int STEP>
__device__ __forceinline__ void copy(unsigned char* shared, const uint16_t* x, int first, int rows, int64_t stride, int k0, int k) {
    int unit = threadIdx.x % kUnits, row = threadIdx.x / kUnits;
    bool inside = k0 + unit * 8 < k;
    unsigned char* to = shared + row * kRowBytes + ((unit ^ (row & 7)) * 16); // STEP is a multiple of 8: the same for all its rows
    const uint16_t* from = x + (int64_t)(first + row) * stride + k0 + unit * 8;
#pragma unroll
    for (int i = 0; i < ROWS / STEP; i++) {
        bool valid = inside && first + row + i * STEP < rows;
        cp_async16(to + i * STEP * kRowBytes, valid ? from + i * STEP * stride : x, valid);
    }
}

__device__ __forceinline__ void store(const GemmParams& p, int row, int column, float v0, float v1, bool pairs) {
    if (row >= p.m || column >= p.n) return;
    bool two = column + 1 < p.n;
    if (p.scales) {
        float s = p.scales[row];
        v0 = __fmul_rn(v0, s), v1 = __fmul_rn(v1, s);
    }
    if (p.bias) {
        v0 = __fadd_rn(v0, p.bias[column]);
        if (two) v1 = __fadd_rn(v1, p.bias[column + 1]);
    }
    if (p.residual) {
        const float* r = p.residual + (int64_t)row * p.residual_stride + column;
        v0 = __fadd_rn(v0, r[0]);
        if (two) v1 = __fadd_rn(v1, r[1]);
    }
    float* y = p.y + (int64_t)row * p.y_stride + column;
    if (two && pairs) {
        *reinterpret_cast<float2*>(y) = make_float2(v0, v1);
    } else {
        y[0] = v0;
        if (two) y[1] = v1;
    }
}

template <bool BF16, int BM, int BN, int WM, int WN, int STAGES>
__device__ __forceinline__ void run(const GemmParams& p) {
    using S = Shape<BM, BN, WM, WN, STAGES>;
    constexpr int MI = WM / 16, NI = WN / 16;
    DYNAMIC_SHARED;
    pdl_launch_dependents();
    pdl_wait();

    int tiles_m = (p.m + BM - 1) / BM, tiles_n = (p.n + BN - 1) / BN;
    int band = blockIdx.x / (kGroupM * tiles_n), rest = blockIdx.x % (kGroupM * tiles_n);
    int band_m = min(kGroupM, tiles_m - band * kGroupM);
    int m0 = (band * kGroupM + rest % band_m) * BM, n0 = rest / band_m * BN;

    auto fetch = [&](int t) {
        unsigned char* at = dynamic_shared + t % STAGES * S::kStage;
        copy<BM, S::kLoadRows>(at, p.a, m0, p.m, p.a_stride, t * kDepth, p.k);
        copy<BN, S::kLoadRows>(at + BM * kRowBytes, p.b, n0, p.n, p.b_stride, t * kDepth, p.k);
    };
    int steps = (p.k + kDepth - 1) / kDepth;
#pragma unroll
    for (int t = 0; t < STAGES - 1; t++) {
        if (t < steps) fetch(t);
        cp_async_commit();
    }

    int lane = lane_id(), warp = warp_id(), wm = warp % (BM / WM) * WM, wn = warp / (BM / WM) * WN;
    // What a lane gives ldmatrix: for a, rows lane%16 and unit lane/16; for b, rows lane%8 (+8 for lanes 16 on) and unit lane/8%2.
    int row_a = wm + lane % 16, row_b = wn + lane % 8 + lane / 16 * 8;
    int unit_a = lane / 16, unit_b = lane / 8 % 2, flip = lane % 8;

    float acc[MI][NI * 2][4] = {};
    uint32_t a[2][MI][4], b[2][NI][4];
    for (int t = 0; t < steps; t++) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();
        const unsigned char* at = dynamic_shared + t % STAGES * S::kStage;
        const unsigned char* at_a = at + row_a * kRowBytes;
        const unsigned char* at_b = at + (BM + row_b) * kRowBytes;
        auto fragments = [&](int kk) {
#pragma unroll
            for (int i = 0; i < MI; i++) ldmatrix_x4(a[kk % 2][i], at_a + i * 16 * kRowBytes + ((2 * kk + unit_a) ^ flip) * 16);
#pragma unroll
            for (int i = 0; i < NI; i++) ldmatrix_x4(b[kk % 2][i], at_b + i * 16 * kRowBytes + ((2 * kk + unit_b) ^ flip) * 16);
        };
        fragments(0);
        if (t + STAGES - 1 < steps) fetch(t + STAGES - 1);
        cp_async_commit();
#pragma unroll
        for (int kk = 0; kk < kDepth / 16; kk++) {
            if (kk + 1 < kDepth / 16) fragments(kk + 1);
#pragma unroll
            for (int i = 0; i < MI; i++) {
#pragma unroll
                for (int j = 0; j < NI; j++) {
                    mma<BF16>(acc[i][2 * j], a[kk % 2][i], b[kk % 2][j][0], b[kk % 2][j][1]);
                    mma<BF16>(acc[i][2 * j + 1], a[kk % 2][i], b[kk % 2][j][2], b[kk % 2][j][3]);
                }
            }
        }
    }

    bool pairs = (((uintptr_t)p.y | (uintptr_t)p.y_stride * 4) & 7) == 0;
    int row = m0 + wm + lane / 4, column = n0 + wn + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < MI; i++) {
#pragma unroll
        for (int j = 0; j < NI * 2; j++) {
            store(p, row + i * 16, column + j * 8, acc[i][j][0], acc[i][j][1], pairs);
            store(p, row + i * 16 + 8, column + j * 8, acc[i][j][2], acc[i][j][3], pairs);
        }
    }
}

}  // namespace gemm

#define GEMM(name, bf16)                                                                                \
    extern "C" __global__ void __launch_bounds__(256, 1) gemm_##name##_128x256(const GemmParams p) {    \
        gemm::run<bf16, 128, 256, 64, 64, 4>(p);                                                        \
    }                                                                                                   \
    extern "C" __global__ void __launch_bounds__(128, 2) gemm_##name##_128x128(const GemmParams p) {    \
        gemm::run<bf16, 128, 128, 64, 64, 3>(p);                                                        \
    }                                                                                                   \
    extern "C" __global__ void __launch_bounds__(128, 4) gemm_##name##_64x64(const GemmParams p) {      \
        gemm::run<bf16, 64, 64, 32, 32, 3>(p);                                                          \
    }

GEMM(bf16, true)
GEMM(f16, false)

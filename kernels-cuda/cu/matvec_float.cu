// kernel                 inputs                                              result          launch                        moves
// matvec_TYPE_N          w [rows, k] f32, f16 or bf16, layout raw;           y [columns,     N = 1, 4 or 8 columns a       each weight once for
//                        x [columns, k] f32; bias, residual or null          rows] f32       block; a warp a row, 128      every N columns; x, y
//                                                                                            threads; grid (rows/4,
//                                                                                            columns/N)
//
// y = w*x + bias + residual; residual may be y. Weights are widened exactly; k is any. Bitwise class: lane l of 32 takes runs of V = 16
// bytes of weights, run l, l+32, …, in ascending order with one fma an element, a tail shorter than a run at the end; then
// lanes are added by a butterfly. The CPU takes 16 lanes in another order: float32 rounding of the sum is all that differs.
#include "matvec.cuh"

namespace matvec {

constexpr int kFloatWarps = 4;
constexpr int kAhead = 4; // runs a lane has in flight

template <int T> constexpr int kRun = T == F32 ? 4 : 8; // weights in 16 bytes

template <int T>
__device__ __forceinline__ void widen(const uint4& v, float (&w)[kRun<T>]) {
    uint32_t u[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (T == F32) {
            w[i] = __uint_as_float(u[i]);
        } else {
            float2 two = T == F16 ? f16x2_to_f32(u[i]) : bf16x2_to_f32(u[i]);
            w[2 * i] = two.x, w[2 * i + 1] = two.y;
        }
    }
}

template <int T>
__device__ __forceinline__ float element(const uint8_t* w, int i) {
    if (T == F32) return reinterpret_cast<const float*>(w)[i];
    uint16_t h = reinterpret_cast<const uint16_t*>(w)[i];
    return T == F16 ? f16_to_f32(h) : bf16_to_f32(h);
}

template <int T, int COLUMNS>
__device__ __forceinline__ void wide(const MatvecFloatParams& p) {
    constexpr int V = kRun<T>;
    pdl_launch_dependents();
    int row = blockIdx.x * kFloatWarps + warp_id(), lane = lane_id(), first = blockIdx.y * COLUMNS;
    int runs = row < p.rows ? p.k / V : 0;
    const uint8_t* w = p.w + (int64_t)row * p.w_stride;
    uint4 ahead[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; u++) {
        ahead[u] = make_uint4(0, 0, 0, 0);
        if (lane + u * kWarp < runs) ahead[u] = load_stream16(w + (lane + u * kWarp) * 16);
    }
    __syncwarp();
    pdl_wait();

    bool vector = aligned16(p.x, p.x_stride);
    float acc[COLUMNS] = {};
    for (int r0 = lane; r0 < runs; r0 += kWarp * kAhead) {
        uint4 now[kAhead];
#pragma unroll
        for (int u = 0; u < kAhead; u++) {
            now[u] = ahead[u];
            int next = r0 + (kAhead + u) * kWarp;
            if (next < runs) ahead[u] = load_stream16(w + (int64_t)next * 16);
        }
#pragma unroll
        for (int u = 0; u < kAhead; u++) {
            int r = r0 + u * kWarp;
            if (r >= runs) break;
            float a[V];
            widen<T>(now[u], a);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                const float* x = p.x + (int64_t)min(first + j, p.columns - 1) * p.x_stride + r * V;
#pragma unroll
                for (int i = 0; i < V; i += 4) {
                    float4 v = vector ? load4(x + i) : make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
                    acc[j] = __fmaf_rn(a[i], v.x, acc[j]);
                    acc[j] = __fmaf_rn(a[i + 1], v.y, acc[j]);
                    acc[j] = __fmaf_rn(a[i + 2], v.z, acc[j]);
                    acc[j] = __fmaf_rn(a[i + 3], v.w, acc[j]);
                }
            }
        }
    }
    int tail = p.k / V * V + lane;
    if (row < p.rows && tail < p.k) {
        float a = element<T>(w, tail);
#pragma unroll
        for (int j = 0; j < COLUMNS; j++) acc[j] = __fmaf_rn(a, p.x[(int64_t)min(first + j, p.columns - 1) * p.x_stride + tail], acc[j]);
    }
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) acc[j] = warp_sum(acc[j]);
    if (row >= p.rows) return;
#pragma unroll
    for (int j = 0; j < COLUMNS; j++) {
        int column = first + j;
        if (lane == j && column < p.columns) {
            p.y[(int64_t)column * p.y_stride + row] = finish(acc[j], p.bias, p.residual, row, column, p.residual_stride);
        }
    }
}

}  // namespace matvec

#define MATVEC_FLOAT(name, type, n) \
    extern "C" __global__ void __launch_bounds__(128, 3) matvec_##name##_##n(const MatvecFloatParams p) { matvec::wide<quant::type, n>(p); }
#define MATVEC_FLOATS(name, type) MATVEC_FLOAT(name, type, 1) MATVEC_FLOAT(name, type, 4) MATVEC_FLOAT(name, type, 8)

MATVEC_FLOATS(f32, F32)
MATVEC_FLOATS(f16, F16)
MATVEC_FLOATS(bf16, BF16)

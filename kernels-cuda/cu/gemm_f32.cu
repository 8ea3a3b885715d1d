// kernel       inputs                                       result         launch                             moves
// gemm_f32     a [m, a_stride] f32, b [n, b_stride] f32     y [m, n] f32   tiles of 128 x 128, 256 threads,    a and b once at best, y,
//                                                                          8 x 8 values each, grid (tiles)     residual
//
// y = a*b^T + bias + residual; the two optional, residual may be y. Any m, n, k and strides; 16-byte loads where addresses and strides
// allow. Each value is one chain of fma over k in ascending order: float32 rounding alone, and bitwise class.
#include "device.cuh"

namespace gemm_f32_kernel {

constexpr int kTile = 128, kDepth = 16, kPad = 4;

struct alignas(16) Tile {
    float at[kDepth][kTile + kPad]; // [k][row]
};

// A thread brings 4 columns of k of two rows, 64 rows apart.
__device__ __forceinline__ void fetch(float4 (&v)[2], const float* x, int first, int rows, int stride, int k0, int k, bool vector) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = first + threadIdx.x / 4 + i * 64;
        v[i] = row < rows ? load_row4(x + (int64_t)row * stride, k0 + threadIdx.x % 4 * 4, k, vector) : make_float4(0, 0, 0, 0);
    }
}

__device__ __forceinline__ void put(Tile& t, const float4 (&v)[2]) {
    int k = threadIdx.x % 4 * 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = threadIdx.x / 4 + i * 64;
        t.at[k][row] = v[i].x, t.at[k + 1][row] = v[i].y, t.at[k + 2][row] = v[i].z, t.at[k + 3][row] = v[i].w;
    }
}

__device__ __forceinline__ void get(float (&v)[8], const float* row, int at) {
    float4 lo = load4(row + at), hi = load4(row + at + 64);
    v[0] = lo.x, v[1] = lo.y, v[2] = lo.z, v[3] = lo.w, v[4] = hi.x, v[5] = hi.y, v[6] = hi.z, v[7] = hi.w;
}

}  // namespace gemm_f32_kernel

extern "C" __global__ void __launch_bounds__(256) gemm_f32(const GemmF32Params p) {
    using namespace gemm_f32_kernel;
    __shared__ Tile a[2], b[2];
    pdl_launch_dependents();
    pdl_wait();
    int tiles_m = (p.m + kTile - 1) / kTile;
    int m0 = blockIdx.x % tiles_m * kTile, n0 = blockIdx.x / tiles_m * kTile;
    bool vector_a = aligned16(p.a, p.a_stride), vector_b = aligned16(p.b, p.b_stride);
    float4 next_a[2], next_b[2];
    fetch(next_a, p.a, m0, p.m, p.a_stride, 0, p.k, vector_a);
    fetch(next_b, p.b, n0, p.n, p.b_stride, 0, p.k, vector_b);
    put(a[0], next_a);
    put(b[0], next_b);
    __syncthreads();

    int tm = threadIdx.x / 16 * 4, tn = threadIdx.x % 16 * 4;
    float acc[8][8] = {};
    for (int k0 = 0, now = 0; k0 < p.k; k0 += kDepth, now ^= 1) {
        bool more = k0 + kDepth < p.k;
        if (more) {
            fetch(next_a, p.a, m0, p.m, p.a_stride, k0 + kDepth, p.k, vector_a);
            fetch(next_b, p.b, n0, p.n, p.b_stride, k0 + kDepth, p.k, vector_b);
        }
#pragma unroll
        for (int k = 0; k < kDepth; k++) {
            float x[8], w[8];
            get(x, a[now].at[k], tm);
            get(w, b[now].at[k], tn);
#pragma unroll
            for (int i = 0; i < 8; i++) {
#pragma unroll
                for (int j = 0; j < 8; j++) acc[i][j] = __fmaf_rn(x[i], w[j], acc[i][j]);
            }
        }
        if (more) {
            put(a[now ^ 1], next_a);
            put(b[now ^ 1], next_b);
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 8; i++) {
        int row = m0 + tm + i % 4 + i / 4 * 64;
        if (row >= p.m) continue;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            int column = n0 + tn + j % 4 + j / 4 * 64;
            if (column >= p.n) continue;
            float v = acc[i][j];
            if (p.bias) v = __fadd_rn(v, p.bias[column]);
            if (p.residual) v = __fadd_rn(v, p.residual[(int64_t)row * p.residual_stride + column]);
            p.y[(int64_t)row * p.y_stride + column] = v;
        }
    }
}

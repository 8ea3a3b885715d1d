// kernel       inputs                                   result                    launch                     moves
// add_f32      a, b [rows, width] f32                   y = a + b                 grid (rows, width/1024),   a, b, y, q8 once
// mul_f32      a, b                                     y = a * b                 256 threads, a thread      (1.25 bytes an element
// silu_f32     a                                        y = a / (1 + exp(-a))     takes 4 neighbours         for q8 and records)
// swiglu_f32   a (gate), b (up)                         y = silu(a) * b
// scale_f32    a, factor                                y = a * factor
// permute_f32  x of any strides, 4 dimensions           y contiguous copy         grid-stride, 256 threads   8 bytes an element
//
// Rows have strides; 16-byte accesses where addresses and strides allow, else one by one. y and q8 are both optional. y may be a or
// b. Limits: width a multiple of 32 with q8; width ≤ 1024*65535.
#include "device.cuh"

namespace elementwise {

constexpr int kThreads = 256;

template <class Op>
__device__ __forceinline__ void run(const ElementwiseParams& p, bool binary, Op op) {
    pdl_launch_dependents();
    pdl_wait();
    int row = blockIdx.x, i = (blockIdx.y * kThreads + threadIdx.x) * 4;
    float4 a = load_row4(p.a + (int64_t)row * p.a_stride, i, p.width, aligned16(p.a, p.a_stride)), b = a;
    if (binary) b = load_row4(p.b + (int64_t)row * p.b_stride, i, p.width, aligned16(p.b, p.b_stride));
    float4 y = make_float4(op(a.x, b.x), op(a.y, b.y), op(a.z, b.z), op(a.w, b.w));
    if (p.y) store_row4(p.y + (int64_t)row * p.y_stride, i, p.width, aligned16(p.y, p.y_stride), y);
    if (p.q8) {
        int block = i / 32;
        q8a_store4(y, p.q8 + (int64_t)row * p.width + block * 32, (Q8Record*)p.records + (int64_t)row * (p.width / 32) + block, i < p.width);
    }
}

}  // namespace elementwise

extern "C" __global__ void __launch_bounds__(256) add_f32(const ElementwiseParams p) {
    elementwise::run(p, true, [](float a, float b) { return a + b; });
}

extern "C" __global__ void __launch_bounds__(256) mul_f32(const ElementwiseParams p) {
    elementwise::run(p, true, [](float a, float b) { return a * b; });
}

extern "C" __global__ void __launch_bounds__(256) silu_f32(const ElementwiseParams p) {
    elementwise::run(p, false, [](float a, float) { return silu(a); });
}

extern "C" __global__ void __launch_bounds__(256) swiglu_f32(const ElementwiseParams p) {
    elementwise::run(p, true, [](float a, float b) { return silu(a) * b; });
}

extern "C" __global__ void __launch_bounds__(256) scale_f32(const ElementwiseParams p) {
    float factor = p.factor;
    elementwise::run(p, false, [factor](float a, float) { return a * factor; });
}

extern "C" __global__ void __launch_bounds__(256) permute_f32(const PermuteParams p) {
    pdl_launch_dependents();
    pdl_wait();
    int64_t total = (int64_t)p.shape[0] * p.shape[1] * p.shape[2] * p.shape[3];
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        int64_t rest = i, at = 0;
#pragma unroll
        for (int d = 3; d > 0; d--) {
            at += rest % p.shape[d] * p.stride[d];
            rest /= p.shape[d];
        }
        p.y[i] = p.x[at + rest * p.stride[0]];
    }
}

// kernel        inputs                                  result                              launch                         moves
// rmsnorm_f32   x, residual? [rows, width], w [width]   sum? = x + residual; y?, q8? =      grid rows; 256, 512 or 1024    4 bytes an element for each
//                                                       norm(sum) * w                       threads by width               of x, residual, sum, y; 1.25 q8
// headnorm_f32  x [rows, heads, width], w [width]       y = norm(x) * w for each head       grid (rows, heads/8), a warp   8 bytes an element
//                                                                                           a head, 8 warps
// softmax_f32   x [rows, inner, width]                  y = exp(x - max) / sum              grid (rows, inner), 256 or     12 bytes an element
//                                                                                           1024 threads by width          (x is read three times)
//
// norm(x) = x * (1 / sqrt(mean(x²) + eps)). Sums: each thread over its own elements ascending, then by fixed butterflies;
// the block's size follows from width alone, so a row's bits don't depend on other rows. Rows have strides. Any width.
#include "device.cuh"

namespace norms {

constexpr int kKeep = 4;  // vectors of 4 that a thread keeps in registers between its two passes; rows beyond are read again

__device__ __forceinline__ float4 add(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

__device__ __forceinline__ float squares(float4 v, float acc) {
    acc = fmaf(v.x, v.x, acc);
    acc = fmaf(v.y, v.y, acc);
    acc = fmaf(v.z, v.z, acc);
    return fmaf(v.w, v.w, acc);
}

__device__ __forceinline__ float factor(float sum, int n, float eps) { return 1.0f / sqrtf(sum / (float)n + eps); }

__device__ __forceinline__ float4 apply(float4 v, float inv, float4 w) {
    return make_float4(v.x * inv * w.x, v.y * inv * w.y, v.z * inv * w.z, v.w * inv * w.w);
}

// One row's operands.
struct Row {
    const float *x, *residual;
    float *sum, *y;
    int width;
    bool x_vector, residual_vector, sum_vector, y_vector;

    __device__ __forceinline__ float4 load(int i) const {
        float4 v = load_row4(x, i, width, x_vector);
        return residual ? add(v, load_row4(residual, i, width, residual_vector)) : v;
    }
};

}  // namespace norms

extern "C" __global__ void __launch_bounds__(1024) rmsnorm_f32(const RmsNormParams p) {
    using namespace norms;
    __shared__ float slots[kWarp];
    pdl_launch_dependents();
    bool w_vector = aligned16(p.w, 0);
    int first = threadIdx.x * 4, step = blockDim.x * 4;
    pdl_wait();
    int64_t row = blockIdx.x;
    Row r;
    r.x = p.x + row * p.x_stride;
    r.residual = p.residual ? p.residual + row * p.residual_stride : nullptr;
    r.sum = p.sum ? p.sum + row * p.sum_stride : nullptr;
    r.y = p.y ? p.y + row * p.y_stride : nullptr;
    r.width = p.width;
    r.x_vector = aligned16(p.x, p.x_stride);
    r.residual_vector = aligned16(p.residual, p.residual_stride);
    r.sum_vector = aligned16(p.sum, p.sum_stride);
    r.y_vector = aligned16(p.y, p.y_stride);

    float4 v[kKeep];
    float acc = 0;
#pragma unroll
    for (int c = 0; c < kKeep; c++) v[c] = r.load(first + c * step);
#pragma unroll
    for (int c = 0; c < kKeep; c++) {
        acc = squares(v[c], acc);
        if (r.sum) store_row4(r.sum, first + c * step, p.width, r.sum_vector, v[c]);
    }
    // The last pass reads what lies beyond again, so with sum in the place of x or residual it takes the sum itself.
    for (int base = kKeep * step; base < p.width; base += step) {
        float4 u = r.load(first + base);
        acc = squares(u, acc);
        if (r.sum) store_row4(r.sum, first + base, p.width, r.sum_vector, u);
    }
    if (r.sum) {
        r.x = r.sum;
        r.x_vector = r.sum_vector;
        r.residual = nullptr;
    }

    float inv = factor(block_sum(acc, slots), p.width, p.eps);
    int8_t* q8 = p.q8 ? p.q8 + row * p.width : nullptr;
    Q8Record* records = (Q8Record*)p.records + row * (p.width / 32);
    auto finish = [&](float4 u, int i) {
        u = apply(u, inv, load_row4(p.w, i, p.width, w_vector));
        if (r.y) store_row4(r.y, i, p.width, r.y_vector, u);
        if (q8) q8a_store4(u, q8 + i / 32 * 32, records + i / 32, i < p.width);
    };
#pragma unroll
    for (int c = 0; c < kKeep; c++) {
        if (c * step < p.width) finish(v[c], first + c * step);
    }
    for (int base = kKeep * step; base < p.width; base += step) finish(r.load(first + base), first + base);
}

extern "C" __global__ void __launch_bounds__(256) headnorm_f32(const HeadNormParams p) {
    using namespace norms;
    pdl_launch_dependents();
    pdl_wait();
    int head = blockIdx.y * (blockDim.x / kWarp) + warp_id();
    if (head >= p.heads) return;
    const float* x = p.x + (int64_t)blockIdx.x * p.x_stride + head * p.width;
    float* y = p.y + (int64_t)blockIdx.x * p.y_stride + head * p.width;
    bool x_vector = aligned16(p.x, p.x_stride) && (p.width & 3) == 0, y_vector = aligned16(p.y, p.y_stride) && (p.width & 3) == 0;
    bool w_vector = aligned16(p.w, 0);
    int first = lane_id() * 4, step = kWarp * 4;

    float4 v = load_row4(x, first, p.width, x_vector);
    float acc = squares(v, 0);
    for (int i = first + step; i < p.width; i += step) acc = squares(load_row4(x, i, p.width, x_vector), acc);
    float inv = factor(warp_sum(acc), p.width, p.eps);
    if (first < p.width) store_row4(y, first, p.width, y_vector, apply(v, inv, load_row4(p.w, first, p.width, w_vector)));
    for (int i = first + step; i < p.width; i += step) {
        v = load_row4(x, i, p.width, x_vector);
        store_row4(y, i, p.width, y_vector, apply(v, inv, load_row4(p.w, i, p.width, w_vector)));
    }
}

extern "C" __global__ void __launch_bounds__(1024) softmax_f32(const SoftmaxParams p) {
    __shared__ float slots[kWarp];
    pdl_launch_dependents();
    pdl_wait();
    const float* x = p.x + (int64_t)blockIdx.x * p.x_stride + (int64_t)blockIdx.y * p.width;
    float* y = p.y + (int64_t)blockIdx.x * p.y_stride + (int64_t)blockIdx.y * p.width;
    float m = -INFINITY;
    for (int i = threadIdx.x; i < p.width; i += blockDim.x) m = fmaxf(m, x[i]);
    m = block_max(m, slots);
    float sum = 0;
    for (int i = threadIdx.x; i < p.width; i += blockDim.x) sum += expf(x[i] - m);
    float inv = 1.0f / block_sum(sum, slots);
    for (int i = threadIdx.x; i < p.width; i += blockDim.x) y[i] = expf(x[i] - m) * inv;
}

// kernel                 inputs                              result                          launch                      moves
// quantize_q8            x [rows, k] f32                     q8 [rows][k], records           grid (k/1024, rows),        4 bytes in, 1.25 out
//                                                            [rows][k/32] (README.md)        256 threads, 4 values each  a value
// convert_bf16           x [rows, k] f32                     y [rows][y_stride] bf16                                     4 in, 2 out
// swiglu_convert_bf16    x [rows, 2k], gate then up          the same of silu(gate)*up                                   8 in, 2 out
// convert_f16            x [rows, k] f32                     y f16 of x*2^-e, scale[row] = 2^e  a block a row            8 in, 2 out
//
// Rows of x have a stride; 16-byte loads where addresses and stride allow, else one by one. k is a multiple of 32 for q8, any
// otherwise; columns of y from k to y_stride become 0. Rounding of q8 is that of ADR 0001, bit for bit. convert_f16 chooses e so that the row's largest magnitude lies in
// [2^13, 2^14), so that nothing overflows and the row's large values keep all 11 bits; a row with NaN or infinity has e = 0.
#include "device.cuh"

namespace quantize {

constexpr int kThreads = 256;

template <bool SWIGLU>
__device__ __forceinline__ float4 input(const QuantizeParams& p, int row, int i) {
    const float* x = p.x + (int64_t)row * p.x_stride;
    float4 v = load_row4(x, i, p.k, aligned16(p.x, p.x_stride));
    if (!SWIGLU) return v;
    float4 u = load_row4(x + p.k, i, p.k, aligned16(p.x + p.k, p.x_stride));
    return make_float4(silu(v.x) * u.x, silu(v.y) * u.y, silu(v.z) * u.z, silu(v.w) * u.w);
}

__device__ __forceinline__ uint32_t pack_bf16(float a, float b) {
    __nv_bfloat162 v = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<uint32_t*>(&v);
}

__device__ __forceinline__ uint32_t pack_f16(float a, float b) {
    __half2 v = __floats2half2_rn(a, b);
    return *reinterpret_cast<uint32_t*>(&v);
}

// Four 16-bit values; y_stride is a multiple of 4 and rows start at multiples of 8 bytes.
__device__ __forceinline__ void store(uint16_t* y, int i, uint32_t lo, uint32_t hi) { *reinterpret_cast<uint2*>(y + i) = make_uint2(lo, hi); }

template <bool SWIGLU>
__device__ __forceinline__ void bf16(const QuantizeParams& p) {
    pdl_launch_dependents();
    pdl_wait();
    int i = (blockIdx.x * kThreads + threadIdx.x) * 4;
    for (int row = blockIdx.y; row < p.rows; row += gridDim.y) {
        float4 v = input<SWIGLU>(p, row, i);
        if (i < p.y_stride) store(p.y16 + (int64_t)row * p.y_stride, i, pack_bf16(v.x, v.y), pack_bf16(v.z, v.w));
    }
}

}  // namespace quantize

extern "C" __global__ void __launch_bounds__(256) quantize_q8(const QuantizeParams p) {
    pdl_launch_dependents();
    pdl_wait();
    int i = (blockIdx.x * quantize::kThreads + threadIdx.x) * 4;
    for (int row = blockIdx.y; row < p.rows; row += gridDim.y) {
        float4 v = quantize::input<false>(p, row, i);
        q8a_store4(v, p.q8 + (int64_t)row * p.k + i / 32 * 32, (Q8Record*)p.records + (int64_t)row * (p.k / 32) + i / 32, i < p.k);
    }
}

extern "C" __global__ void __launch_bounds__(256) convert_bf16(const QuantizeParams p) { quantize::bf16<false>(p); }
extern "C" __global__ void __launch_bounds__(256) swiglu_convert_bf16(const QuantizeParams p) { quantize::bf16<true>(p); }

extern "C" __global__ void __launch_bounds__(256) convert_f16(const QuantizeParams p) {
    using namespace quantize;
    __shared__ float slots[kThreads / kWarp];
    pdl_launch_dependents();
    pdl_wait();
    const float* x = p.x + (int64_t)blockIdx.x * p.x_stride;
    bool vector = aligned16(p.x, p.x_stride), finite = true;
    float top = 0.0f;
    for (int i = threadIdx.x * 4; i < p.k; i += kThreads * 4) {
        float4 v = load_row4(x, i, p.k, vector);
        float m = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
        finite = finite && isfinite(v.x) && isfinite(v.y) && isfinite(v.z) && isfinite(v.w);
        top = fmaxf(top, m);
    }
    top = block_max<kThreads / kWarp>(top, slots);
    finite = __syncthreads_and(finite);
    // 2^e from the exponent bits, kept where both it and its inverse are normal numbers.
    int e = (int)(__float_as_uint(top) >> 23) - 127 - 13;
    if (!finite || top == 0.0f) e = 0;
    e = min(max(e, -100), 114);
    float down = __uint_as_float((uint32_t)(127 - e) << 23), up = __uint_as_float((uint32_t)(127 + e) << 23);
    uint16_t* y = p.y16 + (int64_t)blockIdx.x * p.y_stride;
    for (int i = threadIdx.x * 4; i < p.y_stride; i += kThreads * 4) {
        float4 v = load_row4(x, i, p.k, vector);
        store(y, i, pack_f16(v.x * down, v.y * down), pack_f16(v.z * down, v.w * down));
    }
    if (threadIdx.x == 0) p.scales[blockIdx.x] = up;
}

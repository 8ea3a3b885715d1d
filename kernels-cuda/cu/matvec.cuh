// What the decode products share: a group of quantised weights times rows of 8-bit activations, and how a result is written.
//
// The order of a sum is part of the result. A row's groups g go to `parts` partial sums, g to g mod parts; each is added up in
// ascending order from 0 by the steps of ADR 0001 (integer sums are exact); the partial sums are then added pairwise: neighbours
// first, those sums again, until one is left. Nothing else enters: not the number of columns, the grid or the layout. parts is a
// function of the weight's shape (launch_matvec.go). The CPU adds in one chain, so the two differ in float32 rounding of the sum.
#pragma once
#include "quant.cuh"

namespace matvec {

using namespace quant;

constexpr int kMaxParts = 32;

// step adds one chunk: level words w[0..7] with scale s, activations x (two halves of 16) of record r.
template <int T>
__device__ __forceinline__ float step(float acc, const uint32_t (&w)[8], const Scale& s, const int4& lo, const int4& hi, const Q8Record& r) {
    int a = __dp4a((int)w[0], lo.x, 0), b;
    a = __dp4a((int)w[1], lo.y, a);
    a = __dp4a((int)w[2], lo.z, a);
    a = __dp4a((int)w[3], lo.w, a);
    b = T == Q6_K ? __dp4a((int)w[4], hi.x, 0) : __dp4a((int)w[4], hi.x, a);
    b = __dp4a((int)w[5], hi.y, b);
    b = __dp4a((int)w[6], hi.z, b);
    b = __dp4a((int)w[7], hi.w, b);
    if (T == Q6_K) {
        acc = __fmaf_rn(__fmul_rn(s.w, r.d), (float)(a - Format<T>::kOffset * r.s0), acc);
        return __fmaf_rn(__fmul_rn(s.v, r.d), (float)(b - Format<T>::kOffset * r.s1), acc);
    }
    int sum = r.s0 + r.s1;
    acc = __fmaf_rn(__fmul_rn(s.w, r.d), (float)(b - Format<T>::kOffset * sum), acc);
    if (has_minimum(T)) acc = __fmaf_rn(s.m, __fmul_rn(r.d, (float)sum), acc);
    return acc;
}

// group adds a group to the sums of COLUMNS activation rows. x(column, chunk, lo, hi, record) gives the activations.
template <int T, int COLUMNS, class X>
__device__ __forceinline__ void group(const Group<T>& g, int blocks, float (&acc)[COLUMNS], const X& x) {
#pragma unroll
    for (int c = 0; c < kChunks; c++) {
        if (is_super(T) || c < blocks) {
            uint32_t w[8];
#pragma unroll
            for (int i = 0; i < 8; i++) w[i] = levels<T>(g, c, i);
            Scale s = scale<T>(g, c);
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) {
                int4 lo, hi;
                Q8Record r;
                x(j, c, lo, hi, r);
                acc[j] = step<T>(acc[j], w, s, lo, hi, r);
            }
        }
    }
}

// finish is y = sum + bias + residual, the optional ones where their address isn't null.
__device__ __forceinline__ float finish(float sum, const float* bias, const float* residual, int row, int column, int residual_stride) {
    if (bias) sum = __fadd_rn(sum, bias[row]);
    if (residual) sum = __fadd_rn(sum, residual[(int64_t)column * residual_stride + row]);
    return sum;
}

}  // namespace matvec

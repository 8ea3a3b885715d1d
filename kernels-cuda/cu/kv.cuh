// Rows of the KV cache: the three formats of package kvformat, encoded by a warp, and where a sequence's cells are.
#pragma once
#include "device.cuh"

// Row formats, as params hold them (Go: KVF32, KVF16, KVQ8).
constexpr int kKvF32 = 0, kKvF16 = 1, kKvQ8 = 2;

// Bytes of n elements; n is a multiple of 32 for Q8_0.
__device__ __forceinline__ int kv_bytes(int type, int n) { return type == kKvF32 ? 4 * n : type == kKvF16 ? 2 * n : n / 32 * 34; }

// kv_encode writes one head's n values, which a warp has in shared memory, to dst. Q8_0 (kvformat.Format.Encode): d = amax/127 as f16,
// q = roundToEven(x * (127/amax)) within ±127; a NaN counts as 0 in amax and q, and makes d NaN.
__device__ __forceinline__ void kv_encode(unsigned char* dst, int type, const float* values, int n) {
    int lane = lane_id();
    if (type == kKvF32) {
        for (int e = lane; e < n; e += kWarp) reinterpret_cast<float*>(dst)[e] = values[e];
        return;
    }
    if (type == kKvF16) {
        for (int e = lane; e < n; e += kWarp) reinterpret_cast<uint16_t*>(dst)[e] = f32_to_f16(values[e]);
        return;
    }
    for (int b = 0; b < n / 32; b++) {
        float x = values[b * 32 + lane];
        float amax = warp_max(fabsf(x));  // passes over NaN, but where all are NaN
        bool any_nan = __any_sync(0xffffffffu, x != x);
        if (amax != amax) amax = 0;
        float d = any_nan ? __int_as_float(0x7fc00000) : q8_scale(amax);
        if (lane == 0) *reinterpret_cast<uint16_t*>(dst + b * 34) = f32_to_f16(d);
        dst[b * 34 + 2 + lane] = (unsigned char)(signed char)q8_round(x, q8_inverse(amax));
    }
}

// A sequence's cells: position j is found by walking its runs (docs/graph.md).
struct Runs {
    const int32_t* run;  // pairs (first cell, cells) of the sequence
    int32_t count;

    __device__ __forceinline__ Runs(const int32_t* seq_runs, const int32_t* runs, int seq) {
        run = runs + 2 * seq_runs[2 * seq];
        count = seq_runs[2 * seq + 1];
    }

    // Cell of position j, which lies within the runs: the graph checks lengths before a step.
    __device__ __forceinline__ int cell(int j) const {
        const int32_t* r = run;
        for (int i = 0; i < count; i++, r += 2) {
            int n = r[1];
            if (j < n) return r[0] + j;
            j -= n;
        }
        return 0;
    }
};

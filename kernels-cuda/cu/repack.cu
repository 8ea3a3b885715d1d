// kernel          inputs                                     result                          launch                              moves
// repack_TYPE     w [rows, k] quantised TYPE, layout raw     planes of layout tile16         a block of 256 threads takes a      the weight's bytes
//                                                            (quant.cuh)                     share of a tile's vectors           in and out
//
// A move of bytes: tile16.go has the same rule in Go and its inverse. Rows up to a multiple of 16 and what a last group lacks are zero.
#include "quant.cuh"

namespace repack {

using namespace quant;

template <int T>
__device__ __forceinline__ void run(const RepackParams& p) {
    using F = Format<T>;
    pdl_launch_dependents();
    pdl_wait();
    int64_t tile = blockIdx.x;
    int groups = (p.k + kGroup - 1) / kGroup;
    int data = p.k / kChunk * (F::kData / kChunks / 16), head = groups * (F::kHead / 16); // vectors of a row
    int total = (data + head + (T == Q6_K ? groups : 0)) * kTile;
    for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < total; i += gridDim.y * blockDim.x) {
        int lane = i % kTile, v = i / kTile;
        bool there = tile * kTile + lane < p.rows;
        const uint8_t* row = p.w + (tile * kTile + lane) * p.w_stride;
        if (v >= data + head) {
            int group = v - data - head;
            uint16_t t = there ? (uint16_t)Raw<T>(row, group, p.k).t() : 0;
            reinterpret_cast<uint16_t*>(p.tail)[(tile * groups + group) * kTile + lane] = t;
            continue;
        }
        bool level = v < data;
        int vectors = level ? F::kData / 16 : F::kHead / 16, at = level ? v : v - data;
        uint32_t u[4] = {0, 0, 0, 0};
        if (there) {
            Raw<T> from(row, at / vectors, p.k);
#pragma unroll
            for (int j = 0; j < 4; j++) u[j] = level ? from.q(at % vectors * 16 + 4 * j) : from.h(at % vectors * 16 + 4 * j);
        }
        uint8_t* to = level ? p.data + tile * data * kPlane : p.head + tile * head * kPlane;
        *reinterpret_cast<uint4*>(to + at * kPlane + lane * 16) = make_uint4(u[0], u[1], u[2], u[3]);
    }
}

}  // namespace repack

#define REPACK(name, type) \
    extern "C" __global__ void __launch_bounds__(256) repack_##name(const RepackParams p) { repack::run<quant::type>(p); }

REPACK(q4_0, Q4_0)
REPACK(q4_1, Q4_1)
REPACK(q5_0, Q5_0)
REPACK(q5_1, Q5_1)
REPACK(q8_0, Q8_0)
REPACK(q4_k, Q4_K)
REPACK(q5_k, Q5_K)
REPACK(q6_k, Q6_K)

// kernel                 inputs                                            result               launch                       moves
// getrows_TYPE           table [entries, width] TYPE, raw; ids [rows]      y [rows, y_stride]   a block of 128 threads a     a row of the table and
//                        i32                                               f32                  row                          of y each
// getrows_tile_TYPE      the same in layout tile16, quantised TYPEs
//
// y[r] = table[ids[r]], widened to the bits that package quant decodes to. An id outside the table gives a row of NaN: the id comes
// from device memory, so nobody else can refuse it. width is a multiple of the type's block. Bitwise class.
#include "quant.cuh"

namespace getrows {

using namespace quant;

constexpr int kThreads = 128;

template <int T, bool TILE>
__device__ __forceinline__ void run(const GetrowsParams& p) {
    pdl_launch_dependents();
    pdl_wait();
    int id = p.ids[blockIdx.x];
    bool known = id >= 0 && id < p.entries;
    float* y = p.y + (int64_t)blockIdx.x * p.y_stride;
    if (!known) {
        for (int i = threadIdx.x; i < p.width; i += kThreads) y[i] = __int_as_float(0x7fc00000);
        return;
    }
    if constexpr (T == F32 || T == F16 || T == BF16) {
        const uint8_t* row = p.table + (int64_t)id * p.table_stride;
        for (int i = threadIdx.x; i < p.width; i += kThreads) {
            if (T == F32) {
                y[i] = reinterpret_cast<const float*>(row)[i];
            } else {
                uint16_t h = reinterpret_cast<const uint16_t*>(row)[i];
                y[i] = T == F16 ? f16_to_f32(h) : bf16_to_f32(h);
            }
        }
    } else {
        bool vector = aligned16(p.y, p.y_stride);
        for (int i = threadIdx.x; i < p.width / 8; i += kThreads) {
            int group = i / (kGroup / 8), chunk = i / 4 % kChunks;
            float v[8];
            if (TILE) {
                decode8<T>(Tile<T>(Planes{p.table, p.head, p.tail}, id, group, p.width), chunk, i % 4, v);
            } else {
                decode8<T>(Raw<T>(p.table + (int64_t)id * p.table_stride, group, p.width), chunk, i % 4, v);
            }
            store_row4(y, i * 8, p.width, vector, make_float4(v[0], v[1], v[2], v[3]));
            store_row4(y, i * 8 + 4, p.width, vector, make_float4(v[4], v[5], v[6], v[7]));
        }
    }
}

}  // namespace getrows

#define GETROWS(name, type) \
    extern "C" __global__ void __launch_bounds__(128) getrows_##name(const GetrowsParams p) { getrows::run<quant::type, false>(p); }
#define GETROWS_BOTH(name, type) \
    GETROWS(name, type)          \
    extern "C" __global__ void __launch_bounds__(128) getrows_tile_##name(const GetrowsParams p) { getrows::run<quant::type, true>(p); }

GETROWS(f32, F32)
GETROWS(f16, F16)
GETROWS(bf16, BF16)
GETROWS_BOTH(q4_0, Q4_0)
GETROWS_BOTH(q4_1, Q4_1)
GETROWS_BOTH(q5_0, Q5_0)
GETROWS_BOTH(q5_1, Q5_1)
GETROWS_BOTH(q8_0, Q8_0)
GETROWS_BOTH(q4_k, Q4_K)
GETROWS_BOTH(q5_k, Q5_K)
GETROWS_BOTH(q6_k, Q6_K)

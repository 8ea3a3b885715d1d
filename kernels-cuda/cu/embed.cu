// kernel            inputs                                    result                         launch                            moves
// gather_rows_f32   x of f32 rows, ids [rows]                 y[r] = x[ids[r]]               grid (rows, width/1024), 256      rows read and written once
//                                                                                            threads, 4 elements a thread
// kv_move           region, dst, src, count                   cells moved as by memmove      grid-stride over independent      cells read and written once
//                                                                                            chains, 256 threads
// batch_matmul_f32  a [batch, m, k], b [batch, n, k]          y [batch, m, n]                grid (n/8, m, batch), a warp an   a and b up to m and n times
//                                                                                            output, 8 warps                   through the caches
//
// Rows of weights: getrows.cu. Ids are in range: the graph checks them.
//
// kv_move: with a shift of s = |dst - src| cells, cell i only ever meets cells i+s, i+2s, …: a thread takes one such chain of one column
// of up to 16 bytes, and walks it from the end that is safe. Small shifts have few chains: rare, and right.
#include "device.cuh"

namespace embed {

template <class Word>
__device__ __forceinline__ void move(const KvMoveParams& p) {
    int columns = (int)(p.row / sizeof(Word)), shift = abs(p.dst - p.src), chains = min(shift, p.count);
    int64_t total = (int64_t)chains * columns, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        int chain = (int)(i / columns), links = (p.count - chain + shift - 1) / shift;
        Word* at = reinterpret_cast<Word*>((unsigned char*)p.region) + i % columns;
        int64_t row = p.row / (int64_t)sizeof(Word);
        for (int k = 0; k < links; k++) {
            int64_t cell = chain + (int64_t)(p.dst < p.src ? k : links - 1 - k) * shift;
            at[(p.dst + cell) * row] = at[(p.src + cell) * row];
        }
    }
}

}  // namespace embed

extern "C" __global__ void __launch_bounds__(256) gather_rows_f32(const GatherRowsParams p) {
    pdl_launch_dependents();
    pdl_wait();
    int row = blockIdx.x, i = (blockIdx.y * blockDim.x + threadIdx.x) * 4;
    if (i >= p.width) return;
    float4 v = load_row4(p.x + (int64_t)p.ids[row] * p.x_stride, i, p.width, aligned16(p.x, p.x_stride));
    store_row4(p.y + (int64_t)row * p.y_stride, i, p.width, aligned16(p.y, p.y_stride), v);
}

extern "C" __global__ void __launch_bounds__(256) kv_move(const KvMoveParams p) {
    pdl_launch_dependents();
    pdl_wait();
    if (p.dst == p.src) return;
    if ((p.row & 15) == 0 && ((uintptr_t)p.region & 15) == 0) {
        embed::move<uint4>(p);
    } else if ((p.row & 3) == 0) {
        embed::move<uint32_t>(p);
    } else {
        embed::move<uint16_t>(p);
    }
}

extern "C" __global__ void __launch_bounds__(256) batch_matmul_f32(const BatchMatmulParams p) {
    pdl_launch_dependents();
    pdl_wait();
    int n = blockIdx.x * (blockDim.x / kWarp) + warp_id(), m = blockIdx.y, batch = blockIdx.z;
    if (n >= p.n) return;
    const float* a = p.a + batch * p.a_stride + (int64_t)m * p.k;
    const float* b = p.b + batch * p.b_stride + (int64_t)n * p.k;
    float acc = 0;
    for (int k = lane_id(); k < p.k; k += kWarp) acc = fmaf(a[k], b[k], acc);
    acc = warp_sum(acc);
    if (lane_id() == 0) p.y[((int64_t)batch * p.m + m) * p.n + n] = acc;
}

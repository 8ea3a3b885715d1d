// kernel              inputs                                     result                               launch                          moves
// rope_table_f32      positions [rows], frequencies [pairs]      table [rows][pairs](cos, sin)*scale  grid ceil(rows*pairs/256), 256  12 bytes an entry
// rope_f32            x [rows, heads, head_dim], table           y, rotated                           grid (rows, heads/4), a warp    8 bytes an element
//                                                                                                     a head, 4 warps
// qkv_rope_store_f32  q, k, v; biases?, norm weights?, table,    y = q'; K and V encoded in their     grid (rows, (heads +            q, k, v, y once,
//                     cells                                      regions (f32, f16, q8_0)             2 kv_heads)/4), 128 threads     encoded rows once
// kv_store_f32        x [rows, kv_heads, head_dim], cells        encoded rows in a region             grid (rows, kv_heads/4)         x, encoded rows
//
// The table is made once a step and read by every layer. Its angles are float64: positions times frequencies in half turns, of
// which sincospi takes the whole turns away exactly, so positions of millions cost no accuracy. Frequencies hold all of YaRN but
// the magnitude (scale). Rows of cell -1 are computed, not stored. Limits: head_dim ≤ 2048, 2*pairs ≤ head_dim, head_dim a
// multiple of 32 for q8_0.
#include "kv.cuh"

namespace rope {

constexpr int kWarps = 4;

// A warp rotates one head that lies in shared memory.
__device__ __forceinline__ void rotate(float* head, const float2* table, int pairs, bool interleaved) {
    for (int i = lane_id(); i < pairs; i += kWarp) {
        float2 t = table[i];
        int a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + pairs;
        float x0 = head[a], x1 = head[b];
        head[a] = fmaf(x0, t.x, -__fmul_rn(x1, t.y));
        head[b] = fmaf(x0, t.y, __fmul_rn(x1, t.x));
    }
    __syncwarp();
}

}  // namespace rope

extern "C" __global__ void __launch_bounds__(256) rope_table_f32(const RopeTableParams p) {
    pdl_launch_dependents();
    pdl_wait();
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int64_t)p.rows * p.pairs) return;
    double s, c;
    sincospi((double)p.positions[i / p.pairs] * p.frequencies[i % p.pairs], &s, &c);
    double scale = p.scale;
    reinterpret_cast<float2*>(p.table)[i] = make_float2((float)(c * scale), (float)(s * scale));
}

extern "C" __global__ void __launch_bounds__(128) rope_f32(const RopeParams p) {
    DYNAMIC_SHARED;
    pdl_launch_dependents();
    pdl_wait();
    int h = blockIdx.y * rope::kWarps + warp_id();
    if (h >= p.heads) return;
    int64_t row = blockIdx.x;
    float* head = reinterpret_cast<float*>(dynamic_shared) + warp_id() * p.head_dim;
    const float* x = p.x + row * p.x_stride + h * p.head_dim;
    float* y = p.y + row * p.y_stride + h * p.head_dim;
    for (int e = lane_id(); e < p.head_dim; e += kWarp) head[e] = x[e];
    __syncwarp();
    rope::rotate(head, reinterpret_cast<const float2*>(p.table) + row * p.pairs, p.pairs, p.interleaved);
    for (int e = lane_id(); e < p.head_dim; e += kWarp) y[e] = head[e];
}

extern "C" __global__ void __launch_bounds__(128) qkv_rope_store_f32(const QkvRopeStoreParams p) {
    DYNAMIC_SHARED;
    pdl_launch_dependents();
    pdl_wait();
    int h = blockIdx.y * rope::kWarps + warp_id(), lane = lane_id(), n = p.head_dim;
    int64_t row = blockIdx.x;
    if (h >= p.heads + 2 * p.kv_heads) return;
    float* head = reinterpret_cast<float*>(dynamic_shared) + warp_id() * n;

    // Heads of q come first, then those of k, then those of v.
    const float *x = p.q + row * p.q_stride, *bias = p.q_bias, *norm = p.q_norm;
    bool is_q = h < p.heads, is_v = h >= p.heads + p.kv_heads;
    int32_t cell = -1;
    if (!is_q) {
        cell = p.cells[row];
        h -= p.heads;
        x = p.k + row * p.k_stride;
        bias = p.k_bias;
        norm = p.k_norm;
    }
    if (is_v) {
        h -= p.kv_heads;
        x = p.v + row * p.v_stride;
        bias = p.v_bias;
        norm = nullptr;
    }
    x += h * n;
    for (int e = lane; e < n; e += kWarp) {
        float v = x[e];
        if (bias) v += bias[h * n + e];
        head[e] = v;
    }
    if (norm) { // in the order of headnorm_f32: fused or not, the bits are the same
        __syncwarp();
        float squares = 0;
        for (int base = lane * 4; base < n; base += kWarp * 4) {
            for (int e = base; e < min(base + 4, n); e++) squares = fmaf(head[e], head[e], squares);
        }
        float inv = 1.0f / sqrtf(warp_sum(squares) / (float)n + p.eps);
        for (int e = lane; e < n; e += kWarp) head[e] = head[e] * inv * norm[e];
    }
    __syncwarp();
    if (!is_v) rope::rotate(head, reinterpret_cast<const float2*>(p.table) + row * p.pairs, p.pairs, p.interleaved);
    if (is_q) {
        float* y = p.y + row * p.y_stride + h * n;
        for (int e = lane; e < n; e += kWarp) y[e] = head[e];
        return;
    }
    if (cell < 0) return;
    int type = is_v ? p.value_type : p.key_type;
    unsigned char* at = is_v ? (unsigned char*)p.values + cell * p.value_row : (unsigned char*)p.keys + cell * p.key_row;
    kv_encode(at + h * kv_bytes(type, n), type, head, n);
}

extern "C" __global__ void __launch_bounds__(128) kv_store_f32(const KvStoreParams p) {
    DYNAMIC_SHARED;
    pdl_launch_dependents();
    pdl_wait();
    int h = blockIdx.y * rope::kWarps + warp_id();
    int64_t row = blockIdx.x;
    int32_t cell = p.cells[row];
    if (h >= p.kv_heads || cell < 0) return;
    float* head = reinterpret_cast<float*>(dynamic_shared) + warp_id() * p.head_dim;
    const float* x = p.x + row * p.x_stride + h * p.head_dim;
    for (int e = lane_id(); e < p.head_dim; e += kWarp) head[e] = x[e];
    __syncwarp();
    kv_encode((unsigned char*)p.region + cell * p.row + h * kv_bytes(p.type, p.head_dim), p.type, head, p.head_dim);
}

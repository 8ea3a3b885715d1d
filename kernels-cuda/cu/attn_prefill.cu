// kernel                       inputs                                             result        launch                                   moves
// attn_prefill_KT_VT_dD        q [rows, heads, D] f32; K, V regions of formats    y             grid (rows*group/128, kv_heads), 256     q, y; K and V of a sequence
//                              KT, VT; lengths, run tables                                      threads, dynamic shared memory           once a block
//
// For D 64 and 128: KT, VT each f16 or q8; for D 80 and 96: f16, f16. Method and precision: attn_prefill.cuh. Tolerance class: powers are rounded to
// f16, and tiles are summed in an order of their own. Within it a row's bits depend on nothing but that row. Limits: y is given, q8 isn't; regions and rows of f16 cells at multiples of 16 bytes.
#include "attn_prefill.cuh"

#define PREFILL(NAME, D, KT, VT)                                                                       \
    extern "C" __global__ void __launch_bounds__(256, 1) NAME(const AttnParams p) {                    \
        using Shared = attn::PrefillShared<D, KT, VT>;                                                 \
        static_assert(sizeof(Shared) == Shared::kBytes, "what the launch asks for");                   \
        DYNAMIC_SHARED;                                                                                \
        attn::prefill<D, KT, VT>(p, *reinterpret_cast<Shared*>(dynamic_shared));                       \
    }

PREFILL(attn_prefill_f16_f16_d64, 64, kKvF16, kKvF16)
PREFILL(attn_prefill_f16_q8_d64, 64, kKvF16, kKvQ8)
PREFILL(attn_prefill_q8_f16_d64, 64, kKvQ8, kKvF16)
PREFILL(attn_prefill_q8_q8_d64, 64, kKvQ8, kKvQ8)
PREFILL(attn_prefill_f16_f16_d80, 80, kKvF16, kKvF16)
PREFILL(attn_prefill_f16_f16_d96, 96, kKvF16, kKvF16)
PREFILL(attn_prefill_f16_f16_d128, 128, kKvF16, kKvF16)
PREFILL(attn_prefill_f16_q8_d128, 128, kKvF16, kKvQ8)
PREFILL(attn_prefill_q8_f16_d128, 128, kKvQ8, kKvF16)
PREFILL(attn_prefill_q8_q8_d128, 128, kKvQ8, kKvQ8)
#undef PREFILL

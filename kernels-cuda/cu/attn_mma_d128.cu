// kernel                     inputs, result, launch, moves: as attn_decode_f32 (attn_decode.cu), with 256 threads
// attn_decode_f16_f16_d128    K f16, V f16, head_dim 128
// attn_decode_f16_q8_d128     K f16, V q8_0
// attn_decode_q8_f16_d128     K q8_0, V f16
// attn_decode_q8_q8_d128      K q8_0, V q8_0
//
// Method and precision: attn_mma.cuh. Limits: head_dim 128; regions and rows of cells at multiples of 16 bytes (f16) or 2 (q8_0).
#include "attn_mma.cuh"

// Blocks that shall fit on an SM at once, as far as registers allow without spilling.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define BLOCKS 2
#else
#define BLOCKS 1
#endif

#define DECODE(NAME, KT, VT, BLOCKS)                                                     \
    extern "C" __global__ void __launch_bounds__(256, BLOCKS) NAME(const AttnParams p) { \
        __shared__ attn::MmaShared<128> s;                                               \
        attn::decode_mma<128, KT, VT>(p, s);                                             \
    }

DECODE(attn_decode_f16_f16_d128, kKvF16, kKvF16, BLOCKS)
DECODE(attn_decode_f16_q8_d128, kKvF16, kKvQ8, BLOCKS)
DECODE(attn_decode_q8_f16_d128, kKvQ8, kKvF16, BLOCKS)
DECODE(attn_decode_q8_q8_d128, kKvQ8, kKvQ8, 1)
#undef DECODE
#undef BLOCKS

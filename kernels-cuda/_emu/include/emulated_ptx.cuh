// The functions of cu/ptx.cuh on the emulated device.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

inline void pdl_launch_dependents() {}
inline void pdl_wait() {}
inline void compiler_fence() {}
inline uint4 load_stream16(const void* p) { return *(const uint4*)p; }
inline uint2 load_stream8(const void* p) { return *(const uint2*)p; }
inline uint32_t load_stream4(const void* p) { return *(const uint32_t*)p; }

inline void copy_bytes(void* shared, const void* p, bool valid, int n) {
    if (((uintptr_t)shared | (valid ? (uintptr_t)p : 0)) % n) {
        fprintf(stderr, "emulator: cp.async of %d bytes at an odd address\n", n);
        abort();
    }
    if (valid) memcpy(shared, p, n); else memset(shared, 0, n);
}
inline void cp_async16(void* s, const void* p, bool valid = true) { copy_bytes(s, p, valid, 16); }
inline void cp_async8(void* s, const void* p, bool valid = true) { copy_bytes(s, p, valid, 8); }
inline void cp_async4(void* s, const void* p, bool valid = true) { copy_bytes(s, p, valid, 4); }
inline void cp_async_commit() {}
template <int PENDING> void cp_async_wait() {}

inline void ldmatrix(uint32_t* r, int matrices, bool trans, const void* shared) {
    if ((uintptr_t)shared % 16) {
        fprintf(stderr, "emulator: ldmatrix at an odd address\n");
        abort();
    }
    int lane = emulator::lane();
    emulator::slots()[lane] = (uint64_t)(uintptr_t)shared;
    emulator::meet_warp();
    for (int m = 0; m < matrices; m++) {
        const uint16_t* row[8];
        for (int i = 0; i < 8; i++) row[i] = (const uint16_t*)(uintptr_t)emulator::slots()[8 * m + i];
        int g = lane / 4, t = lane % 4;
        uint32_t a = trans ? row[2 * t][g] : row[g][2 * t], b = trans ? row[2 * t + 1][g] : row[g][2 * t + 1];
        r[m] = a | b << 16;
    }
    emulator::meet_warp();
}
inline void ldmatrix_x4(uint32_t (&r)[4], const void* s) { ldmatrix(r, 4, false, s); }
inline void ldmatrix_x4_trans(uint32_t (&r)[4], const void* s) { ldmatrix(r, 4, true, s); }
inline void ldmatrix_x2(uint32_t (&r)[2], const void* s) { ldmatrix(r, 2, false, s); }

// d += a*b by the definition of the fragments (PTX manual): every lane sees all lanes' registers through the slots. HALVES is how many
// registers hold a row's k elements.
template <int K, int HALVES, class Sum, class Left, class Right>
void mma_by_definition(Sum (&d)[4], const uint32_t (&a)[2 * HALVES], const uint32_t (&b)[HALVES], Left left, Right right) {
    constexpr int SPAN = K / HALVES, PER = SPAN / 4;  // elements of k a register of the four lanes; of one: 2 of 16 bits, 4 of 8
    int lane = emulator::lane(), g = lane / 4, t = lane % 4;
    uint32_t all[3 * HALVES][32];
    for (int r = 0; r < 3 * HALVES; r++) {
        emulator::slots()[lane] = r < 2 * HALVES ? a[r] : b[r - 2 * HALVES];
        emulator::meet_warp();
        for (int i = 0; i < 32; i++) all[r][i] = (uint32_t)emulator::slots()[i];
        emulator::meet_warp();
    }
    for (int i = 0; i < 4; i++) {
        int row = g + i / 2 * 8, col = 2 * t + i % 2;
        Sum sum = 0;
        for (int k = 0; k < K; k++) {
            int half = k / SPAN, at = k % SPAN;
            uint32_t ra = all[(row >= 8) + 2 * half][row % 8 * 4 + at / PER], rb = all[2 * HALVES + half][col * 4 + at / PER];
            sum += left(ra, at % PER) * right(rb, at % PER);
        }
        d[i] += sum;
    }
}
inline float f16_element(uint32_t r, int i) { return __half2float(__ushort_as_half((uint16_t)(r >> 16 * i))); }
inline float bf16_element(uint32_t r, int i) { return __uint_as_float((r >> 16 * i) << 16); }
inline int s8_element(uint32_t r, int i) { return (int)(signed char)(r >> 8 * i); }
inline int u8_element(uint32_t r, int i) { return (int)(r >> 8 * i & 255); }
inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { mma_by_definition<16, 2>(d, a, {b0, b1}, f16_element, f16_element); }
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { mma_by_definition<16, 2>(d, a, {b0, b1}, bf16_element, bf16_element); }
inline void mma_s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int c) {
    d[0] = d[1] = d[2] = d[3] = c;
    mma_by_definition<32, 2>(d, a, {b0, b1}, s8_element, s8_element);
}
inline void mma_u8s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, int c) {
    d[0] = d[1] = d[2] = d[3] = c;
    mma_by_definition<32, 2>(d, a, {b0, b1}, u8_element, s8_element);
}
inline void mma_s8_k16(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b, int c) {
    d[0] = d[1] = d[2] = d[3] = c;
    mma_by_definition<16, 1>(d, {a0, a1}, {b}, s8_element, s8_element);
}

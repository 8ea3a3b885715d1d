// Weight formats on the device: where the bytes are in each layout and what they stand for. One description serves products,
// gathering, expansion for the tensor cores and repacking, so that no two of them can read a format differently.
//
// Everything works on groups of 256 consecutive weights of a row: a super-block of Q4_K, Q5_K, Q6_K, or 8 blocks of 32 of the
// other formats (fewer in a row's last group). A group is three byte areas: levels q (the low or only bits), head h (scales,
// minima, upper bits), and for Q6_K a tail t of 2 bytes:
//
//   type         q                                h, from byte 0                                           t
//   Q4_K         128 as in the file               d, dmin, 12 bytes of scales and minima
//   Q5_K         128 as in the file               the same 16, then 32 of fifth bits
//   Q6_K         128 as in the file               16 scales, then 64 of upper bits                         d
//   Q8_0         8 times 32                       8 scales d
//   Q4_0         8 times 16                       8 scales d
//   Q4_1         8 times 16                       8 times d, m
//   Q5_0         8 times 16                       8 scales d, then 8 times 4 of fifth bits
//   Q5_1         8 times 16                       8 times d, m, then 8 times 4 of fifth bits
//
// Layout raw: the file's blocks, one row after the other, each row's start a multiple of 16 bytes.
// Layout tile16: tiles of 16 rows, vectors of 16 bytes, three planes (rows up to a multiple of 16 are zero):
//   data [tile][group][vector of q][16 rows][16 bytes]; a last group of n < 8 blocks has n times as many vectors as one block
//   head [tile][group][vector of h][16 rows][16 bytes]
//   tail [tile][group][16 rows][2 bytes]
// A warp's two halves read two groups: each load is 16 neighbouring vectors. No byte of the file is lost or made up.
#pragma once
#include "device.cuh"

namespace quant {

// GGML's numbers of the types, as in files.
enum Type { F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q4_K = 12, Q5_K = 13, Q6_K = 14, BF16 = 30 };

constexpr int kGroup = 256;        // weights a group
constexpr int kChunk = 32;         // weights with one activation scale
constexpr int kChunks = 8;         // chunks a group
constexpr int kTile = 16;          // rows a tile
constexpr int kPlane = kTile * 16; // bytes from one vector of a row to its next

// Format: bytes of a file's block, bytes of a group's q and h, what is subtracted from a level.
template <int T> struct Format;
template <> struct Format<Q4_0> { static constexpr int kBytes = 18, kData = 128, kHead = 16, kOffset = 8; };
template <> struct Format<Q4_1> { static constexpr int kBytes = 20, kData = 128, kHead = 32, kOffset = 0; };
template <> struct Format<Q5_0> { static constexpr int kBytes = 22, kData = 128, kHead = 48, kOffset = 16; };
template <> struct Format<Q5_1> { static constexpr int kBytes = 24, kData = 128, kHead = 64, kOffset = 0; };
template <> struct Format<Q8_0> { static constexpr int kBytes = 34, kData = 256, kHead = 16, kOffset = 0; };
template <> struct Format<Q4_K> { static constexpr int kBytes = 144, kData = 128, kHead = 16, kOffset = 0; };
template <> struct Format<Q5_K> { static constexpr int kBytes = 176, kData = 128, kHead = 48, kOffset = 0; };
template <> struct Format<Q6_K> { static constexpr int kBytes = 210, kData = 128, kHead = 80, kOffset = 32; };

constexpr __host__ __device__ bool is_super(int t) { return t == Q4_K || t == Q5_K || t == Q6_K; }
constexpr __host__ __device__ bool has_minimum(int t) { return t == Q4_1 || t == Q5_1 || t == Q4_K || t == Q5_K; }

__device__ __forceinline__ uint32_t load_u16(const uint8_t* p) { return *reinterpret_cast<const uint16_t*>(p); }
__device__ __forceinline__ uint32_t load_u32(const uint8_t* p) { return *reinterpret_cast<const uint32_t*>(p); }
__device__ __forceinline__ uint32_t load_2u16(const uint8_t* p) { return load_u16(p) | load_u16(p + 2) << 16; }

// A source of a group's bytes has q(i) and h(i), the four bytes from i on (i a multiple of 4), and t().

// Raw is a group within a raw row.
template <int T>
struct Raw {
    using F = Format<T>;
    const uint8_t* at; // the group's first byte
    int blocks;        // of 32, for the formats that have such; what is beyond reads as 0

    __device__ __forceinline__ Raw(const uint8_t* row, int group, int k)
        : at(row + (int64_t)group * (is_super(T) ? 1 : kChunks) * F::kBytes), blocks(min(kChunks, k / kChunk - group * kChunks)) {}

    __device__ __forceinline__ uint32_t word(int i) const {
        if (T == Q4_K || T == Q5_K || T == Q4_1 || T == Q5_1) return load_u32(at + i);
        return load_2u16(at + i);
    }
    __device__ __forceinline__ uint32_t block_word(int block, int i) const { return block < blocks ? word(block * F::kBytes + i) : 0; }
    __device__ __forceinline__ uint32_t block_half(int block) const { return block < blocks ? load_u16(at + block * F::kBytes) : 0; }
    __device__ __forceinline__ uint32_t halves(int i) const { return block_half(i / 2) | block_half(i / 2 + 1) << 16; }

    __device__ __forceinline__ uint32_t q(int i) const {
        if (T == Q4_K) return word(16 + i);
        if (T == Q5_K) return word(48 + i);
        if (T == Q6_K) return word(i);
        if (T == Q8_0) return block_word(i / 32, 2 + i % 32);
        return block_word(i / 16, F::kBytes - 16 + i % 16);
    }
    __device__ __forceinline__ uint32_t h(int i) const {
        if (T == Q4_K || T == Q5_K) return word(i);
        if (T == Q6_K) return i < 16 ? word(192 + i) : word(112 + i);
        if (T == Q4_1) return block_word(i / 4, 0);
        if (T == Q5_0) return i < 16 ? halves(i) : block_word((i - 16) / 4, 2);
        if (T == Q5_1) return i < 32 ? block_word(i / 4, 0) : block_word((i - 32) / 4, 4);
        return halves(i);
    }
    __device__ __forceinline__ uint32_t t() const { return T == Q6_K ? load_u16(at + 208) : 0; }
};

// Planes is a weight in layout tile16.
struct Planes {
    const uint8_t* data;
    const uint8_t* head;
    const uint8_t* tail;
};

// Tile is a row's group within the planes.
template <int T>
struct Tile {
    using F = Format<T>;
    const uint8_t *data, *head, *tail;
    int blocks;

    __device__ __forceinline__ Tile(const Planes& p, int row, int group, int k) {
        int64_t tile = row / kTile;
        int lane = row % kTile, groups = (k + kGroup - 1) / kGroup;
        data = p.data + (tile * (k / kChunk) + group * kChunks) * (F::kData / kChunks * kTile) + lane * 16;
        head = p.head + (tile * groups + group) * (F::kHead * kTile) + lane * 16;
        tail = p.tail + ((tile * groups + group) * kTile + lane) * 2;
        blocks = min(kChunks, k / kChunk - group * kChunks);
    }
    __device__ __forceinline__ bool has(int i) const { return is_super(T) || i < blocks * (F::kData / kChunks); }
    __device__ __forceinline__ uint32_t q(int i) const { return has(i) ? load_u32(data + i / 16 * kPlane + i % 16) : 0; }
    __device__ __forceinline__ uint32_t h(int i) const { return load_u32(head + i / 16 * kPlane + i % 16); }
    __device__ __forceinline__ uint32_t t() const { return T == Q6_K ? load_u16(tail) : 0; }
};

// Group is a group in registers; indices must be known when compiling.
template <int T>
struct Group {
    using F = Format<T>;
    uint32_t data[F::kData / 4], head[F::kHead / 4], tail;

    __device__ __forceinline__ uint32_t q(int i) const { return data[i / 4]; }
    __device__ __forceinline__ uint32_t h(int i) const { return head[i / 4]; }
    __device__ __forceinline__ uint32_t t() const { return tail; }

    __device__ __forceinline__ static void put(uint32_t* to, uint4 v) { to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w; }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < F::kData / 4; i++) data[i] = 0;
#pragma unroll
        for (int i = 0; i < F::kHead / 4; i++) head[i] = 0;
        tail = 0;
    }
    // A run of 16-byte loads, nothing between them.
    __device__ __forceinline__ void load(const Tile<T>& s) {
#pragma unroll
        for (int i = 0; i < F::kHead; i += 16) put(head + i / 4, load_stream16(s.head + i / 16 * kPlane));
#pragma unroll
        for (int i = 0; i < F::kData; i += 16) {
            uint4 v = make_uint4(0, 0, 0, 0);
            if (s.has(i)) v = load_stream16(s.data + i / 16 * kPlane);
            put(data + i / 4, v);
        }
        tail = s.t();
    }
    __device__ __forceinline__ void load(const Raw<T>& s) {
        if constexpr (T == Q4_K || T == Q5_K) { // blocks of a multiple of 16 bytes
#pragma unroll
            for (int i = 0; i < F::kHead; i += 16) put(head + i / 4, load_stream16(s.at + i));
#pragma unroll
            for (int i = 0; i < F::kData; i += 16) put(data + i / 4, load_stream16(s.at + F::kHead + i));
        } else {
#pragma unroll
            for (int i = 0; i < F::kHead; i += 4) head[i / 4] = s.h(i);
#pragma unroll
            for (int i = 0; i < F::kData; i += 4) data[i / 4] = s.q(i);
        }
        tail = s.t();
    }
};

// levels gives weights 4i … 4i+3 of chunk c as integers, a byte each (signed for Q8_0), before kOffset is subtracted.
template <int T, class S>
__device__ __forceinline__ uint32_t levels(const S& s, int c, int i) {
    constexpr uint32_t kLow = 0x0f0f0f0fu;
    if (T == Q8_0) return s.q(32 * c + 4 * i);
    if (T == Q6_K) {
        int half = c / 4, run = c % 4;
        uint32_t low = s.q(64 * half + 32 * (run % 2) + 4 * i) >> (4 * (run / 2)) & kLow;
        return low | (s.h(16 + 32 * half + 4 * i) >> (2 * run) & 0x03030303u) << 4;
    }
    if (T == Q4_K || T == Q5_K) {
        uint32_t low = s.q(32 * (c / 2) + 4 * i) >> (4 * (c % 2)) & kLow;
        return T == Q4_K ? low : low | (s.h(16 + 4 * i) >> c & 0x01010101u) << 4;
    }
    uint32_t low = s.q(16 * c + 4 * (i % 4)) >> (4 * (i / 4)) & kLow;
    if (T == Q4_0 || T == Q4_1) return low;
    uint32_t fifth = s.h((T == Q5_0 ? 16 : 32) + 4 * c) >> (4 * i) & 15u; // bits 0 … 3 to bit 4 of four bytes
    return low | (fifth * 0x02040810u & 0x10101010u);
}

// Scale says what a chunk's levels stand for: w*(level-kOffset) + m. Q6_K has w for the first 16 and v for the others; elsewhere v = w.
struct Scale {
    float w, v, m;
};

template <int T, class S>
__device__ __forceinline__ Scale scale(const S& s, int c) {
    if (T == Q6_K) {
        float d = f16_to_f32((uint16_t)s.t());
        uint32_t two = s.h(4 * (c / 2)) >> (16 * (c % 2));
        return Scale{__fmul_rn(d, (float)(int8_t)two), __fmul_rn(d, (float)(int8_t)(two >> 8)), 0.0f};
    }
    if (T == Q4_K || T == Q5_K) {
        float2 d = f16x2_to_f32(s.h(0));
        uint32_t a = s.h(4), b = s.h(8), e = s.h(12);
        uint32_t scales = c < 4 ? a & 0x3f3f3f3fu : (e & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u);
        uint32_t minima = c < 4 ? b & 0x3f3f3f3fu : (e >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u);
        float w = __fmul_rn(d.x, (float)(scales >> (8 * (c % 4)) & 255u));
        return Scale{w, w, -__fmul_rn(d.y, (float)(minima >> (8 * (c % 4)) & 255u))};
    }
    if (T == Q4_1 || T == Q5_1) {
        float2 d = f16x2_to_f32(s.h(4 * c));
        return Scale{d.x, d.x, d.y};
    }
    float d = f16_to_f32((uint16_t)(s.h(4 * (c / 2)) >> (16 * (c % 2))));
    return Scale{d, d, 0.0f};
}

// decode8 gives weights 8*part … 8*part+7 of chunk c (part 0 … 3), the bits that package quant decodes to.
template <int T, class S>
__device__ __forceinline__ void decode8(const S& s, int c, int part, float (&out)[8]) {
    Scale sc = scale<T>(s, c);
    float w = part < 2 ? sc.w : sc.v;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        uint32_t four = levels<T>(s, c, 2 * part + j);
#pragma unroll
        for (int b = 0; b < 4; b++) {
            int level = T == Q8_0 ? (int)(int8_t)(four >> (8 * b)) : (int)(four >> (8 * b) & 255u) - Format<T>::kOffset;
            float v = __fmul_rn(w, (float)level);
            out[4 * j + b] = has_minimum(T) ? __fadd_rn(v, sc.m) : v;
        }
    }
}

}  // namespace quant

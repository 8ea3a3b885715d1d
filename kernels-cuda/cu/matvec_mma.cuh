// Products of several columns on int8 tensor cores, over the planes of matvec_tile.cuh and with its bits.
//
// A unit of work is two tiles of weights (32 rows, or 16 of gate and the same of up) times 8*NT columns. The parts of its rows' sums
// (matvec.cuh) are shared out to the unit's warps, `span` neighbouring parts a warp; a warp takes its parts' groups one after the other. An
// mma multiplies a tile's chunk by 8 columns' chunk. Its integer sums are exact; the thread that holds one scales and adds it by
// the float32 operations of matvec::step, in their order. Only the parts' sums cross warps.
//
// Weights come as they are, by copies in the background to a ring of the warp's own: loads into registers would share the few scoreboards
// with all of shared memory's, and each wait for those would be one for memory. In an mma's fragments a thread holds weights of
// rows g and g+8 (g = lane/4) and k = 4t … 4t+3, 16+4t … (t = lane%4), and sums of columns 2t, 2t+1: of two vectors of a plane
// that is what ldmatrix gives.
#pragma once
#include "matvec_tile.cuh"

// As many as let 16 warps run on a multiprocessor.
#define MMA_REGISTERS 128

namespace matvec {

// Integer sums leave the tensor cores as floats: begun with the bits of 1.5*2^23, a sum s below 2^22 ends as those of 1.5*2^23 + s.
constexpr int kMagicBits = 0x4b400000;
constexpr float kMagic = 12582912.0f;

// Where a type's words stand and how its levels become bytes of an operand: level * 2^shift, after kOffset is subtracted.
constexpr __host__ __device__ int upper_vector(int t) { return t == Q5_1 ? 2 : 1; }                                     // of upper bits, the first in the head
constexpr __host__ __device__ int scale_words(int t) { return t == Q4_1 || t == Q5_1 ? 8 : 4; }                         // of the head
constexpr __host__ __device__ int burst_of(int t) { return t == Q8_0 ? 2 : 4; }                                         // chunks that two pairs of vectors hold
constexpr __host__ __device__ int pair_of(int t, int c) { return t == Q8_0 || t == Q6_K ? c % 2 : c / 2 % 2; }          // of the burst: where chunk c is
constexpr __host__ __device__ bool pair_begins(int t, int c) { return t == Q8_0 || (t == Q6_K ? c % 4 < 2 : c % 2 == 0); }
constexpr __host__ __device__ int shift_of(int t, int c) { return t == Q4_0 ? 4 : t == Q5_0 ? 3 : t == Q6_K ? 2 : t == Q4_K ? c % 2 * 4 : 0; }

// operand gives the fragment of chunk c: rows g, g+8 and again for the second 16 of k. u is upper bits: fragments of the same form, of Q5_0 and
// Q5_1 the chunk's words of rows g and g+8.
template <int T>
__device__ __forceinline__ void operand(uint32_t (&a)[4], const uint32_t (&q)[4], const uint32_t (&u)[4], int c) {
    constexpr uint32_t kTop = 0x80808080u, kLow = 0x0f0f0f0fu;
    if constexpr (T == Q8_0 || T == Q4_K || T == Q5_K || T == Q6_K) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (T == Q8_0) a[j] = q[j];
            if (T == Q4_K) a[j] = q[j] & kLow << (c % 2 * 4);
            if (T == Q5_K) a[j] = (q[j] >> (c % 2 * 4) & kLow) | ((c < 4 ? u[j] << (4 - c) : u[j] >> (c - 4)) & 0x10101010u);
            if (T == Q6_K) a[j] = ((c % 4 < 2 ? q[j] << 2 : q[j] >> 2) & 0x3c3c3c3cu) ^ kTop ^ (u[j] << (6 - c % 4 * 2) & 0xc0c0c0c0u);
        }
    } else {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            uint32_t w = q[c % 2 * 2 + r], lo, hi;
            if (T == Q4_0) lo = (w << 4 & ~kLow) ^ kTop, hi = (w & ~kLow) ^ kTop;
            if (T == Q4_1) lo = w & kLow, hi = w >> 4 & kLow;
            if (T == Q5_0 || T == Q5_1) {
                uint32_t fifth = u[r] >> (lane_id() % 4 * 4); // this thread's at bits 0 … 3 and 16 … 19
                if (T == Q5_1) {
                    lo = (w & kLow) | ((fifth & 15u) * 0x02040810u & 0x10101010u);
                    hi = (w >> 4 & kLow) | ((fifth >> 16 & 15u) * 0x02040810u & 0x10101010u);
                } else {
                    lo = (w << 3 & 0x78787878u) ^ kTop ^ ((fifth & 15u) * 0x10204080u & kTop);
                    hi = (w >> 1 & 0x78787878u) ^ kTop ^ ((fifth >> 16 & 15u) * 0x10204080u & kTop);
                }
            }
            a[r] = lo, a[r + 2] = hi;
        }
    }
}

// level_sum is an mma's result as the sum of levels times activations.
__device__ __forceinline__ float level_sum(int d, int shift) {
    float v = __int_as_float(d);
    if (shift == 0) return __fadd_rn(v, -kMagic);
    float unit = 1.0f / (1 << shift);
    return __fmaf_rn(v, unit, -kMagic * unit);
}

// What the launcher chose, beside the product itself.
struct MmaPlan {
    int parts, span, units; // of a row's sum; parts a warp; units of work a block has at a time
    int ahead;              // groups of activations in a warp's ring, 1 or 2; 0: all stay in shared memory
    int steps;              // sums that a block keeps before it ends a job
};

template <int T, int NT>
struct MmaWalk {
    static constexpr int kColumns = 8 * NT;
    static constexpr int kScales = has_minimum(T) || T == Q6_K ? 2 : 1; // floats a row and chunk

    // A burst is what is copied at a time: two pairs of vectors of each tile, of Q6_K with their upper bits. The heads of two groups
    // have places of their own: Q6_K's is scales and d.
    static constexpr int kBurst = burst_of(T), kBursts = kChunks / kBurst, kRing = kBursts;
    static constexpr int kPairBytes = 2 * kPlane, kUpperBytes = T == Q6_K ? kPairBytes : 0;
    static constexpr int kBurstTile = 2 * kPairBytes + kUpperBytes, kBurstBytes = 2 * kBurstTile;
    static constexpr int kHeadVectors = T == Q6_K ? 1 : Format<T>::kHead / 16;
    static constexpr int kHeadTile = kHeadVectors * kPlane + (T == Q6_K ? 2 * kTile : 0), kHeadBytes = 2 * kHeadTile;
    static constexpr int kWeightBytes = kRing * kBurstBytes + 2 * kHeadBytes;

    // A stage is a group of kColumns activation rows: levels at a stride by which 8 rows meet no bank twice, then by chunk, likewise, a
    // record a column; where a type has minima its sums become d * sum.
    static constexpr int kLevelStride = kGroup + 16;
    static constexpr int kScaleStride = kColumns * 8 + 16;
    static constexpr int kStageBytes = kColumns * kLevelStride + kChunks * kScaleStride;
    static constexpr int kTableBytes = kChunks * 2 * kTile * 8; // scales of a group of two tiles
    static constexpr int kSumBytes = 2 * kTile * kColumns * 4;

    // Where the two tiles have a group.
    struct At {
        const uint8_t *data[2], *head[2], *tail[2];
        int group;

        __device__ __forceinline__ void move(int to) {
            int by = to - group;
#pragma unroll
            for (int r = 0; r < 2; r++) {
                data[r] += by * (Format<T>::kData * kTile);
                head[r] += by * (Format<T>::kHead * kTile);
                if (T == Q6_K) tail[r] += by * (2 * kTile);
            }
            group = to;
        }
    };
    struct Head {
        uint32_t w[scale_words(T)], tail;
        __device__ __forceinline__ uint32_t h(int i) const { return w[i / 4]; }
        __device__ __forceinline__ uint32_t t() const { return tail; }
    };

    Columns x; // of the block
    MmaPlan plan;
    int groups, leaf, unit, part, first_items, items;
    unsigned char *stages, *own;
    uint32_t q[2][2][4], u[2][4]; // of each tile: a burst's pairs; upper bits
    float acc[2][NT][4];

    __device__ __forceinline__ MmaWalk(const Columns& x, const MmaPlan& plan, unsigned char* shared) : x(x), plan(plan) {
        groups = (x.k + kGroup - 1) / kGroup;
        leaf = warp_id() / plan.units, unit = warp_id() % plan.units;
        part = leaf * plan.span;
        first_items = part < groups ? (groups - part + plan.parts - 1) / plan.parts : 0;
        items = first_items + (plan.span == 2 && part + 1 < groups ? (groups - part - 2 + plan.parts) / plan.parts : 0);
        stages = shared;
        own = shared + (plan.ahead == 0 ? groups : (int)blockDim.x / kWarp * plan.ahead) * kStageBytes + warp_id() * own_bytes();
    }

    // A warp's own memory: weights, the table, sums.
    __device__ __forceinline__ int own_bytes() const { return kWeightBytes + plan.steps * kSumBytes + table_bytes(); }
    // Where a warp has one part the table is done with when its sums are written, and the last step's take its place.
    __device__ __forceinline__ int table_bytes() const { return plan.span == 2 ? kTableBytes : max(kTableBytes - kSumBytes, 0); }
    __device__ __forceinline__ unsigned char* burst_at(int burst, int second) const { return own + burst * kBurstBytes + second * kBurstTile; }
    __device__ __forceinline__ unsigned char* head_at(int turn, int second) const { return own + kRing * kBurstBytes + turn % 2 * kHeadBytes + second * kHeadTile; }

    __device__ __forceinline__ int group_of(int item) const {
        return item < first_items ? part + item * plan.parts : part + 1 + (item - first_items) * plan.parts;
    }

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < 8 * NT; i++) acc[i / (4 * NT)][i / 4 % NT][i % 4] = 0.0f;
    }

    __device__ __forceinline__ void copy_burst(const At& at, int burst) {
        int lane = lane_id(), vectors = (x.k / kChunk - at.group * kChunks) * (Format<T>::kData / kChunks / 16); // that are left of the row
#pragma unroll
        for (int r = 0; r < 2; r++) {
            unsigned char* to = burst_at(burst, r) + lane * 16;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                bool valid = is_super(T) || 4 * burst + 2 * i + lane / kTile < vectors;
                cp_async16(to + i * kPairBytes, valid ? at.data[r] + (2 * burst + i) * kPairBytes + lane * 16 : at.head[r], valid);
            }
            if (T == Q6_K) cp_async16(to + 2 * kPairBytes, at.head[r] + upper_vector(T) * kPlane + burst * kPairBytes + lane * 16);
        }
    }

    __device__ __forceinline__ void copy_head(const At& at, int turn) {
        int second = lane_id() / kTile, lane = lane_id() % kTile;
        unsigned char* to = head_at(turn, second) + lane * 16;
        const uint8_t* from = (second ? at.head[1] : at.head[0]) + lane * 16;
#pragma unroll
        for (int i = 0; i < kHeadVectors; i++) cp_async16(to + i * kPlane, from + i * kPlane);
        if (T == Q6_K && lane < 2) cp_async16(to + kPlane, (second ? at.tail[1] : at.tail[0]) + lane * 16);
    }

    // fill begins with a first group's weights.
    __device__ __forceinline__ void fill(const At& at) {
        copy_head(at, 0);
#pragma unroll
        for (int i = 0; i < kRing - 1; i++) {
            copy_burst(at, i);
            cp_async_commit();
        }
    }

    // tabulate writes a group's scales, a lane those of a row of the first tile or the second.
    __device__ __forceinline__ void tabulate(int turn) const {
        int second = lane_id() / kTile, row = lane_id() % kTile;
        const unsigned char* at = head_at(turn, second);
        Head head;
#pragma unroll
        for (int i = 0; i < scale_words(T); i += 4) {
            uint4 v = *reinterpret_cast<const uint4*>(at + i / 4 * kPlane + row * 16);
            head.w[i] = v.x, head.w[i + 1] = v.y, head.w[i + 2] = v.z, head.w[i + 3] = v.w;
        }
        head.tail = T == Q6_K ? load_u16(at + kPlane + row * 2) : 0;
#pragma unroll
        for (int c = 0; c < kChunks; c++) {
            Scale s = scale<T>(head, c);
            float* to = table(c, second, row);
            if (kScales == 2) {
                *reinterpret_cast<float2*>(to) = make_float2(s.w, has_minimum(T) ? s.m : s.v);
            } else {
                *to = s.w;
            }
        }
    }

    // read_words brings chunk c's words to registers, as far as they aren't there.
    __device__ __forceinline__ void read_words(int c, int turn) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const unsigned char* burst = burst_at(c / kBurst, r);
            if (pair_begins(T, c)) ldmatrix_x4(q[r][pair_of(T, c)], burst + pair_of(T, c) * kPairBytes + lane_id() * 16);
            if (T == Q6_K && c % 4 == 0) ldmatrix_x4(u[r], burst + 2 * kPairBytes + lane_id() * 16);
            const unsigned char* upper = head_at(turn, r) + upper_vector(T) * kPlane;
            if (T == Q5_K && c == 0) ldmatrix_x4(u[r], upper + lane_id() * 16);
            if (T == Q5_0 || T == Q5_1) {
                const unsigned char* at = upper + c / 4 * kPlane + lane_id() / 4 * 16 + c % 4 * 4;
                u[r][0] = load_u32(at), u[r][1] = load_u32(at + 8 * 16);
            }
        }
    }

    // stage copies a group's activations; they are under way when it returns.
    __device__ __forceinline__ void stage(int group, unsigned char* to) {
        int lane = lane_id(), at = group * kGroup + lane % 16 * 16;
        const int8_t* q8 = x.q8 + (int64_t)(lane / 16) * x.k + at;
        unsigned char* level = to + lane / 16 * kLevelStride + lane % 16 * 16;
#pragma unroll 1
        for (int column = lane / 16; column < kColumns; column += 2) {
            bool valid = column < x.columns && at < x.k;
            cp_async16(level, valid ? q8 : x.q8, valid);
            q8 += 2 * (int64_t)x.k, level += 2 * kLevelStride;
        }
        int blocks = x.k / kChunk, block = group * kChunks + lane % kChunks;
        const Q8Record* record = x.records + (int64_t)(lane / kChunks) * blocks + block;
        unsigned char* scale = scale_at(to, lane % kChunks, lane / kChunks);
#pragma unroll 1
        for (int column = lane / kChunks; column < kColumns; column += 4) {
            bool valid = column < x.columns && block < blocks;
            cp_async8(scale, valid ? record : x.records, valid);
            record += 4 * (int64_t)blocks, scale += 4 * sizeof(Q8Record);
        }
    }

    __device__ __forceinline__ static unsigned char* scale_at(unsigned char* stage, int c, int column) {
        return stage + kColumns * kLevelStride + c * kScaleStride + column * (int)sizeof(Q8Record);
    }

    // settle makes the records that this lane copied what chunk wants. Other lanes see it after a barrier.
    __device__ __forceinline__ void settle(unsigned char* stage) {
        if constexpr (has_minimum(T)) {
#pragma unroll
            for (int i = 0; i < kColumns / 4; i++) {
                unsigned char* at = scale_at(stage, lane_id() % kChunks, lane_id() / kChunks + 4 * i);
                Q8Record r = *reinterpret_cast<const Q8Record*>(at);
                reinterpret_cast<float*>(at)[1] = __fmul_rn(r.d, (float)(r.s0 + r.s1));
            }
        }
    }

    // stage_all brings a leaf's groups, which its warps share out among themselves.
    __device__ __forceinline__ void stage_all() {
        for (int i = unit; i < items; i += plan.units) stage(group_of(i), stages + group_of(i) * kStageBytes);
        cp_async_commit();
        cp_async_wait<0>();
        for (int i = unit; i < items; i += plan.units) settle(stages + group_of(i) * kStageBytes);
        if (plan.units > 1) {
            __syncthreads();
        } else {
            __syncwarp();
        }
    }

    __device__ __forceinline__ unsigned char* ring(int turn) const { return stages + (warp_id() * plan.ahead + turn % plan.ahead) * kStageBytes; }

    __device__ __forceinline__ float* table(int c, int second, int row) const {
        return reinterpret_cast<float*>(own + kWeightBytes) + (((c * 2 + second) * 8 + row % 8) * 2 + row / 8) * kScales;
    }

    // What a chunk is multiplied by: a column's levels and scales, two rows' scales. Read a chunk ahead.
    struct Operands {
        uint32_t b[NT][2];
        float d[NT][2], m[NT][2]; // of columns 2t, 2t+1
        float w[2][2], v[2][2];   // of each tile's rows g, g+8
    };

    __device__ __forceinline__ void read(Operands& o, const unsigned char* from, int c) const {
        int lane = lane_id(), g = lane / 4, t = lane % 4;
        const unsigned char* level = from + lane % 8 * kLevelStride + lane / 8 % 2 * 16 + c * kChunk;
        if constexpr (NT == 1) {
            ldmatrix_x2(o.b[0], level);
        } else {
#pragma unroll
            for (int j = 0; j < NT; j += 2) {
                uint32_t r[4];
                ldmatrix_x4(r, level + (lane / 16 + j) * 8 * kLevelStride);
                o.b[j][0] = r[0], o.b[j][1] = r[1], o.b[j + 1][0] = r[2], o.b[j + 1][1] = r[3];
            }
        }
#pragma unroll
        for (int j = 0; j < NT; j++) {
            const float* s = reinterpret_cast<const float*>(from + kColumns * kLevelStride + c * kScaleStride + (8 * j + 2 * t) * sizeof(Q8Record));
            if (has_minimum(T)) {
                float4 v = *reinterpret_cast<const float4*>(s);
                o.d[j][0] = v.x, o.m[j][0] = v.y, o.d[j][1] = v.z, o.m[j][1] = v.w;
            } else {
                o.d[j][0] = s[0], o.d[j][1] = s[2];
            }
        }
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float* s = table(c, r, g);
            if (kScales == 2) {
                float4 both = *reinterpret_cast<const float4*>(s);
                o.w[r][0] = both.x, o.v[r][0] = both.y, o.w[r][1] = both.z, o.v[r][1] = both.w;
            } else {
                float2 both = *reinterpret_cast<const float2*>(s);
                o.w[r][0] = both.x, o.w[r][1] = both.y;
            }
        }
    }

    // chunk adds chunk c.
    __device__ __forceinline__ void chunk(const Operands& o, int c) {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            uint32_t a[4];
            operand<T>(a, q[r][pair_of(T, c)], u[r], c);
            int sum[NT][4], other[NT][4];
#pragma unroll
            for (int j = 0; j < NT; j++) {
                if (T == Q6_K) {
                    mma_s8_k16(sum[j], a[0], a[1], o.b[j][0], kMagicBits);
                    mma_s8_k16(other[j], a[2], a[3], o.b[j][1], kMagicBits);
                } else if (has_minimum(T)) {
                    mma_u8s8(sum[j], a, o.b[j][0], o.b[j][1], kMagicBits);
                } else {
                    mma_s8(sum[j], a, o.b[j][0], o.b[j][1], kMagicBits);
                }
            }
#pragma unroll
            for (int j = 0; j < NT; j++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float& y = acc[r][j][i];
                    y = __fmaf_rn(__fmul_rn(o.w[r][i / 2], o.d[j][i % 2]), level_sum(sum[j][i], shift_of(T, c)), y);
                    if (has_minimum(T)) y = __fmaf_rn(o.v[r][i / 2], o.m[j][i % 2], y);
                    if (T == Q6_K) y = __fmaf_rn(__fmul_rn(o.v[r][i / 2], o.d[j][i % 2]), level_sum(other[j][i], shift_of(T, c)), y);
                }
            }
        }
    }

    // multiply adds a group, the warp's turn-th, and has the next item's weights and activations copied meanwhile.
    __device__ __forceinline__ void multiply(const At& here, const At& next, bool more, int turn) {
        const unsigned char* from = plan.ahead == 0 ? stages + here.group * kStageBytes : ring(turn);
        if (plan.ahead == 1) {
            __syncwarp(); // what is overwritten has been read
            stage(here.group, ring(turn));
            cp_async_commit();
            cp_async_wait<0>();
        }
        Operands o[2];
#pragma unroll
        for (int c = 0; c < kChunks; c++) {
            if (c % kBurst == 0) {
                __syncwarp();
                int burst = c / kBurst + kRing - 1;
                if (burst < kBursts) {
                    copy_burst(here, burst);
                } else if (more) {
                    if (burst == kBursts) {
                        copy_head(next, turn + 1);
                        if (plan.ahead == 2) stage(next.group, ring(turn + 1));
                    }
                    copy_burst(next, burst - kBursts);
                }
                cp_async_commit();
                cp_async_wait<kRing - 1>();
                if (c == 0 && plan.ahead > 0) settle(ring(turn));
                __syncwarp();
            }
            if (c == 0) {
                tabulate(turn);
                __syncwarp();
                read(o[0], from, 0);
            }
            constexpr bool kFifths = T == Q5_0 || T == Q5_1; // which are a chunk's own
            if (c % kBurst == 0 || kFifths) read_words(c, turn);
            if ((c + 1) % kBurst != 0 && !kFifths) read_words(c + 1, turn);
            if (c + 1 < kChunks) read(o[(c + 1) % 2], from, c + 1);
            chunk(o[c % 2], c);
        }
    }

    // A sum's place within its area, so that a warp's stores meet a bank twice at most.
    __device__ __forceinline__ static int place_of(int second, int column, int row) {
        return (second * kColumns + column) * kTile + (row ^ (column / 2 % 2 * 8));
    }

    __device__ __forceinline__ float* area(int warp, int step) const {
        return reinterpret_cast<float*>(own + (warp - warp_id()) * own_bytes() + kWeightBytes + (plan.span == 2 ? kTableBytes : step + 1 < plan.steps ? max(kTableBytes, kSumBytes) : -step * kSumBytes) + step * kSumBytes);
    }

    // put writes a part's sums, or adds a warp's second part to its first.
    __device__ __forceinline__ void put(int step, bool second) {
        int g = lane_id() / 4, t = lane_id() % 4;
        float* to = area(warp_id(), step);
        float* rows[2] = {to + place_of(0, 2 * t, g), to + place_of(0, 2 * t, g + 8)};
        __syncwarp(); // the table, whose place this may be, has been read
#pragma unroll
        for (int r = 0; r < 2; r++) {
#pragma unroll
            for (int j = 0; j < NT; j++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float* s = rows[i / 2] + (r * kColumns + 8 * j + i % 2) * kTile; // place_of: columns 8 apart and 2t+1 shift alike
                    *s = second ? __fadd_rn(*s, acc[r][j][i]) : acc[r][j][i];
                }
            }
        }
    }

    // tree adds the pairs' sums, neighbours first, those that aren't there as 0: matvec::Walk::total's order.
    template <int WIDTH>
    __device__ __forceinline__ float tree(const float* at, int stride) const {
        float v[WIDTH];
        int pairs = plan.parts / 2;
#pragma unroll
        for (int w = 0; w < WIDTH; w++) {
            v[w] = 0.0f;
            if (w < pairs) v[w] = plan.span == 2 ? at[w * stride] : __fadd_rn(at[2 * w * stride], at[(2 * w + 1) * stride]);
        }
#pragma unroll
        for (int o = 1; o < WIDTH; o *= 2) {
#pragma unroll
            for (int w = 0; w < WIDTH; w += 2 * o) v[w] = __fadd_rn(v[w], v[w + o]);
        }
        return WIDTH < 16 ? __fadd_rn(v[0], 0.0f) : v[0];
    }

    // total is the sum of a unit's row in its first or second tile.
    __device__ __forceinline__ float total(int of, int step, int second, int column, int row) const {
        const float* at = area(of, step) + place_of(second, column, row);
        int stride = plan.units * own_bytes() / 4, pairs = plan.parts / 2;
        return pairs <= 4 ? tree<4>(at, stride) : pairs <= 8 ? tree<8>(at, stride) : tree<16>(at, stride);
    }

    // go makes jobs first, first+stride, … of `jobs`. where(job, step, r) says where tile r of this warp's unit begins; finish(job) ends a job
    // when its sums are there.
    template <class Where, class Finish>
    __device__ __forceinline__ void go(int first, int stride, int jobs, const Where& where, const Finish& finish) {
        auto locate = [&](int job, int step) {
            At at{};
#pragma unroll
            for (int r = 0; r < 2; r++) {
                Tile<T> tile = where(job, step, r);
                at.data[r] = tile.data, at.head[r] = tile.head, at.tail[r] = tile.tail;
            }
            at.move(part);
            return at;
        };
        At next{};
        if (items > 0 && first < jobs) {
            next = locate(first, 0);
            fill(next);
        }
        __syncwarp();
        pdl_wait();
        if (plan.ahead == 0) stage_all();
        if (plan.ahead == 2 && items > 0) {
            stage(part, ring(0));
            cp_async_commit();
            cp_async_wait<0>();
        }
        int turn = 0;
        for (int job = first; job < jobs; job += stride) {
            for (int step = 0; step < plan.steps; step++) {
                clear();
                if (items == 0) put(step, false);
                for (int i = 0; i < items; i++) {
                    At here = next;
                    bool in_job = step + 1 < plan.steps, more = true;
                    if (i + 1 < items) {
                        next.move(group_of(i + 1));
                    } else if (in_job || job + stride < jobs) {
                        next = in_job ? locate(job, step + 1) : locate(job + stride, 0);
                    } else {
                        more = false;
                    }
                    multiply(here, next, more, turn++);
                    if (i + 1 == first_items || i + 1 == items) {
                        put(step, i >= first_items);
                        clear();
                    }
                }
            }
            __syncthreads();
            finish(job);
            __syncthreads();
        }
    }
};

}  // namespace matvec

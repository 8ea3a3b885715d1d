// kernel      inputs                               result          launch                          moves
// sample_f32  logits [rows, vocab], a SampleRow    tokens [rows]   grid rows, 1024 threads         logits two or three times
//             a row: temperature, top-k, top-p,
//             min-p, a number of [0, 1)
//
// Tokens are ordered by logit, then by lower id; what package sample refuses is refused (-1). The order of filters is its own too:
// top-k → top-p → min-p → temperature → draw, weights and sums of candidates in float64 in descending order; so the same number draws
// the same token but where a sum falls within rounding (10^-15; 10^-6 where the whole vocabulary is weighed: no top-k) of a limit.
//
// sample_f32 finds the best M = 512 (or top-k, if that is less) by a bound: the M-th largest of its 1024 threads' own largest keys is no
// larger than the M-th largest key of all, and few keys lie between. Where more than 2048 do, or the filters would keep more than 512
// candidates, the token is -2: the host samples then. Rows of temperature 1 without any filter go over all ids.
// Class: bitwise (largest and sorted keys are exact, sums in a fixed order).
#include "device.cuh"

namespace sample {

constexpr int kThreads = 1024, kMost = 512, kRoom = 2048;
constexpr int kBad = -1, kOnHost = -2;

// As SampleRow in launch_sample.go.
struct Row {
    double temperature, top_p, min_p, u;
    int32_t top_k, unused;
};
static_assert(sizeof(Row) == 40, "layout");

// Keys are ordered as tokens are: the larger logit first, of equals the lower id. 0 stands for no token.
__device__ __forceinline__ uint64_t key_of(float x, int id) {
    if (x == 0) x = 0;  // -0 is no less than 0
    uint32_t b = __float_as_uint(x);
    b = x != x ? 0xffffffffu : b & 0x80000000u ? ~b : b | 0x80000000u;
    return (uint64_t)b << 32 | (0xffffffffu - (uint32_t)id);
}

__device__ __forceinline__ int id_of(uint64_t key) { return (int)(0xffffffffu - (uint32_t)key); }

__device__ __forceinline__ float logit_of(uint64_t key) {
    uint32_t b = (uint32_t)(key >> 32);
    return __uint_as_float(b & 0x80000000u ? b & 0x7fffffffu : ~b);
}

// Is the best of a row's keys a finite logit?
__device__ __forceinline__ bool usable(uint64_t best) {
    uint32_t b = (uint32_t)(best >> 32);
    return b < 0xff800000u && b > 0x007fffffu;
}

// Sorts n keys, a power of two up to kRoom, in descending order.
__device__ __forceinline__ void sort(uint64_t* keys, int n) {
    for (int size = 2; size <= n; size *= 2) {
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int i = threadIdx.x; i < n / 2; i += kThreads) {
                int a = i / step * step * 2 + i % step, b = a + step;
                bool descending = (a & size) == 0;
                uint64_t x = keys[a], y = keys[b];
                if ((x < y) == descending) keys[a] = y, keys[b] = x;
            }
        }
    }
    __syncthreads();
}

// Sums over the block in a fixed order: of threads ascending within a warp's butterfly, then of warps.
__device__ __forceinline__ double block_sum(double v, double* slots) {
#pragma unroll
    for (int o = kWarp / 2; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    __syncthreads();
    if (lane_id() == 0) slots[warp_id()] = v;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < kThreads / kWarp; w++) sum += slots[w];
    return sum;
}

struct Shared {
    uint64_t keys[kRoom];
    double weight[kMost], slots[kThreads];
    int count;
};

// draw filters the sorted candidates and walks them; by one thread. all is the sum of every token's weight, or below 0 if candidates
// are all there is to filter (top-k). more: there are tokens beyond the candidates.
__device__ int draw(Shared& s, const Row& row, int n, double all, bool more) {
    bool by_id = false;
    if (n > 1) {
        if (row.top_p < 1) {
            double sum = all, cum = 0;
            if (all < 0) {
                sum = 0;
                for (int i = 0; i < n; i++) sum += s.weight[i];
            }
            double goal = row.top_p * sum;
            int kept = 0;
            while (kept < n) {
                cum += s.weight[kept++];
                if (cum >= goal) break;
            }
            if (cum < goal && more && all >= 0) return kOnHost;
            n = kept;
            more = false;
        } else {
            by_id = all >= 0;
        }
        if (row.min_p > 0) {
            int kept = 0;
            while (kept < n && s.weight[kept] >= row.min_p) kept++;  // the largest weight is 1
            if (kept < n) more = false;
            n = max(kept, 1);
        }
        if (more && all >= 0) return kOnHost;
    }
    if (row.temperature == 0) return id_of(s.keys[0]);
    // Without an order by weight the draw goes by ids: few are left, so sort them by insertion.
    if (by_id) {
        for (int i = 1; i < n; i++) {
            uint64_t key = s.keys[i];
            int j = i;
            for (; j > 0 && id_of(s.keys[j - 1]) > id_of(key); j--) s.keys[j] = s.keys[j - 1];
            s.keys[j] = key;
        }
    }
    float top = logit_of(s.keys[0]);
    for (int i = 1; i < n; i++) top = fmaxf(top, logit_of(s.keys[i]));
    double total = 0;
    for (int i = 0; i < n; i++) {
        s.weight[i] = exp(((double)logit_of(s.keys[i]) - (double)top) / row.temperature);
        total += s.weight[i];
    }
    double limit = row.u * total, sum = 0;
    for (int i = 0; i < n; i++) {
        sum += s.weight[i];
        if (sum > limit) return id_of(s.keys[i]);
    }
    return id_of(s.keys[0]);
}

// draw_any draws from the whole vocabulary, in order of the ids.
__device__ int draw_any(Shared& s, const Row& row, const float* logits, int vocab, float top) {
    int share = (vocab + kThreads - 1) / kThreads, from = min(vocab, (int)threadIdx.x * share), to = min(vocab, from + share);
    float inverse = (float)(1 / row.temperature);
    double sum = 0;
    for (int i = from; i < to; i++) sum += expf((logits[i] - top) * inverse);
    __syncthreads();
    s.slots[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return kBad;
    double total = 0;
    for (int i = 0; i < kThreads; i++) total += s.slots[i];
    double limit = row.u * total, cum = 0;
    int last = 0;
    for (int i = 0; i < kThreads; i++) {
        if (cum + s.slots[i] <= limit) {
            cum += s.slots[i];
            continue;
        }
        for (int id = i * share; id < min(vocab, (i + 1) * share); id++) {
            double w = expf((logits[id] - top) * inverse);
            cum += w;
            if (w > 0) last = id;
            if (cum > limit) return id;
        }
        return last;
    }
    return last;
}

}  // namespace sample

extern "C" __global__ void __launch_bounds__(1024) sample_f32(const SampleParams p) {
    using namespace sample;
    __shared__ Shared s;
    pdl_launch_dependents();
    pdl_wait();
    Row row = reinterpret_cast<const Row*>(p.choices)[blockIdx.x];
    const float* logits = p.logits + (int64_t)blockIdx.x * p.stride;
    int32_t* token = p.tokens + blockIdx.x;
    bool limited = row.top_k > 0 && row.top_k < p.vocab;
    if (row.temperature == 0) row.top_k = 1, limited = true;  // no filter takes the best one away

    uint64_t mine = 0;
    for (int i = threadIdx.x; i < p.vocab; i += kThreads) {
        uint64_t key = key_of(logits[i], i);
        mine = key > mine ? key : mine;
    }
    s.keys[threadIdx.x] = mine;
    if (threadIdx.x == 0) s.count = 0;
    sort(s.keys, kThreads);
    if (!usable(s.keys[0])) {
        if (threadIdx.x == 0) *token = kBad;
        return;
    }
    float top = logit_of(s.keys[0]);
    if (!limited && row.top_p >= 1 && !(row.min_p > 0)) {
        int drawn = draw_any(s, row, logits, p.vocab, top);
        if (threadIdx.x == 0) *token = drawn;
        return;
    }
    int most = min(limited ? row.top_k : kMost, kMost);
    // Tokens of -Inf are no candidates: nothing at or below is taken.
    const uint64_t floor = (uint64_t)0x00800000u << 32;
    uint64_t bound = s.keys[most - 1] > floor ? s.keys[most - 1] : floor;
    double all = -1;
    if (!limited) {
        double sum = 0;
        for (int i = threadIdx.x; i < p.vocab; i += kThreads) sum += expf(logits[i] - top);
        all = block_sum(sum, s.slots);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < p.vocab; i += kThreads) {
        uint64_t key = key_of(logits[i], i);
        if (key < bound) continue;
        int at = atomicAdd(&s.count, 1);
        if (at < kRoom) s.keys[at] = key;
    }
    __syncthreads();
    int found = s.count, n = 1;
    if (found > kRoom || (limited && row.top_k > kMost)) {
        if (threadIdx.x == 0) *token = kOnHost;
        return;
    }
    while (n < found) n *= 2;
    for (int i = found + threadIdx.x; i < n; i += kThreads) s.keys[i] = 0;
    sort(s.keys, n);
    int kept = min(found, most);
    for (int i = threadIdx.x; i < kept; i += kThreads) s.weight[i] = exp((double)logit_of(s.keys[i]) - (double)top);
    __syncthreads();
    // Whatever isn't among the candidates has a logit at most as large as the last one's; bound > floor means that there may be more.
    if (threadIdx.x == 0) *token = draw(s, row, kept, all, found > kept || bound > floor);
}

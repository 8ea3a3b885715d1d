// The coroutines behind emulator.h, and a server that runs launches: a test writes commands to its standard input and reads
// answers from its standard output (package emulator has the other end). Numbers are little-endian.
//
//   A n:u64                                  -> address:u64       memory full of 0xff, between guards
//   W address:u64 n:u64 bytes                -> nothing
//   R address:u64 n:u64                      -> bytes
//   C                                        -> bad:u64           how many guards were written over
//   L name config[6]:u32 shared:u32 n:u32 params -> status:u32    0: done, 1: no such kernel; name and its length:u32 before it
#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "include/emulator.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;
alignas(16) unsigned char dynamic_shared[228 << 10];

namespace emulator {

// By-value parameters of any size: a callee finds its struct at the start of one that is larger than two registers.
struct Params { unsigned char bytes[4096]; };
using Entry = void (*)(Params);

enum Wait { kRunning, kWarp, kBlock, kDone };

struct Thread {
    ucontext_t start;
    jmp_buf at;
    bool started = false;
    Wait wait = kRunning;
};

static constexpr int kStack = 256 << 10;
static std::vector<Thread> threads;
static std::vector<unsigned char> stacks;
static std::vector<uint64_t> slot;  // by thread
static int current, count;
static jmp_buf scheduler;
static ucontext_t main_context;
static Entry entry;
static Params params;

int lane() { return current & 31; }
uint64_t* slots() { return &slot[current & ~31]; }
bool lane_alive(int i) {
    int t = (current & ~31) + i;
    return t < count && threads[t].wait != kDone;
}

static void yield(Wait why) {
    threads[current].wait = why;
    if (_setjmp(threads[current].at) == 0) _longjmp(scheduler, 1);
}
void meet_warp() { yield(kWarp); }
void meet_block() { yield(kBlock); }

static void body() {
    entry(params);
    threads[current].wait = kDone;
    _longjmp(scheduler, 1);
}

static void resume(int t) {
    current = t;
    threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / (blockDim.x * blockDim.y)};
    threads[t].wait = kRunning;
    if (_setjmp(scheduler) != 0) return;
    if (threads[t].started) _longjmp(threads[t].at, 1);
    threads[t].started = true;
    setcontext(&threads[t].start);
}

// Lets the threads of [lo, hi) go on if all that live wait for the same thing.
static bool release(int lo, int hi, Wait what) {
    bool any = false;
    for (int t = lo; t < hi; t++) {
        if (threads[t].wait == kDone) continue;
        if (threads[t].wait != what) return false;
        any = true;
    }
    for (int t = lo; any && t < hi; t++) {
        if (threads[t].wait != kDone) threads[t].wait = kRunning;
    }
    return any;
}

static void run_block() {
    count = blockDim.x * blockDim.y * blockDim.z;
    if (count > (int)threads.size()) {
        threads.resize(count);
        stacks.resize((size_t)count * kStack);
        slot.resize((count + 31) & ~31);
    }
    for (int t = 0; t < count; t++) {
        Thread& h = threads[t];
        h.started = false;
        h.wait = kRunning;
        getcontext(&h.start);
        h.start.uc_stack.ss_sp = &stacks[(size_t)t * kStack];
        h.start.uc_stack.ss_size = kStack;
        h.start.uc_link = &main_context;
        makecontext(&h.start, body, 0);
    }
    memset(dynamic_shared, 0xff, sizeof dynamic_shared);
    for (;;) {
        bool ran = false, left = false;
        for (int t = 0; t < count; t++) {
            if (threads[t].wait == kRunning) {
                resume(t);
                ran = true;
            }
            left = left || threads[t].wait != kDone;
        }
        if (!left) return;
        bool freed = false;
        for (int w = 0; w < count; w += 32) freed = release(w, min(w + 32, count), kWarp) || freed;
        if (!freed) freed = release(0, count, kBlock);
        if (!freed && !ran) {
            fprintf(stderr, "emulator: threads of block (%u,%u,%u) wait for each other in vain\n", blockIdx.x, blockIdx.y, blockIdx.z);
            abort();
        }
    }
}

static constexpr size_t kGuard = 256;
struct Block { unsigned char* at; size_t n; };
static std::vector<Block> blocks;

static void read_all(void* p, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t r = read(0, (char*)p + done, n - done);
        if (r <= 0) exit(0);
        done += r;
    }
}
static void write_all(const void* p, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t r = write(1, (const char*)p + done, n - done);
        if (r <= 0) exit(1);
        done += r;
    }
}
template <class T> static T get() { T v; read_all(&v, sizeof v); return v; }
template <class T> static void put(T v) { write_all(&v, sizeof v); }

static uint64_t damaged() {
    uint64_t bad = 0;
    for (const Block& b : blocks) {
        for (size_t i = 0; i < kGuard; i++) bad += (b.at[-1 - (std::ptrdiff_t)i] != 0xa5) + (b.at[b.n + i] != 0xa5);
    }
    return bad;
}

static void launch() {
    std::string name(get<uint32_t>(), 0);
    read_all(&name[0], name.size());
    gridDim.x = get<uint32_t>(), gridDim.y = get<uint32_t>(), gridDim.z = get<uint32_t>();
    blockDim.x = get<uint32_t>(), blockDim.y = get<uint32_t>(), blockDim.z = get<uint32_t>();
    uint32_t shared = get<uint32_t>(), n = get<uint32_t>();
    read_all(params.bytes, n);
    entry = (Entry)dlsym(RTLD_DEFAULT, name.c_str());
    if (!entry || shared > sizeof dynamic_shared) {
        put<uint32_t>(1);
        return;
    }
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) run_block();
    put<uint32_t>(0);
}

}  // namespace emulator

int main() {
    using namespace emulator;
    for (;;) {
        switch (get<char>()) {
        case 'A': {
            size_t n = get<uint64_t>();
            unsigned char* p = (unsigned char*)aligned_alloc(256, (n + 2 * kGuard + 255) & ~(size_t)255) + kGuard;
            memset(p - kGuard, 0xa5, kGuard);
            memset(p, 0xff, n);
            memset(p + n, 0xa5, kGuard);
            blocks.push_back({p, n});
            put<uint64_t>((uint64_t)(uintptr_t)p);
            break;
        }
        case 'W': {
            void* p = (void*)(uintptr_t)get<uint64_t>();
            read_all(p, get<uint64_t>());
            break;
        }
        case 'R': {
            const void* p = (const void*)(uintptr_t)get<uint64_t>();
            write_all(p, get<uint64_t>());
            break;
        }
        case 'C': put<uint64_t>(damaged()); break;
        case 'L': launch(); break;
        default: fprintf(stderr, "emulator: unknown command\n"); return 1;
        }
    }
}

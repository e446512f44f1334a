// Kernels that use every word of cuda_words.h, which is included before this file. The argument says what to run:
// "results" checks results and prints "sound", "order" prints an order that hangs on the schedule, the others must end
// the process with a message. Built as a shared library, only `results` is used.
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace {

constexpr unsigned all = 0xffffffff;
using u64 = unsigned long long;

void check(bool condition, const char *what) {
    if (condition) return;
    std::printf("%s\n", what);
    std::exit(1);
}

using emulated_cuda::run_blocks;
using emulated_cuda::run_cooperative;
using emulated_cuda::run_grid;

__device__ __forceinline__ unsigned global_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <int threads>
__global__ void __launch_bounds__(threads) block_sums(const int *__restrict__ values, int *sums) {
    __shared__ int partial[threads];
    partial[threadIdx.x] = __ldg(values + global_thread());
    for (int distance = threads / 2; distance > 0; distance /= 2) {
        __syncthreads();
        if (int(threadIdx.x) < distance) partial[threadIdx.x] += partial[threadIdx.x + distance];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

void test_block_sums() {
    constexpr int blocks = 40, threads = 128;
    std::vector<int> values(blocks * threads), sums(blocks), expected(blocks);
    for (int i = 0; i < blocks * threads; ++i) expected[i / threads] += values[i] = i * i % 1009;
    run_blocks(blocks, threads, [&] { block_sums<threads>(values.data(), sums.data()); });
    check(sums == expected, "block sums");
}

__global__ void neighbours(int *wrong) {
    alignas(16) __shared__ unsigned written[64];
    const unsigned round = blockIdx.x + 1;
    written[threadIdx.x] = round;  // and no barrier
    if (written[(threadIdx.x + 1) % 64] != round) atomicAdd(wrong, 1);
}

void test_a_missing_barrier_shows() {
    int wrong = 0;
    run_blocks(20, 64, [&] { neighbours(&wrong); });
    check(wrong > 100, "a missing barrier does not show");
}

template <class T>
__global__ void scan(const T *values, T *sums) {
    T sum = values[global_thread()];
    for (int distance = 1; distance < warpSize; distance *= 2) {
        const T before = __shfl_up_sync(all, sum, distance);
        if (int(threadIdx.x) % warpSize >= distance) sum += before;
    }
    sums[global_thread()] = sum;
}

template <class T>
void test_scan() {
    constexpr int n = 3 * 96;
    std::vector<T> values(n), sums(n), expected(n);
    for (int i = 0; i < n; ++i) {
        values[i] = T(i * 7919 % 1000) * T(sizeof(T) == 8 ? 1e9 : 1);
        expected[i] = values[i] + (i % 32 ? expected[i - 1] : 0);
    }
    run_blocks(3, 96, [&] { scan(values.data(), sums.data()); });
    check(sums == expected, "scan");
}

// What the words must give is written here as CUDA's documentation says it.
__global__ void shuffles() {
    const int lane = int(threadIdx.x) % warpSize, half = lane / 16 * 16;
    const double value = 100 + lane;
    check(__shfl_sync(all, value, 5) == 105, "shfl");
    check(__shfl_sync(all, value, 37) == 105, "shfl takes the source modulo the width");
    check(__shfl_sync(all, lane, 3, 16) == half + 3, "shfl in halves");
    check(__shfl_sync(all, u64(lane) << 40, (lane + 1) % 32) == u64((lane + 1) % 32) << 40, "shfl in a ring");
    check(__shfl_up_sync(all, value, 4) == (lane < 4 ? value : value - 4), "shfl up");
    check(__shfl_up_sync(all, lane, 4, 16) == (lane - half < 4 ? lane : lane - 4), "shfl up in halves");
    check(__shfl_down_sync(all, value, 4) == (lane >= 28 ? value : value + 4), "shfl down");
    check(__shfl_down_sync(all, lane, 4, 16) == (lane - half >= 12 ? lane : lane + 4), "shfl down in halves");
    check(__shfl_xor_sync(all, float(lane), 9) == float(lane ^ 9), "shfl xor");
    check(__shfl_xor_sync(all, lane, 16, 16) == (half == 0 ? lane : lane ^ 16), "shfl xor across halves");
    float sum = float(lane);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(all, sum, distance);
    check(sum == 496, "butterfly");
    const unsigned own_half = 0xffffu << half;
    check(std::isnan(__shfl_sync(own_half, value, 16 - half)), "a lane outside the mask has a value");
    check(std::isnan(__shfl_sync(own_half, float(lane), 16 - half)), "a lane outside the mask has a value");
}

__global__ void votes() {
    const int lane = int(threadIdx.x) % warpSize;
    check(__ballot_sync(all, lane % 3 == 0) == 0x49249249, "ballot");
    if (lane < 8) {  // groups of one warp that use it at a time
        check(__ballot_sync(0xff, lane & 1) == 0xaa, "ballot of few lanes");
        __syncwarp(0xff);
        check(__any_sync(0xff, lane == 7) && !__any_sync(0xff, lane == 8), "any");
    } else {
        check(__ballot_sync(~0xffu, 1) == ~0xffu, "ballot of the others");
        check(__all_sync(~0xffu, lane >= 8) && !__all_sync(~0xffu, lane != 31), "all");
    }
    __syncwarp();
    check(__activemask() >> lane & 1, "activemask");
}

__global__ void block_votes() {
    const int thread = int(threadIdx.x);
    check(__syncthreads_count(thread % 3 == 0) == 32, "count");
    check(__syncthreads_or(thread == 95) && !__syncthreads_or(0), "or");
    check(__syncthreads_and(1) && !__syncthreads_and(thread != 17), "and");
    if (thread >= 40) return;  // those that have returned are not waited for, and have no vote
    check(__syncthreads_and(thread < 40) && __syncthreads_count(1) == 40, "votes of the living");
}

__global__ void append(unsigned *count, unsigned *list, unsigned n) {
    const unsigned i = global_thread();
    if (i >= n || i % 3 != 0) return;
    list[atomicAdd(count, 1u)] = i;
    __threadfence();
}

std::vector<unsigned> appended(unsigned n) {
    unsigned count = 0;
    std::vector<unsigned> list(n);
    run_blocks((n + 63) / 64, 64, [&] { append(&count, list.data(), n); });
    list.resize(count);
    return list;
}

void test_append() {
    std::vector<unsigned> list = appended(1000);
    check(list != appended(1000), "two launches run in the same order");
    std::sort(list.begin(), list.end());
    check(list.size() == 334, "number of appended items");
    for (unsigned i = 0; i < list.size(); ++i) check(list[i] == 3 * i, "appended items");
}

template <class T>
void test_atomics() {
    T value = 12;
    check(atomicAdd(&value, T(5)) == 12 && value == 17, "add");
    check(atomicMin(&value, T(9)) == 17 && value == 9 && atomicMin(&value, T(10)) == 9 && value == 9, "min");
    check(atomicMax(&value, T(20)) == 9 && value == 20 && atomicMax(&value, T(1)) == 20 && value == 20, "max");
    check(atomicExch(&value, T(6)) == 20 && value == 6, "exchange");
    check(atomicCAS(&value, T(7), T(1)) == 6 && value == 6 && atomicCAS(&value, T(6), T(1)) == 6 && value == 1, "cas");
    check(atomicOr(&value, T(6)) == 1 && value == 7 && atomicAnd(&value, T(10)) == 7 && value == 2, "or, and");
}

void test_more_atomics() {
    int value = 2147483647;
    check(atomicAdd(&value, 1) == 2147483647 && value == -2147483647 - 1, "add wraps round");
    check(atomicMin(&value, -1) < 0 && atomicMax(&value, -5) < 0 && value == -5, "signed min, max");
    check(atomicSub(&value, -7) == -5 && value == 2, "sub");
    unsigned count = 0;
    check(atomicSub(&count, 1u) == 0 && count == all && atomicMax(&count, 3u) == all && count == all, "unsigned");
    float sum = 0.5f;
    check(atomicAdd(&sum, 0.25f) == 0.5f && atomicExch(&sum, 2.0f) == 0.75f && sum == 2.0f, "float");
    check(__popc(0xf0f0) == 8 && __ffs(0) == 0 && __ffs(12) == 3 && __clz(0) == 32 && __clz(1) == 31 && __clz(-1) == 0,
          "bits");
}

__global__ void add_without_care(int *sum, int *other) {
    const int before = *sum;
    atomicAdd(other, 1);
    *sum = before + 1;
}

__global__ void add_with_lock(int *lock, int *sum, int *other) {
    while (atomicCAS(lock, 0, 1) != 0) __nanosleep(20);
    add_without_care(sum, other);
    __threadfence();
    atomicExch(lock, 0);
}

void test_threads_change_at_atomics() {
    int sum = 0, other = 0, lock = 0;
    run_blocks(4, 64, [&] { add_without_care(&sum, &other); });
    check(other == 256 && sum < 256, "a lost update does not show");
    sum = 0;
    run_blocks(4, 64, [&] { add_with_lock(&lock, &sum, &other); });
    check(sum == 256, "lock");
}

__global__ void early_exits(int *sums) {
    __shared__ int shared[100];
    const unsigned thread = threadIdx.x;
    if (thread % 10 == 9) return;
    shared[thread] = int(thread);
    __syncthreads();
    if (thread >= 50) return;
    shared[thread] += shared[thread + 50];
    __syncthreads();
    int sum = 0;
    for (unsigned i = 0; i < 50; ++i) sum += i % 10 == 9 ? 0 : shared[i];
    sums[global_thread()] = sum;
}

void test_early_exits() {
    std::vector<int> sums(300);
    run_blocks(3, 100, [&] { early_exits(sums.data()); });
    int expected = 0;
    for (int i = 0; i < 100; ++i) expected += i % 10 == 9 ? 0 : i;
    for (int i = 0; i < 300; ++i) {
        check(sums[i] == (i % 10 == 9 || i % 100 >= 50 ? 0 : expected), "early exits");
    }
}

// Every thread of the grid hands its number on to a thread of the next block, round after round.
__global__ void hand_on(unsigned *now, unsigned *then, int rounds) {
    static char key;
    unsigned *shared = static_cast<unsigned *>(emulated_cuda::block_memory(&key, blockDim.x * sizeof(unsigned)));
    check(shared[threadIdx.x] - 0xf0000000 < 0x0fffffff, "block memory is not bad at first");
    emulated_cuda::grid_sync();
    const unsigned n = gridDim.x * blockDim.x;
    for (int round = 0; round < rounds; ++round) {
        shared[threadIdx.x] = now[global_thread()];
        __syncthreads();
        then[(global_thread() + blockDim.x) % n] = shared[(threadIdx.x + 1) % blockDim.x];
        emulated_cuda::grid_sync();
        unsigned *last = now;
        now = then;
        then = last;
    }
}

void test_cooperative() {
    constexpr unsigned blocks = 6, threads = 64, rounds = 12, n = blocks * threads;
    std::vector<unsigned> now(n), then(n);
    for (unsigned i = 0; i < n; ++i) now[i] = i;
    for (unsigned launch = 0; launch < 2; ++launch) {
        run_cooperative(blocks, threads, [&] { hand_on(now.data(), then.data(), rounds); });
    }
    for (unsigned i = 0; i < n; ++i) {  // 24 rounds: 4 times around the grid
        check(now[i] == i / threads * threads + (i + 24) % threads, "cooperative");
    }
}

__global__ void rounding_modes() {
    const bool up = threadIdx.x % 2;
    const int mode = up ? FE_UPWARD : FE_DOWNWARD;  // fegetround asks x87, the division goes by the word of SSE
    volatile float one = 1, three = 3;
    check(std::fegetround() == FE_TONEAREST, "a thread starts with the rounding of another");
    std::fesetround(mode);
    for (int i = 0; i < 3; ++i) {
        __syncthreads();
        check(std::fegetround() == mode && one / three == (up ? 0x1.555556p-2f : 0x1.555554p-2f),
              "a thread has the rounding of another");
    }
}

void test_registers() {
    run_blocks(2, 64, rounding_modes);
    check(std::fegetround() == FE_TONEAREST, "a launch changes the rounding");
}

void test_grid() {
    std::vector<unsigned> order;
    run_grid(2, 3, [&] {
        order.push_back(global_thread());
        check(gridDim.x == 2 && gridDim.y == 1 && gridDim.z == 1 && blockDim.x == 3 && blockDim.y == 1, "sizes");
        check(blockIdx.y == 0 && threadIdx.y == 0 && threadIdx.z == 0, "indices");
    });
    check(order == std::vector<unsigned>{5, 4, 3, 2, 1, 0}, "order of a plain grid");
    run_grid(0, 3, [] { std::abort(); });
    run_blocks(0, 3, [] { std::abort(); });
    run_cooperative(0, 3, [] { std::abort(); });
}

void results() {
    test_grid();
    test_block_sums();
    test_a_missing_barrier_shows();
    test_scan<int>();
    test_scan<u64>();
    test_scan<double>();
    run_blocks(3, 64, shuffles);
    run_blocks(3, 64, votes);
    run_blocks(3, 96, block_votes);
    test_append();
    test_atomics<int>();
    test_atomics<unsigned>();
    test_atomics<u64>();
    test_more_atomics();
    test_threads_change_at_atomics();
    test_early_exits();
    test_cooperative();
    test_registers();
}

__global__ void divergent_barrier() {
    if (threadIdx.x < 40) {
        __syncthreads();
    } else {
        __ballot_sync(all, 1);
    }
}

__global__ void different_barriers() {
    if (threadIdx.x < 40) {
        __syncthreads();
    } else {
        __syncthreads_or(1);
    }
}

__global__ void exited_lane() {
    if (threadIdx.x == 5) return;
    __shfl_down_sync(all, 1.0f, 1);
}

__global__ void grid_without_all() {
    if (blockIdx.x != 1) emulated_cuda::grid_sync();
}

int recurse(int depth) {
    volatile char frame[1024];
    frame[0] = char(depth);
    return depth == 0 ? 0 : recurse(depth - 1) + frame[0];
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void run_results() { results(); }

int main(int, char **arguments) {
    const std::string what = arguments[1];
    if (what == "results") {
        results();
        std::puts("sound");
    } else if (what == "order") {
        for (unsigned i : appended(400)) std::printf("%u ", i);
    } else if (what == "speed") {
        run_blocks(100, 256, [] {
            for (int i = 0; i < 100; ++i) __syncthreads();
        });
    } else {
        const std::map<std::string, void (*)()> kernels = {{"divergent barrier", divergent_barrier},
                                                           {"different barriers", different_barriers},
                                                           {"exited lane", exited_lane},
                                                           {"missing lanes", [] { __syncwarp(); }},
                                                           {"foreign mask", [] { __syncwarp(1); }},
                                                           {"nested", [] { run_grid(1, 1, [] {}); }},
                                                           {"overflow", [] { recurse(100); }}};
        if (what == "grid") run_cooperative(3, 32, grid_without_all);
        else if (what == "outside") run_grid(1, 32, divergent_barrier);
        else run_blocks(2, what == "missing lanes" ? 48 : 64, kernels.at(what));
        std::puts("not noticed");
    }
}

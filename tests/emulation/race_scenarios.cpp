// Small launches for the race detector, each in a form that is ordered and in one that is not: `scenario(name, sound)`.
#include <cstring>
#include <functional>
#include <map>
#include <string>

constexpr unsigned threads = 64;
struct Row {
    int values[6];
};
// Known beyond this file, or the compiler would leave out writes that nobody reads.
int data[4096];
unsigned flag;
unsigned char bytes[threads];
Row rows[threads];

namespace {

using emulated_cuda::block_memory;
using emulated_cuda::grid_sync;
using emulated_cuda::run_blocks;
using emulated_cuda::run_cooperative;
using emulated_cuda::run_grid;


unsigned rank() { return blockIdx.x * blockDim.x + threadIdx.x; }

// One thread hands data[0] to another through a flag. What stands between its write and the flag, and behind the flag.
template <class Before, class Behind>
void hand_on(unsigned blocks, Before before, Behind behind) {
    flag = 0;
    run_cooperative(blocks, threads, [&] {
        if (rank() == 0) {
            data[0] = 1;
            before();
            atomicExch(&flag, 1u);
        } else if (rank() == blocks * threads - 1) {
            while (atomicAdd(&flag, 0u) == 0) __nanosleep(1);
            behind();
            data[1] = data[0];
        }
    });
}

const auto nothing = [] {};

const std::map<std::string, std::function<void(bool)>> scenarios{
    {"block barrier", [](bool sound) {
        run_blocks(1, threads, [&] {
            data[threadIdx.x] = 1;
            if (sound) __syncthreads();
            data[threads + threadIdx.x] = data[(threadIdx.x + 1) % threads];
        });
    }},
    {"warp barrier", [](bool sound) {  // which reaches as far as the warp
        run_blocks(1, threads, [&] {
            data[threadIdx.x] = 1;
            __syncwarp();
            data[threads + threadIdx.x] = data[sound ? threadIdx.x ^ 31 : threadIdx.x ^ 32];
        });
    }},
    {"lanes of a warp", [](bool sound) {
        run_blocks(1, 32, [&] {
            data[threadIdx.x] = 1;
            if (sound) __syncwarp();
            data[threads + threadIdx.x] = data[threadIdx.x ^ 1];
        });
    }},
    {"lanes of a mask", [](bool sound) {
        run_blocks(1, 32, [&] {
            data[threadIdx.x] = 1;
            __syncwarp(threadIdx.x < 16 ? 0x0000ffff : 0xffff0000);
            data[threads + threadIdx.x] = data[sound ? threadIdx.x ^ 8 : threadIdx.x ^ 16];
        });
    }},
    {"shuffle", [](bool sound) {
        run_blocks(1, 32, [&] {
            data[threadIdx.x] = 1;
            const int next = __shfl_sync(0xffffffff, 1, int(threadIdx.x ^ 1));
            data[threads + threadIdx.x] = sound ? next : data[threadIdx.x ^ 1];
        });
    }},
    {"vote", [](bool sound) {
        run_blocks(1, 32, [&] {
            data[threadIdx.x] = 1;
            __ballot_sync(0xffffffff, 1);
            if (sound) __syncthreads_or(0);
            data[threads + threadIdx.x] = data[threadIdx.x ^ 1];
        });
    }},
    {"grid barrier", [](bool sound) {
        run_cooperative(3, threads, [&] {
            data[rank()] = 1;
            sound ? grid_sync() : __syncthreads();
            data[1024 + rank()] = data[(rank() + threads) % (3 * threads)];
        });
    }},
    {"through others", [](bool sound) {  // thread 0 to its block to the others' blocks
        run_cooperative(3, threads, [&] {
            if (rank() == (sound ? 0 : threads)) data[0] = 1;
            if (blockIdx.x == 0) __syncthreads();
            if (blockIdx.x == 0 && threadIdx.x == 5) data[0] += 1;
            grid_sync();
            data[1024 + rank()] = data[0];
        });
    }},
    {"blocks one after the other", [](bool sound) {
        run_blocks(3, threads, [&] { data[sound ? rank() : threadIdx.x] = 1; });
    }},
    {"blocks read and write", [](bool sound) {
        run_blocks(3, threads, [&] {
            if (blockIdx.x != 1) data[1024 + rank()] = data[0];
            if (blockIdx.x == 1 && threadIdx.x == 7 && !sound) data[0] = 1;
        });
    }},
    {"threads without fibers", [](bool sound) {
        run_grid(2, threads, [&] { data[sound ? rank() : rank() / 2] = 1; });
    }},
    {"kernels", [](bool sound) {
        const auto write = [] { data[rank()] = 1; };
        const auto read = [] { data[1024 + rank()] = data[(rank() + 1) % threads]; };
        if (sound) run_grid(1, threads, write);
        run_grid(1, threads, [&] {
            if (!sound) write();
            read();
        });
    }},
    {"bytes of a word", [](bool sound) {
        run_grid(1, threads, [&] { bytes[sound ? threadIdx.x : threadIdx.x / 2] = 1; });
    }},
    {"rows", [](bool sound) {
        run_grid(1, threads, [&] { rows[threadIdx.x] = rows[sound ? threadIdx.x : (threadIdx.x + 1) % threads]; });
    }},
    {"copies", [](bool sound) {
        run_grid(1, threads, [&] {
            volatile std::size_t size = sound ? 4 : 5;  // so that it is a call
            std::memcpy(bytes + threadIdx.x / 16 * 16 + 4 * (threadIdx.x % 4), &data[1024], threadIdx.x % 16 < 4 ? size : 0);
        });
    }},
    {"atomic and plain", [](bool sound) {
        run_blocks(1, threads, [&] {
            atomicAdd(&flag, 1u);
            if (sound) __syncthreads();
            data[threadIdx.x] = int(flag);
        });
    }},
    {"plain read-modify-write", [](bool sound) {
        run_grid(1, threads, [&] { sound ? atomicAdd(&flag, 1u) : flag++; });
    }},
    {"atomics order nothing", [](bool sound) {
        sound ? hand_on(2, __threadfence, __threadfence) : hand_on(2, nothing, nothing);
    }},
    {"both need a fence", [](bool sound) {
        sound ? hand_on(2, __threadfence, __threadfence) : hand_on(2, __threadfence, nothing);
    }},
    {"fence of a block", [](bool sound) {
        hand_on(sound ? 1 : 2, __threadfence_block, __threadfence_block);
    }},
    {"volatile flag", [](bool sound) {
        run_grid(2, threads, [&] {
            if (sound) *static_cast<volatile unsigned *>(&flag) = 1;
            if (!sound) flag = 1;
        });
    }},
    {"one of many readers", [](bool sound) {
        run_blocks(1, threads, [&] {
            data[threads + threadIdx.x] = data[0];
            if (sound || threadIdx.x / 32 == 1) __syncwarp();
            sound ? __syncthreads() : void();
            if (threadIdx.x == 40) data[0] = 1;
        });
    }},
    {"a thread that has left", [](bool sound) {
        run_blocks(1, threads, [&] {
            if (threadIdx.x == 0) data[0] = 1;
            if (sound) __syncthreads();
            if (threadIdx.x == 0) return;
            __syncthreads();
            data[threadIdx.x] = data[0];
        });
    }},
    {"shared memory", [](bool sound) {
        static char key;
        run_blocks(3, threads, [&] {
            int *const own = static_cast<int *>(block_memory(&key, threads * sizeof(int)));
            own[threadIdx.x] = 1;
            if (sound) __syncthreads();
            data[rank()] = own[(threadIdx.x + 1) % threads];
        });
    }},
};

}  // namespace

extern "C" __attribute__((visibility("default"))) void scenario(const char *name, bool sound) {
    scenarios.at(name)(sound);
}
// The names, one on each line.
extern "C" __attribute__((visibility("default"))) const char *scenario_names() {
    static std::string names;
    names.clear();
    for (const auto &[name, run] : scenarios) names += name + "\n";
    return names.c_str();
}

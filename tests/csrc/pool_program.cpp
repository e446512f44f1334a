// Runs the thread pool hard and checks that every tile runs exactly once, by whatever thread. Prints "sound".
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "runtime/pool.h"

namespace {

struct Job {
    std::vector<std::atomic<int>> visits;
    std::vector<int> plain;  // written without a lock: a tile that two threads run is a data race
};

void visit(void *argument, std::int32_t tile) {
    Job &job = *static_cast<Job *>(argument);
    job.visits[tile].fetch_add(1, std::memory_order_relaxed);
    job.plain[tile] += tile + 1;
}

void check(std::int32_t tiles, std::int32_t threads, int runs) {
    Job job{std::vector<std::atomic<int>>(tiles), std::vector<int>(tiles)};
    for (int run = 1; run <= runs; ++run) {
        tbs::run_tiles(visit, &job, tiles, threads);
        for (std::int32_t tile = 0; tile < tiles; ++tile) {
            if (job.visits[tile].load() != run || job.plain[tile] != run * (tile + 1)) {
                std::printf("tile %d of %d on %d threads ran %d times in %d runs\n", tile, tiles, threads,
                            job.visits[tile].load(), run);
                std::exit(1);
            }
        }
        // Longer than workers look for work now and then: they fall asleep and must be woken.
        if (run % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
}

}  // namespace

int main() {
    for (std::int32_t threads : {1, 2, 3, 8}) {
        for (std::int32_t tiles : {0, 1, 2, 3, 7, 64}) check(tiles, threads, 150);
    }
    // Several callers at a time: one has the workers, the others run their tiles themselves.
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) callers.emplace_back([i] { check(5 + i, 2, 300); });
    for (std::thread &caller : callers) caller.join();
#ifndef WITHOUT_FORK
    const pid_t child = fork();  // only this thread goes on in the child, whose pool must begin afresh
    if (child == 0) {
        check(64, 2, 50);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0) return 1;
#endif
    check(64, 2, 50);
    std::puts("sound");
}

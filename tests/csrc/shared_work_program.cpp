// Shares out pieces of work in many ways and checks that each runs exactly once, by whatever thread. Prints "sound".
namespace tbs::executors {
constexpr unsigned max_threads = 16;  // as units open with
}
#include "tbs/threads.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace tbs;
using namespace tbs::executors;

// In place of an OpenMP runtime, since ThreadSanitizer does not see what those do. It gives as many threads as it likes.
#ifdef STAND_IN
namespace {
thread_local int thread_number = 0;
std::atomic<unsigned> regions{0};
}  // namespace

extern "C" int omp_get_thread_num(void) { return thread_number; }
extern "C" void GOMP_parallel(void (*function)(void *), void *argument, unsigned threads, unsigned) {
    const unsigned given = regions.fetch_add(1) % 4 == 3 ? 1 : threads;
    const int outer = thread_number;
    std::vector<std::thread> others;
    for (unsigned i = 1; i < given; ++i) {
        others.emplace_back([=] {
            thread_number = int(i);
            function(argument);
        });
    }
    thread_number = 0;
    function(argument);
    thread_number = outer;
    for (std::thread &other : others) other.join();
}
#endif

namespace {

void check(i32 count, Threads threads, int runs) {
    std::vector<std::atomic<int>> visits(count);
    std::vector<int> plain(count);  // written without a lock: a piece that two threads run is a data race
    auto visit = [&](i32 index) {
        visits[index].fetch_add(1, std::memory_order_relaxed);
        plain[index] += index + 1;
    };
    for (int run = 1; run <= runs; ++run) {
        for_each(visit, count, threads);
        for (i32 index = 0; index < count; ++index) {
            if (visits[index].load() != run || plain[index] != run * (index + 1)) {
                std::printf("piece %d of %d on %d of %d threads ran %d times in %d runs\n", index, count, threads.count,
                            threads.team, visits[index].load(), run);
                std::exit(1);
            }
        }
    }
}

void check_within(void *) { check(9, {2, 2}, 5); }

}  // namespace

int main() {
    for (const Threads threads : {Threads{1, 1}, {2, 2}, {3, 2}, {2, 4}, {8, 8}, {50, 2}}) {
        for (const i32 count : {0, 1, 2, 3, 7, 64}) check(count, threads, 20);
    }
    check(300, {100, 2}, 1);
    // Several callers at a time, each of which has a team of its own; then calls from threads of a team.
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) callers.emplace_back([i] { check(5 + i, {2, 2}, 50); });
    for (std::thread &caller : callers) caller.join();
    GOMP_parallel(check_within, nullptr, 3, 0);
    check(64, {2, 2}, 20);
    std::puts("sound");
}

// Shares out pieces of work in many ways and checks that each runs exactly once, by whatever thread. Prints "sound".
#include "host/crew.cpp"

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

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

// The thread that runs a piece, or waits between calls, may be stopped by others: now and then for longer than anybody spins.
void dawdle(u32 number) {
    if (number % 97 == 0) std::this_thread::sleep_for(std::chrono::microseconds(number % 200));
}

void check(i32 count, Threads threads, int runs) {
    std::vector<std::atomic<int>> visits(count);
    std::vector<int> plain(count);  // written without a lock: a piece that two threads run is a data race
    std::vector<std::atomic<int>> busy(most_threads);
    static std::atomic<u32> calls{0};
    auto visit = [&](i32 index, u32 thread) {
        if (busy[thread].fetch_add(1) != 0) std::puts("two threads have one number"), std::exit(1);
        if (i32(thread) >= threads.count) std::puts("more threads take part than were asked for"), std::exit(1);
        visits[index].fetch_add(1, std::memory_order_relaxed);
        plain[index] += index + 1;
        dawdle(calls.fetch_add(1));
        busy[thread].fetch_sub(1);
    };
    for (int run = 1; run <= runs; ++run) {
        dawdle(calls.fetch_add(1));
        for_each(share_out, visit, count, threads);
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

void check_all() {
    for (const Threads threads : {Threads{1, 1}, {2, 2}, {3, 2}, {2, 4}, {8, 8}, {50, 2}}) {
        for (const i32 count : {0, 1, 2, 3, 7, 64}) check(count, threads, 20);
    }
    check(300, {100, 2}, 1);
    // Several callers at a time, each of which has threads of its own, that end with it; then calls from a team's threads.
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) callers.emplace_back([i] { check(5 + i, {2, 2}, 50); });
    for (std::thread &caller : callers) caller.join();
    GOMP_parallel(check_within, nullptr, 3, 0);
    check(64, {2, 2}, 20);
}

// A thread whose step was late keeps the idle team, while another forks, which ends it.
void check_idle_team() {
    std::thread other([] {
        for (int i = 0; i < 100; ++i) idle_team.keep(2);
    });
    for (int i = 0; i < 100; ++i) idle_team.end();
    other.join();
    idle_team.end();
    if (crew_keeps_idle_team()) std::puts("the idle team stays"), std::exit(1);
}

#ifdef STAND_IN
void check_lateness() {}  // no runtime that is late
#else
// One of two threads is late to a call, so the calls after it do not wait for the team.
void check_lateness() {
    auto visit = [&](i32, u32 thread) {
        if (thread == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    };
    for (int run = 0; run < 1000 && !crew_keeps_idle_team(); ++run) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // as long as torch computes in between
        for_each(share_out, visit, 64, {2, 2});
    }
    if (!crew_keeps_idle_team()) std::puts("no call was late"), std::exit(1);
    check(64, {2, 2}, 200);
    crew_choose(always_crew);  // of which no call is late, however busy the machine is
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    check(64, {2, 2}, 2);
    if (crew_keeps_idle_team()) std::puts("the idle team stays"), std::exit(1);
}
#endif

}  // namespace

int main() {
    for (const Choice each : {best, always_team, always_crew}) {
        crew_choose(each);
        check_all();
    }
    crew_choose(best);
    check_lateness();
    check_idle_team();
    std::puts("sound");
}

// What csrc/tbs/launch.cuh does with the CUDA runtime: the scenario that is named on the command line, or a line of what is
// wrong and status 1.
#include "tbs/launch.cuh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

using namespace tbs;
using namespace tbs::executors;

namespace {

#define EXPECT(condition)                                                    \
    do {                                                                     \
        if (!(condition)) {                                                  \
            std::printf("line %d: %s does not hold\n", __LINE__, #condition); \
            std::exit(1);                                                    \
        }                                                                    \
    } while (false)

void kernel(int, double) {}

Resource users_stream{0};
const int first = 7;
const double second = 0.5;

void launches(Stream stream) { launch(kernel, 4, 256, stream, first, second); }

// A step with the arguments of number `key`.
i64 step(GraphCache &cache, int key, Stream stream = &users_stream) {
    return cache.run(&key, sizeof key, stream, launches);
}

using Calls = std::vector<std::string>;

Calls taken_calls() { return std::exchange(fake::calls, {}); }

void replays() {
    GraphCache cache;
    EXPECT(step(cache, 1) == 0 && taken_calls() == Calls{"launch"});
    EXPECT(fake::arguments.back() == (std::vector<void *>{const_cast<int *>(&first), const_cast<double *>(&second)}));
    EXPECT(step(cache, 1) == 0 && (taken_calls() == Calls{"launch", "replay"}));  // recorded
    EXPECT(step(cache, 1) == 0 && taken_calls() == Calls{"replay"});
    EXPECT(step(cache, 2) == 0 && taken_calls() == Calls{"launch"});
    fake::captured.insert(&users_stream);
    EXPECT(step(cache, 1) == 0 && taken_calls() == Calls{"launch"});  // into the user's graph
    launch(kernel, 0, 256, &users_stream, first, second);
    launch_resident(kernel, 4, 256, 0, true, &users_stream, first, second);
    EXPECT(taken_calls() == Calls{"cooperative"} && last_error() == 0);
}

void others_errors() {
    GraphCache cache;
    for (int i = 0; i < 3; ++i) {
        fake::pending = cudaErrorInvalidValue;  // of another library, which has not looked yet
        EXPECT(step(cache, 1) == 0);
        EXPECT(cudaGetLastError() == cudaErrorInvalidValue);  // it still finds it
    }
    fake::pending = cudaErrorInvalidValue;
    Resident resident;
    EXPECT(resident.blocks(kernel, 256, 0, 0) == 264 && cudaGetLastError() == cudaErrorInvalidValue);
}

void own_errors() {
    GraphCache cache;
    for (int i = 0; i < 3; ++i) {
        if (i == 1) continue;  // recorded: the error would be the capture's
        fake::next_launch = cudaErrorInvalidConfiguration;
        EXPECT(step(cache, 1) == 9);
        EXPECT(cudaGetLastError() == cudaSuccess);  // nobody else is told of it
        EXPECT(step(cache, 1) == 0);
    }
    EXPECT(registers_of_kernel(kernel) == 0 && fake::pending == cudaSuccess);
}

// A simulator goes away, and another steps for the first times, while somebody captures; with another device current.
void lifetimes() {
    fake::device = 1;
    auto going = std::make_unique<GraphCache>();
    for (int i = 0; i < 3; ++i) step(*going, 1);
    EXPECT(fake::made[1] == 3 && fake::alive.size() == 2);  // stream, graph, what it was made from
    fake::somebody_captures = true;
    fake::device = 0;
    going.reset();
    EXPECT(fake::alive.empty() && fake::destroyed[1] == 3 && fake::device == 0);
    {
        GraphCache cache;
        Resident resident;
        for (int i = 0; i < 3; ++i) EXPECT(step(cache, 1) == 0);
        EXPECT(resident.blocks(kernel, 256, 0, 0) == 264 && registers_of_kernel(kernel) == 0);
        EXPECT(taken_calls().back() == "replay");
        for (int key = 0; key < 5000; ++key) EXPECT(step(cache, key) == 0);  // room is made
        GraphCache never_used;
    }
    EXPECT(fake::alive.empty() && !fake::capture_ended && fake::pending == cudaSuccess);
    EXPECT(fake::mode == cudaStreamCaptureModeGlobal);
}

// Memory on chip: a kernel is allowed it once, while somebody captures too, and blocks on the device are counted with it.
void memory_on_chip() {
    const u32 much = 180 * 1024;
    ChipAllowance allowance, other;
    allowance.allow(kernel, 0);
    EXPECT(taken_calls().empty());
    launch_resident(kernel, 4, 256, much, false, &users_stream, first, second);
    EXPECT(last_error() == 1 && taken_calls() == Calls{"launch"});
    fake::somebody_captures = true;
    allowance.allow(kernel, much);
    allowance.allow(kernel, much);
    EXPECT((taken_calls() == Calls{"attribute", "attribute"}) && !fake::capture_ended);
    fake::somebody_captures = false;
    launch_together(kernel, 4, 256, much, &users_stream, first, second);
    EXPECT(last_error() == 0 && taken_calls() == Calls{"launch"});
    Resident resident;
    EXPECT(resident.blocks(kernel, 256, much, 0) == 132);
    other.allow(kernel, 300 * 1024);
    EXPECT(last_error() == 1 && fake::pending == cudaSuccess);
}

// Where no graph can be made, steps go without.
void without_graphs() {
    GraphCache cache;
    step(cache, 1);
    fake::next_launch = cudaErrorInvalidConfiguration;  // while it is recorded
    EXPECT(step(cache, 1) == 0 && step(cache, 2) == 0);
    fake::next_launch = cudaErrorInvalidConfiguration;  // of a launch before those that are recorded
    launches(&users_stream);
    EXPECT(step(cache, 2) == 9 && step(cache, 2) == 0);
}

}  // namespace

int main(int, char **arguments) {
    const struct {
        const char *name;
        void (*run)();
    } scenarios[] = {
        {"replays", replays}, {"others_errors", others_errors}, {"own_errors", own_errors}, {"lifetimes", lifetimes},
        {"without_graphs", without_graphs}, {"memory_on_chip", memory_on_chip},
    };
    for (const auto &scenario : scenarios) {
        if (std::strcmp(scenario.name, arguments[1]) == 0) {
            scenario.run();
            return 0;
        }
    }
    std::puts("no such scenario");
    return 1;
}

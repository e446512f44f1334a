// Gives g++ the CUDA words, so that the CUDA units are compiled and run on any machine, bit for bit: for tests, and for
// python -m torch_batchsim.check. race_detector.h is in tests/emulation/.
// Include it before everything else (g++ -include).
//
// One OS thread runs a whole launch. A kernel without barriers runs as a plain loop (run_grid). Otherwise every thread
// of a block is a fiber with a stack of its own, and one block runs to its end before the next one starts (run_blocks),
// or all blocks are alive at once (run_cooperative). Which fiber goes on is drawn at every barrier and warp word and
// at some atomics and fences; the order of blocks is drawn too. Another TBS_EMULATION_SEED (default 1) draws another
// order. What hardware would hang at or leaves undefined ends the process with a message:
//   - a __syncthreads that some living threads of the block do not reach, or reach at another line;
//   - a warp word whose mask names a lane that has returned, does not exist or waits elsewhere, or not the caller's.
// A shuffle from a lane outside the mask gives a bad value (NaN for floating-point types).
//
// What it does not show: races that change no result in the order drawn (race_detector.h finds them, where it is included
// before), weak memory order, and what a block finds in its __shared__ memory at first (it is left from the block before).
// A loop that waits for another thread must contain an atomic, a fence or __nanosleep.
// A thread has 64 KiB of stack; beyond it lies a page that faults.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// The other switch works on every processor, but asks the kernel for the signal mask each time.
#if !defined(__x86_64__) && !defined(TBS_EMULATION_UCONTEXT)
#define TBS_EMULATION_UCONTEXT 1
#endif
#ifdef TBS_EMULATION_UCONTEXT
#include <ucontext.h>
#endif

#define TBS_EMULATED_CUDA 1
#define __global__
#define __device__
#define __host__
// One for all blocks, which run one after the other. Kernels of cooperative launches take their shared memory from
// emulated_cuda::block_memory instead, as TBS_SHARED does. An alignment stands in front (alignas) or behind (__align__).
#define __shared__ static
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct uint3 {
    unsigned x, y, z;
};
inline thread_local uint3 blockIdx{0, 0, 0}, threadIdx{0, 0, 0}, blockDim{1, 1, 1}, gridDim{1, 1, 1};
inline constexpr int warpSize = 32;

namespace emulated_cuda {

#ifndef TBS_EMULATION_WATCHED
// Nobody watches (race_detector.h does).
namespace watch {
constexpr bool on = false;
struct Inside {
    Inside() {}
};
using Outside = Inside;
inline void begin_launch(unsigned, unsigned, unsigned) {}
inline void begin_blocks(const unsigned *) {}
inline void run_thread(unsigned, const char *, std::size_t) {}
inline void barrier(const unsigned *, std::size_t) {}
inline void atomic(const void *, std::size_t) {}
inline void fence(bool) {}
inline void block_memory(unsigned, const void *, std::size_t) {}
}  // namespace watch
#endif

// Where a word is called, for messages.
struct Place {
    const char *file = "", *function = "";
    int line = 0;

    static constexpr Place here(const char *file = __builtin_FILE(), const char *function = __builtin_FUNCTION(),
                                int line = __builtin_LINE()) {
        return {file, function, line};
    }
};

#ifdef TBS_EMULATION_UCONTEXT
struct Context {
    ucontext_t registers;
};

inline void switch_context(Context &from, Context &to) { swapcontext(&from.registers, &to.registers); }

inline void prepare_context(Context &context, char *stack, std::size_t size, void (*entry)()) {
    getcontext(&context.registers);
    context.registers.uc_stack.ss_sp = stack;
    context.registers.uc_stack.ss_size = size;
    context.registers.uc_link = nullptr;
    makecontext(&context.registers, entry, 0);
}
#else
struct Context {
    void *stack_pointer = nullptr;
};

// Saves what a function must keep (six registers, the control words of SSE and x87) on this stack, and takes up the
// other one. noipa: the compiler must not conclude from the empty body that registers survive the call.
__attribute__((naked, noipa, no_sanitize("thread"))) inline void switch_stack(void ** /*from: rdi*/, void * /*to: rsi*/) {
    asm("pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n\t"
        "subq $8, %rsp; stmxcsr (%rsp); fnstcw 4(%rsp)\n\t"
        "movq %rsp, (%rdi); movq %rsi, %rsp\n\t"
        "ldmxcsr (%rsp); fldcw 4(%rsp); addq $8, %rsp\n\t"
        "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp; ret");
}

inline void switch_context(Context &from, Context &to) { switch_stack(&from.stack_pointer, to.stack_pointer); }

// Lays out what switch_stack takes from a stack, and above it the zero that ends a backtrace. When entry begins, the
// stack pointer is 8 past a multiple of 16, as after a call.
inline void prepare_context(Context &context, char *stack, std::size_t size, void (*entry)()) {
    std::uint64_t *top = reinterpret_cast<std::uint64_t *>(stack + size) - 9;
    std::memset(top, 0, 9 * sizeof *top);
    asm volatile("stmxcsr (%0); fnstcw 4(%0)" : : "r"(top) : "memory");
    top[7] = reinterpret_cast<std::uint64_t>(entry);
    context.stack_pointer = top;
}
#endif

// In place of __syncthreads, for tests of the race detector: meet(unordered) lets the threads of a block wait for each
// other, and says nothing of what they see then.
inline constexpr char unordered[] = "a meeting without order";

enum class State { ready, at_warp_word, at_block_barrier, at_grid_barrier, returned };

struct Fiber {
    Context context;
    State state = State::ready;
    const char *word = "";  // what it waits at
    Place place;
    unsigned mask = 0;
    int source = -1;  // the lane a shuffle reads; -1: a vote
    std::uint64_t value = 0, result = 0;
};

struct Block {
    unsigned index = 0, living = 0;
    unsigned waiting = 0, counted = 0;            // at the block's barrier; of these, with a true predicate
    unsigned present[32] = {}, at_word[32] = {};  // by warp: lanes alive, lanes waiting at a warp word
    using Memory = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
    std::map<const void *, Memory> memory;  // by variable
};

class Machine;
inline thread_local Machine *running = nullptr;  // while a launch with fibers runs

[[noreturn]] inline void stop(const std::string &message) {
    std::fprintf(stderr, "emulated CUDA: %s\n", message.c_str());
    std::abort();
}

inline void begin_launch(unsigned blocks, unsigned threads) {
    if (running) stop("a launch inside a kernel");
    if (threads < 1 || threads > 1024) stop("a launch with " + std::to_string(threads) + " threads a block");
    gridDim.x = blocks;
    blockDim.x = threads;
}

constexpr std::size_t stack_bytes = 65536;

// The stacks that no launch runs on, which all libraries of the process share. A stack takes two mappings, and Linux
// allows a process 65,530: libraries that each kept stacks of their own would use them up. Its visibility lets the
// dynamic linker unite the libraries' copies of it. Stacks are never unmapped: a kernel may call exit on one.
class __attribute__((visibility("default"))) SpareStacks {
  public:
    static SpareStacks &of_process() {
        static SpareStacks *const all = new SpareStacks;
        return *all;
    }

    // Adds to `stacks` until it has `count`.
    void take(std::vector<char *> &stacks, std::size_t count) {
        const std::lock_guard hold(mutex_);
        while (stacks.size() < count) {
            if (stacks_.empty()) stacks_.push_back(new_stack(count));
            stacks.push_back(stacks_.back());
            stacks_.pop_back();
        }
    }

    void give_back(std::vector<char *> &stacks) {
        const std::lock_guard hold(mutex_);
        stacks_.insert(stacks_.end(), stacks.rbegin(), stacks.rend());  // the next launch takes them in the same order
        stacks.clear();
    }

  private:
    // Below each stack a page that nobody may touch.
    static char *new_stack(std::size_t count) {
        const std::size_t guard = std::size_t(sysconf(_SC_PAGESIZE));
        void *memory = mmap(nullptr, guard + stack_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE) != 0) {
            stop("no memory for the stacks of " + std::to_string(count) + " threads: " + std::strerror(errno));
        }
        return static_cast<char *>(memory) + guard;
    }

    std::mutex mutex_;
    std::vector<char *> stacks_;
};

// Runs the fibers of one OS thread.
class Machine {
  public:
    Machine() = default;
    Machine(const Machine &) = delete;

    void run(unsigned blocks, unsigned threads, bool cooperative, void (*call)(void *), void *body) {
        begin_launch(blocks, threads);
        cooperative_ = cooperative;
        call_ = call;
        body_ = body;
        std::vector<unsigned> order(blocks);
        for (unsigned i = 0; i < blocks; ++i) {
            order[i] = i;
            std::swap(order[i], order[below(i + 1)]);
        }
        running = this;
        const unsigned together = cooperative ? blocks : 1;
        watch::begin_launch(blocks, threads, together);
        for (unsigned first = 0; first < blocks; first += together) {
            prepare(&order[first], together);
            watch::begin_blocks(&order[first]);
            switch_from(main_);
            for (const Block &block : blocks_) {
                if (block.living > 0) fail("deadlock: no thread can go on");
            }
        }
        running = nullptr;
        SpareStacks::of_process().give_back(stacks_);
    }

    // The words of a block: returns how many threads gave a true predicate.
    unsigned block_barrier(const char *word, bool predicate, Place place) {
        Fiber &self = wait_at(State::at_block_barrier, word, place);
        Block &block = current_block();
        ++block.waiting;
        block.counted += predicate;
        release_if_all_wait(block);
        return unsigned(go_on(self));
    }

    // The words of a warp: returns the value of lane `source`, or which lanes gave a nonzero value if that is -1.
    std::uint64_t warp_word(const char *word, unsigned mask, std::uint64_t value, int source, Place place) {
        Fiber &self = wait_at(State::at_warp_word, word, place);
        self.mask = mask;
        self.value = value;
        self.source = source;
        Block &block = current_block();
        const unsigned warp = threadIdx.x / 32, own = 1u << threadIdx.x % 32;
        if (!(mask & own)) fail("a thread called a warp word with a mask that does not name its own lane");
        if (mask & ~block.present[warp]) fail("a mask names lanes that have returned or do not exist");
        block.at_word[warp] |= own;
        if ((block.at_word[warp] & mask) == mask) release_lanes(block, warp, self);
        return go_on(self);
    }

    void grid_barrier(Place place) {
        Fiber &self = wait_at(State::at_grid_barrier, "grid_sync", place);
        if (!cooperative_) fail("grid_sync outside a cooperative launch");
        if (++waiting_for_grid_ == fibers_.size()) {
            waiting_for_grid_ = 0;
            for (Fiber &fiber : fibers_) release(fiber, 0);
            meet(fibers_.data(), fibers_.data() + fibers_.size(), [](const Fiber &) { return true; });
        }
        go_on(self);
    }

    void *block_memory(const void *variable, std::size_t size) {
        const std::size_t pieces = (size + 15) / 16;
        Block::Memory &memory = current_block().memory[variable];
        if (memory.empty()) {
            memory.assign(pieces, {bad_value, bad_value});
            watch::block_memory(current_block().index, memory.data(), size);
        }
        if (memory.size() != pieces) fail("the threads of a block ask for block memory of different sizes");
        return memory.data();
    }

    // Lets others go first, as if this thread were slow.
    void yield() {
        Fiber &self = *current_;
        ready_.push_back(number(self));
        go_on(self);
    }

    std::uint64_t random() {  // splitmix64
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }

  private:
    static constexpr std::uint64_t bad_value = 0xfffc0deaffc0dead;  // NaN as a double, its low half as a float

    static std::uint64_t seed() {
        static const char *const text = std::getenv("TBS_EMULATION_SEED");
        return text ? std::strtoull(text, nullptr, 10) : 1;
    }

    unsigned below(unsigned count) { return unsigned((random() >> 32) * count >> 32); }
    unsigned number(const Fiber &fiber) const { return unsigned(&fiber - fibers_.data()); }
    Fiber *first_fiber(const Block &block) { return &fibers_[(&block - blocks_.data()) * blockDim.x]; }
    Block &current_block() { return blocks_[number(*current_) / blockDim.x]; }

    // Makes the fibers of the blocks that run together.
    void prepare(const unsigned *indices, unsigned count) {
        blocks_.assign(count, Block());
        fibers_.resize(std::size_t(count) * blockDim.x);
        SpareStacks::of_process().take(stacks_, fibers_.size());
        ready_.clear();
        waiting_for_grid_ = 0;
        newest_first_ = random() & 1;
        for (unsigned i = 0; i < fibers_.size(); ++i) {
            const unsigned thread = i % blockDim.x;
            Block &block = blocks_[i / blockDim.x];
            block.index = indices[i / blockDim.x];
            block.present[thread / 32] |= 1u << thread % 32;
            ++block.living;
            // Stacks that all began at the same offset would fight for the same few lines of the cache.
            prepare_context(fibers_[i].context, stacks_[i], stack_bytes - i % 16 * 256, enter);
            release(fibers_[i], 0);
        }
    }

    // Runs whoever is drawn, until this context is drawn again; the main one is drawn when nobody else can run.
    void switch_from(Context &from) {
        Context *to = &main_;
        if (!ready_.empty()) {
            // In half of the blocks mostly whoever could go on last: some threads run far ahead, others wait long.
            // Not always the newest, or one that waits in a loop would keep all others from running.
            const bool newest = newest_first_ && random() % 8 != 0;
            const unsigned place = newest ? unsigned(ready_.size()) - 1 : below(unsigned(ready_.size()));
            current_ = &fibers_[ready_[place]];
            ready_[place] = ready_.back();
            ready_.pop_back();
            threadIdx.x = number(*current_) % blockDim.x;
            blockIdx.x = current_block().index;
            watch::run_thread(number(*current_), stacks_[number(*current_)], stack_bytes);
            to = &current_->context;
        }
        if (to != &from) switch_context(from, *to);
    }

    std::uint64_t go_on(Fiber &self) {
        switch_from(self.context);
        return self.result;
    }

    // An exception that a kernel lets out ends the process here: there is nothing above to catch it.
    static void enter() noexcept {
        Machine &machine = *running;
        {
            const watch::Outside outside;
            machine.call_(machine.body_);
        }
        Fiber &self = *machine.current_;
        Block &block = machine.current_block();
        self.state = State::returned;
        --block.living;
        block.present[threadIdx.x / 32] &= ~(1u << threadIdx.x % 32);
        machine.release_if_all_wait(block);
        machine.switch_from(self.context);
    }

    Fiber &wait_at(State state, const char *word, Place place) {
        current_->state = state;
        current_->word = word;
        current_->place = place;
        return *current_;
    }

    void release(Fiber &fiber, std::uint64_t result) {
        fiber.result = result;
        fiber.state = State::ready;
        ready_.push_back(number(fiber));
    }

    // Records that threads have met at a barrier.
    template <class Waits>
    void meet(const Fiber *begin, const Fiber *end, Waits waits) {
        if constexpr (!watch::on) return;
        met_.clear();
        for (const Fiber *fiber = begin; fiber != end; ++fiber) {
            if (waits(*fiber)) met_.push_back(number(*fiber));
        }
        watch::barrier(met_.data(), met_.size());
    }

    // Threads that have returned are not waited for.
    void release_if_all_wait(Block &block) {
        if (block.waiting == 0 || block.waiting < block.living) return;
        Fiber *const begin = first_fiber(block), *const end = begin + blockDim.x;
        const auto waits = [](const Fiber &fiber) { return fiber.state == State::at_block_barrier; };
        const Fiber &first = *std::find_if(begin, end, waits);
        for (const Fiber *fiber = begin; fiber != end; ++fiber) {
            const bool same = !std::strcmp(fiber->word, first.word) && fiber->place.line == first.place.line;
            if (waits(*fiber) && !same) fail("the threads of a block wait at different barriers");
        }
        if (std::strcmp(first.word, unordered) != 0) meet(begin, end, waits);
        for (Fiber *fiber = begin; fiber != end; ++fiber) {
            if (waits(*fiber)) release(*fiber, block.counted);
        }
        block.waiting = block.counted = 0;
    }

    // Lets the lanes of the mask go on, if all of them wait at the same word with the same mask.
    void release_lanes(Block &block, unsigned warp, const Fiber &caller) {
        const unsigned mask = caller.mask;
        Fiber *lanes = first_fiber(block) + warp * 32;
        std::uint64_t votes = 0;
        for (unsigned left = mask; left != 0; left &= left - 1) {
            const unsigned lane = __builtin_ctz(left);
            if (lanes[lane].mask != mask || std::strcmp(lanes[lane].word, caller.word) != 0) return;
            votes |= std::uint64_t(lanes[lane].value != 0) << lane;
        }
        // Other words of a warp say nothing of memory.
        if (std::strcmp(caller.word, "__syncwarp") == 0) {
            meet(lanes, lanes + 32, [&](const Fiber &lane) { return (mask >> (&lane - lanes) & 1) != 0; });
        }
        for (unsigned left = mask; left != 0; left &= left - 1) {
            Fiber &lane = lanes[__builtin_ctz(left)];
            const bool named = lane.source >= 0 && (mask >> lane.source & 1);
            release(lane, lane.source < 0 ? votes : named ? lanes[lane.source].value : bad_value);
        }
        block.at_word[warp] &= ~mask;
    }

    static std::string describe(const Fiber &fiber) {
        if (fiber.state == State::returned) return "returned";
        if (fiber.state == State::ready) return "can go on";
        char mask[40] = "";
        if (fiber.state == State::at_warp_word) std::snprintf(mask, sizeof mask, " with mask 0x%08x", fiber.mask);
        return std::string("at ") + fiber.word + mask + " in " + fiber.place.function + " (" + fiber.place.file + ":" +
               std::to_string(fiber.place.line) + ")";
    }

    // Says what each thread waits at, those that wait at the same together.
    [[noreturn]] void fail(const char *what) const {
        std::string text = std::string(what) + ", in a launch of " + std::to_string(gridDim.x) + " blocks of " +
                           std::to_string(blockDim.x) + " threads";
        for (unsigned b = 0; b < blocks_.size() && b < 16; ++b) {
            std::map<std::string, std::string> groups;  // what, and who
            for (unsigned first = 0, next; first < blockDim.x; first = next) {
                const Fiber *fibers = &fibers_[b * blockDim.x];
                const std::string state = describe(fibers[first]);
                for (next = first + 1; next < blockDim.x && describe(fibers[next]) == state;) ++next;
                std::string &who = groups[state];
                who.append(who.empty() ? "" : ", ").append(std::to_string(first));
                if (next - first > 1) who.append("-").append(std::to_string(next - 1));
            }
            for (const auto &[state, who] : groups) {
                text += "\n  block " + std::to_string(blocks_[b].index) + ", threads " + who + ": " + state;
            }
        }
        stop(text);
    }

    std::uint64_t state_ = seed() * 0xd1342543de82ef95;  // not reset: every launch has an order of its own
    std::vector<char *> stacks_;  // during a launch
    std::vector<Fiber> fibers_;  // of the blocks alive, block after block
    std::vector<Block> blocks_;
    std::vector<unsigned> ready_;  // fibers that could run
    std::vector<unsigned> met_;    // at the last barrier
    Context main_;
    Fiber *current_ = nullptr;
    std::size_t waiting_for_grid_ = 0;
    bool cooperative_ = false, newest_first_ = false;
    void (*call_)(void *) = nullptr;
    void *body_ = nullptr;
};

inline Machine &machine(const char *word) {
    if (!running) stop(std::string(word) + " outside a launch with fibers: use run_blocks or run_cooperative");
    return *running;
}

inline Machine &own_machine() {
    static thread_local Machine machine;
    return machine;
}

template <class Body>
void run_fibers(unsigned blocks, unsigned threads, bool cooperative, Body &body) {
    const watch::Inside inside;
    own_machine().run(blocks, threads, cooperative, [](void *kernel) { (*static_cast<Body *>(kernel))(); }, &body);
}

// For kernels without barriers and warp words: every thread runs to its end at once.
template <class Body>
void run_grid(unsigned blocks, unsigned threads, Body body) {
    const watch::Inside inside;
    begin_launch(blocks, threads);
    watch::begin_launch(blocks, threads, 1);
    // Backwards: an order that differs from the CPU executor's, so that a result that hangs on order shows.
    for (unsigned block = blocks; block-- > 0;) {
        watch::begin_blocks(&block);
        for (unsigned thread = threads; thread-- > 0;) {
            blockIdx.x = block;
            threadIdx.x = thread;
            watch::run_thread(thread, nullptr, 0);
            const watch::Outside outside;
            body();
        }
    }
}

template <class Body>
void run_blocks(unsigned blocks, unsigned threads, Body body) {
    run_fibers(blocks, threads, false, body);
}

template <class Body>
void run_cooperative(unsigned blocks, unsigned threads, Body body) {
    run_fibers(blocks, threads, true, body);
}

inline void grid_sync(Place place = Place::here()) {
    const watch::Inside inside;
    machine("grid_sync").grid_barrier(place);
}

// A variable in the shared memory of this thread's block, aligned to 16 bytes, with bad values in it when the block starts.
inline void *block_memory(const void *variable, std::size_t size) {
    const watch::Inside inside;
    return machine("block_memory").block_memory(variable, size);
}

// Now and then others run between two steps of a thread.
inline void perhaps_switch() {
    const watch::Inside inside;
    if (running && running->random() % 8 == 0) running->yield();
}

template <class T, class Change>
__attribute__((always_inline)) inline T update(T *address, Change change) {
    const watch::Inside inside;
    perhaps_switch();
    watch::atomic(address, sizeof(T));
    const T old = *address;
    *address = change(old);
    perhaps_switch();
    return old;
}

inline unsigned meet(const char *word, bool predicate = false, Place place = Place::here()) {
    const watch::Inside inside;
    return machine(word).block_barrier(word, predicate, place);
}

inline unsigned vote(const char *word, unsigned mask, bool predicate, Place place) {
    const watch::Inside inside;
    return unsigned(machine(word).warp_word(word, mask, predicate, -1, place));
}

template <class T>
T shuffle(const char *word, unsigned mask, T value, unsigned source, Place place) {
    const watch::Inside inside;
    static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "shuffles take 4 or 8 bytes");
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = machine(word).warp_word(word, mask, bits, int(source), place);
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

}  // namespace emulated_cuda

#define TBS_PLACE emulated_cuda::Place place = emulated_cuda::Place::here()

inline void __syncthreads(TBS_PLACE) { emulated_cuda::meet("__syncthreads", false, place); }
inline int __syncthreads_count(int predicate, TBS_PLACE) {
    return int(emulated_cuda::meet("__syncthreads_count", predicate != 0, place));
}
inline int __syncthreads_or(int predicate, TBS_PLACE) {
    return emulated_cuda::meet("__syncthreads_or", predicate != 0, place) != 0;
}
inline int __syncthreads_and(int predicate, TBS_PLACE) {
    return emulated_cuda::meet("__syncthreads_and", predicate == 0, place) == 0;
}

inline void __syncwarp(unsigned mask = 0xffffffff, TBS_PLACE) { emulated_cuda::vote("__syncwarp", mask, false, place); }
inline unsigned __ballot_sync(unsigned mask, int predicate, TBS_PLACE) {
    return emulated_cuda::vote("__ballot_sync", mask, predicate != 0, place);
}
inline int __any_sync(unsigned mask, int predicate, TBS_PLACE) {
    return emulated_cuda::vote("__any_sync", mask, predicate != 0, place) != 0;
}
inline int __all_sync(unsigned mask, int predicate, TBS_PLACE) {
    return emulated_cuda::vote("__all_sync", mask, predicate == 0, place) == 0;
}
// The caller alone: that is always allowed, and what counts on more is wrong.
inline unsigned __activemask() { return 1u << threadIdx.x % 32; }

// Which lane is read is what PTX says of shfl: only the low five bits of an offset count.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, TBS_PLACE) {
    const unsigned lane = threadIdx.x % 32, within = unsigned(width) - 1;
    return emulated_cuda::shuffle("__shfl_sync", mask, value, (lane & ~within) | (unsigned(source) & within), place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, TBS_PLACE) {
    const unsigned lane = threadIdx.x % 32, within = unsigned(width) - 1, step = delta % 32;
    const unsigned source = step > (lane & within) ? lane : lane - step;
    return emulated_cuda::shuffle("__shfl_up_sync", mask, value, source, place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, TBS_PLACE) {
    const unsigned lane = threadIdx.x % 32, within = unsigned(width) - 1, step = delta % 32;
    const unsigned source = lane + step > (lane | within) ? lane : lane + step;
    return emulated_cuda::shuffle("__shfl_down_sync", mask, value, source, place);
}
// Groups before the own one may be read, groups after it not.
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, TBS_PLACE) {
    const unsigned lane = threadIdx.x % 32, within = unsigned(width) - 1, other = lane ^ (unsigned(lane_mask) % 32);
    return emulated_cuda::shuffle("__shfl_xor_sync", mask, value, other > (lane | within) ? lane : other, place);
}
#undef TBS_PLACE

// The types that CUDA has each for, so that a call that nvcc would refuse is refused here.
#define TBS_ATOMIC(name, type, result) \
    __attribute__((always_inline)) inline type name(type *address, type value) { \
        return emulated_cuda::update(address, [=]([[maybe_unused]] type old) { return static_cast<type>(result); }); \
    }
#define TBS_ATOMICS(type) \
    TBS_ATOMIC(atomicMin, type, value < old ? value : old) \
    TBS_ATOMIC(atomicMax, type, value > old ? value : old) \
    TBS_ATOMIC(atomicExch, type, value) \
    TBS_ATOMIC(atomicOr, type, old | value) \
    TBS_ATOMIC(atomicAnd, type, old & value) \
    __attribute__((always_inline)) inline type atomicCAS(type *address, type expected, type value) { \
        return emulated_cuda::update(address, [=](type old) { return old == expected ? value : old; }); \
    }
TBS_ATOMICS(int)
TBS_ATOMICS(unsigned)
TBS_ATOMICS(unsigned long long)
TBS_ATOMIC(atomicAdd, int, unsigned(old) + unsigned(value))  // wraps round
TBS_ATOMIC(atomicAdd, unsigned, old + value)
TBS_ATOMIC(atomicAdd, unsigned long long, old + value)
TBS_ATOMIC(atomicAdd, float, old + value)
TBS_ATOMIC(atomicSub, int, unsigned(old) - unsigned(value))
TBS_ATOMIC(atomicSub, unsigned, old - value)
TBS_ATOMIC(atomicExch, float, value)
#undef TBS_ATOMICS
#undef TBS_ATOMIC

inline void __threadfence() {
    const emulated_cuda::watch::Inside inside;
    emulated_cuda::watch::fence(true);
    emulated_cuda::perhaps_switch();
}
inline void __threadfence_block() {
    const emulated_cuda::watch::Inside inside;
    emulated_cuda::watch::fence(false);
    emulated_cuda::perhaps_switch();
}
// Others run first.
inline void __nanosleep(unsigned) {
    const emulated_cuda::watch::Inside inside;
    if (emulated_cuda::running) emulated_cuda::running->yield();
}

inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(unsigned(bits)); }
template <class T>
T __ldg(const T *address) {
    return *address;
}

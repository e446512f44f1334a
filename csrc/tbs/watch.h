// What lets a step be stopped in the midst of a system (csrc/host/interrupts.cpp): where each thread is, and where it lands
// when a signal handler takes it out of there. Written for each tile and node, never for each row.
#pragma once
#include <pthread.h>
#include <setjmp.h>

#include <cstddef>

#include "platform.h"

namespace tbs::executors {

constexpr u32 watched_threads = 256, watched_worlds = 4096;

// The work of a thread. For worlds [first, last), or `count` of a list.
struct WatchPlace {
    volatile u32 task = 0, repetition = 0;  // of the schedule
    volatile i32 first = 0, last = 0, world = -1;  // `world`: the one that is run, where it is known
    const i32 *volatile list = nullptr;
    volatile i32 count = 0;
};

struct WatchSlot {
    WatchPlace place;
    volatile i32 active;  // whether `landing` may be jumped to
    volatile i32 landed;  // whether it was, in this step
    volatile i32 signal;  // of a crash, else 0
    const void *volatile address;
    pthread_t thread;
    sigjmp_buf landing;
    i32 listed[watched_worlds];
};

// Of one simulator. torch_batchsim/run/interrupts.py asks csrc/host/interrupts.cpp for all that it wants to know.
struct Watch {
    void (*enter)(Watch &watch);
    void (*adopt)(Watch &watch, u32 thread);  // the calling thread has not used this slot before
    volatile u32 steps;              // begun
    volatile i32 running, stop;      // `stop`: no tile is begun any more
    u32 used;                        // slots up to the last one that a thread has used
    WatchSlot slots[watched_threads];
};

// While it lives, a step is running.
class Watching {
  public:
    explicit Watching(Watch *watch) : watch_(watch) {
        if (watch_) watch_->enter(*watch_);
    }
    ~Watching() {
        if (watch_) watch_->running = 0;
    }
    Watching(const Watching &) = delete;

  private:
    Watch *const watch_;
};

// Calls function(); comes back early where a signal handler jumps to the slot's landing. What is left so has no destructors.
template <class Function>
[[gnu::noinline]] void with_landing(WatchSlot &slot, const Function &function) {
    if (sigsetjmp(slot.landing, 0) == 0) {
        slot.active = 1;
        function();
    }
    slot.active = 0;
}

// Calls function(context) for a tile, with a context that has the place of the thread of this number.
template <class Context, class Function>
inline void run_watched(const Context &context, u32 thread, i32 first, i32 last, const Function &function) {
    Context own = context;
    WatchPlace spare;
    own.place = &spare;
    if (context.watch == nullptr || thread >= watched_threads) return function(own);
    if (context.watch->stop) return;
    WatchSlot &slot = context.watch->slots[thread];
    if (slot.thread != pthread_self()) context.watch->adopt(*context.watch, thread);
    slot.place.first = first;
    slot.place.last = last;
    slot.place.list = nullptr;
    slot.place.world = -1;
    own.place = &slot.place;
    with_landing(slot, [&] { function(own); });
}

}  // namespace tbs::executors

// Shares work out to threads. csrc/host/crew.cpp has the threads, and decides which ones take part.
#pragma once
#include "platform.h"

namespace tbs::executors {

// How a step is run on several threads. The team is as large as torch's even where fewer threads have enough to do: GNU's
// OpenMP ends the threads that a smaller team lacks, and starts others for the next larger one.
struct Threads {
    i32 count;  // that work
    i32 team;   // that begin together
};

// A function that is called with an index, whatever its type: what shares work out is compiled once, not for each function.
struct Work {
    void (*call)(void *function, i32 index, u32 thread);
    void *function;
};

// Calls the work for every index below `count` and returns when all calls have, each thread's with a number of its own: the
// calling thread's is 0.
using ShareOut = void (*)(const Work &work, i32 count, Threads threads);

// Calls function(index, thread) so by `share_out`; on the calling thread only where that is null.
template <class Function>
inline void for_each(ShareOut share_out, Function &function, i32 count, Threads threads) {
    if (share_out != nullptr && threads.count > 1 && count > 1) {
        const Work work{[](void *called, i32 index, u32 thread) { (*static_cast<Function *>(called))(index, thread); },
                        &function};
        return share_out(work, count, threads);
    }
    for (i32 index = 0; index < count; ++index) function(index, 0u);
}

}  // namespace tbs::executors

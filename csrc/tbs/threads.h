// Shares work out to threads: those of the OpenMP team with which torch computes, so that nobody fights for the cores.
#pragma once
#include "math.h"
#include "platform.h"

// Of the OpenMP runtime that the process has; GNU's, LLVM's and Intel's know both. They are what g++ makes of
// `#pragma omp parallel`; called by name they need neither a flag nor a runtime of the compiler's own, which could be a
// second one. torch_batchsim/base/openmp.py lets them be found.
extern "C" {
void GOMP_parallel(void (*function)(void *), void *argument, unsigned threads, unsigned flags);
int omp_get_thread_num(void);
}

namespace tbs::executors {

// How a step is run on several threads. The team is as large as torch's even where fewer threads have enough to do: GNU's
// runtime ends the threads that a smaller team lacks, and starts others for the next larger one.
struct Threads {
    i32 count;  // that work
    i32 team;   // that begin together
};

// The pieces of one thread. Thread i of n has the i-th n-th of the pieces every time, so that a piece's data stay in the
// cache of the core that used them last; a thread that has run all of its own takes from the others.
struct alignas(64) Share {
    i32 next;
    i32 end;
};

// A function that is called with an index, whatever its type: what shares work out is compiled once, not for each function.
struct Work {
    void (*call)(void *function, i32 index);
    void *function;
};

struct SharedWork {
    Work work;
    i32 threads;
    Share shares[max_threads];  // only as many as threads are ever touched

    SharedWork(Work shared, i32 count, i32 sharing) : work(shared), threads(sharing) {
        for (i64 i = 0; i < sharing; ++i) shares[i] = {i32(i * count / sharing), i32((i + 1) * count / sharing)};
    }

    // Also right where the runtime gives fewer threads than were asked for, as within another parallel region.
    static void run(void *shared) {
        SharedWork &self = *static_cast<SharedWork *>(shared);
        const i32 thread = i32(omp_get_thread_num());
        if (thread >= self.threads) return;
        for (i32 i = 0; i < self.threads; ++i) {
            Share &share = self.shares[(thread + i) % self.threads];
            // It looks first: others need not lose the line.
            while (__atomic_load_n(&share.next, __ATOMIC_RELAXED) < share.end) {
                const i32 index = __atomic_fetch_add(&share.next, 1, __ATOMIC_RELAXED);
                if (index < share.end) self.work.call(self.work.function, index);
            }
        }
    }
};

[[gnu::noinline, gnu::noclone]] inline void share_out(Work work, i32 count, Threads threads) {
    const i32 sharing = min(min(threads.count, count), i32(max_threads));
    if (sharing <= 1) {
        for (i32 index = 0; index < count; ++index) work.call(work.function, index);
        return;
    }
    SharedWork shared(work, count, sharing);
    GOMP_parallel(SharedWork::run, &shared, unsigned(max(sharing, threads.team)), 0);
}

// Calls function(index) for every index below count and returns when all calls have: on the calling thread for one piece or
// one thread.
template <class Function>
inline void for_each(Function &function, i32 count, Threads threads) {
    share_out({[](void *called, i32 index) { (*static_cast<Function *>(called))(index); }, &function}, count, threads);
}

}  // namespace tbs::executors

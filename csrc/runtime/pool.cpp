#include "pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tbs {
namespace {

// A worker looks for the next run this long before it sleeps: longer than the Python code between two steps of a
// tight loop (a few microseconds), short against the work of a policy, whose own threads need the core.
constexpr std::chrono::microseconds spin_time{20};

inline void relax() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// The tiles of one thread in a run. Thread i of n gets the i-th n-th of the tiles in every run, so that a tile's data stay
// in the cache of the core that used them last; a thread that has run all of its own takes from the others.
struct alignas(64) Share {
    // Run number (high half) and next tile (low half) together: an exchange of it succeeds only if the fields that were
    // read before it still belong to the run, so a thread that was held up cannot run a tile of a run long over.
    std::atomic<std::uint64_t> ticket{closed};
    std::atomic<std::int32_t> end{0};

    static constexpr std::uint64_t closed = 0x7fffffff;  // as a tile number: no run has as many
};

class Pool {
  public:
    void run(TileFunction function, void *argument, std::int32_t tile_count, std::int32_t threads) {
        threads = std::min({threads, tile_count, max_threads});
        if (threads <= 1 || !busy_.try_lock()) {
            for (std::int32_t tile = 0; tile < tile_count; ++tile) function(argument, tile);
            return;
        }
        std::lock_guard<std::mutex> lock(busy_, std::adopt_lock);
        start_workers(threads - 1);
        threads = std::min(threads, workers_ + 1);
        // Close the last run before its fields change: a thread that has read an old ticket and a new field must fail
        // its exchange. Exchanges, since they keep the stores below from moving up.
        const std::uint64_t last_run = run_.load(std::memory_order_relaxed);
        for (std::int32_t i = 0; i < threads_.load(std::memory_order_relaxed); ++i) {
            shares_[i].ticket.exchange(last_run << 32 | Share::closed, std::memory_order_acq_rel);
        }
        finished_.store(0, std::memory_order_relaxed);
        function_.store(function, std::memory_order_relaxed);
        argument_.store(argument, std::memory_order_relaxed);
        threads_.store(threads, std::memory_order_relaxed);
        const std::uint64_t run = (last_run + 1) & 0xffffffffu;
        for (std::int64_t i = 0; i < threads; ++i) {
            shares_[i].end.store(std::int32_t((i + 1) * tile_count / threads), std::memory_order_relaxed);
            const auto first = std::uint64_t(i * tile_count / threads);
            shares_[i].ticket.store(run << 32 | first, std::memory_order_release);
        }
        run_.store(run, std::memory_order_seq_cst);  // seq_cst against sleepers_: no worker falls asleep past this run
        if (sleepers_.load(std::memory_order_seq_cst) > 0) {
            std::lock_guard<std::mutex> sleep_lock(sleep_mutex_);
            wake_.notify_all();
        }
        run_tiles(0);
        while (finished_.load(std::memory_order_acquire) < tile_count) relax();
    }

    // The child of a fork has this thread only: forget the others and begin afresh at the next run.
    void forget_workers() {
        new (&busy_) std::mutex;
        new (&sleep_mutex_) std::mutex;
        new (&wake_) std::condition_variable;
        workers_ = 0;
        sleepers_.store(0);
        // A run of another thread may have been under way: nobody must take up its tiles.
        const std::uint64_t last_run = run_.load();
        for (Share &share : shares_) share.ticket.store(last_run << 32 | Share::closed);
        threads_.store(0);
    }

  private:
    static constexpr std::int32_t max_threads = 256;

    // Where the system gives no more threads the step does with those that it has.
    void start_workers(std::int32_t wanted) {
        try {
            for (; workers_ < wanted; ++workers_) std::thread(&Pool::work, this, workers_ + 1).detach();
        } catch (const std::system_error &) {
        }
    }

    // Runs tiles of the present run until none is left to claim: those of one's own share, then those of the others.
    void run_tiles(std::int32_t thread) {
        const std::int32_t threads = threads_.load(std::memory_order_relaxed);
        if (thread >= threads) return;
        for (std::int32_t i = 0; i < threads; ++i) {
            std::int32_t done = 0;
            while (claim_and_run(shares_[(thread + i) % threads])) ++done;
            if (done > 0) finished_.fetch_add(done, std::memory_order_release);  // once: all threads write to it
        }
    }

    bool claim_and_run(Share &share) {
        std::uint64_t ticket = share.ticket.load(std::memory_order_acquire);
        for (;;) {
            const TileFunction function = function_.load(std::memory_order_relaxed);
            void *const argument = argument_.load(std::memory_order_relaxed);
            const auto tile = static_cast<std::int32_t>(ticket & 0xffffffffu);
            if (tile >= share.end.load(std::memory_order_relaxed)) return false;
            if (share.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) {
                function(argument, tile);
                return true;
            }
        }
    }

    void work(std::int32_t thread) {
        for (;;) {
            const std::uint64_t seen = run_.load(std::memory_order_acquire);
            run_tiles(thread);
            const auto until = std::chrono::steady_clock::now() + spin_time;
            bool next = false;
            while (!next && std::chrono::steady_clock::now() < until) {
                for (int i = 0; i < 16 && !next; ++i, relax()) next = run_.load(std::memory_order_acquire) != seen;
            }
            if (next) continue;
            std::unique_lock<std::mutex> lock(sleep_mutex_);
            sleepers_.fetch_add(1, std::memory_order_seq_cst);
            wake_.wait(lock, [&] { return run_.load(std::memory_order_seq_cst) != seen; });
            sleepers_.fetch_sub(1, std::memory_order_seq_cst);
        }
    }

    std::mutex busy_;  // held for the length of a run
    std::int32_t workers_ = 0;
    std::atomic<TileFunction> function_{nullptr};
    std::atomic<void *> argument_{nullptr};
    std::atomic<std::int32_t> threads_{0};
    alignas(64) std::atomic<std::uint64_t> run_{0};
    alignas(64) std::atomic<std::int32_t> finished_{0};
    alignas(64) std::atomic<std::int32_t> sleepers_{0};
    std::mutex sleep_mutex_;
    std::condition_variable wake_;
    Share shares_[max_threads];
};

// Never destroyed: detached workers may still look at it while the process ends.
Pool &pool() {
    static Pool *const instance = [] {
        auto *created = new Pool;
        pthread_atfork(nullptr, nullptr, [] { pool().forget_workers(); });
        return created;
    }();
    return *instance;
}

}  // namespace

void run_tiles(TileFunction function, void *argument, std::int32_t tile_count, std::int32_t threads) {
    pool().run(function, argument, tile_count, threads);
}

}  // namespace tbs

#include "pool.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
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

class Pool {
  public:
    void run(TileFunction function, void *argument, std::int32_t tile_count, std::int32_t threads) {
        if (threads <= 1 || tile_count <= 1 || !busy_.try_lock()) {
            for (std::int32_t tile = 0; tile < tile_count; ++tile) function(argument, tile);
            return;
        }
        std::lock_guard<std::mutex> lock(busy_, std::adopt_lock);
        start_workers(threads - 1);
        // Close the last run before its fields change: a worker that has read the old ticket and a new field must
        // fail its exchange. An exchange, since it keeps the stores below from moving up.
        ticket_.exchange(run_ << 32 | closed, std::memory_order_acq_rel);
        finished_.store(0, std::memory_order_relaxed);
        function_.store(function, std::memory_order_relaxed);
        argument_.store(argument, std::memory_order_relaxed);
        tile_count_.store(tile_count, std::memory_order_relaxed);
        threads_.store(threads, std::memory_order_relaxed);
        run_ = (run_ + 1) & 0xffffffffu;
        // Publishes the fields above; seq_cst against sleepers_ so that no worker falls asleep past this run.
        ticket_.store(run_ << 32, std::memory_order_seq_cst);
        if (sleepers_.load(std::memory_order_seq_cst) > 0) {
            std::lock_guard<std::mutex> sleep_lock(sleep_mutex_);
            wake_.notify_all();
        }
        while (claim_and_run(0)) {}
        while (finished_.load(std::memory_order_acquire) < tile_count) relax();
    }

    // The child of a fork has this thread only: forget the others and begin afresh at the next run.
    void forget_workers() {
        new (&busy_) std::mutex;
        new (&sleep_mutex_) std::mutex;
        new (&wake_) std::condition_variable;
        workers_ = 0;
        sleepers_.store(0);
    }

  private:
    static constexpr std::uint64_t closed = 0x7fffffff;  // as a tile number: no run has as many

    void start_workers(std::int32_t wanted) {
        for (; workers_ < wanted; ++workers_) std::thread(&Pool::work, this, workers_ + 1).detach();
    }

    // Claims one tile of the current run and runs it; false when there is none (for this worker).
    // The ticket holds run number and next tile together: the exchange succeeds only if the fields that were read
    // before it still belong to the run, so a worker that was held up cannot run a tile of a run long over.
    bool claim_and_run(std::int32_t worker) {
        std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
        for (;;) {
            const TileFunction function = function_.load(std::memory_order_relaxed);
            void *const argument = argument_.load(std::memory_order_relaxed);
            const std::int32_t tile = static_cast<std::int32_t>(ticket & 0xffffffffu);
            if (tile >= tile_count_.load(std::memory_order_relaxed)) return false;
            if (worker >= threads_.load(std::memory_order_relaxed)) return false;
            if (ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) {
                function(argument, tile);
                finished_.fetch_add(1, std::memory_order_release);
                return true;
            }
        }
    }

    void work(std::int32_t worker) {
        std::uint64_t seen = 0;
        for (;;) {
            while (claim_and_run(worker)) {}
            seen = ticket_.load(std::memory_order_acquire) >> 32;
            const auto until = std::chrono::steady_clock::now() + spin_time;
            bool next = false;
            while (!next && std::chrono::steady_clock::now() < until) {
                for (int i = 0; i < 16 && !next; ++i, relax()) next = ticket_.load() >> 32 != seen;
            }
            if (next) continue;
            std::unique_lock<std::mutex> lock(sleep_mutex_);
            sleepers_.fetch_add(1, std::memory_order_seq_cst);
            wake_.wait(lock, [&] { return ticket_.load(std::memory_order_seq_cst) >> 32 != seen; });
            sleepers_.fetch_sub(1, std::memory_order_seq_cst);
        }
    }

    std::mutex busy_;  // held for the length of a run
    std::int32_t workers_ = 0;
    std::uint64_t run_ = 0;
    std::atomic<TileFunction> function_{nullptr};
    std::atomic<void *> argument_{nullptr};
    std::atomic<std::int32_t> tile_count_{0};
    std::atomic<std::int32_t> threads_{0};
    alignas(64) std::atomic<std::uint64_t> ticket_{0};
    alignas(64) std::atomic<std::int32_t> finished_{0};
    alignas(64) std::atomic<std::int32_t> sleepers_{0};
    std::mutex sleep_mutex_;
    std::condition_variable wake_;
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

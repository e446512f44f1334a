// The threads that run a step: the OpenMP team with which torch computes, so that nobody fights for the cores; or a crew of
// helpers of our own, where torch has nothing to do in between and where its team is late.
//
// A team ends its work when all its threads have. On a machine with other work one of them may be waiting for a core, by
// some milliseconds, while nothing is left for it to do. A crew has no such end: whoever calls takes all pieces that no
// helper has claimed, and waits for pieces in flight only. So it is never much slower than one thread. It shares out all
// steps that follow each other at once. Where a policy in torch runs between the steps, torch's idle threads hold the cores
// and helpers would be slower to begin: there the team runs steps, but a call that has waited for it without work for it
// is followed by calls that take the crew, for 50 times as long as it has waited.
//
// In the meantime torch's own operations would wait in the same way: an idle thread of GNU's OpenMP spins for milliseconds
// on the core that the stopped one needs. The runtime lets threads sleep soon where it has more of them than there are
// cores. So a team that does nothing is kept beside torch's until no step has been late for a second.
//
// Nothing of this changes results: which thread runs a piece is open in any case.
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <memory>

#include "host/waiting.h"
#include "tbs/threads.h"

// Of the OpenMP runtime that the process has; GNU's, LLVM's and Intel's know both. They are what g++ makes of
// `#pragma omp parallel`; called by name they need neither a flag nor a runtime of the compiler's own, which could be a
// second one. torch_batchsim/base/openmp.py lets them be found.
extern "C" {
void GOMP_parallel(void (*function)(void *), void *argument, unsigned threads, unsigned flags);
int omp_get_thread_num(void);
}

namespace {

using namespace tbs;
using namespace tbs::executors;
using waiting::now, waiting::relax;

using Word = std::atomic<u32>;  // for which the system lets threads sleep
constexpr i32 most_threads = 256;

// All in ns.
constexpr u64 least_wait = 200'000;         // a shorter wait for the team is not late
constexpr u64 times_of_wait = 50;           // so long a crew runs after a wait
constexpr u64 longest_turn = 2'000'000'000; // of a crew
constexpr u64 without_late_step = 1'000'000'000;
constexpr u64 patience = 20'000;            // the caller spins for pieces in flight, then it sleeps
constexpr u64 longest_gap = 30'000;         // between calls: helpers spin until the next one, or sleep at once
constexpr i32 calls_at_once = 8;            // with shorter gaps: a step has two

// Until `wake`, of some groups: a bit each.
void sleep_while(Word &word, u32 value, u32 groups = FUTEX_BITSET_MATCH_ANY) {
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, nullptr, nullptr, groups);
}

void wake(Word &word, u32 groups = FUTEX_BITSET_MATCH_ANY) {
    syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, groups);
}

// Of the pieces of a job, thread i of n has the i-th n-th every time, so that a piece's data stay in the cache of the core
// that used them last; a thread that has run all of its own takes from the others.
struct alignas(64) Share {
    std::atomic<u64> unclaimed{0};  // the number of the job << 32 | how many pieces
    i32 end = 0;
};

struct alignas(64) Count {
    std::atomic<u64> done{0};  // pieces, in all jobs
};

// The shares of the jobs of one calling thread. What a job consists of is read by those who have claimed a piece, which
// keeps the job from ending.
class Jobs {
  public:
    // Returns the number of the job.
    u32 begin(const Work &work, i32 count, i32 threads) {
        work_ = work;
        threads_.store(threads, std::memory_order_relaxed);
        ++number_;
        for (i32 i = 0; i < threads; ++i) {
            const i32 first = part(i, count, threads), end = part(i + 1, count, threads);
            shares_[i].end = end;
            shares_[i].unclaimed.store(u64(number_) << 32 | u32(end - first), std::memory_order_release);
        }
        return number_;
    }

    // Whether a thread of this number takes part in the last job.
    bool has(i32 thread) const { return thread < threads_.load(std::memory_order_relaxed); }

    // Runs pieces of a job as long as any is unclaimed, if it has this thread; calls did() after each.
    template <class Did>
    void take(u32 job, i32 thread, Did &&did) {
        const i32 threads = threads_.load(std::memory_order_relaxed);
        for (i32 i = 0; i < threads && thread < threads; ++i) {
            Share &share = shares_[(thread + i) % threads];
            u64 word = share.unclaimed.load(std::memory_order_acquire);
            while (u32(word >> 32) == job && u32(word) > 0) {
                if (!share.unclaimed.compare_exchange_weak(word, word - 1, std::memory_order_acq_rel,
                                                           std::memory_order_acquire))
                    continue;
                work_.call(work_.function, share.end - i32(u32(word)), u32(thread));
                did();
                word = share.unclaimed.load(std::memory_order_acquire);
            }
        }
    }

  private:
    static i32 part(i32 i, i32 count, i32 threads) { return i32(std::int64_t(i) * count / threads); }

    Work work_{};
    std::atomic<i32> threads_{0};
    u32 number_ = 0;
    Share shares_[most_threads];
};

std::atomic<u32> forks{0};  // between the process that loaded this and the present one: threads stay with the parent

// The helpers of one calling thread.
class Crew {
  public:
    explicit Crew(Jobs &jobs) : jobs_(jobs) {}
    Crew(const Crew &) = delete;
    ~Crew() {
        leaving_.store(true);
        job_.fetch_add(1);
        wake(job_);
        for (i32 i = 0; i < helpers_; ++i) pthread_join(helper_[i].thread, nullptr);
    }

    // `gap`: since the last call.
    void run(const Work &work, i32 count, i32 threads, u64 gap) {
        engage(threads - 1);
        spin_.store(gap < longest_gap ? 2 * gap : 0, std::memory_order_relaxed);
        const u32 job = jobs_.begin(work, count, threads);
        job_.store(job);
        if (asleep_.load() > 0) wake(job_, threads > 32 ? FUTEX_BITSET_MATCH_ANY : (1u << (threads - 1)) - 1);
        i32 own = 0;
        jobs_.take(job, 0, [&] { ++own; });
        done_ += u64(count - own);
        wait_for_helpers();
    }

  private:
    struct Helper {
        Crew *crew;
        i32 number;
        pthread_t thread;
        Count count;
    };

    void engage(i32 wanted) {
        while (helpers_ < wanted) {
            Helper &helper = helper_[helpers_];
            helper.crew = this, helper.number = helpers_ + 1;
            if (pthread_create(&helper.thread, nullptr, help, &helper) != 0) return;  // the caller takes all pieces
            ++helpers_;
        }
    }

    static void *help(void *pointer) {
        Helper &self = *static_cast<Helper *>(pointer);
        self.crew->help(self);
        return nullptr;
    }

    void help(Helper &self) {
        u32 job = 0;
        while (!leaving_.load()) {
            job = next_after(job, self.number);
            jobs_.take(job, self.number, [&] {
                self.count.done.fetch_add(1);
                if (waits_.load() != 0 && waits_.exchange(0) != 0) wake(waits_);
            });
        }
    }

    // A crew may have more helpers than a job has threads, after a job of another simulator: the others sleep on.
    u32 next_after(u32 job, i32 helper) {
        const u64 most = jobs_.has(helper) ? spin_.load(std::memory_order_relaxed) : 0, begin = most > 0 ? now() : 0;
        u32 next = job_.load();
        while (next == job && most > 0 && now() - begin < most) {
            for (i32 i = 0; i < 16 && next == job; ++i) {
                relax();
                next = job_.load();
            }
        }
        while (next == job) {
            asleep_.fetch_add(1);
            if (job_.load() == job) sleep_while(job_, job, 1u << ((helper - 1) % 32));
            asleep_.fetch_sub(1);
            next = job_.load();
        }
        return next;
    }

    bool all_are_done() const {
        u64 sum = 0;
        for (i32 i = 0; i < helpers_; ++i) sum += helper_[i].count.done.load();
        return sum == done_;
    }

    void wait_for_helpers() {
        const u64 begin = now();
        while (!all_are_done()) {
            if (now() - begin < patience) {
                relax();
                continue;
            }
            waits_.store(1);  // our core is free for the helper meanwhile
            if (!all_are_done()) sleep_while(waits_, 1);
        }
        waits_.store(0);
    }

    Jobs &jobs_;
    i32 helpers_ = 0;
    u64 done_ = 0;   // by helpers, in all jobs
    alignas(64) Word job_{0};
    Word asleep_{0};
    std::atomic<u64> spin_{0};
    std::atomic<bool> leaving_{false};
    alignas(64) Word waits_{0};
    Helper helper_[most_threads];
};

// A team beside torch's that does nothing, so that GNU's runtime has more threads than cores.
class IdleTeam {
  public:
    // Keeps it until the first call that begins more than a second from now. Torch's team has so many threads.
    void keep(i32 team) {
        until_.store(now() + without_late_step, std::memory_order_relaxed);
        if (kept_.load()) return;
        pthread_mutex_lock(&changing_);
        if (!kept_.load()) kept_.store(begin(team));
        pthread_mutex_unlock(&changing_);
    }

    void end_in_time() {
        if (kept_.load(std::memory_order_relaxed) && now() > until_.load(std::memory_order_relaxed)) end();
    }

    void end() {
        before_fork();
        behind_fork();
    }

    // No thread stays with the parent, and none begins until the process has forked.
    void before_fork() {
        pthread_mutex_lock(&changing_);
        if (!kept_.load()) return;
        leaving_.store(1);
        wake(leaving_);
        pthread_join(thread_, nullptr);
        kept_.store(false);
    }

    void behind_fork() { pthread_mutex_unlock(&changing_); }

    bool is_kept() const { return kept_.load(); }

  private:
    bool begin(i32 team) {
        cpu_set_t allowed;  // of 1,024 cores at most
        const bool fits = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
        const i32 cores = fits ? CPU_COUNT(&allowed) : i32(sysconf(_SC_NPROCESSORS_ONLN));
        size_ = u32(std::max(2, cores - team + 2));
        leaving_.store(0);
        return pthread_create(&thread_, nullptr, stay, this) == 0;
    }

    static void *stay(void *pointer) {
        IdleTeam &self = *static_cast<IdleTeam *>(pointer);
        GOMP_parallel([](void *) {}, nullptr, self.size_, 0);
        while (self.leaving_.load() == 0) sleep_while(self.leaving_, 0);
        return nullptr;  // the runtime ends the team of a thread that ends
    }

    std::atomic<bool> kept_{false};
    std::atomic<u64> until_{0};
    u32 size_ = 0;
    Word leaving_{0};
    pthread_t thread_;
    pthread_mutex_t changing_ = PTHREAD_MUTEX_INITIALIZER;
};

IdleTeam idle_team;

// Which threads take part; other than the best in tests and measurements.
enum Choice { best, always_team, always_crew };
std::atomic<i32> choice{best};

// Of a thread that steps.
class Caller {
  public:
    ~Caller() {
        if (forks_ != forks.load()) crew_.release();  // its helpers stayed with the parent
    }

    void run(const Work &work, i32 count, Threads threads) {
        const i32 sharing = std::min(std::min(threads.count, count), most_threads);
        if (forks_ != forks.load()) {
            crew_.release();
            forks_ = forks.load();
        }
        const u64 begin = now(), gap = begin - ended_;
        at_once_ = gap < longest_gap ? std::min(at_once_ + 1, calls_at_once) : 0;
        const i32 chosen = choice.load(std::memory_order_relaxed);
        const bool suits = at_once_ == calls_at_once || late_until_ > begin;
        if (chosen == always_crew || (chosen == best && suits)) {
            if (!crew_) crew_ = std::make_unique<Crew>(jobs_);
            crew_->run(work, count, sharing, gap);
        } else {
            run_by_team(work, count, sharing, threads.team);
        }
        idle_team.end_in_time();
        ended_ = now();
    }

  private:
    // Also right where the runtime gives fewer threads than were asked for, as within another parallel region.
    void run_by_team(const Work &work, i32 count, i32 sharing, i32 team) {
        TeamJob job{jobs_, jobs_.begin(work, count, sharing), 0, 0};
        const u64 begin = now();
        GOMP_parallel(TeamJob::run, &job, u32(std::max(sharing, team)), 0);
        const u64 end = now();
        // One piece may be in flight when the caller has run out of them.
        const u64 of_piece = (job.ended - begin) / std::max<u64>(1, job.own);
        if (job.ended == 0 || end - job.ended < least_wait + 2 * of_piece) return;
        if (choice.load(std::memory_order_relaxed) != best) return;
        late_until_ = end + std::min(longest_turn, times_of_wait * (end - job.ended));
        idle_team.keep(team);
    }

    struct TeamJob {
        Jobs &jobs;
        u32 number;
        u64 own, ended;  // by the calling thread: pieces, and when none was left

        static void run(void *pointer) {
            TeamJob &self = *static_cast<TeamJob *>(pointer);
            const i32 thread = i32(omp_get_thread_num());
            u64 own = 0;
            self.jobs.take(self.number, thread, [&] { ++own; });
            if (thread == 0) self.own = own, self.ended = now();
        }
    };

    Jobs jobs_;
    std::unique_ptr<Crew> crew_;
    u32 forks_ = forks.load();
    u64 ended_ = 0;    // when the last call did
    i32 at_once_ = 0;  // calls that followed the one before, up to calls_at_once
    u64 late_until_ = 0;
};

void share_out(const Work &work, i32 count, Threads threads) {
    static thread_local std::unique_ptr<Caller> caller;  // 16 KiB, of the threads that step
    if (!caller) caller = std::make_unique<Caller>();
    caller->run(work, count, threads);
}

[[maybe_unused, gnu::constructor]] void heed_forks() {
    pthread_atfork([] { idle_team.before_fork(); }, [] { idle_team.behind_fork(); },
                   [] { idle_team.behind_fork(), forks.fetch_add(1); });
}

}  // namespace

#define TBS_EXPORTED extern "C" __attribute__((visibility("default")))

TBS_EXPORTED ShareOut crew_share_out() { return share_out; }
TBS_EXPORTED void crew_choose(i32 chosen) { choice.store(chosen); }
TBS_EXPORTED bool crew_keeps_idle_team() { return idle_team.is_kept(); }

// A race detector for emulated CUDA units. Compiled with -fsanitize=thread a unit calls the functions of
// ThreadSanitizer's library at each access to memory; here they are ours, and know the threads of a grid, which all run
// on one thread of the host. Two accesses race if both touch a byte, one of them writes, they are not both atomic, and
// nothing orders them:
//
//   - what a thread does is ordered as it does it; kernels are ordered as they were launched;
//   - __syncthreads orders the threads of a block that reach it, __syncwarp the lanes of its mask, the grid's barrier all;
//   - an atomic orders nothing by itself, as CUDA's are relaxed. One that comes after __threadfence hands on what its thread
//     has done before that fence to whoever reads the same place by an atomic and has a fence behind (__threadfence_block:
//     only in launches whose blocks do not run together). Volatile accesses are relaxed atomics (PTX says so);
//   - votes and shuffles order nothing; that lanes of a warp go on together is not relied on.
//
// So whether two accesses race does not hang on the order in which the emulation has run them. Each byte remembers its
// last write, and the reads and atomics since; a thread is known by how often it has been released to others (its
// time), and knows up to which time of each other thread it sees what that has done (its clock).
#include "race_detector.h"

#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

extern "C" const char __ehdr_start __attribute__((visibility("hidden")));  // where the unit is loaded

namespace {

bool inside = true;  // of a launch only the kernel itself is outside

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using Clock = std::vector<u32>;  // by thread
using SharedClock = std::shared_ptr<const Clock>;

enum Kind : u32 { read_kind, write_kind, atomic_kind };

struct Access {
    u32 launch = 0;  // 0: there is none
    u32 group = 0;   // the blocks that were alive
    u32 thread = 0;  // among these
    u32 time = 0, place = 0;
};

// Reads, or atomics, of a byte since it was last written: the last one, and beside it one of blocks that are gone or,
// if several threads have come that do not see each other, the last one of each.
struct Uses {
    struct Mark {
        u32 time = 0, place = 0;
    };
    Access last, of_others;
    std::unique_ptr<std::vector<Mark>> marks;  // by thread
};

struct Byte {
    Access write;
    Uses reads, atomics;
};

struct Race {
    u64 address, count;
    Access first, second;
    Kind first_kind, second_kind;
    std::string where;
};

class Detector {
  public:
    void begin_launch(u32 threads, u32 blocks_alive) {
        ++launch_;
        group_ = ~0u;
        block_threads_ = threads;
        alive_ = blocks_alive;
        block_indices_.clear();
        block_memory_.clear();
        find_host_stack();
    }

    void begin_blocks(const unsigned *indices) {
        ++group_;
        block_indices_.insert(block_indices_.end(), indices, indices + alive_);
        const std::size_t threads = std::size_t(block_threads_) * alive_;
        time_.assign(threads, 1);
        seen_.assign(threads, std::make_shared<Clock>(threads, 0));
        released_.assign(threads, nullptr);
        acquired_.assign(threads, nullptr);
        handed_on_.clear();
    }

    void run_thread(u32 thread, const char *stack, std::size_t bytes) {
        thread_ = thread;
        own_stack_ = {u64(stack), u64(stack) + bytes};
    }

    void barrier(const unsigned *threads, std::size_t count) {
        auto joined = std::make_shared<Clock>(*seen_[threads[0]]);
        const Clock *last = seen_[threads[0]].get();
        for (std::size_t i = 1; i < count; ++i) {  // most threads have the same clock as the one before
            const Clock *const next = seen_[threads[i]].get();
            if (next != last) join(*joined, *next);
            last = next;
        }
        for (std::size_t i = 0; i < count; ++i) (*joined)[threads[i]] = time_[threads[i]]++;
        for (std::size_t i = 0; i < count; ++i) seen_[threads[i]] = joined;
    }

    void fence(bool of_device) {
        if (!of_device && alive_ > 1) return;
        if (acquired_[thread_]) seen_[thread_] = joined(seen_[thread_], acquired_[thread_]);
        auto released = std::make_shared<Clock>(*seen_[thread_]);
        (*released)[thread_] = time_[thread_]++;
        released_[thread_] = released;
    }

    // An atomic access: `reads`, `writes`.
    void atomic(u64 address, std::size_t size, bool reads, bool writes, u64 place) {
        access(address, size, atomic_kind, place);
        SharedClock &handed_on = handed_on_[address];
        if (reads) acquired_[thread_] = joined(acquired_[thread_], handed_on);
        if (writes) handed_on = reads ? joined(handed_on, released_[thread_]) : released_[thread_];
    }

    void access(u64 address, std::size_t size, Kind kind, u64 place) {
        ++accesses_;
        if (address - own_stack_.first < own_stack_.second - own_stack_.first) return;
        if (address - host_stack_.first < host_stack_.second - host_stack_.first) return;  // arguments of the kernel
        const Access now{launch_, group_, thread_, time_[thread_], u32(place - u64(&__ehdr_start))};
        for (u64 i = address; i < address + size; ++i) note(i, byte(i), kind, now);
    }

    void block_memory(u32 block, u64 address, std::size_t size) {
        block_memory_.push_back({address, size, block});
        for (u64 i = address; i < address + size; ++i) byte(i) = Byte();
    }

    // The races so far, a line each; they are forgotten.
    const char *report() {
        text_.clear();
        for (const Race &race : races_) {
            const Access &a = race.first, &b = race.second;
            char line[256];
            std::snprintf(line, sizeof line, "%llu\t%u\t%llu\t", static_cast<unsigned long long>(race.address),
                          a.launch - reported_, static_cast<unsigned long long>(race.count));
            text_ += line + race.where;
            for (const auto &[access, kind] : {std::pair(a, race.first_kind), std::pair(b, race.second_kind)}) {
                static const char *const names[] = {"read", "write", "atomic"};
                std::snprintf(line, sizeof line, "\t%s\t%u\t%u\t%u", names[kind], access.place, access.group,
                              access.thread);
                text_ += line;
            }
            text_ += "\n";
        }
        races_.clear();
        known_.clear();
        reported_ = launch_;
        pages_.clear();  // launches that come see all of those before: what these did takes up gigabytes for nothing
        last_page_ = ~u64{0};
        return text_.c_str();
    }

    u64 accesses() const { return accesses_; }

  private:
    static constexpr std::size_t most_races = 200, page_bytes = 256;
    struct Memory {
        u64 address;
        std::size_t size;
        u32 block;
    };
    using Page = std::unique_ptr<Byte[]>;

    static void join(Clock &clock, const Clock &other) {
        for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = clock[i] > other[i] ? clock[i] : other[i];
    }

    static SharedClock joined(const SharedClock &a, const SharedClock &b) {
        if (!a || !b || a == b) return a ? a : b;
        auto both = std::make_shared<Clock>(*a);
        join(*both, *b);
        return both;
    }

    void find_host_stack() {
        if (pthread_equal(host_, pthread_self()) && host_stack_.second != 0) return;
        host_ = pthread_self();
        pthread_attr_t attributes;
        void *low = nullptr;
        std::size_t size = 0;
        pthread_getattr_np(host_, &attributes);
        pthread_attr_getstack(&attributes, &low, &size);
        pthread_attr_destroy(&attributes);
        host_stack_ = {u64(low), u64(low) + size};
    }

    Byte &byte(u64 address) {
        const u64 page = address / page_bytes;
        if (page != last_page_) {
            Page &found = pages_[page];
            if (!found) found = std::make_unique<Byte[]>(page_bytes);
            last_page_ = page;
            last_ = found.get();
        }
        return last_[address % page_bytes];
    }

    bool sees(const Access &other) const {
        if (other.launch != launch_) return true;
        if (other.group != group_) return false;
        return other.thread == thread_ || (*seen_[thread_])[other.thread] >= other.time;
    }

    void note(u64 address, Byte &byte, Kind kind, const Access &now) {
        if (!sees(byte.write)) found(address, byte.write, write_kind, now, kind);
        if (kind != read_kind) check(address, byte.reads, read_kind, now, kind);
        if (kind != atomic_kind) check(address, byte.atomics, atomic_kind, now, kind);
        if (kind == write_kind) {
            byte.write = now;
            forget(byte.reads);
            forget(byte.atomics);
        } else {
            add(kind == read_kind ? byte.reads : byte.atomics, now);
        }
    }

    void check(u64 address, const Uses &uses, Kind kind, const Access &now, Kind kind_now) {
        if (uses.last.launch != launch_) return;
        if (!sees(uses.of_others)) return found(address, uses.of_others, kind, now, kind_now);
        if (!sees(uses.last)) return found(address, uses.last, kind, now, kind_now);
        if (!uses.marks || uses.last.group != group_) return;
        for (u32 thread = 0; thread < uses.marks->size(); ++thread) {
            const auto &[time, place] = (*uses.marks)[thread];
            const Access other{launch_, group_, thread, time, place};
            if (time != 0 && !sees(other)) return found(address, other, kind, now, kind_now);
        }
    }

    void forget(Uses &uses) {
        uses.last.launch = 0;
        if (uses.marks) free_marks_.push_back(std::move(uses.marks));
    }

    void add(Uses &uses, const Access &now) {
        if (uses.last.launch != launch_) {
            forget(uses);
            uses.of_others.launch = 0;
        } else if (uses.last.group != group_) {
            uses.of_others = uses.last;
            forget(uses);
        } else if (!uses.marks && !sees(uses.last)) {
            uses.marks = new_marks();
            (*uses.marks)[uses.last.thread] = {uses.last.time, uses.last.place};
        }
        if (uses.marks) (*uses.marks)[now.thread] = {now.time, now.place};
        uses.last = now;
    }

    std::unique_ptr<std::vector<Uses::Mark>> new_marks() {
        std::unique_ptr<std::vector<Uses::Mark>> marks;
        if (free_marks_.empty()) {
            marks = std::make_unique<std::vector<Uses::Mark>>();
        } else {
            marks = std::move(free_marks_.back());
            free_marks_.pop_back();
        }
        marks->assign(time_.size(), {});
        return marks;
    }

    // Counts a pair of places once, by its first occurrence.
    void found(u64 address, const Access &first, Kind first_kind, const Access &second, Kind second_kind) {
        const auto [entry, is_new] =
            known_.try_emplace(u64(first.place) << 32 | second.place, races_.size());
        if (!is_new) {
            ++races_[entry->second].count;
            return;
        }
        if (races_.size() == most_races) {
            known_.erase(entry);
            return;
        }
        Race race{address, 1, first, second, first_kind, second_kind, ""};
        for (Access *access : {&race.first, &race.second}) {  // a block's index in place of the group
            access->group = block_indices_[access->group * alive_ + access->thread / block_threads_];
            access->thread %= block_threads_;
        }
        for (const Memory &memory : block_memory_) {
            if (address - memory.address >= memory.size) continue;
            race.where = "shared memory of block " + std::to_string(memory.block) + ", byte " +
                         std::to_string(address - memory.address) + " of " + std::to_string(memory.size);
        }
        races_.push_back(std::move(race));
    }

    u32 launch_ = 0, group_ = 0, thread_ = 0, block_threads_ = 1, alive_ = 1, reported_ = 0;
    std::vector<u32> block_indices_;  // by group, and within it
    std::pair<u64, u64> own_stack_, host_stack_;
    pthread_t host_ = {};
    std::vector<u32> time_;                                 // by thread, as all below
    std::vector<SharedClock> seen_, released_, acquired_;   // released: at its last fence; acquired: by the next one
    std::unordered_map<u64, SharedClock> handed_on_;        // by address, by atomics
    std::vector<Memory> block_memory_;
    std::unordered_map<u64, Page> pages_;
    u64 last_page_ = ~u64{0};
    Byte *last_ = nullptr;
    std::vector<std::unique_ptr<std::vector<Uses::Mark>>> free_marks_;
    std::vector<Race> races_;
    std::unordered_map<u64, std::size_t> known_;  // by the two places
    std::string text_;
    u64 accesses_ = 0;
};

Detector detector;

using emulated_cuda::watch::Inside;

void plain(const void *address, std::size_t size, Kind kind, const void *place) {
    if (inside) return;
    const Inside scope;
    detector.access(u64(address), size, kind, u64(place));
}

void relaxed(const void *address, std::size_t size, bool reads, bool writes, const void *place) {
    if (inside) return;
    const Inside scope;
    detector.atomic(u64(address), size, reads, writes, u64(place));
}

}  // namespace

#define HERE __builtin_return_address(0)

extern "C" {
bool tbs_race_set_inside(bool now) { return std::exchange(inside, now); }
void tbs_race_begin_launch(unsigned, unsigned threads, unsigned alive) { detector.begin_launch(threads, alive); }
void tbs_race_begin_blocks(const unsigned *indices) { detector.begin_blocks(indices); }
void tbs_race_run_thread(unsigned thread, const char *stack, std::size_t bytes) {
    detector.run_thread(thread, stack, bytes);
}
void tbs_race_barrier(const unsigned *threads, std::size_t count) { detector.barrier(threads, count); }
void tbs_race_atomic(const void *address, std::size_t size) {
    detector.atomic(u64(address), size, true, true, u64(HERE));
}
void tbs_race_fence(bool of_device) { detector.fence(of_device); }
void tbs_race_block_memory(unsigned block, const void *memory, std::size_t size) {
    detector.block_memory(block, u64(memory), size);
}

// For tests. Of each race: address, launch (from 1), how often, where, and of the two accesses what, place in the unit,
// block, thread; separated by tabs.
__attribute__((visibility("default"))) const char *tbs_race_report() { return detector.report(); }
__attribute__((visibility("default"))) u64 tbs_race_accesses() { return detector.accesses(); }

// What the compiler calls ---------------------------------------------------------------------------------------------

void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **address, void *) { plain(address, sizeof *address, write_kind, HERE); }
void __tsan_read_range(const void *address, std::size_t size) { plain(address, size, read_kind, HERE); }
void __tsan_write_range(const void *address, std::size_t size) { plain(address, size, write_kind, HERE); }

#define ACCESSES(name, size) \
    void __tsan_##name##read##size(const void *address) { plain(address, size, read_kind, HERE); } \
    void __tsan_##name##write##size(const void *address) { plain(address, size, write_kind, HERE); } \
    void __tsan_##name##volatile_read##size(const void *address) { relaxed(address, size, true, false, HERE); } \
    void __tsan_##name##volatile_write##size(const void *address) { relaxed(address, size, false, true, HERE); }
ACCESSES(, 1)
ACCESSES(, 2)
ACCESSES(, 4)
ACCESSES(, 8)
ACCESSES(, 16)
ACCESSES(unaligned_, 2)
ACCESSES(unaligned_, 4)
ACCESSES(unaligned_, 8)
ACCESSES(unaligned_, 16)

std::uint32_t __tsan_atomic32_fetch_add(std::uint32_t *address, std::uint32_t value, int) {
    relaxed(address, sizeof *address, true, true, HERE);
    const std::uint32_t old = *address;
    *address = old + value;
    return old;
}

// Of the guard of a local static: whether it has been initialised.
char __tsan_atomic8_load(const char *address, int) { return *address; }

// Calls of the C library, which the linker brings here (--wrap).
void *__real_memcpy(void *to, const void *from, std::size_t size);
void *__real_memmove(void *to, const void *from, std::size_t size);
void *__real_memset(void *to, int value, std::size_t size);

void *__wrap_memcpy(void *to, const void *from, std::size_t size) {
    plain(from, size, read_kind, HERE);
    plain(to, size, write_kind, HERE);
    return __real_memcpy(to, from, size);
}
void *__wrap_memmove(void *to, const void *from, std::size_t size) {
    plain(from, size, read_kind, HERE);
    plain(to, size, write_kind, HERE);
    return __real_memmove(to, from, size);
}
void *__wrap_memset(void *to, int value, std::size_t size) {
    plain(to, size, write_kind, HERE);
    return __real_memset(to, value, size);
}
}

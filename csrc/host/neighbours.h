// Sums over processes of one machine, in memory that they share. gloo's take some hundred microseconds of a core in
// each, for its threads wake each other through sockets.
//
// Each process copies its numbers into its slot, says so, and adds up all slots in order: all get the same bits. It has
// two slots, used in turn: when it writes into one again, the others have said that they write for the next sum, and so
// have read this one.
#pragma once

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "host/waiting.h"

namespace neighbours {

using i64 = std::int64_t;
using Word = std::atomic<std::uint32_t>;

// At the beginning of the memory, one for each process, zeros at first.
struct alignas(64) Seat {
    Word written;   // for how many sums
    Word sleepers;  // who wait for the next
};

// As train/base/neighbours.py has it.
struct Given {
    unsigned char *memory;
    i64 rank, count, slot_size;  // in bytes
    const i64 *processes;        // file descriptors by which the kernel says that they have ended
    double seconds;              // after which a process is given up
};

enum Result : i64 { done = 0, ended = 1, late = 2 };

inline bool has_ended(i64 process) {
    pollfd asked{static_cast<int>(process), POLLIN, 0};
    return poll(&asked, 1, 0) > 0;
}

// Waits until the process has written for the sum.
inline Result wait_for(Seat &seat, std::uint32_t sum, i64 process, double seconds) {
    constexpr std::uint64_t patience = 20'000;  // ns before it sleeps, which takes about half of that
    const auto missing = [&](std::uint32_t written) { return static_cast<std::int32_t>(written - sum) < 0; };
    if (!missing(seat.written.load())) return done;
    const std::uint64_t begin = waiting::now();
    const auto waited = [&] { return waiting::now() - begin; };
    while (missing(seat.written.load()) && waited() < patience)
        waiting::relax();
    while (true) {
        const timespec a_while{0, 50'000'000};
        seat.sleepers.fetch_add(1);
        const std::uint32_t written = seat.written.load();
        if (missing(written)) syscall(SYS_futex, &seat.written, FUTEX_WAIT, written, &a_while, nullptr, 0);
        seat.sleepers.fetch_sub(1);
        if (!missing(seat.written.load())) return done;
        if (waited() > 50'000'000 && has_ended(process)) return missing(seat.written.load()) ? ended : done;
        if (1e-9 * double(waited()) > seconds) return late;
    }
}

template <class Number>
Result sum(const Given &given, Number *numbers, i64 count) {
    Seat *const seats = reinterpret_cast<Seat *>(given.memory), &own = seats[given.rank];
    const std::uint32_t number = own.written.load() + 1;
    unsigned char *const slots = given.memory + given.count * (sizeof(Seat) + number % 2 * given.slot_size);
    const auto slot = [&](i64 rank) { return reinterpret_cast<Number *>(slots + rank * given.slot_size); };
    std::memcpy(slot(given.rank), numbers, count * sizeof(Number));
    own.written.store(number);
    if (own.sleepers.load()) syscall(SYS_futex, &own.written, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
    for (i64 rank = 0; rank < given.count; ++rank) {
        if (rank != given.rank) {
            const Result result = wait_for(seats[rank], number, given.processes[rank], given.seconds);
            if (result != done) return result;
        }
        const Number *const from = slot(rank);
        for (i64 i = 0; i < count; ++i) numbers[i] = rank ? numbers[i] + from[i] : from[i];
    }
    return done;
}

// Of any number of them, which are replaced.
template <class Number>
Result sum_in_parts(const Given &given, Number *numbers, i64 count) {
    const i64 most = given.slot_size / sizeof(Number);
    for (i64 first = 0; first < count; first += most) {
        const Result result = sum(given, numbers + first, std::min(most, count - first));
        if (result != done) return result;
    }
    return done;
}

}  // namespace neighbours

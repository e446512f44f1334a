// What ecs.h computes, written by hand with one container for each world: once with std::vector alone, once with
// handles of its rows (a slot map), which the engine's rows have too. See ecs.py.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

struct Particle {
    float x, y, z;
    float motion_x, motion_y, motion_z;
    std::uint32_t dice;
};
static_assert(sizeof(Particle) == 28);

struct View {
    float count, height;
};

constexpr std::uint32_t expires_below = 429496730u;  // one in ten

inline std::uint32_t xorshift(std::uint32_t state) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^ state << 5;
}

inline void move(Particle &particle) {
    constexpr float dt = 0.05f, fall = 9.81f * dt, bounce = -0.875f;
    particle.motion_y -= fall;
    particle.x += particle.motion_x * dt;
    particle.z += particle.motion_z * dt;
    const float height = particle.y + particle.motion_y * dt;
    const bool below = height < 0.0f;
    particle.y = below ? -height : height;
    particle.motion_y = below ? particle.motion_y * bounce : particle.motion_y;
    particle.dice = xorshift(particle.dice);
}

// Containers ---------------------------------------------------------------------------------------------------------

class Plain {
  public:
    std::vector<Particle> rows;

    void reserve(std::size_t most) { rows.reserve(most); }

    void remove_expired() {
        const auto expired = [](const Particle &particle) { return particle.dice < expires_below; };
        rows.erase(std::remove_if(rows.begin(), rows.end(), expired), rows.end());
    }

    void add(const Particle &particle) { rows.emplace_back(particle); }

    std::size_t lost_handles() const { return 0; }
};

// A handle names a slot, which says where the row is, and the generation of the slot's user.
struct Handle {
    std::uint32_t slot, generation;
};

class WithHandles {
  public:
    std::vector<Particle> rows;

    void reserve(std::size_t most) {
        rows.reserve(most);
        slot_of_.reserve(most);
        slots_.reserve(most);
    }

    void remove_expired() {
        const auto count = std::uint32_t(rows.size());
        std::uint32_t kept = 0;
        while (kept < count && rows[kept].dice >= expires_below) ++kept;
        for (std::uint32_t row = kept; row < count; ++row) {
            const std::uint32_t slot = slot_of_[row];
            if (rows[row].dice < expires_below) {
                slots_[slot] = {free_, slots_[slot].generation + 1};
                free_ = slot;
            } else {
                rows[kept] = rows[row];
                slot_of_[kept] = slot;
                slots_[slot].row = kept++;
            }
        }
        rows.resize(kept);
        slot_of_.resize(kept);
    }

    Handle add(const Particle &particle) {
        std::uint32_t slot = free_;
        if (slot == none) {
            slot = std::uint32_t(slots_.size());
            slots_.push_back({0, 0});
        } else {
            free_ = slots_[slot].row;
        }
        slots_[slot].row = std::uint32_t(rows.size());
        slot_of_.push_back(slot);
        rows.emplace_back(particle);
        return {slot, slots_[slot].generation};
    }

    const Particle *find(Handle handle) const {
        const Slot slot = slots_[handle.slot];
        return slot.generation == handle.generation ? &rows[slot.row] : nullptr;
    }

    // Rows that their own handle does not find: none, or the slot map is wrong.
    std::size_t lost_handles() const {
        std::size_t lost = 0;
        for (std::size_t row = 0; row < rows.size(); ++row) {
            lost += find({slot_of_[row], slots_[slot_of_[row]].generation}) != &rows[row];
        }
        return lost;
    }

  private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    struct Slot {
        std::uint32_t row;  // of a free slot: the next free one
        std::uint32_t generation;
    };
    std::vector<std::uint32_t> slot_of_;  // [rows]
    std::vector<Slot> slots_;
    std::uint32_t free_ = none;
};

template <class Container>
struct World {
    Container particles;
    std::uint32_t state;

    void begin(std::uint32_t id, std::size_t rows) {
        particles.reserve(rows);
        state = (id + 1) * 0x9E3779B9u | 1u;
        emit(rows);
    }

    void emit(std::size_t rows) {
        for (std::size_t missing = rows - particles.rows.size(); missing > 0; --missing) {
            state = xorshift(state);
            const float across = float(std::int32_t(state)) * 0x1p-31f;
            const float up = float(std::int32_t(state & 0xffffu)) * 0x1p-16f;
            particles.add({across, up, across * up, up, 2.0f * up, -across, state * 0x9E3779B9u});
        }
    }

    View look() const {
        std::int32_t sum = 0;
        for (const Particle &particle : particles.rows) sum += std::int32_t(particle.y * 256.0f);
        return {float(std::int32_t(particles.rows.size())), float(sum) * 0x1p-8f};
    }

    View step(std::size_t rows) {
        for (Particle &particle : particles.rows) move(particle);
        particles.remove_expired();
        emit(rows);
        return look();
    }
};

// Threads ------------------------------------------------------------------------------------------------------------

// Waits until `done(value)`: for a while awake, as the next step mostly follows at once, then asleep.
template <class Value, class Done>
Value wait_until(const std::atomic<Value> &atomic, Done done) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    Value value = atomic.load(std::memory_order_acquire);
    while (!done(value) && std::chrono::steady_clock::now() < until) {
        for (int i = 0; i < 16 && !done(value); ++i) {
#if defined(__x86_64__)
            _mm_pause();
#endif
            value = atomic.load(std::memory_order_acquire);
        }
    }
    while (!done(value)) {
        atomic.wait(value, std::memory_order_acquire);
        value = atomic.load(std::memory_order_acquire);
    }
    return value;
}

class Baseline {
  public:
    virtual ~Baseline() = default;
    virtual void step() = 0;
    // Of all worlds, one after the other; returns the number of rows that cannot be found by their handle.
    virtual std::size_t read(std::uint32_t *counts, View *views, Particle *particles) const = 0;
};

// Threads that have enough to do to be worth waking, by the engine's own measure.
std::size_t useful_threads(std::size_t worlds, std::size_t rows, std::size_t threads) {
    constexpr std::size_t bytes_for_a_thread = 48 * 1024;
    const std::size_t busy = worlds * rows * sizeof(Particle) / bytes_for_a_thread;
    return std::max<std::size_t>(1, std::min({threads, worlds, busy}));
}

// Thread i of n steps the i-th n-th of the worlds in every step.
template <class Container>
class Simulation final : public Baseline {
  public:
    Simulation(std::size_t worlds, std::size_t rows, std::size_t threads)
        : rows_(rows), threads_(useful_threads(worlds, rows, threads)), worlds_(worlds), views_(worlds) {
        for (std::size_t i = 0; i < worlds; ++i) worlds_[i].begin(std::uint32_t(i), rows);
        for (std::size_t i = 1; i < threads_; ++i) workers_.emplace_back([this, i] { work(i); });
    }

    ~Simulation() override {
        stopping_ = true;
        round_.fetch_add(1, std::memory_order_release);
        round_.notify_all();
        for (std::thread &worker : workers_) worker.join();
    }

    void step() override {
        if (!workers_.empty()) {
            working_.store(std::uint32_t(workers_.size()), std::memory_order_relaxed);
            round_.fetch_add(1, std::memory_order_release);
            round_.notify_all();
        }
        step_share(0);
        if (!workers_.empty()) wait_until(working_, [](std::uint32_t working) { return working == 0; });
    }

    std::size_t read(std::uint32_t *counts, View *views, Particle *particles) const override {
        std::size_t lost = 0;
        for (std::size_t i = 0; i < worlds_.size(); ++i) {
            const auto &own = worlds_[i].particles;
            counts[i] = std::uint32_t(own.rows.size());
            views[i] = views_[i];
            particles = std::copy(own.rows.begin(), own.rows.end(), particles);
            lost += own.lost_handles();
        }
        return lost;
    }

  private:
    void step_share(std::size_t thread) {
        const std::size_t last = (thread + 1) * worlds_.size() / threads_;
        for (std::size_t i = thread * worlds_.size() / threads_; i < last; ++i) views_[i] = worlds_[i].step(rows_);
    }

    void work(std::size_t thread) {
        for (std::uint32_t seen = 0;;) {
            seen = wait_until(round_, [seen](std::uint32_t round) { return round != seen; });
            if (stopping_) return;
            step_share(thread);
            if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) working_.notify_one();
        }
    }

    const std::size_t rows_, threads_;
    std::vector<World<Container>> worlds_;
    std::vector<View> views_;
    bool stopping_ = false;  // read after round_
    alignas(64) std::atomic<std::uint32_t> round_{0};
    alignas(64) std::atomic<std::uint32_t> working_{0};
    std::vector<std::thread> workers_;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT Baseline *baseline_make(std::size_t worlds, std::size_t rows, std::size_t threads, int handles) {
    if (handles) return new Simulation<WithHandles>(worlds, rows, threads);
    return new Simulation<Plain>(worlds, rows, threads);
}

EXPORT void baseline_step(Baseline *baseline, std::size_t steps) {
    for (; steps > 0; --steps) baseline->step();
}

EXPORT std::size_t baseline_read(const Baseline *baseline, std::uint32_t *counts, float *views, void *particles) {
    return baseline->read(counts, reinterpret_cast<View *>(views), static_cast<Particle *>(particles));
}

EXPORT void baseline_free(Baseline *baseline) { delete baseline; }

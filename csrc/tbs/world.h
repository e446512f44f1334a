// What a system sees of the world in which it runs.
#pragma once
#include "fault.h"
#include "platform.h"
#include "random.h"

#include <type_traits>

namespace tbs {

// The row that a system runs for: its index among the rows that its world has in this table, 0 .. count - 1.
struct Row {
    u32 index;
    u32 count;
};

// The episode of a world. A system that takes `Episode &` ends it by setting one of the flags, or both.
struct Episode {
    u32 step;         // 0 in `start`, 1 in the first step
    bool terminated;  // the task is over: the value of what would follow is zero
    bool truncated;   // time is up: what would follow has a value
};

// All rows that a world has in one column, as world.rows<Archetype, const Component>() gives them.
template <class Component>
struct Rows {
    Component *first;
    u32 count;

    TBS_METHOD Component &operator[](u32 index) const { return first[index]; }
    TBS_METHOD u32 size() const { return count; }
    TBS_METHOD Component *begin() const { return first; }
    TBS_METHOD Component *end() const { return first + count; }
};

// The number of a node and what makes its random draws its own.
struct NodeKey {
    u32 index;   // in fault words
    u32 random;  // in random streams; from the system's name, so that other systems may come and go
};

template <class Context>
class BasicWorld {
  public:
    const u32 id;  // 0 .. worlds - 1
    const decltype(Context::parameters) &parameters;

    TBS_METHOD BasicWorld(const Context &context, u32 world, NodeKey node, u32 row)
        : id(world), parameters(context.parameters), context_(context), node_(node), row_(row) {}
    BasicWorld(const BasicWorld &) = delete;

    // This row's random stream in this system and step: the same whatever else runs. Take it by reference
    // (`Random &random = world.random();`): a copy would draw the same numbers again, and so does not compile.
    TBS_METHOD Random &random() {
        if (!random_started_) {
            random_ = Random(context_.seed[id], node_.random, row_, context_.stream[id], context_.episode[id],
                             context_.step[id]);
            random_started_ = true;
        }
        return random_;
    }

    // Number of episodes that this world has begun before this one since it was seeded.
    TBS_METHOD u32 episode() const { return context_.episode[id]; }

    // Steps taken in this episode, the present one included.
    TBS_METHOD u32 step() const { return context_.step[id]; }

    // The world's only row of a singleton: world.get<const Clock>() to read it, world.get<Clock>() to write it too.
    template <class Singleton>
    TBS_METHOD Singleton &get() const {
        return *(column_of(context_, static_cast<std::remove_const_t<Singleton> *>(nullptr)) + id);
    }

    // The rows of this world in a column of an archetype: world.rows<Agent, const Position>() to read them.
    template <class Archetype, class Component>
    TBS_METHOD Rows<Component> rows() const {
        constexpr u32 count = Archetype::rows_per_world;
        Component *const column = column_of(context_, static_cast<Archetype *>(nullptr),
                                            static_cast<std::remove_const_t<Component> *>(nullptr));
        return {column + u64{id} * count, count};
    }

    // Reports a fault of this world. The step goes on; the host raises it, naming world, system, cause and value.
    template <class FaultName>
    TBS_METHOD void fail(FaultName cause, i32 value = 0) const {
        report_fault(&context_.fault[id], context_.fault_flag, fault_word(node_.index, row_, u32(cause), value));
    }

  private:
    const Context &context_;
    const NodeKey node_;
    const u32 row_;
    bool random_started_ = false;
    Random random_;
};

}  // namespace tbs

// What a system sees of its world.
#pragma once
#include "checks.h"
#include "fault.h"
#include "log.h"
#include "platform.h"
#include "random.h"
#include "table.h"
#ifdef TBS_CHECKS
#include "checked_types.h"
#endif

#include <type_traits>

namespace tbs {

// The row that a system runs on: its index among the world's rows of this table.
struct Row {
    u32 index;
    u32 count;
};

// The episode of a world. A system that takes `Episode &` sets a flag to end it.
struct Episode {
    u32 step;         // 0 in `start`, 1 in the first step
    bool terminated;  // the task is over: the value of the next state is zero
    bool truncated;   // time is up: the next state has a value
};

// The agents' reward in a step. The engine zeroes it before.
struct Reward {
    f32 value;
};

// Ends the episode of an agent while its world may go on. The engine sets both to false before each step.
struct alignas(2) AgentEnd {
    bool terminated;
    bool truncated;
};

// The world's rows in one column: world.rows<Archetype, const Component>().
template <class Component>
struct Rows {
    static constexpr bool there = true;  // the archetype has the component
    Component *first;
    u32 count;

#ifdef TBS_CHECKS
    checks::Site site{};

    TBS_METHOD Component &operator[](checks::Index index) const {
        return checks::element(first, count, index, site);
    }
    TBS_METHOD std::remove_const_t<Component> value_or(checks::Index index, const Component &) const {
        return (*this)[index];
    }
#else
    // Takes any integer type: an i32 read from memory makes a loop gather and scatter, a u32 does not.
    template <class Index>
    TBS_METHOD Component &operator[](Index index) const { return first[index]; }
    // A copy of the row; from NoRows the value given.
    TBS_METHOD std::remove_const_t<Component> value_or(u32 index, const Component &) const { return first[index]; }
#endif
    TBS_METHOD u32 size() const { return count; }
    TBS_METHOD Component *begin() const { return first; }
    TBS_METHOD Component *end() const { return first + count; }
};

// Rows of an archetype without the component, from world.tables<Optional<Component>, ...>(). Only code under `if
// (rows.there)` may name them; the compiler removes it.
template <class Component>
struct NoRows {
    static constexpr bool there = false;
    static constexpr u32 count = 0;
    Component *first = nullptr;

    template <class Index>
    TBS_METHOD Component &operator[](Index index) const { return first[index]; }
    TBS_METHOD std::remove_const_t<Component> value_or(u32, const Component &otherwise) const { return otherwise; }
};

// In world.tables<...>(): a component that archetypes may lack.
template <class Component>
struct Optional {};
template <class Component>
constexpr bool is_optional = false;
template <class Component>
constexpr bool is_optional<Optional<Component>> = true;

// A node as the engine knows it, and what it may reach beyond its row: what its system's text shows or declares.
template <u32 columns>
struct NodeKey {
    u32 index;        // in fault words
    u32 random;       // in random streams; from the system's name, so that other systems may come and go
    u32 table;        // over whose rows it runs, as in handles; 0: it runs once per world
    bool draws;       // from random()
    bool draws_items; // from random(item)
    // A bit for each dynamic table: whose rows it asks for, where it creates, where it destroys.
    u64 looks, creates, creates_at, destroys;
    // A bit for each column.
    u64 reads[(columns + 63) / 64], writes[(columns + 63) / 64];
};

// Called where a node reaches more, so that it does not compile. A build that inlines and optimises, as the engine's
// do, knows the node at each place, and the check costs nothing. Elsewhere (nvcc, other compilers, unoptimised builds)
// it is a fault at run time.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define TBS_REACHES_ARE_COMPILED
[[gnu::error("the engine has not read in the text that the system reaches this")]] void undeclared_access();
#endif

// Generated code specialises these for what an author has declared, so that the engine looks up none of the author's
// names. TableOf: of an archetype, see codegen.py. ColumnOf, OnlyRow, WorkspaceOf: where components lie.
template <class>
constexpr bool is_declared = false;
template <class Archetype>
struct TableOf {
    static_assert(is_declared<Archetype>, "this is not an archetype of the environment");
};
template <class Archetype, class Component>
struct ColumnOf {
    static_assert(is_declared<Component>, "the archetype does not have this component");
};
template <class Component>
struct OnlyRow {
    static_assert(is_declared<Component>, "this is neither a singleton nor a resource");
};

template <class Component>
struct WorkspaceOf {
    static_assert(is_declared<Component>, "this is not workspace");
};

// One archetype in world.tables<...>(), and this world's rows of it.
template <class World, class Archetype>
struct WorldTable {
    static constexpr u32 number = TableOf<Archetype>::entity_table;  // as Entity::table has it
    const World &world;
    u32 first;  // rows of the archetypes before it
    u32 count;

    // The handle of a row; the row of a handle, or no_row.
    TBS_METHOD Entity entity(u32 row) const { return world.template entity<Archetype>(row); }
    TBS_METHOD u32 index_of(Entity entity) const { return world.template index_of<Archetype>(entity); }
    // The value of a fault about a row, whose sentence `faults` declares with {row}; `part` is the number of the sentence.
    TBS_METHOD i32 place(u32 row, u32 part = 0) const { return fault_place(number, row, part); }
};

template <class Archetype, class Component>
constexpr bool has_component = TableOf<Archetype>::template has<std::remove_const_t<Component>>;
template <class Archetype, class... Component>
constexpr bool has_all = ((is_optional<Component> || has_component<Archetype, Component>) && ...);

// Archetypes, as the generated code lists them.
template <class... Archetype>
struct Archetypes {
    template <class Component, class World>
    static TBS_METHOD Component *find(const World &world, Entity entity) {
        Component *found = nullptr;
        ((found = found != nullptr ? found : world.template find<Archetype, Component>(entity)), ...);
        return found;
    }

    // world.tables<Component...>(body) among these.
    template <class... Component, class World, class Body>
    static TBS_METHOD void visit(const World &world, Body &body) {
        [[maybe_unused]] u32 first = 0;
        (visit_one<Archetype, Component...>(world, first, body), ...);
    }

    // The greatest number of rows that a world has of those with all of the components.
    template <class... Component>
    static TBS_METHOD constexpr u32 most_rows() {
        return (0u + ... + (has_all<Archetype, Component...> ? TableOf<Archetype>::most_rows : 0u));
    }

  private:
    template <class One, class... Component, class World, class Body>
    static TBS_METHOD void visit_one(const World &world, u32 &first, Body &body) {
        if constexpr (has_all<One, Component...>) {
            const WorldTable<World, One> table{world, first, world.template count<One>()};
            body(table, rows_in<One>(world, static_cast<Component *>(nullptr))...);
            first += table.count;
        }
    }

    template <class One, class World, class Component>
    static TBS_METHOD Rows<Component> rows_in(const World &world, Component *) {
        return world.template rows<One, Component>();
    }
    template <class One, class World, class Component>
    static TBS_METHOD auto rows_in(const World &world, Optional<Component> *) {
        if constexpr (has_component<One, Component>) {
            return world.template rows<One, Component>();
        } else {
            return NoRows<Component>{};
        }
    }
};
template <class Component>
struct ArchetypesWith {
    static_assert(is_declared<Component>, "this is not a component of the environment");
};

// Those that have the first component that is not optional.
template <class First, class... Rest>
struct HoldersOf : HoldersOf<Rest...> {};
template <class First, class... Rest>
    requires(!is_optional<First>)
struct HoldersOf<First, Rest...> : ArchetypesWith<std::remove_const_t<First>> {};

// The Component in `given`; zero without one.
template <class Component>
TBS_FUNCTION Component given_or_zero() { return Component{}; }
template <class Component, class First, class... Rest>
TBS_FUNCTION Component given_or_zero(const First &first, const Rest &...rest) {
    if constexpr (std::is_same_v<Component, First>) {
        static_assert((!std::is_same_v<Component, Rest> && ...), "create<Archetype>: a component is given twice");
        return first;
    } else {
        return tbs::given_or_zero<Component>(rest...);
    }
}

// The world that a system runs in, its first parameter: `World &world`.
template <class Context>
class BasicWorld {
  public:
#ifdef TBS_CHECKS
    using Random = fence::Random;
#endif
    const u32 id;  // among all worlds, from 0, or from first_world of a part of a larger batch; first, as Python reads it
    const decltype(Context::parameters) &parameters;

    // `slot` is the row's place in the columns of its table, where that is a dynamic one; `repetition` that of the loops
    // in which the node is; `drawn`, if it is not null, the first block of random().
    TBS_METHOD BasicWorld(const Context &context, u32 world, const typename Context::Node &node, Row row, i32 slot = 0,
                          u32 repetition = 0, const PhiloxBlock *drawn = nullptr)
        : id(world + u32(context.first_world)), parameters(context.parameters), context_(context), node_(node), index_(world),
          row_(row), slot_(slot), repetition_(repetition), drawn_(drawn) {}
    BasicWorld(const BasicWorld &) = delete;

    // This row's random stream in this system and step, the same whatever else runs. Take it by reference: `Random
    // &random = world.random();`. A copy, which would draw the same numbers again, does not compile.
    TBS_METHOD Random &random() {
        may(node_.draws);
        if (!random_started_) {
            random_ = stream(context_.seed[index_]);
            if (drawn_) random_.begin_with(*drawn_);
            random_started_ = true;
        }
        return random_;
    }

    // For systems on several lanes: the stream of item `item` of this row.
    TBS_METHOD Random random(u32 item) const {
        may(node_.draws_items);
        return stream(context_.seed[index_] + (u64{item} + 1) * 0xD1B54A32D192ED03u);
    }

    // Episodes that this world began before this one since it was seeded.
    TBS_METHOD u32 episode() const { return context_.episode[index_]; }

    // Steps in this episode, this one included.
    TBS_METHOD u32 step() const { return context_.step[index_]; }

    // Runs of this system before this one in its Repeat and step; 0 outside of a Repeat. Nested Repeats count together.
    TBS_METHOD u32 repetition() const { return repetition_; }

    // The only row of a singleton, world.get<Clock>(), or of a resource, world.get<const Levels>(). With const: read
    // only.
    template <class Singleton>
    TBS_METHOD Singleton &get() const {
        using Only = OnlyRow<std::remove_const_t<Singleton>>;
        may(reaches_column<Singleton>(Only::number));
        return Only::get(context_, index_);
    }

    // This world's rows in a column of an archetype. Read only: world.rows<Agent, const Position>().
    template <class Archetype, class Component>
    TBS_METHOD Rows<Component> rows() const {
        may(reaches_rows<Archetype, Component>());
#ifdef TBS_CHECKS
        return {first_in_column<Archetype, Component>(), number_of_rows<Archetype>(), check_site()};
#else
        return {first_in_column<Archetype, Component>(), number_of_rows<Archetype>()};
#endif
    }

    // Calls body(table, rows...) for each archetype with all of these components, in the order of declaration (the
    // author's first). `rows` are Rows of each component; NoRows where an archetype lacks an Optional one.
    //     world.tables<const Pose, Optional<const Force>>([&](auto table, auto poses, auto forces) { ... });
    template <class... Component, class Body>
    TBS_METHOD void tables(Body &&body) const {
        static_assert(!(is_optional<Component> && ...), "tables<...>: one component at least is not Optional");
        HoldersOf<Component...>::template visit<Component...>(*this, body);
    }

    // The greatest number of rows that a world can have of all archetypes with these components.
    template <class... Component>
    static TBS_METHOD constexpr u32 most_rows() {
        return HoldersOf<Component...>::template most_rows<Component...>();
    }

    // This world's rows in an archetype.
    template <class Archetype>
    TBS_METHOD u32 count() const {
        may(looks_at<Archetype>());
        return number_of_rows<Archetype>();
    }

    // Entities ---------------------------------------------------------------------------------------------------

    // Creates a row of a dynamic archetype; components that are not given are zero. The row exists from the next system
    // on. If the table lacks room for all rows that this node creates in this world, none is created and the world has
    // a fault.
    template <class Archetype, class... Component>
    TBS_METHOD Entity create(const Component &...components) {
        if (!may(has_bit(node_.creates, table_of<Archetype>()))) return Entity{};
        return add_row<Archetype>(created_++, components...);
    }

    // The same for systems on several lanes: `order`, distinct for each row that this row creates in this node,
    // replaces the order of calls.
    template <class Archetype, class... Component>
    TBS_METHOD Entity create_at(u32 order, const Component &...components) {
        if (!may(has_bit(node_.creates_at, table_of<Archetype>()))) return Entity{};
        return add_row<Archetype>(order, components...);
    }

    // Destroys a row of a dynamic archetype before the next system runs. Several rows may destroy it at once. A handle
    // without a row (destroyed before, of another world or episode, or empty) is a fault: ask `alive` first.
    TBS_METHOD void destroy(Entity entity) const {
        if (may(node_.destroys != 0)) mark(entity);
    }

    // The same for a row of this archetype, which saves the engine settling the other tables.
    template <class Archetype>
    TBS_METHOD void destroy(Entity entity) const {
        const bool its_row = entity.table == TableOf<Archetype>::entity_table;
        if (may(has_bit(node_.destroys, table_of<Archetype>()))) mark(its_row ? entity : Entity{});
    }

    // Whether the entity existed when this system began.
    TBS_METHOD bool alive(Entity entity) const {
        may(node_.looks == all_tables);
        return row_of(entity) != no_row;
    }

    // A component of an entity; nullptr if it has no row in this archetype of this world.
    template <class Archetype, class Component>
    TBS_METHOD Component *find(Entity entity) const {
        may(reaches_rows<Archetype, Component>());
        const u32 row = row_in<Archetype>(entity);
        return row == no_row ? nullptr : first_in_column<Archetype, Component>() + row;
    }

    // The same in any archetype, for libraries; nullptr if the entity's lacks the component.
    template <class Component>
    TBS_METHOD Component *find(Entity entity) const {
        return ArchetypesWith<std::remove_const_t<Component>>::template find<Component>(*this, entity);
    }

    // The entity's index among this world's rows, or no_row; valid until the next system.
    template <class Archetype>
    TBS_METHOD u32 index_of(Entity entity) const {
        may(looks_at<Archetype>());
        return row_in<Archetype>(entity);
    }

    // The handle of a row of this world; an empty one outside of the rows.
    template <class Archetype>
    TBS_METHOD Entity entity(u32 row) const {
        may(looks_at<Archetype>());
        if (row >= number_of_rows<Archetype>()) return Entity{};
        using Table = TableOf<Archetype>;
        if constexpr (Table::dynamic) {
            const DynamicTable &table = context_.tables[Table::table];
            return {context_.tag[index_], Table::entity_table, table.birth[table.first[index_] + i32(row)]};
        } else {
            return {context_.tag[index_], Table::entity_table, Birth{0, row}};
        }
    }

    // `Entity self` of a system over a dynamic table.
    TBS_METHOD Entity self() const {
        return {context_.tag[index_], node_.table, context_.tables[node_.table - 1].birth[slot_]};
    }

#ifdef TBS_CHECKS
    TBS_METHOD checks::Site check_site() const { return checks::site_of(context_, node_.index, row_.index, index_); }
#endif

    // Reports a fault of this world. The step goes on; the host raises world, system, cause and value.
    template <class FaultName>
    TBS_METHOD void fail(FaultName cause, i32 value = 0) const {
        report(u32(cause), value);
    }

    // Returns the condition. If false, it is a fault of this world: the host reports place, condition and the value, a
    // number. The step goes on: `if (!world.check(...)) return;`.
    template <class Value = i32>
        requires(std::is_arithmetic_v<Value> || std::is_enum_v<Value>)
    TBS_METHOD bool check(bool condition, Value value = {}, u32 line = __builtin_LINE()) const {
        if (!condition) report_check(value, line);
        return condition;
    }

    // The same with a message, a string literal.
    template <u32 bytes, class Value = i32>
        requires(std::is_arithmetic_v<Value> || std::is_enum_v<Value>)
    TBS_METHOD bool check(bool condition, const char (&)[bytes], Value value = {}, u32 line = __builtin_LINE()) const {
        if (!condition) report_check(value, line);
        return condition;
    }

    // Records a number, bool, enumeration or vector for Simulator.logs(), with world, system, row and step. Only a
    // build with log=True has code for it.
    template <u32 bytes, class Value>
    TBS_METHOD void log(const char (&label)[bytes], const Value &value) const {
        static_assert(bytes <= log_label_bytes, "world.log: a label has at most 31 characters");
        static_assert(is_loggable<Value>, "world.log takes numbers, bools, enumerations, vec2, vec3, vec4 and quat");
#ifdef TBS_LOG
        const u32 place = take_next(&context_.log_counts[index_]);
        if (place >= u32(context_.log_room)) return;
        LogRecord &record = context_.log_records[i64{index_} * context_.log_room + place];
        record = {};
        record.node = node_.index;
        record.row = row_.index;
        record.repetition = repetition_;
        record.episode = context_.episode[index_];
        record.step = context_.step[index_];
        record.sequence = logged_++;
        for (u32 i = 0; i < bytes; ++i) record.label[i] = label[i];
        write_logged(record, value);
#endif
    }

  private:
    static constexpr u64 all_tables = Context::dynamic_tables < 64 ? (u64{1} << Context::dynamic_tables) - 1 : ~u64{0};

    // Whether the node may do this; if not, that does not compile, or is a fault.
    TBS_METHOD bool may(bool declared) const {
#ifdef TBS_REACHES_ARE_COMPILED
        if (__builtin_constant_p(declared) && !declared) undeclared_access();
#endif
        if (!declared) report(fault_undeclared_access, 0);
        return declared;
    }

    static TBS_METHOD bool has_bit(u64 bits, u32 number) { return bits >> number & 1; }

    template <class Component>
    TBS_METHOD bool reaches_column(u32 number) const {
        const bool writes = has_bit(node_.writes[number / 64], number % 64);
        return writes || (std::is_const_v<Component> && has_bit(node_.reads[number / 64], number % 64));
    }

    template <class Archetype>
    static TBS_METHOD constexpr u32 table_of() {
        using Table = TableOf<Archetype>;
        static_assert(Table::dynamic, "create and destroy need an archetype that is declared with capacity=");
        if constexpr (Table::dynamic) return Table::table;
        return 0;
    }

    // Whether the node may ask which rows of an archetype there are.
    template <class Archetype>
    TBS_METHOD bool looks_at() const {
        using Table = TableOf<Archetype>;
        if constexpr (Table::dynamic) {
            return has_bit(node_.looks, Table::table);
        } else {
            return true;
        }
    }

    template <class Archetype, class Component>
    TBS_METHOD bool reaches_rows() const {
        const u32 number = ColumnOf<Archetype, std::remove_const_t<Component>>::number;
        return reaches_column<Component>(number) && looks_at<Archetype>();
    }

    template <class Archetype>
    TBS_METHOD u32 number_of_rows() const {
        using Table = TableOf<Archetype>;
        if constexpr (Table::dynamic) {
            return u32(context_.tables[Table::table].count[index_]);
        } else {
            return Table::rows_per_world;
        }
    }

    template <class Archetype, class Component>
    TBS_METHOD Component *first_in_column() const {
        return ColumnOf<Archetype, std::remove_const_t<Component>>::get(context_) + first_row<Archetype>();
    }

    template <class Archetype, class... Component>
    TBS_METHOD Entity add_row(u32 order, const Component &...components) const {
        using Table = TableOf<Archetype>;
        static_assert((Table::template has<Component> && ...), "create<Archetype>: it lacks a component of these");
        const u32 bits = order_bits(row_.count);
        if (u64{order} >> bits != 0) {
            report(fault_too_many_created, i32(order));
            return Entity{};
        }
        const DynamicTable &table = context_.tables[Table::table];
        const Birth birth{context_.tick[index_], u32(u64{row_.index} << bits) + order};
        const u32 index = u32(table.count[index_]) + take_next(&table.added[index_]);
        if (index < table.room(index_)) {
            const i32 slot = table.first[index_] + i32(index);
            table.birth[slot] = birth;
            Table::write_row(context_, slot, components...);
        }
        return {context_.tag[index_], Table::entity_table, birth};
    }

    TBS_METHOD void mark(Entity entity) const {
        i32 slot = slot_;
        if (!is_own(entity)) {
            const u32 row = row_of(entity);
            if (row == no_row || entity.table > Context::dynamic_tables) {
                report(fault_stale_entity, i32(entity.table));
                return;
            }
            slot = context_.tables[entity.table - 1].first[index_] + i32(row);
        }
        const u32 index = entity.table - 1;
        if (node_.destroys != all_tables && !has_bit(node_.destroys, index)) {  // it is settled in the others only
            report(fault_undeclared_access, i32(index));
            return;
        }
        context_.tables[index].doomed[slot] = 1;
    }

    TBS_METHOD Random stream(u64 seed) const {
        const u32 key = repeated(node_.random, repetition_);
        return Random(seed, key, row_.index, context_.stream[index_], context_.episode[index_], context_.step[index_]);
    }

    template <class Archetype>
    TBS_METHOD i64 first_row() const {
        using Table = TableOf<Archetype>;
        if constexpr (Table::dynamic) {
            return context_.tables[Table::table].first[index_];
        } else {
            return i64{index_} * Table::rows_per_world;
        }
    }

    // Whether it is the row that the system runs on: most rows destroy themselves, which needs no search. A compiler
    // recognises a system's `self`.
    TBS_METHOD bool is_own(Entity entity) const {
        if (node_.table == 0 || node_.table > Context::dynamic_tables) return false;
        return entity == self();
    }

    template <class Archetype>
    TBS_METHOD u32 row_in(Entity entity) const {
        return entity.table == TableOf<Archetype>::entity_table ? row_of(entity) : no_row;
    }

    TBS_METHOD u32 row_of(Entity entity) const {
        if (entity.tag != context_.tag[index_] || entity.table == 0) return no_row;
        if constexpr (Context::dynamic_tables > 0) {
            if (entity.table <= Context::dynamic_tables) {
                return find_birth(context_.tables[entity.table - 1], index_, entity.birth);
            }
        }
        const bool is_row = entity.birth.tick == 0 && entity.birth.order < Context::fixed_rows(entity.table);
        return is_row ? entity.birth.order : no_row;
    }

    // Context has the fault code of each check in the text; the one behind it is for values that are floats.
    template <class Value>
    TBS_METHOD void report_check(Value value, u32 line) const {
        if constexpr (requires { Context::check_code(line); }) {
            i32 bits;
            if constexpr (std::is_floating_point_v<Value>) {
                const f32 number = f32(value);
                __builtin_memcpy(&bits, &number, sizeof bits);
            } else {
                bits = i32(value);
            }
            const u32 code = Context::check_code(line) + u32(std::is_floating_point_v<Value>);
            const u64 word = fault_word(node_.index, row_.index, code, bits);
            if (word < context_.fault[index_]) context_.check_steps[index_] = context_.step[index_];
            report_fault(&context_.fault[index_], context_.fault_flag, word);
        } else {
            static_assert(is_declared<Value>, "world.check is called in a macro, where the engine does not see it");
        }
    }

    TBS_METHOD void report(u32 code, i32 value) const {
        report_fault(&context_.fault[index_], context_.fault_flag, fault_word(node_.index, row_.index, code, value));
    }

    const Context &context_;
    const typename Context::Node &node_;
    const u32 index_;  // of the world in columns
    const Row row_;
    const i32 slot_;
    const u32 repetition_;
    const PhiloxBlock *const drawn_;
    u32 created_ = 0;
#ifdef TBS_LOG
    mutable u32 logged_ = 0;
#endif
    bool random_started_ = false;
    Random random_;
};

}  // namespace tbs

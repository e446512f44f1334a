"""Rows that come and go, against a model in plain Python: on one thread, on two, and in the emulated CUDA units."""

from __future__ import annotations

import os
from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from environments.zoo import COMMANDS, Zoo
from gymnasium.vector import AutoresetMode
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support import emulated_cuda, full_but
from zoo_model import CAPACITY, NONE, NUMBER, Handle, Row, World

from torch_batchsim import Simulator, WorldFault

WORLDS = 3
FIELDS = {
    "Animal": {"Body.value": "value", "Body.age": "age", "Kin.parent": "parent", "Kin.name": "name"},
    "Event": {"Note.animal": "animal", "Note.value": "value", "Note.seen": "seen"},
    "Trail": {"Note.animal": "animal", "Note.value": "value", "Note.seen": "seen"},
}


def contents(sim: Simulator) -> list[dict[str, list[Row]]]:
    """The rows of every world and table, read through the exports."""
    found: list[dict[str, list[Row]]] = [{} for _ in range(sim.num_worlds)]
    for table, fields in FIELDS.items():
        handles = sim.entities(table)
        births = handles.values.numpy().view(np.uint32)
        columns = {key: sim.tensor(f"{table}.{name}").numpy() for name, key in fields.items()}
        firsts, counts = handles.first.tolist(), handles.counts.tolist()
        for world, (first, count) in enumerate(zip(firsts, counts, strict=True)):
            rows = []
            for slot in range(first, first + count):
                values = {
                    key: tuple(column[slot].view(np.uint32).tolist()) if column.ndim > 1 else int(column[slot])
                    for key, column in columns.items()
                }
                rows.append(Row((int(births[slot, 2]), int(births[slot, 3])), values))
            found[world][table] = rows
    return found


def step_and_check(sim: Simulator) -> None:
    sim.step()
    sim.check_faults()  # a CUDA unit reports later


class ZooMachine(RuleBasedStateMachine):
    """Random sequences of what a user and systems may do, on several simulators at once and on the model."""

    sims: list[Simulator]
    fresh: list[dict]
    mode: AutoresetMode

    @initialize(seed=st.integers(0, 2**64 - 1))
    def begin(self, seed: int) -> None:
        self.worlds = [World() for _ in range(WORLDS)]
        self.saved: tuple[list[World], list[dict], set[Handle]] | None = None
        self.seen: set[Handle] = {NONE}
        self.tags: set[tuple[int, int]] = set()
        for sim, state in zip(self.sims, self.fresh, strict=True):
            sim.load_state_dict(state)
            sim.reset(seed=seed)
        self._begin(range(WORLDS), first=True)

    def _begin(self, worlds, first: bool = False) -> list[tuple]:
        faults = []
        tags = self.sims[0].memory.columns["tag"].numpy().view(np.uint32)
        for w in worlds:
            before = self.worlds[w].tag
            faults += [(w, *fault) for fault in self.worlds[w].begin(int(tags[w]))]
            assert first or self.worlds[w].tag != before
        return faults

    def _same_fault(self, calls, expected: list[tuple]) -> None:
        """Every simulator raises the model's faults (the least of each world), or none."""
        least: dict[int, tuple] = {}
        systems = ["settle_in", "obey", "live", "breed", "follow"]
        rank = {name: i for i, name in enumerate(systems)}
        codes = {"stale_entity": 2, **{table: 6 + i for i, table in enumerate(CAPACITY)}}
        for world, system, row, what in expected:
            key = (rank[system], row, codes[what])
            if world not in least or key < least[world][0]:
                least[world] = (key, (world, system, row, "table_full" if what in CAPACITY else what))
        for call in calls:
            try:
                call()
                raised = []
            except WorldFault as fault:
                raised = [(f.world, f.system, f.row, f.cause) for f in fault.faults]
            assert raised == [fault for _, (_, fault) in sorted(least.items())]

    # ---- rules -----------------------------------------------------------------------------------------------------

    @rule(data=st.data(), busy=st.booleans())
    def step(self, data: st.DataObject, busy: bool) -> None:
        commands = [[(0, 0, NONE)] * COMMANDS for _ in range(WORLDS)]
        if busy:
            for world in range(WORLDS):
                commands[world] = [self._command(data) for _ in range(COMMANDS)]
        for sim in self.sims:
            sim.Command.Order.kind[:] = torch.tensor([[c[0] for c in of_world] for of_world in commands])
            sim.Command.Order.value[:] = torch.tensor([[c[1] for c in of_world] for of_world in commands])
            targets = np.array([[c[2] for c in of_world] for of_world in commands], dtype=np.uint32)
            sim.Command.Order.target[:] = torch.from_numpy(targets.view(np.int32))
        faults, begun = [], []
        for world in self.worlds:
            world.grow()
        for w, world in enumerate(self.worlds):
            if world.ended and self.mode is AutoresetMode.NEXT_STEP:
                begun.append(w)
            elif not world.ended:
                faults += [(w, *fault) for fault in world.advance(commands[w])]
                if world.ended and self.mode is AutoresetMode.SAME_STEP:
                    begun.append(w)
        calls = [partial(step_and_check, sim) for sim in self.sims]
        if begun:  # the new tags are known after the step
            self._same_fault(calls[:1], faults)
            faults_of_start = self._begin(begun)
            assert not faults_of_start  # two animals always find room
            calls = calls[1:]
        self._same_fault(calls, faults)

    def _command(self, data: st.DataObject) -> tuple[int, int, Handle]:
        kind = data.draw(st.sampled_from([0, 1, 1, 1, 2, 3, 3, 4, 5, 6]))
        value = data.draw(st.integers(0, 40 if kind == 6 else 20))
        return kind, value, self._target(data)

    def _target(self, data: st.DataObject) -> Handle:
        """A handle that has been seen some time, in any world, alive or not; of a fixed row; or a made-up one."""
        choice = data.draw(st.integers(0, 9))
        if choice == 0:
            return data.draw(st.tuples(*[st.integers(0, 7)] * 4))
        if choice == 1:
            tag = self.worlds[data.draw(st.integers(0, WORLDS - 1))].tag
            return (tag, data.draw(st.integers(4, 6)), data.draw(st.integers(0, 1)), data.draw(st.integers(0, 6)))
        return data.draw(st.sampled_from(sorted(self.seen)))

    @rule(worlds=st.lists(st.booleans(), min_size=WORLDS, max_size=WORLDS))
    def reset_some(self, worlds: list[bool]) -> None:
        for sim in self.sims:
            sim.reset(torch.tensor(worlds))
        for world in self.worlds:
            world.grow()
        assert not self._begin([w for w in range(WORLDS) if worlds[w]])

    @rule(worlds=st.lists(st.integers(0, WORLDS - 1), max_size=12), value=st.integers(0, 30), data=st.data())
    def create_from_outside(self, worlds: list[int], value: int, data: st.DataObject) -> None:
        ended = [w for w in worlds if self.worlds[w].ended]
        counts = [worlds.count(w) for w in range(WORLDS)]
        crowded = [w for w in range(WORLDS) if counts[w] + len(self.worlds[w].rows["Animal"]) > CAPACITY["Animal"][1]]
        parents = [self._target(data) for _ in worlds]
        handles = torch.from_numpy(np.array(parents, dtype=np.uint32).reshape(-1, 4).view(np.int32))
        values = {"Body.value": torch.arange(len(worlds)) + value, "Kin.parent": handles}
        made = []
        for sim in self.sims:
            if ended or crowded:
                says = f"world {ended[0]} has ended" if ended else f"world {crowded[0]} would have"
                with pytest.raises(ValueError, match=says):
                    sim.create("Animal", worlds, values)
            else:
                made.append(sim.create("Animal", worlds, values).numpy().view(np.uint32).tolist())
        if made:
            before = [world.tick for world in self.worlds]
            given = [{"value": value + i, "age": 0, "parent": parents[i], "name": 0} for i in range(len(worlds))]
            for w, world in enumerate(self.worlds):
                assert world.create([given[i] for i in range(len(worlds)) if worlds[i] == w])
            expected = [
                [self.worlds[w].tag, NUMBER["Animal"], before[w], worlds[:i].count(w)] for i, w in enumerate(worlds)
            ]
            assert all(handles == expected for handles in made)

    @rule(data=st.data(), count=st.integers(1, 4))
    def destroy_from_outside(self, data: st.DataObject, count: int) -> None:
        worlds = [data.draw(st.integers(0, WORLDS - 1)) for _ in range(count)]
        handles = [self._target(data) for _ in range(count)]
        rows = [self.worlds[w].find(h) for w, h in zip(worlds, handles, strict=True)]
        entities = torch.from_numpy(np.array(handles, dtype=np.uint32).view(np.int32))
        stale, twice = any(row is None for row in rows), len({id(row) for row in rows}) < count
        for sim in self.sims:
            if stale or twice:
                with pytest.raises(ValueError, match="is not a row of a dynamic table" if stale else "named twice"):
                    sim.destroy(worlds, entities)
            else:
                sim.destroy(worlds, entities)
        if not (stale or twice):
            for w, handle in zip(worlds, handles, strict=True):
                table = next(name for name, number in NUMBER.items() if number == handle[1])
                self.worlds[w].rows[table] = [row for row in self.worlds[w].rows[table] if row.birth != handle[2:]]

    @rule(data=st.data())
    def look_up_from_outside(self, data: st.DataObject) -> None:
        worlds = [data.draw(st.integers(0, WORLDS - 1)) for _ in range(5)]
        handles = [self._target(data) for _ in range(5)]
        expected = []
        for w, handle in zip(worlds, handles, strict=True):
            world, row = self.worlds[w], self.worlds[w].find(handle)
            if row is not None:
                table = next(name for name, number in NUMBER.items() if number == handle[1])
                expected.append(world.rows[table].index(row))
            else:
                expected.append(handle[3] if world.alive(handle) else -1)
        entities = torch.from_numpy(np.array(handles, dtype=np.uint32).view(np.int32))
        for sim in self.sims:
            assert sim.find(worlds, entities).tolist() == expected

    @rule()
    def save(self) -> None:
        worlds = [world.copied() for world in self.worlds]
        self.saved = worlds, [sim.state_dict() for sim in self.sims], set(self.seen)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def restore(self) -> None:
        worlds, states, _ = self.saved
        self.worlds = [world.copied() for world in worlds]
        for sim, state in zip(self.sims, reversed(states), strict=True):  # the states are the same on all executors
            sim.load_state_dict(state)

    @rule(source=st.integers(0, WORLDS - 1), to=st.integers(0, WORLDS - 1))
    def copy(self, source: int, to: int) -> None:
        for sim in self.sims:
            sim.copy_worlds([source], [to])
        self.worlds[to] = self.worlds[source].copied()

    # ---- what always holds -----------------------------------------------------------------------------------------

    @invariant()
    def simulators_and_model_agree(self) -> None:
        if not hasattr(self, "worlds"):
            return
        for number, sim in enumerate(self.sims):
            for w, (world, rows) in enumerate(zip(self.worlds, contents(sim), strict=True)):
                for table in CAPACITY:
                    assert rows[table] == world.rows[table], (number, w, table)
            rooms = {table: sim.memory.tables[table].rooms.tolist() for table in CAPACITY}
            assert rooms == {table: [world.rooms[table] for world in self.worlds] for table in CAPACITY}
            answers = zip(*(sim.tensor(f"Command.Answer.{name}").tolist() for name in ("alive", "value")), strict=True)
            made = sim.Command.Answer.made.numpy().view(np.uint32)
            for w, (alive, value) in enumerate(answers):
                given = [(a, v, tuple(m.tolist())) for a, v, m in zip(alive, value, made[w], strict=True)]
                assert given == self.worlds[w].answers
        for world in self.worlds:
            for table, rows in world.rows.items():
                if len(self.seen) < 400:
                    self.seen.update(world.handle(table, row) for row in rows)
            self.seen.update(made for _, _, made in world.answers)


@pytest.fixture(scope="module")
def library():
    return emulated_cuda("zoo")


@pytest.mark.parametrize("sequences", [10, pytest.param(160, marks=pytest.mark.full)])
@pytest.mark.parametrize("mode", full_but([AutoresetMode.SAME_STEP], AutoresetMode), ids=lambda mode: mode.name)
def test_random_sequences_agree_with_the_model(mode: AutoresetMode, sequences: int, library) -> None:
    one = Simulator(Zoo(), WORLDS, autoreset=mode, num_threads=1)
    two = Simulator(Zoo(), WORLDS, autoreset=mode, num_threads=2)
    two.memory.context.num_threads, two.memory.context.tile = 2, 1  # so few worlds would get one thread
    cuda = Simulator(Zoo(), WORLDS, autoreset=mode, _library=library)
    machine = type("Machine", (ZooMachine,), {"sims": [one, two, cuda], "mode": mode})
    machine.fresh = [sim.state_dict() for sim in machine.sims]
    examples = int(os.environ.get("ZOO_SEQUENCES", sequences))
    chosen = settings(
        max_examples=examples, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(machine, settings=chosen)

"""The Zoo of tests/common/environments in plain Python: what its rows must be after every call, world by world."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

CAPACITY = {"Animal": (12, 64), "Event": (32, 32), "Trail": (128, 128)}  # and limit; in order of declaration
NUMBER = {"Animal": 1, "Event": 2, "Trail": 3}  # in handles; Keeper is 4, Command 5
COMMANDS = 5
LIFETIME, LONGEST = 4, 12

Handle = tuple[int, int, int, int]  # tag, table, tick, order
NONE: Handle = (0, 0, 0, 0)


@dataclass
class Row:
    birth: tuple[int, int]
    values: dict[str, object]


@dataclass
class World:
    """One world. ``tag`` is taken from the simulator, since it is a hash; it only has to be new in each episode."""

    tag: int = 0
    tick: int = 0
    episode: int = -1
    step: int = 0
    ended: bool = False
    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in CAPACITY})
    rooms: dict[str, int] = field(default_factory=lambda: {name: c for name, (c, _) in CAPACITY.items()})
    crowded: dict[str, int] = field(default_factory=dict)  # rows wanted, by table
    answers: list[tuple[int, int, Handle]] = field(default_factory=lambda: [(0, 0, NONE)] * COMMANDS)

    # ---- what the engine does ------------------------------------------------------------------------------------

    def find(self, handle: Handle) -> Row | None:
        for name, number in NUMBER.items():
            if handle[:2] == (self.tag, number):
                return next((row for row in self.rows[name] if row.birth == handle[2:]), None)
        return None

    def alive(self, handle: Handle) -> bool:
        fixed = {4: 1, 5: COMMANDS}.get(handle[1], 0)
        return self.find(handle) is not None or (handle[0] == self.tag and handle[2] == 0 and handle[3] < fixed)

    def handle(self, table: str, row: Row) -> Handle:
        return (self.tag, NUMBER[table], *row.birth)

    def grow(self) -> None:
        for name, wanted in self.crowded.items():
            self.rooms[name] = min(CAPACITY[name][1], 2 * self.rooms[name])
            while self.rooms[name] < wanted:
                self.rooms[name] = min(CAPACITY[name][1], 2 * self.rooms[name])
        self.crowded.clear()

    def note_crowding(self, name: str, rows: int) -> None:
        room, limit = self.rooms[name], CAPACITY[name][1]
        if rows >= room - room // 4 and room < limit:
            self.crowded[name] = max(self.crowded.get(name, 0), min(rows, limit))

    def settle(self, created: dict[str, list[Row]], destroyed: list[Row]) -> list[str]:
        """Apply what a node has done; returns the tables that were full."""
        full = []
        gone = {id(row) for row in destroyed}
        for name in CAPACITY:
            new = sorted(created.get(name, []), key=lambda row: row.birth)
            room, before = self.rooms[name], len(self.rows[name])
            if new:
                self.tick += 1
                self.note_crowding(name, before + len(new))
                if before + len(new) > room:
                    full.append(name)
                    new = []
            self.rows[name] = [row for row in self.rows[name] if id(row) not in gone] + new
        return full

    def begin(self, tag: int) -> list[tuple]:
        self.tag, self.tick, self.step, self.ended = tag, 1, 0, False
        self.episode += 1
        self.rows = {name: [] for name in CAPACITY}
        self.answers = [(0, 0, NONE)] * COMMANDS
        first = Row((1, 0), {"value": self.episode, "age": 0, "parent": NONE, "name": 0})
        second = Row((1, 1), {"value": 0, "age": 0, "parent": self.handle("Animal", first), "name": 7})
        return [("settle_in", 0, table) for table in self.settle({"Animal": [first, second]}, [])]

    def advance(self, commands: list[tuple[int, int, Handle]]) -> list[tuple]:
        """One step; returns the faults as (system, row, what)."""
        self.step += 1
        self.rows["Event"] = []
        faults = self._obey(commands)
        created: dict[str, list[Row]] = {}
        destroyed = []
        animals = self.rows["Animal"]
        for i, row in enumerate(animals):  # live
            row.values["age"] += 1
            odd, age = row.values["value"] % 2 == 1, row.values["age"]
            if odd and age > LIFETIME:
                destroyed.append(row)
                note = {"animal": self.handle("Animal", row), "value": row.values["value"], "seen": 0}
                created.setdefault("Event", []).append(Row((self.tick, self.order(i, len(animals))), note))
            if not odd and row.values["value"] % 2 == 0 and age > 2 * LIFETIME:
                destroyed.append(row)
        faults += [("live", 0, table) for table in self.settle(created, destroyed)]
        created = {}
        animals = self.rows["Animal"]
        for i, row in enumerate(animals):  # breed
            if row.values["value"] % 5 == 0 and row.values["age"] == 2:
                child = {"value": row.values["value"] + 1, "age": 0, "parent": self.handle("Animal", row), "name": 3}
                created.setdefault("Animal", []).append(Row((self.tick, self.order(i, len(animals))), child))
        faults += [("breed", 0, table) for table in self.settle(created, [])]
        animals = self.rows["Animal"]  # follow
        trails = [
            Row(
                (self.tick, len(animals) - i),
                {"animal": self.handle("Animal", row), "value": row.values["age"], "seen": 0},
            )
            for i, row in enumerate(animals)
        ]
        faults += [("follow", 0, table) for table in self.settle({"Trail": trails}, [])]
        for name in ("Event", "Trail"):  # read_notes
            for row in self.rows[name]:
                row.values["seen"] += 1 if self.alive(row.values["animal"]) else 100
        self.settle(
            {}, [row for row in self.rows["Trail"] if row.values["seen"] % 100 > 1 or row.values["seen"] >= 100]
        )
        self.ended = not self.rows["Animal"] or self.step >= LONGEST
        return faults

    @staticmethod
    def order(row: int, rows: int) -> int:
        return row << (32 - (rows - 1).bit_length())

    def _obey(self, commands: list[tuple[int, int, Handle]]) -> list[tuple]:
        faults: list[tuple] = []
        created: dict[str, list[Row]] = {}
        destroyed: list[Row] = []
        for i, (kind, value, target) in enumerate(commands):
            alive, seen, made = 0, 0, NONE
            order = self.order(i, COMMANDS)
            if kind in (1, 5):
                parent, age, name = (target, 1, 2) if kind == 5 else (NONE, 0, 1)
                row = Row((self.tick, order), {"value": value, "age": age, "parent": parent, "name": name})
                created.setdefault("Animal", []).append(row)
                made = self.handle("Animal", row)
            if kind == 2 or (kind == 3 and self.alive(target)):
                row = self.find(target)
                if row is None:
                    faults.append(("obey", i, "stale_entity"))
                else:
                    destroyed.append(row)
            if kind == 4:
                row = self.find(target)
                alive = int(self.alive(target))
                seen = row.values["value"] if row is not None and target[1] == NUMBER["Animal"] else -1
            if kind == 6:
                created.setdefault("Event", []).extend(
                    Row((self.tick, order + k), {"animal": NONE, "value": k, "seen": 0}) for k in range(value)
                )
            self.answers[i] = (alive, seen, made)
        return faults + [("obey", 0, table) for table in self.settle(created, destroyed)]

    # ---- what the host does ----------------------------------------------------------------------------------------

    def create(self, values: list[dict[str, object]]) -> bool:
        """Animals from outside; False if they are more than the limit."""
        needed = len(self.rows["Animal"]) + len(values)
        if needed > CAPACITY["Animal"][1]:
            return False
        while needed > self.rooms["Animal"]:
            self.rooms["Animal"] = min(CAPACITY["Animal"][1], 2 * self.rooms["Animal"])
        self.rows["Animal"] += [Row((self.tick, k), value) for k, value in enumerate(values)]
        self.tick += bool(values)
        if values:
            self.note_crowding("Animal", needed)
        return True

    def copied(self) -> World:
        return copy.deepcopy(self)

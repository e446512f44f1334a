"""A test environment of repeated systems: sparks that split and die, anvils, lanes and draws, all within ``Repeat``s.

Each kind of scratch is used in them too: of a singleton, of a component of an archetype, of tables with rows that are
always there (bins) and that come and go (links).

With ``written_out`` the same systems are listed as often as they run; without ``noise`` nothing is drawn, and the two
are the same to the bit.
"""

from __future__ import annotations

from gymnasium.spaces import Discrete

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Entity,
    Environment,
    Option,
    Parameters,
    Repeat,
    Reward,
    TaskGraph,
    component,
    f32,
    i32,
)


class Heat(Component):
    value: i32


class Life(Component):
    age: i32


class Rank(Component):
    number: i32


class Load(Component):
    weight: i32


class Link(Component):
    spark: Entity
    rank: i32


class Total(Component):
    weight: i32


class Metal(Component):
    size: i32
    draws: f32[2]


class Dead(Component):
    spark: Entity
    value: i32


class Blows(Component):
    count: i32


class View(Component):
    sparks: i32
    ashes: i32
    heat: i32
    looks: i32


def _log(times: int) -> type[Component]:
    return component("Log", heat=i32, outer=f32[times], inner=f32[2 * times])


class Forge(Environment):
    systems = "forge.h"
    constants = Constants(times=Option(3, minimum=1), written_out=False)
    parameters = Parameters(max_episode_steps=11, noise=True)
    archetypes = [
        Archetype("Spark", Heat, Life, Rank, capacity=32, limit=128),
        Archetype("Anvil", Heat, Metal, count=3),
        Archetype("Ash", Dead, capacity=32, limit=128, ephemeral=True),
        Archetype("Bin", Load, count=4, scratch=True),
        Archetype("Chain", Link, capacity=96, scratch=True),
        Archetype("Smith", Blows, View, Reward, count=1),
    ]
    scratch = [Rank, Total]
    observation, action = "Smith.View", "Smith.Blows"
    action_space = Discrete(3)

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.singletons = [_log(self.constants.times), Total]
        self.start = self._graph("light", Repeat(2, "shape", "catch_fire"))
        inside = Repeat(2, "split", "fade", "gather")
        scratched = ("rank", "chain", inside, "fill_bins", "add_up", "weigh_down")
        self.step = self._graph("strike", Repeat(self.constants.times, "glow", *scratched, "note", "copy"), "judge")
        self.observe = self._graph("clear", Repeat(2, "look"))

    def _graph(self, *items: str | Repeat) -> TaskGraph:
        return TaskGraph(*(written_out(items) if self.constants.written_out else items))


def written_out(items: tuple[str | Repeat, ...]) -> list[str]:
    """The names of systems in the order in which they run."""
    names: list[str] = []
    for item in items:
        names += item.times * written_out(item.items) if isinstance(item, Repeat) else [item]
    return names

"""A test environment of rows that come and go: commands from outside create and destroy animals, which breed and die.

tests/torch_batchsim/memory/test_entities.py has a model of it in plain Python.
"""

from gymnasium.spaces import Discrete

from torch_batchsim import Archetype, Component, Entity, Environment, Parameters, Reward, TaskGraph, i32

COMMANDS = 5  # a world obeys in a step


class Order(Component):
    kind: i32  # 0 nothing, 1 create, 2 destroy target, 3 the same if it is alive, 4 look, 5 a child of target, 6 spoil
    value: i32
    target: Entity


class Answer(Component):
    alive: i32
    value: i32
    made: Entity


class Body(Component):
    value: i32
    age: i32


class Kin(Component):
    parent: Entity
    name: i32


class Note(Component):
    animal: Entity
    value: i32
    seen: i32


class Choice(Component):
    eggs: i32


class View(Component):
    animals: i32
    notes: i32
    total: i32
    orphans: i32


class Sums(Component):
    by_warp: i32
    by_block: i32
    ballot: i32
    oldest: i32
    middle: i32


class Zoo(Environment):
    systems = "zoo.h"
    archetypes = [
        Archetype("Animal", Body, Kin, capacity=12, limit=64),
        Archetype("Keeper", Choice, View, Reward, count=1),
        Archetype("Command", Order, Answer, count=COMMANDS),
        Archetype("Event", Note, capacity=32, ephemeral=True),
        Archetype("Trail", Note, Kin, capacity=128),
    ]
    singletons = [Sums]
    parameters = Parameters(lifetime=4, max_episode_steps=12)
    start = TaskGraph("settle_in")
    step = TaskGraph(
        "obey", "hatch", "live", "breed", "follow", "read_notes", "fade", "add_by_warp", "add_by_block", "judge"
    )
    observe = TaskGraph("look")
    observation, action = "Keeper.View", "Keeper.Choice"
    action_space = Discrete(3)

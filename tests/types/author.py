"""What an author and a user write; type checkers must take all of it (.ci/check_types.py), and Python runs it."""

# ruff: noqa: B023 - a function of lanes is called where it stands

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch

import torch_batchsim as tbs
from torch_batchsim import (
    Archetype,
    Bits,
    Component,
    Constant,
    Constants,
    Entity,
    Environment,
    Option,
    Parameters,
    Reward,
    Struct,
    TaskGraph,
    TorchVectorEnv,
    Warp,
    World,
    Worlds,
    between,
    boolean,
    f32,
    function,
    i32,
    quat,
    system,
    u8,
    u64,
    write_bits,
    zeros,
)
from torch_batchsim.types import vec2, vec3, vec4

SIZE = Constant("size")


class Leg(Struct):
    angle: f32 = between(-1, 1)
    joints: vec2[2]
    touches: boolean


class Body(Component):
    x: f32
    speed: f32 = between(0, 1)
    velocity: tbs.f64[3]
    marks: u8[2, 3]
    walls: u8[SIZE, 2 * SIZE + 1]
    bits: u64
    place: vec3
    colour: vec4
    heading: quat
    holder: Entity
    legs: Annotated[Leg, 4]
    one: Leg


class Move(Component):
    x: i32 = between(0, 4)


@function
def furthest(distances: f32[SIZE], least: float) -> float:
    for distance in distances:
        least = max(least, distance)
    return least


@system
def look(world: World, body: Body) -> None:
    distances = zeros(f32, SIZE)
    distances[2] += body.x
    body.speed = furthest(distances, least=0.5)


class Code(Component):
    words: u64[3]
    shown: u8[143]


@function
def append_kind(bits: Bits, kind: int) -> None:
    bits.append(1 << kind if kind in (1, 2) else 0, 25)


@system
def encode(world: World, code: Code, warp: Warp) -> None:
    bits = Bits(143)
    append_kind(bits, 3)
    bits.store(code.words)
    write_bits(code.words, code.shown, warp)
    for table, bodies, codes in world.tables(Body, Code | None):

        def add(i: int) -> None:
            bodies[i].x += table.first + (codes[i].words[0] if codes is not None else 0)

        warp.for_each(table.count, add)


@system
def shift(worlds: Worlds[4], code: Code, warp: Warp) -> None:
    def read(i: int) -> None:
        stream = worlds[i].random_of(0)
        worlds[i].rows("Agent", Body)[0].x = stream.uniform() + worlds.parameters.speed

    warp.for_each(worlds.count, read)


class Walker(Environment):
    systems = "walker.h"
    archetypes = [Archetype("Agent", Body, Move, Reward, count=2)]
    constants = Constants(size=Option(9, minimum=3))
    parameters = Parameters(speed=0.5)
    action = "Agent.Move.x"
    step = TaskGraph("move")


def users() -> None:
    env: TorchVectorEnv = tbs.make_vec("cartpole", num_envs=8, device="cpu", num_threads=1)
    observations, infos = env.reset(seed=0)
    actions = torch.zeros(8, dtype=torch.int64)
    observations, rewards, terminations, truncations, infos = env.step(actions)
    first: torch.Tensor = env.sim.tensor("Cart.CartState.x")
    print(first + 1, rewards.sum(), terminations.any(), truncations.any(), observations, infos)
    agents: tbs.AgentsVectorEnv = tbs.make_vec("overcooked", 2, by_agent=True, layout="cramped_room")
    print(agents.possible_agents, np.asarray(first))
    env.close()

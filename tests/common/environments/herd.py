"""A test environment of systems on several lanes, over herds of any size."""

from gymnasium.spaces import Discrete

from torch_batchsim import (
    Archetype,
    Component,
    Environment,
    Parameters,
    Reward,
    TaskGraph,
    boolean,
    component,
    f32,
    i32,
    u32,
)


class Wool(Component):
    weight: f32
    number: i32
    before: i32  # numbers of the sheep before this one, summed


class Choice(Component):
    born: i32


class View(Component):
    sheep: i32


def _sums(name: str) -> type[Component]:
    return component(
        name, sum=f32, least=f32, most=f32, told=f32, total=i32, odd=u32, ballot=u32, any=boolean, all=boolean
    )


class Herd(Environment):
    systems = "herd.h"
    archetypes = [
        Archetype("Sheep", Wool, capacity=700, limit=8192),
        Archetype("Keeper", Choice, View, Reward, count=1),
    ]
    singletons = [_sums("WarpSums"), _sums("BlockSums")]
    parameters = Parameters(max_episode_steps=1000)
    step = TaskGraph("lamb", "weigh_by_warp", "weigh_by_block", "cull", "number_off", "shift", "judge")
    observe = TaskGraph("look")
    observation, action = "Keeper.View", "Keeper.Choice.born"
    action_space = Discrete(1000)

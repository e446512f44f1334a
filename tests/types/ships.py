"""In front of the parts of ships.py on the page about writing an environment: what those parts use."""

# ruff: noqa: F401
from torch_batchsim import Component, Entity, Reward, Warp, World, f32, i32, system


class Place(Component):
    x: f32
    y: f32


class Motion(Component):
    x: f32
    y: f32


class Choice(Component):
    fire: i32


class View(Component):
    bullets: i32


class Shot(Component):
    owner: Entity
    left: i32


class Pair(Component):
    bullet: Entity
    target: Entity


@system
def resolve(world: World, pair: Pair) -> None:
    if not world.alive(pair.bullet):
        pair.target = pair.bullet

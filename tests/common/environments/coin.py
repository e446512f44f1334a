"""A coin that no player sees decides all rewards: of one player its side, of the other the opposite, in every step."""

from __future__ import annotations

from torch_batchsim import (
    Archetype,
    Component,
    Constants,
    Environment,
    Option,
    Reward,
    TaskGraph,
    between,
    f32,
    i32,
)


class Coin(Component):
    side: f32


class Guess(Component):
    side: i32 = between(0, 1)


class View(Component):
    first: f32 = between(0, 1)
    guess: f32 = between(0, 1)


class Truth(Component):
    side: f32 = between(-1, 1)


class CoinToss(Environment):
    systems = "coin.h"
    archetypes = [Archetype("Player", Guess, View, Truth, Reward, count=2)]
    singletons = (Coin,)
    constants = Constants(steps=Option(5, minimum=1, help="of an episode, which is then cut short"))
    start = TaskGraph("toss")
    step = TaskGraph("pay", "finish")
    observe = TaskGraph("look")
    observation, action = "Player.View", "Player.Guess"
    critic = {"truth": "Player.Truth"}

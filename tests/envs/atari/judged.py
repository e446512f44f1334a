"""The rules of Atari's games without a console: a world for each game, to which a test gives the RAM of each frame."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch_batchsim.envs import atari
from torch_batchsim.envs.atari.games import GAMES, Title
from torch_batchsim.envs.atari.rules import Game, games_constants

from torch_batchsim import Archetype, Component, Environment, Reward, Simulator, TaskGraph, between, boolean, u8


class Ram(Component):
    bytes: u8[128]


class CartridgeRam(Component):
    bytes: u8[128]


class Choice(Component):
    title: u8 = between(0, 103)


class Frame(Component):
    begins: boolean  # an episode, before it


class Rules(Environment):
    systems = "judged.h"
    include = (str(Path(atari.__file__).parent),)
    archetypes = [Archetype("Console", Ram, CartridgeRam, Choice, Frame, Game, Reward, count=1)]
    enums = (Title,)
    step = TaskGraph("judge")
    action, observation = "Console.Choice", "Console.Ram"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.names = tuple(names)
        self.add_constants(**games_constants(GAMES[name] for name in self.names))


class Judged:
    """Worlds, one for each name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.sim = Simulator(Rules(self.names), len(self.names), num_threads=1)
        self.sim.reset()
        titles = torch.tensor([GAMES[name].title for name in self.names], dtype=torch.uint8)
        self.sim.tensor("Console.Choice")[:] = titles[:, None]
        self._columns = {
            name: self.sim.tensor(f"Console.{name}")[:, 0]
            for name in ("Ram.bytes", "CartridgeRam.bytes", "Frame.begins", "Game.reward", "Game.lives", "Game.over")
        }

    def frame(
        self, ram: np.ndarray, begins: np.ndarray, cartridge: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rewards, lives and ends of a frame after which the RAM is ``ram [games, 128]``."""
        columns = self._columns
        columns["Ram.bytes"][:] = torch.from_numpy(ram)
        columns["Frame.begins"][:] = torch.from_numpy(begins)
        if cartridge is not None:
            columns["CartridgeRam.bytes"][:] = torch.from_numpy(cartridge)
        self.sim.step()
        reward, lives, over = (columns[f"Game.{name}"].numpy().copy() for name in ("reward", "lives", "over"))
        return reward, lives, over

"""Search play that earns a reward, for tests/envs/atari/played.py: a seed of held actions, or a script.

    python tests/oracles/search_atari_rewards.py seeds tetris --longest 40 --frames 2500
    python tests/oracles/search_atari_rewards.py script montezuma_revenge --cells 0x83 0xAA:2 0xAB:2 0xC1

`seeds` plays many worlds, each by a seed of its own. `script` goes on from saved states, as Go-Explore does (Ecoffet et
al. 2021): it draws states, seldom those drawn often, plays on at random, and keeps a state if the bytes of RAM that
`--cells` names, shifted to the right, have new values. ale-py must be installed.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from gymnasium.vector import AutoresetMode

sys.path.insert(0, str(Path(__file__).parents[1] / "envs" / "atari"))
from own_roms import AS_ALE
from played import held_actions
from torch_batchsim.envs.atari.env import Atari
from torch_batchsim.envs.atari.games import GAMES

from torch_batchsim import Simulator
from torch_batchsim.memory.state import as_bytes, state_tensors

WORLDS = 96
SPAN = 100  # frames that are played on from a state


class Consoles:
    """Consoles of a game that all stand at its start, and can be saved one by one."""

    def __init__(self, game: str) -> None:
        environment = Atari(game=game, obs="ram", **AS_ALE)
        self.sim = Simulator(environment, WORLDS, num_threads=1, autoreset=AutoresetMode.DISABLED)
        self.sim.reset(seed=0)
        shared = self.sim.memory.resource_fields()
        tensors = state_tensors(self.sim.program, self.sim.memory)
        own = (as_bytes(tensor) for name, tensor in tensors.items() if name not in shared and tensor.numel())
        self.columns = [tensor.view(WORLDS, -1).numpy() for tensor in own]
        self.ram = self.sim.tensor("Ram.bytes").numpy()
        self.rewards = self.sim.tensor("Console.Reward.value").view(-1).numpy()
        self.over = self.sim.memory.columns["terminated"].numpy()

    def save(self, world: int) -> list[np.ndarray]:
        return [column[world].copy() for column in self.columns]

    def load(self, world: int, state: list[np.ndarray]) -> None:
        for column, saved in zip(self.columns, state, strict=True):
            column[world] = saved

    def frame(self, actions: np.ndarray) -> None:
        chosen = self.sim.tensor("Console.Choice.action")
        chosen[:] = torch.from_numpy(actions).to(chosen.dtype).view(chosen.shape)
        self.sim.step()


def find_seed(game: str, first: int, longest: int, frames: int) -> str:
    consoles = Consoles(game)
    plays = [held_actions(game, first + world, longest) for world in range(WORLDS)]
    over = np.zeros(WORLDS, bool)
    for frame in range(frames):
        consoles.frame(np.array([next(play) for play in plays]))
        found = np.flatnonzero((consoles.rewards != 0) & ~over)
        if len(found):
            return f'"{game}": ({first + found[0]}, {longest}, {frame + 1}),  # {consoles.rewards[found[0]]:g}'
        over |= consoles.over
    return f"{game}: no reward in {frames} frames of {WORLDS} seeds"


def find_script(game: str, cells: list[str], longest: int, seconds: float, seed: int) -> str:
    consoles, rng, began = Consoles(game), np.random.default_rng(seed), time.monotonic()
    legal = np.array([int(action) for action in GAMES[game].minimal_actions])
    places = [(int(byte, 0) & 0x7F, int(shift or 0)) for byte, _, shift in (cell.partition(":") for cell in cells)]

    def cell(world: int) -> tuple[int, ...]:
        return tuple(int(consoles.ram[world, byte]) >> shift for byte, shift in places)

    states, paths, draws = [consoles.save(0)], [(-1, [])], [0]  # a path: the state before, and actions since
    known = {cell(0)}

    def script(state: int, since: list[int]) -> str:
        actions = list(since)
        while state >= 0:
            state, before = paths[state]
            actions = before + actions
        runs = [(action, len(list(run))) for action, run in groupby(actions)]
        return f"{game}, {len(actions)} frames:\n" + " ".join(f"{action}x{count}" for action, count in runs)

    while time.monotonic() - began < seconds:
        weights = 1 / np.sqrt(np.array(draws) + 1.0)
        from_state = rng.choice(len(states), WORLDS, p=weights / weights.sum())
        for world, state in enumerate(from_state):
            draws[state] += 1
            consoles.load(world, states[state])
        since: list[list[int]] = [[] for _ in range(WORLDS)]
        actions, left, over = np.zeros(WORLDS, int), np.zeros(WORLDS, int), np.zeros(WORLDS, bool)
        for frame in range(SPAN):
            ended = left == 0
            actions[ended] = rng.choice(legal, ended.sum())
            left[ended] = rng.integers(1, longest + 1, ended.sum())
            left -= 1
            consoles.frame(actions)
            for world in np.flatnonzero(~over):
                since[world].append(int(actions[world]))
                if consoles.rewards[world] > 0:
                    return script(int(from_state[world]), since[world])
                if frame % 4 == 3 and not consoles.over[world] and (found := cell(world)) not in known:
                    known.add(found)
                    states.append(consoles.save(world))
                    paths.append((int(from_state[world]), since[world]))
                    draws.append(0)
                    from_state[world], since[world] = len(states) - 1, []
            over |= consoles.over
    return f"{game}: no reward in {seconds} seconds and {len(states)} states"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("how", choices=("seeds", "script"))
    parser.add_argument("game", choices=list(GAMES))
    parser.add_argument("--cells", nargs="+", default=[], help="bytes of RAM, as 0x83, or 0xAA:2 shifted")
    parser.add_argument("--longest", type=int, default=20, help="frames that an action is held at most")
    parser.add_argument("--frames", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.how == "seeds":
        print(find_seed(given.game, given.seed, given.longest, given.frames))
    else:
        print(find_script(given.game, given.cells, given.longest, given.seconds, given.seed))

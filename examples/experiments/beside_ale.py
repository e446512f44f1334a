"""Frames per second of Atari games beside ale-py, on one thread, in one process and in turns.

ale-py draws every frame. Ours are measured not drawn (``obs="ram"``), with 2 of 4 frames drawn, as for any picture,
and with all drawn. The chain is what a step with ``obs="84x84"`` takes beyond its frames: the brighter of two frames,
84 x 84 by area, the stack, the observation. All play random actions of 4 frames, from ale-py's starts, with resets.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_batchsim.envs.atari.env import Atari
from torch_batchsim.envs.atari.games import GAMES

import torch_batchsim
from torch_batchsim.base.text import table
from torch_batchsim.bench.report import machine_facts, made_folder
from torch_batchsim.command_line import UsageError, parsed
from torch_batchsim.testing import random_actions

SKIP = 4  # frames of an action
OURS: dict[str, dict[str, Any]] = {
    "not_drawn": {"obs": "ram"},
    "2_of_4_drawn": {"obs": "ram", "pictures": True},
    "all_drawn": {"obs": "ram", "pictures": True, "frame_skip": 2},
    "84x84": {"obs": "84x84"},
}
Play = Callable[[int], int]
"""From a number of steps to the frames that they have played."""


@dataclass
class Options:
    """Frames per second of Atari games beside ale-py, on one thread."""

    games: tuple[str, ...] = ("pong", "breakout", "seaquest", "ms_pacman", "montezuma_revenge")
    """Which games to measure."""
    num_worlds: int = 32
    """Our consoles side by side; ale-py has one."""
    seconds: float = 0.25
    """CPU time of a turn."""
    runs: int = 7
    """Turns of each; a figure is the median of all."""
    compiled: bool = False
    """Compile the games' ROMs."""
    json: Path = Path("runs/bench-ale.json")
    """File for the figures."""


def ours(game: str, num_worlds: int, options: dict[str, Any]) -> Play:
    env = torch_batchsim.make_vec(
        Atari, game=game, num_worlds=num_worlds, num_threads=1, start="ale", noop_max=0, fire_at_reset=False, **options
    )
    env.reset(seed=0)
    actions = random_actions(env)
    frames, steps = num_worlds * options.get("frame_skip", SKIP), 0

    def play(count: int) -> int:
        nonlocal steps
        for _ in range(count):
            env.step(actions[steps % len(actions)])
            steps += 1
        return count * frames

    return play


def ale_py(game: str) -> Play:
    import ale_py
    from ale_py import roms

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", 1)
    ale.setInt("frame_skip", SKIP)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(str(roms.get_rom_path(game)))
    known = ale.getMinimalActionSet()
    chosen = torch.randint(0, len(known), (997,), generator=torch.Generator().manual_seed(0)).tolist()
    actions, steps = [known[i] for i in chosen], 0

    def play(count: int) -> int:
        nonlocal steps
        for _ in range(count):
            if ale.game_over():
                ale.reset_game()
            ale.act(actions[steps % len(actions)])
            steps += 1
        return count * SKIP

    return play


def contenders(game: str, num_worlds: int, compiled: bool = False) -> dict[str, Play]:
    made = {name: ours(game, num_worlds, {**options, "compiled": compiled}) for name, options in OURS.items()}
    return {"ale_py": ale_py(game), **made}


def measured(plays: dict[str, Play], seconds: float, runs: int) -> dict[str, list[float]]:
    """Microseconds of a frame, of each in each turn."""

    def timed(play: Play, count: int) -> float:
        started = time.process_time()
        frames = play(count)
        return (time.process_time() - started) * 1e6 / frames

    counts = {}
    for name, play in plays.items():
        play(2)
        counts[name] = max(1, int(seconds * 1e6 / (timed(play, 8) * play(1))))
    turns = [{name: timed(play, counts[name]) for name, play in plays.items()} for _ in range(runs)]
    return {name: [turn[name] for turn in turns] for name in plays}


def row_of(game: str, times: dict[str, list[float]]) -> dict[str, Any]:
    ratio = {name: [a / b for a, b in zip(times["ale_py"], times[name], strict=True)] for name in OURS}
    chain = [SKIP * (a - b) for a, b in zip(times["84x84"], times["2_of_4_drawn"], strict=True)]
    return {
        "game": game,
        "ale_py_frames_per_second": round(1e6 / statistics.median(times["ale_py"])),
        **{f"{name}_is_faster_by": f"{statistics.median(each):.2f}" for name, each in ratio.items()},
        "chain_us_per_step": f"{statistics.median(chain):.1f}",
    }


def main(arguments: Sequence[str]) -> None:
    """Measure, print a table, write JSON."""
    options = parsed(Options, "python examples/experiments/beside_ale.py", arguments)
    unknown = [name for name in options.games if name not in GAMES]
    if unknown or not options.games:
        raise UsageError(f"--games takes names of torch_batchsim.envs.atari.games, got {', '.join(unknown) or 'none'}")
    if min(options.num_worlds, options.runs) < 1 or options.seconds <= 0:
        raise UsageError("--num-worlds, --runs and --seconds must be positive")
    made_folder(options.json.parent, "--json")
    rows = []
    for game in options.games:
        print(f"measuring {game}", file=sys.stderr, flush=True)
        plays = contenders(game, options.num_worlds, options.compiled)
        rows.append(row_of(game, measured(plays, options.seconds, options.runs)))
    facts = {"num_worlds": options.num_worlds, "compiled": options.compiled}
    result = {"benchmark": "ale", **facts, "rows": rows, "machine": machine_facts("cpu")}
    print(table(rows))
    print("  ".join(f"{key} {value}" for key, value in result["machine"].items()))
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    print(f"written to {options.json}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Checkpoints against each other, in environments with two teams: each pair plays both sides, and all get a rating.

``python -m torch_batchsim.train.match runs/a runs/b random``
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import torch
from gymnasium.vector import VectorEnv
from torch import Tensor

from torch_batchsim import WorldFault
from torch_batchsim.base.extras import command_needs
from torch_batchsim.command_line import Parser, UsageError

from .rollouts.environment import num_agents
from .rollouts.evaluation import UNMEASURED, evaluate
from .run_folder import checkpoint
from .run_folder.loading import agents_of, env_of

PROGRAM = "python -m torch_batchsim.train.match"
RANDOM = "random"
"""The name of the policy that has not been trained."""


@dataclass(frozen=True)
class Games:
    """Of one policy against another, on both sides together. A draw counts half."""

    wins: int
    draws: int
    losses: int

    @property
    def played(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def share(self) -> float:
        return (self.wins + self.draws / 2) / self.played

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds of the share with 95 % confidence (Wilson 1927); draws make the true interval narrower."""
        n, p, z = self.played, self.share, 1.96
        middle, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        low, high = ((middle + sign * spread) / (1 + z * z / n) for sign in (-1, 1))
        return max(0.0, low), min(1.0, high)

    @property
    def turned(self) -> Games:
        return Games(self.losses, self.draws, self.wins)


def ratings(names: Sequence[str], games: dict[tuple[str, str], Games]) -> dict[str, float]:
    """Elo ratings with a mean of 0: 400 more are ten times the odds.

    The most likely ones (Bradley and Terry 1952, by the iteration of Hunter 2004), given all games and one draw more of
    each pair, without which who has never lost would have none.
    """
    won = dict.fromkeys(names, 0.0)
    for (a, b), result in games.items():
        won[a] += result.wins + result.draws / 2 + 0.5
        won[b] += result.losses + result.draws / 2 + 0.5
    strength = dict.fromkeys(names, 1.0)
    for _ in range(10_000):
        before = strength
        faced = dict.fromkeys(names, 0.0)
        for (a, b), result in games.items():
            weight = (result.played + 1) / (before[a] + before[b])
            faced[a] += weight
            faced[b] += weight
        strength = {name: won[name] / faced[name] for name in names}
        mean = math.exp(sum(map(math.log, strength.values())) / len(names))
        strength = {name: value / mean for name, value in strength.items()}
        if all(abs(strength[name] / before[name] - 1) < 1e-9 for name in names):
            break
    return {name: 400 * math.log10(value) for name, value in strength.items()}


def play(env: VectorEnv, first: Any, second: Any, seed: int, likeliest: bool = False) -> Games:
    """One game in each world: ``first`` acts for the team with the lower number, ``second`` for the other.

    Each is what ``agents_of`` gives, or None: untrained. The team whose agents have the greater mean return wins.
    Raises ValueError where the environment has not two teams, and the errors of ``evaluate``.
    """
    team = env.reset(seed=seed)[1].get("team")
    numbers = [] if team is None else team.unique().tolist()
    if len(numbers) != 2:
        raise ValueError(f"a match needs an environment with two teams, and this one has {len(numbers) or 'none'}")
    sides = dict(zip(numbers, (first, second), strict=True))
    some = second if first is None else first  # stands in where actions are drawn anew
    if some is None:
        raise ValueError(f"{RANDOM} plays {RANDOM}: give a checkpoint")
    team = team.clone()
    untrained = torch.zeros_like(team, dtype=torch.bool)
    for number, agents in sides.items():
        untrained |= (team == number) & (agents is None)
    acting = {number: _of_team(some if agents is None else agents, number) for number, agents in sides.items()}
    found = evaluate(env, acting, seed, likeliest, untrained=untrained, by_reward=True)
    spoilt = ~found.returns.isfinite() & (found.lengths > 0)
    if spoilt.any():
        row = int(spoilt.nonzero()[0])
        world, agent = divmod(row, num_agents(env))
        raise ValueError(f"the return of world {world}, agent {agent} is {found.returns[row]}: nobody wins that game")
    a, b = (_mean_of(found.returns, found.lengths, team == number, num_agents(env)) for number in numbers)
    return Games(int((a > b).sum()), int((a == b).sum()), int((a < b).sum()))


def _of_team(agents: Any, number: int) -> Any:
    return agents[number] if isinstance(agents, dict) else agents


def _mean_of(returns: Tensor, lengths: Tensor, rows: Tensor, agents: int) -> Tensor:
    """The mean return of some rows in each world, of those that took part: float32 `[worlds]`."""
    counted = (rows & (lengths > 0)).view(-1, agents)
    return torch.where(counted, returns.view(-1, agents), 0.0).sum(1) / counted.sum(1).clamp(min=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Play, print a table, write JSON if asked. Raises UsageError, and SystemExit with status 1 where a game fails."""
    parser = Parser(PROGRAM, description=__doc__)
    parser.add_argument("policies", nargs="+", help="checkpoints, runs, folders of checkpoints such as "
                        "runs/.../league, and random: two or more policies")
    parser.add_argument("--episodes", type=int, default=1000, metavar="N", help="of each pair on each side (1000)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the games (1)")
    parser.add_argument("--likeliest", action="store_true", help="policies take their likeliest actions")
    parser.add_argument("--device", default="cpu", help="where simulator and networks run (cpu)")
    parser.add_argument("--env", metavar="NAME", help=checkpoint.HELP_OF_ENV)
    parser.add_argument("--json", type=Path, help="file for the figures")
    options = parser.parse_args(arguments)
    try:
        _run(options)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except UNMEASURED as error:
        reason = error.faults[0] if isinstance(error, WorldFault) else error
        raise SystemExit(f"error: a game failed: {reason}") from error


def _run(options: argparse.Namespace) -> None:
    names = _whole_leagues(options.policies)
    if options.episodes < 1:
        raise ValueError(f"--episodes is {options.episodes}, but must be at least 1")
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"a match is of two policies or more, each given once, not of {', '.join(names)}")
    if options.json and (options.json.is_dir() or not options.json.absolute().parent.is_dir()):
        raise ValueError(f"--json names {options.json}, which cannot be written")
    contents = _contents(names)
    some = next(iter(contents.values()))
    env = env_of(some, options.env, num_worlds=options.episodes, device=options.device)
    agents, games = _agents(names, contents, env), {}
    for a, b in combinations(names, 2):
        one = play(env, agents[a], agents[b], options.seed, options.likeliest)
        other = play(env, agents[b], agents[a], options.seed, options.likeliest).turned
        games[a, b] = Games(one.wins + other.wins, one.draws + other.draws, one.losses + other.losses)
    env.close()
    rated = ratings(names, games)
    how = "likeliest" if options.likeliest else "drawn"
    drawn = sum(each.draws for each in games.values()) / sum(each.played for each in games.values())
    print(f"{some['env']} {some['env_options']}, {options.episodes} games of each pair on each side, {how} actions;")
    print(f"{drawn:.1%} of all games are draws, which count half")
    print(table(names, games, rated))
    if options.json:
        figures = [
            {"policies": list(pair), "wins": g.wins, "draws": g.draws, "losses": g.losses, "interval": g.interval}
            for pair, g in games.items()
        ]
        result = {"env": some["env"], "env_options": some["env_options"], "games": figures, "ratings": rated}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def _whole_leagues(names: Sequence[str]) -> list[str]:
    """With the files in place of a folder of them, such as runs/.../league; a run's own folder is its checkpoint."""
    found = []
    for name in names:
        files = sorted(map(str, Path(name).glob("*.pt"))) if Path(name).is_dir() else []
        found += files if files and not (Path(name) / "checkpoint.pt").exists() else [name]
    return found


def _contents(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Of all checkpoints that are named; raises ValueError where these are not of one task."""
    paths = {name: checkpoint.find(Path(name), None) for name in names if name != RANDOM}
    meant: dict[Path, str] = {}
    for name, path in paths.items():
        if (before := meant.setdefault(path.resolve(), name)) != name:
            raise ValueError(f"{before} and {name} are the same checkpoint, {path}: give each once")
    found = {name: checkpoint.load(path, None) for name, path in paths.items()}
    first, *others = found
    for name in others:
        for fact in ("env", "env_options"):
            if found[name][fact] != found[first][fact]:
                raise ValueError(f"{name} was trained in {found[name][fact]}, {first} in {found[first][fact]}")
    return found


def _agents(names: Sequence[str], contents: dict[str, dict[str, Any]], env: VectorEnv) -> dict[str, Any]:
    return {name: None if name == RANDOM else agents_of(contents[name]["trainer"], env) for name in names}


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Paths without the folders that all of them are in, and without the ending of checkpoints, where these differ."""
    paths = {name: Path(name).absolute() for name in names if name != RANDOM}
    shared = os.path.commonpath([path.parent for path in paths.values()])
    short = {name: str(path.relative_to(shared)).removesuffix(".pt") for name, path in paths.items()}
    return {name: short.get(name, name) if len(set(short.values())) == len(short) else name for name in names}


def table(names: Sequence[str], games: dict[tuple[str, str], Games], rated: dict[str, float]) -> str:
    """In Markdown, the strongest first: the share of games that each has won of the others, and its rating."""
    order, short = sorted(names, key=lambda name: -rated[name]), short_names(names)
    lines = [f"| | rating | {' | '.join(f'against {short[name]}' for name in order)} |"]
    lines.append("|---|---:" + "|---:" * len(order) + "|")
    for a in order:
        cells = []
        for b in order:
            of = games.get((a, b)) or (games[b, a].turned if (b, a) in games else None)
            cells.append("" if of is None else f"{of.share:.1%} ({of.interval[0]:.1%} to {of.interval[1]:.1%})")
        lines.append(f"| {short[a]} | {rated[a]:+.0f} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    command_needs("tyro", "tqdm", "tensorboard", "matplotlib", "PIL")
    main()

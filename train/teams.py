"""Measures what each team has learned: after trainings with several seeds, trained teams meet untrained ones.

``python -m torch_batchsim.train.teams --help``
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import torch
from gymnasium.vector import VectorEnv

from torch_batchsim import CheckpointError, WorldFault
from torch_batchsim.base.extras import command_needs
from torch_batchsim.command_line import Parser, environment_class

from .base.errors import UsageError

PROGRAM = "python -m torch_batchsim.train.teams"
BOTH, NONE = "all trained", "none trained"


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, compare, print a table, write JSON; returns the exit status, 1 where ``--wanted`` is missed or a
    score is undefined."""
    parser = Parser(PROGRAM, description=__doc__, epilog=_EPILOG)
    parser.add_argument("environment", help="one with teams and a score: hideseek, or an id")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="how many trainings (5)")
    parser.add_argument("--first-seed", type=int, default=1, metavar="N", help="of the first training (1)")
    parser.add_argument("--folder", type=Path, help="for the trainings; finished ones that are there are not repeated")
    parser.add_argument("--episodes", type=int, default=1000, metavar="N", help="of each comparison (1000)")
    parser.add_argument("--likeliest", action="store_true", help="trained teams take their likeliest actions")
    parser.add_argument("--wanted", type=float, nargs="+", metavar="X", help="for each team, the wanted factor of "
                        "the score by its training: less than 1 at most, more than 1 at least")  # fmt: skip
    parser.add_argument("--json", type=Path, help="file for the figures; <folder>/teams.json if not given")
    options, training = parser.parse_known_args(arguments)
    try:
        return _run(options, training)
    except (UsageError, CheckpointError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


_EPILOG = (
    "All other options are those of python -m torch_batchsim.train, such as --preset walls --total-steps 1000000. An "
    "untrained team takes all choices with the same probability."
)


def _run(options: argparse.Namespace, training: list[str]) -> int:
    for name in ("seeds", "episodes"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name} is {getattr(options, name)}, but must be at least 1")
    _refuse_what_has_none(options.environment)
    name = "-".join(["teams", options.environment, *training]).replace("--", "").replace("/", "_")
    folder = options.folder or Path("runs") / name
    path, rows = options.json or folder / "teams.json", []
    if options.json and (path.is_dir() or not path.parent.is_dir()):
        raise UsageError(f"--json names {path}, which cannot be written")
    undefined: list[str] = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        contents = _trained(options.environment, training, seed, folder / f"seed{seed}")
        rows.append({"seed": seed, "steps": contents["steps"], "train_seconds": contents["train_seconds"]})
        rows[-1] |= compare(contents, options.episodes, seed, options.likeliest)
        undefined += [f"seed {seed}: {reason}" for reason in rows[-1]["undefined"].values()]
        wanted, teams = options.wanted or [], len(rows[-1]["factors"])
        if wanted and len(wanted) != teams:
            raise UsageError(f"--wanted takes a number for each of {teams} teams, but {len(wanted)} were given")
        result = {"env": contents["env"], "env_options": contents["env_options"], "episodes": options.episodes}
        result |= {"actions": "likeliest" if options.likeliest else "drawn", "seeds": rows}
        path.write_text(json.dumps(result, indent=2) + "\n")  # after each seed, because trainings take long
    print(f"{result['env']} {result['env_options']}, {options.episodes} games each, {result['actions']} actions")
    print(_table(rows))
    print(f"written to {path}")
    if undefined:
        print(f"error: scores are undefined, so factors are: {'; '.join(undefined)}", file=sys.stderr)
        return 1
    factors = [row["factors"] for row in rows]
    wanted = options.wanted or [1.0] * len(factors[0])
    return 0 if all(_is_met(*pair) for row in factors for pair in zip(row, wanted, strict=True)) else 1


def _refuse_what_has_none(environment: str) -> None:
    """Raise UsageError, before anything is trained, for an environment whose class names no teams or no score."""
    from .commands.options import find_environment

    env_id = find_environment(environment)
    try:
        declared = environment_class(env_id)
    except (ValueError, gymnasium.error.Error) as error:
        raise UsageError(str(error)) from error
    lacks = "teams" if declared.team is None else "score" if not declared.metadata.get("score") else ""
    if lacks:
        raise UsageError(f"{env_id} has no {lacks}, and cannot be compared by it")


def _is_met(factor: float | None, wanted: float) -> bool:
    return wanted == 1 or (factor is not None and (factor <= wanted if wanted < 1 else factor >= wanted))


def _trained(environment: str, training: list[str], seed: int, folder: Path) -> dict[str, Any]:
    """The checkpoint of a training to its end, which is begun, gone on with, or there."""
    from .commands import cli
    from .commands.options import find_environment
    from .run_folder import checkpoint

    env_id = find_environment(environment)
    found = checkpoint.last_good(folder, env_id)
    if found and _is_finished(found[1]):
        return found[1]
    how = ["--resume", found[0]] if found else ["--seed", seed, "--run-dir", folder, *training]
    if cli.main([environment, "--eval-episodes", "0", *map(str, how)]):
        raise UsageError(f"the training with seed {seed} has not ended well")
    return checkpoint.load(folder / checkpoint.NAME, env_id)


def _is_finished(contents: dict[str, Any]) -> bool:
    config = contents["trainer"]["config"]
    return contents["trainer"]["iteration"] == config["total_steps"] // (config["num_steps"] * config["num_envs"])


def compare(contents: dict[str, Any], episodes: int, seed: int, likeliest: bool = False) -> dict[str, Any]:
    """Mean scores of a checkpoint's policy with all teams trained, each of them untrained, and none trained.

    ``factors`` are, for each team, the score with all trained over that with this team untrained; None where that is 0
    or undefined. ``undefined`` has the reason for each score that is None: an episode did not end, or its score is NaN.
    Raises UsageError where the environment has no teams or no score.
    """
    from .rollouts.evaluation import SEED_OFFSET, UNMEASURED, evaluate
    from .run_folder.loading import agents_of

    env = gymnasium.make_vec(contents["env"], num_worlds=episodes, **contents["env_options"])
    teams = _teams(env)
    agents = agents_of(contents["trainer"], env)
    numbers = teams.unique().tolist()
    untrained = {BOTH: None, **{f"team {n} untrained": teams == n for n in numbers}, NONE: teams >= teams.min()}

    scores: dict[str, float | None] = {}
    undefined: dict[str, str] = {}
    for name, rows in untrained.items():
        try:
            scores[name] = _mean(*evaluate(env, agents, seed + SEED_OFFSET, likeliest, untrained=rows))
        except (ValueError, *UNMEASURED) as error:
            reason = error.faults[0] if isinstance(error, WorldFault) else error
            scores[name], undefined[name] = None, f"with {name} {reason}"
    env.close()
    factors = [_factor(scores[BOTH], scores[f"team {n} untrained"]) for n in numbers]
    return {"scores": scores, "factors": factors, "undefined": undefined}


def _mean(scores: torch.Tensor, lengths: torch.Tensor) -> float:
    """Of those who took part. Raises ValueError where it is undefined."""
    scores = scores[lengths > 0]
    missing = int((~scores.isfinite()).sum())
    if missing or not len(scores):
        raise ValueError(f"{missing:,} of {len(scores):,} scores are not finite" if missing else "nobody took part")
    return scores.mean().item()


def _factor(trained: float | None, other: float | None) -> float | None:
    return trained / other if trained is not None and other else None


def _teams(env: VectorEnv) -> torch.Tensor:
    """Which team each row is of, int `[N]`."""
    teams = env.reset(seed=0)[1].get("team")
    if teams is None or not env.metadata.get("score"):
        raise UsageError(f"{env.spec.id} has no {'teams' if teams is None else 'score'}, and cannot be compared by it")
    return teams.clone()


def _table(rows: list[dict[str, Any]]) -> str:
    """A table in Markdown."""
    titles = [*rows[0]["scores"], *(f"team {i} trained: times" for i in range(len(rows[0]["factors"])))]
    lines = [" | ".join(["| seed", "steps", "seconds", *titles]) + " |", "|---:" * (3 + len(titles)) + "|"]
    for row in rows:
        numbers = ["-" if value is None else f"{value:.3f}" for value in row["scores"].values()]
        numbers += ["-" if value is None else f"{value:.2f}" for value in row["factors"]]
        lines.append(f"| {row['seed']} | {row['steps']:,} | {row['train_seconds']:.0f} | {' | '.join(numbers)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    command_needs("tyro", "tqdm", "tensorboard", "matplotlib", "PIL")
    sys.exit(main())

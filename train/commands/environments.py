"""The environments of a command: for a training, its evaluation, its random policy and its video."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import gymnasium
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from torch_batchsim import WorldFault

from ..algorithms import learner_of
from ..base.config import Config
from ..base.errors import RunError, UsageError
from ..base.ranks import Ranks
from ..rollouts.environment import num_agents
from ..run_folder.tape import check_recordable
from ..run_folder.video import Recorder, has_pictures
from ..run_folder.viewing import Viewed
from . import processes
from .options import Options, tuned

STANDS = {"autoreset_mode": AutoresetMode.DISABLED}
"""Of an environment for a recording: worlds that have ended stand still, which keeps the last state."""
DRAWN = {"render_mode": "rgb_array", **STANDS}
"""Of an environment for a video."""


def make_env(env_id: str, options: Options, env_options: dict[str, Any], **others: Any) -> VectorEnv:
    own = {"device": options.device, **options.run_options()}  # threads are torch's
    with user_errors():
        return gymnasium.make_vec(env_id, **others, **own, **env_options)


def make_part(env_id: str, options: Options, env_options: dict[str, Any], ranks: Ranks) -> VectorEnv:
    """The worlds of this process, of those of all."""
    agents = 1
    if ranks.count > 1:
        probe = make_env(env_id, options, env_options, num_worlds=1)
        agents = num_agents(probe)
        probe.close()
    own = processes.part_of_worlds(ranks, options.config.num_envs, agents)
    return make_env(env_id, options, env_options, **own)


def viewed(env: VectorEnv, port: int | None) -> Viewed:
    """The environment with a page, whose address is printed."""
    with user_errors():
        made = Viewed(env, port)
    print(f"view            {made.viewer.url}", flush=True)
    return made


def tune(env: VectorEnv) -> None:
    """Lets the simulator choose the fastest way of running its steps; a reset with a seed then begins afresh."""
    tune = getattr(env.unwrapped, "tune", None)
    if tune is None:
        raise UsageError("--tune is for environments of torch_batchsim; this one has no method tune()")
    with user_errors():
        env.reset(seed=0)
        print(f"{tune()}\n")


def with_whole_worlds(env_id: str, options: Options, env_options: dict[str, Any]) -> Options:
    """Lower the default number of rows until whole worlds fit and minibatches divide the rollout."""
    config = options.config
    rows = tuned(env_id, options.env_option, config.algorithm).config.num_envs
    if config.num_envs != rows:
        return options
    env = make_env(env_id, options, env_options, num_worlds=1)
    agents = num_agents(env)
    env.close()
    if rows % agents == 0:
        return options
    fitting = (n for n in range(rows - rows % agents, 0, -agents) if _fits(config, n))
    return replace(options, config=replace(config, num_envs=next(fitting, agents)))


def _fits(config: Config, rows: int) -> bool:
    try:
        learner_of(config.algorithm).require_fit(config, rows)
    except ValueError:
        return False
    return True


def check_outputs(env_id: str, env: VectorEnv, options: Options) -> None:
    """Whether the environment can be recorded and drawn, by drawing it."""
    if options.record:
        with user_errors():
            check_recordable(env)
    if options.video and not has_pictures(env):
        raise UsageError(f"--video needs an environment that defines render(), and {env_id} does not")
    if options.video:
        with user_errors():
            env.reset(seed=0)
            Recorder(env)(torch.ones(env.num_envs, dtype=torch.bool))


@contextmanager
def user_errors() -> Iterator[None]:
    """Turns a refusal of the environment or the trainer into a mistake of the user."""
    try:
        yield
    except WorldFault as fault:
        raise RunError(str(fault.faults[0])) from fault
    except (TypeError, ValueError, RuntimeError, MemoryError, OSError, gymnasium.error.Error) as error:
        raise UsageError(str(error)) from error

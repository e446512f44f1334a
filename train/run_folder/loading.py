"""The policy of a checkpoint, and the environment that it was trained in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

import torch_batchsim

from ..algorithms import config_of
from ..policies.networks import ActorCritic
from ..rollouts.acting import Agents
from ..rollouts.environment import critic_space_of


def env_of(contents: Mapping[str, Any], named: str | None, **others: Any) -> VectorEnv:
    """The environment that a checkpoint was trained in.

    Args:
        contents: of the checkpoint.
        named: the environment as a user names it, `module:id` or `file.py`, where this package does not have it. A
            checkpoint names no module, because it runs no code.
        others: more arguments of `gymnasium.make_vec`.

    Raises ValueError where the environment is unknown, `named` is another one, or making it fails.
    """
    env_id = contents["env"]
    if named is not None and (found := torch_batchsim.find_id(named)) != env_id:
        raise ValueError(f"--env {named} is {found}, but the checkpoint is of {env_id}")
    try:
        return gymnasium.make_vec(env_id, **others, **contents["env_options"])
    except gymnasium.error.UnregisteredEnv as error:
        raise ValueError(
            f"{env_id} is not registered: name the module or the file that registers it by --env module:{env_id} or "
            f"--env file.py:{env_id}"
        ) from error
    except (TypeError, RuntimeError, OSError, gymnasium.error.Error) as error:
        raise ValueError(str(error)) from error


def agents_of(trained: dict[str, Any], env: VectorEnv) -> Agents:
    """The networks of a checkpoint's trainer, for an environment as it was trained in."""
    config, found = config_of(trained["config"]), {}
    for group in trained["groups"]:
        spaces = env.single_observation_space, env.single_action_space
        agent = ActorCritic(*spaces, config, env.device, critic_space_of(env))
        agent.load_state_dict(group["agent"])
        found[group["team"]] = agent
    return found.get(None, found)  # one for all rows has no team

"""The environment that an adapter steps: made here from an id or a declaration, or checked where it is made already."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from ..declare.environment import Environment
from ..declare.options import VECTOR_ARGUMENTS
from ..vector.registration import environment_class, find_id
from ..vector.vector_env import TorchVectorEnv

# What adapters need whose tensors stay in torch, and whose libraries leave autoreset to the environment.
SAME_STEP_IN_TORCH = MappingProxyType({"autoreset_mode": AutoresetMode.SAME_STEP, "output": "torch"})


def vector_env(
    env: str | Environment | VectorEnv,
    adapter: str,
    options: Mapping[str, Any],
    num_envs: int | None = None,
    *,
    fixed: Mapping[str, Any] = MappingProxyType({}),
    takes_made: bool = True,
    takes_wrapped: bool = True,
    needs_final: bool = False,
) -> VectorEnv:
    """The vector environment that is meant, of one world where no number is given.

    Args:
        env: an id or a short name, see ``find_id``; a declared environment; or a ``TorchVectorEnv``.
        adapter: the name of its class, for messages.
        options: what its user has given beside ``env`` and ``num_envs``: arguments of ``TorchVectorEnv``, and with an
            id the environment's own.
        fixed: arguments that the adapter decides. Its user cannot give them, and an environment that is made already
            must have them.
        takes_made, takes_wrapped: whether ``env`` may be a ``TorchVectorEnv``, and one with wrappers around it.
        needs_final: with SAME_STEP the environment must deliver ``infos["final_obs"]``.

    Raises TypeError for another ``env``, for arguments that are fixed or unknown; ValueError for an id that is not one
    of ours, and for an environment that does not have what is fixed; gymnasium's errors for unknown ids.
    """
    given = dict(options) if num_envs is None else {"num_envs": num_envs, **options}
    if isinstance(env, (str, Environment)):
        made = _made(env, adapter, given, fixed)
    elif not takes_made:
        raise TypeError(f"{adapter} needs an id or a declared environment, got {env!r}")
    else:
        made = env
        _check_made(env, adapter, given, fixed, takes_wrapped)
    own = made.unwrapped
    if needs_final and own.autoreset_mode is AutoresetMode.SAME_STEP and not own.delivers_final:
        raise ValueError(f"{adapter} needs final_obs=True with SAME_STEP, got an environment with final_obs=False")
    return made


def _made(env: str | Environment, adapter: str, given: dict[str, Any], fixed: Mapping[str, Any]) -> VectorEnv:
    refused = {name: f"it is always {_shown(value)}" for name, value in fixed.items()}
    refused["by_agent"] = "its rows are agents"
    if "num_worlds" in fixed:
        refused["num_envs"] = f"num_worlds is always {fixed['num_worlds']}"
    for name, value in given.items():
        if name in refused:
            raise TypeError(f"{adapter} takes no {name}: {refused[name]}, got {value!r}")
    arguments = {**given, **fixed}
    if arguments.get("num_envs") is None and arguments.get("num_worlds") is None:
        arguments["num_worlds"] = 1
    if isinstance(env, str):
        env_id = find_id(env)
        allowed = [name for name in ("num_envs", *VECTOR_ARGUMENTS) if name not in refused]
        environment_class(env_id).check_options(given, tuple(allowed))
        return gymnasium.make_vec(env_id, **arguments)
    own = [name for name in given if name not in ("num_envs", *VECTOR_ARGUMENTS)]
    if own:
        raise TypeError(f"options go with an id; {env.name} has been declared with its own, got {', '.join(own)} too")
    return TorchVectorEnv(env, **arguments)


def _check_made(env: Any, adapter: str, given: dict[str, Any], fixed: Mapping[str, Any], takes_wrapped: bool) -> None:
    own = getattr(env, "unwrapped", None)
    if not isinstance(own, TorchVectorEnv) or not (takes_wrapped or own is env):
        bare = "" if takes_wrapped else " without wrappers"
        raise TypeError(f"{adapter} needs an id, a declared environment or a TorchVectorEnv{bare}, got {env!r}")
    if given:
        raise TypeError(f"{adapter} got an environment that is made already, and options for it: {', '.join(given)}")
    for name, value in fixed.items():
        if getattr(own, name) != value:
            has = _shown(getattr(own, name))
            raise ValueError(f"{adapter} needs {name}={_shown(value)}, got an environment with {name}={has}")


def _shown(value: Any) -> str:
    return value.name if isinstance(value, Enum) else repr(value)

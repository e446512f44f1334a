"""The vector environment of an adapter: made here from an id or a declaration, or given and checked."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from ..declare.environment import Environment
from ..declare.options import VECTOR_ARGUMENTS
from ..vector.registration import environment_class, find_id
from ..vector.vector_env import TorchVectorEnv
from .records import Interface


def vector_env(
    env: str | Environment | VectorEnv, interface: Interface, options: Mapping[str, Any], num_envs: int | None = None
) -> VectorEnv:
    """The vector environment of ``env``, by default of one world.

    Args:
        env: an id or a short name, see ``find_id``; a declared environment; or a ``TorchVectorEnv``.
        interface: the class that steps it.
        options: other arguments of the user: those of ``TorchVectorEnv``, and with an id the environment's own.
        num_envs: rows; with ``interface.counts`` worlds.

    Raises TypeError for another ``env``, for fixed and for unknown arguments; ValueError for an id of others, and for
    an environment whose arguments differ from the fixed ones; gymnasium's errors for unknown ids.
    """
    given = dict(options) if num_envs is None or interface.counts else {"num_envs": num_envs, **options}
    if isinstance(env, (str, Environment)):
        made = _made(env, interface, given, num_envs)
    elif not interface.takes_made:
        raise TypeError(f"{interface.name} needs an id or a declared environment, got {env!r}")
    else:
        made = env
        _check_made(env, interface, given)
    own, name = made.unwrapped, interface.name
    if interface.needs_final and own.autoreset_mode is AutoresetMode.SAME_STEP and not own.delivers_final:
        raise ValueError(f"{name} needs final_obs=True with SAME_STEP, got an environment with final_obs=False")
    return made


def _made(env: str | Environment, interface: Interface, given: dict[str, Any], num_envs: int | None) -> VectorEnv:
    refused = {name: f"it is always {_shown(value)}" for name, value in interface.fixed.items()}
    refused["by_agent"] = "its rows are agents"
    if "num_worlds" in interface.fixed:
        refused["num_envs"] = f"num_worlds is always {interface.fixed['num_worlds']}"
    if interface.counts:
        refused |= dict.fromkeys(("num_envs", "num_worlds"), f"{interface.counts} is the number of worlds")
    for name, value in given.items():
        if name in refused:
            raise TypeError(f"{interface.name} takes no {name}: {refused[name]}, got {value!r}")
    arguments = {**given, **interface.fixed, **({"num_worlds": num_envs} if interface.counts else {})}
    if arguments.get("num_envs") is None and arguments.get("num_worlds") is None:
        arguments["num_worlds"] = 1
    if isinstance(env, str):
        env_id = find_id(env)
        allowed = [name for name in ("num_envs", *VECTOR_ARGUMENTS) if name not in refused]
        environment_class(env_id).check_options(given, tuple(allowed))
        return gymnasium.make_vec(env_id, **arguments)
    own = [name for name in given if name not in ("num_envs", *VECTOR_ARGUMENTS)]
    if own:
        raise TypeError(f"options go with an id, got the declared {env.name} and {', '.join(own)}")
    return TorchVectorEnv(env, **arguments)


def _check_made(env: Any, interface: Interface, given: dict[str, Any]) -> None:
    name, own = interface.name, getattr(env, "unwrapped", None)
    if not isinstance(own, TorchVectorEnv) or not (interface.takes_wrapped or own is env):
        bare = "" if interface.takes_wrapped else " without wrappers"
        raise TypeError(f"{name} needs an id, a declared environment or a TorchVectorEnv{bare}, got {env!r}")
    if given:
        raise TypeError(f"{name} takes no options with an environment that is made already, got {', '.join(given)}")
    for argument, value in interface.fixed.items():
        if getattr(own, argument) != value:
            has = _shown(getattr(own, argument))
            raise ValueError(f"{name} needs {argument}={_shown(value)}, got an environment with {argument}={has}")


def _shown(value: Any) -> str:
    return value.name if isinstance(value, Enum) else repr(value)

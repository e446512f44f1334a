"""Registers environments with gymnasium: ``gymnasium.make_vec`` for batches, ``gymnasium.make`` for one world."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Literal, overload

import gymnasium

from .agents_env import AgentsVectorEnv
from .agents_single_env import JointEnv, OneAgentEnv, Partner
from .checks import Checks
from .environment import Environment
from .options import SINGLE_ARGUMENTS, VECTOR_ARGUMENTS, Option
from .single_env import SingleEnv
from .vector_env import TorchVectorEnv
from .vector_inputs import agents_per_world

_NO_LIMIT = 2**31 - 1


def register(
    id: str,
    environment: str | type[Environment],
    *,
    max_episode_steps: int | None = None,
    reward_threshold: float | None = None,
) -> None:
    """Register an environment class under a gymnasium id, for both ``gymnasium.make_vec`` and ``gymnasium.make``.

    Args:
        id: such as ``"my_project/Maze-v0"``.
        environment: the class, or ``"module:Class"``, which is imported at the first use.
        max_episode_steps: the default of the environment's option of that name, which it must have. ``gymnasium.make``
            then leaves the limit to gymnasium's own ``TimeLimit``. Without, the environment's own limit holds in both.
        reward_threshold: mean return at which the task counts as solved.
    """
    if not isinstance(environment, str) and max_episode_steps is not None:
        _limit_option(environment)
    if not isinstance(environment, str) and "<locals>" not in environment.__qualname__:
        environment = f"{environment.__module__}:{environment.__qualname__}"  # text, so that the spec can be saved
    gymnasium.register(
        id=id,
        entry_point="torch_batchsim.registration:make",
        vector_entry_point="torch_batchsim.registration:make_vec",
        max_episode_steps=max_episode_steps,
        reward_threshold=reward_threshold,
        kwargs={"environment": environment, "time_limit": max_episode_steps is not None},
    )


def environment_ids() -> dict[str, str]:
    """The environments that come with torch_batchsim: short name (``"cartpole"``) to the id of its newest version."""
    specs = [spec for spec in gymnasium.registry.values() if spec.namespace == "torch_batchsim"]
    return {spec.name.lower(): spec.id for spec in sorted(specs, key=lambda spec: (spec.name, spec.version or 0))}


def find_id(name: str) -> str:
    """The id that a user means: one of ours by its short name, any by its id; ``module:id`` imports the module first.

    Raises ValueError with what is known.
    """
    module, _, env_id = name.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ValueError(f"module {module!r} of {name!r} cannot be imported: {error}") from error
    if module or "/" in env_id:
        return env_id
    known = environment_ids()
    if name.lower() not in known:
        raise ValueError(f"there is no environment {name!r}; known are: {', '.join(known)}")
    return known[name.lower()]


def option_names(env_id: str) -> tuple[str, ...]:
    """The names of an environment's own options; none where it is unknown, or not made with ``Environment``."""
    cls = _class_of(env_id)
    return cls.option_names() if cls else ()


def training_settings(env_id: str) -> Mapping[str, Mapping[str, Any]]:
    """``Environment.training``; empty where the environment is unknown, or not made with ``Environment``."""
    cls = _class_of(env_id)
    return cls.training if cls else {}


def _class_of(env_id: str) -> type[Environment] | None:
    try:
        spec = gymnasium.spec(env_id)
    except gymnasium.error.Error:
        return None
    return _imported(spec.kwargs["environment"]) if is_ours(spec) else None


def is_ours(spec: gymnasium.envs.registration.EnvSpec) -> bool:
    """Whether it was registered by ``register``."""
    return spec.vector_entry_point == f"{__name__}:make_vec"


def environment_class(env_id: str) -> type[Environment]:
    """The class of a registered environment.

    Raises gymnasium's errors for unknown ids, ValueError for what was not registered by ``register``.
    """
    spec = gymnasium.spec(env_id)
    if not is_ours(spec):
        raise ValueError(f"{env_id} was not registered by torch_batchsim.register")
    return _imported(spec.kwargs["environment"])


@overload
def make_vec(
    environment: str | type[Environment],
    num_envs: int | None = None,
    time_limit: bool = False,
    by_agent: Literal[False] = False,
    **kwargs: Any,
) -> TorchVectorEnv: ...


@overload
def make_vec(
    environment: str | type[Environment],
    num_envs: int | None = None,
    time_limit: bool = False,
    *,
    by_agent: Literal[True],
    **kwargs: Any,
) -> AgentsVectorEnv: ...


def make_vec(
    environment: str | type[Environment],
    num_envs: int | None = None,
    time_limit: bool = False,
    by_agent: bool = False,
    **kwargs: Any,
) -> TorchVectorEnv | AgentsVectorEnv:
    """A ``TorchVectorEnv`` of an environment; other keyword arguments are its options or the environment's.

    With ``by_agent=True`` an ``AgentsVectorEnv``, of which ``num_envs`` counts worlds.

    Args:
        environment: a class, ``"module:Class"``, or what ``find_id`` takes: a short name (``"cartpole"``), an id, or
            ``"module:id"``. The registered limit of steps then holds.

    Raises TypeError and ValueError for arguments, gymnasium's errors for unknown ids.
    """
    environment = _of_name(environment, kwargs)
    if not isinstance(by_agent, bool):
        raise TypeError(f"by_agent must be True or False, got {by_agent!r}")
    if time_limit:  # gymnasium has put the registered limit among the arguments
        _limit_option(_imported(environment))
    if by_agent:
        num_envs, kwargs["num_worlds"] = None, _worlds(num_envs, kwargs.get("num_worlds"))
    vector = {name: kwargs.pop(name) for name in VECTOR_ARGUMENTS if name in kwargs}
    made = TorchVectorEnv(_declared(environment, kwargs, (*VECTOR_ARGUMENTS, "by_agent")), num_envs, **vector)
    return AgentsVectorEnv(made) if by_agent else made


def _worlds(num_envs: Any, num_worlds: Any) -> Any:
    """The number of worlds where both numbers count them; gymnasium's default of ``num_envs`` is 1."""
    if num_worlds is None:
        return 1 if num_envs is None else num_envs
    if num_envs not in (None, 1, num_worlds):
        raise ValueError(
            f"num_envs={num_envs!r} and num_worlds={num_worlds!r} contradict each other; with by_agent=True both count "
            "worlds: give one of them"
        )
    return num_worlds


def make(
    environment: str | type[Environment],
    render_mode: str | None = None,
    device: str = "cpu",
    time_limit: bool = False,
    as_agent: int | str | None = None,
    partner: Partner | None = None,
    checks: bool | Checks | None = None,
    **options: Any,
) -> SingleEnv:
    """One world as a plain ``gymnasium.Env`` with numpy in and out.

    Where a world has several agents, a ``JointEnv``; with ``as_agent`` a ``OneAgentEnv``, where ``partner`` plays the
    others. ``environment`` is what ``make_vec`` takes.
    """
    cls = _imported(_of_name(environment, options))
    if time_limit:  # gymnasium wraps its TimeLimit around this
        greatest = _limit_option(cls).maximum
        options.setdefault("max_episode_steps", _NO_LIMIT if greatest is None else int(greatest))
    declared = _declared(cls, options, SINGLE_ARGUMENTS)
    if as_agent is None and partner is not None:
        raise ValueError(f"partner plays the agents beside one: give as_agent=0 too, got partner={partner!r}")
    if as_agent is not None:
        made = OneAgentEnv(declared, as_agent, partner, render_mode=render_mode, device=device, checks=checks)
    else:
        form = SingleEnv if agents_per_world(declared) == 1 else JointEnv
        made = form(declared, render_mode=render_mode, device=device, checks=checks)
    made.follows_time_limit = time_limit
    return made


def declared(env_id: str, options: Mapping[str, Any], others: tuple[str, ...] = ()) -> Environment:
    """The declaration of a registered environment, with its limit of steps as ``gymnasium.make_vec`` gives it.

    Args:
        options: the environment's own.
        others: what the caller takes beside them, for the message.

    Raises gymnasium's errors for unknown ids, ValueError for what was not registered by ``register``, TypeError and
    ValueError for options.
    """
    cls, spec = environment_class(env_id), gymnasium.spec(env_id)
    options = dict(options)
    if spec.kwargs["time_limit"]:
        options.setdefault("max_episode_steps", spec.max_episode_steps)
    return _declared(cls, options, others)


def _of_name(environment: str | type[Environment], options: dict[str, Any]) -> str | type[Environment]:
    """The class of what was registered under a name; its limit of steps is added to the options."""
    if not isinstance(environment, str):
        return environment
    module, _, name = environment.rpartition(":")
    if module and name.replace(".", "").isidentifier():  # module:Class
        return environment
    env_id = find_id(environment)
    cls, spec = environment_class(env_id), gymnasium.spec(env_id)
    if spec.kwargs["time_limit"]:
        options.setdefault("max_episode_steps", spec.max_episode_steps)
    return cls


def _limit_option(cls: type[Environment]) -> Option:
    option = cls.parameters.options.get("max_episode_steps")
    if option is None:
        raise TypeError(f"{cls.__name__} is registered with max_episode_steps, but has no option of that name")
    return option


def _declared(
    environment: str | type[Environment], options: dict[str, Any], others: tuple[str, ...] = ()
) -> Environment:
    cls = _imported(environment)
    cls.check_options(options, others)
    return cls(**options)


def _imported(environment: str | type[Environment]) -> type[Environment]:
    if isinstance(environment, str):
        module, _, name = environment.partition(":")
        return attrgetter(name)(importlib.import_module(module))
    return environment

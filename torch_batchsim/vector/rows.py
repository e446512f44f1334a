"""Attributes of single rows of a vector environment, and steps of their episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv

from ..base.shared import INTEGER_DTYPES
from ..errors import SchemaError
from ..memory.inputs import number_tensor
from ..resolve.program import Program
from ..run.simulator import Simulator

_GREATEST = 2**31 - 1
_OF_ONE_ROW = {"action_space": "single_action_space", "observation_space": "single_observation_space"}
OF_ALL = (
    "reset", "step", "close", "close_extras", "bind", "bind_slots", "select_slot", "unbind", "load_state_dict", "tune",
    "tracing", "set_attr", "get_attr", "call",
)  # fmt: skip
# What users of Stable-Baselines3 call.
OF_VEC_ENV = ("step_async", "step_wait", "seed", "set_options", "env_method", "env_is_wrapped", "get_images")
_VEC_ENV = "torch_batchsim.adapters.stable_baselines3.StableBaselinesVecEnv"
OF_A_SINGLE_ROW = (
    f": each row has an action; gymnasium.make makes an environment of one, {_VEC_ENV} one for Stable-Baselines3"
)


# ---- attributes ------------------------------------------------------------------------------------------------------


class OfVecEnv:
    """What only Stable-Baselines3's ``VecEnv`` has, which is another class than gymnasium's: an attribute that is
    missing, with an error that names what has it.

    A descriptor for each, because a ``__getattr__`` would slow the attributes that steps read.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, env: object, kind: type) -> Any:
        seeding = "reset(seed=...) seeds this; " if self._name == "seed" else ""
        raise AttributeError(
            f"{kind.__name__!r} object has no attribute {self._name!r}, a method of Stable-Baselines3's VecEnv: "
            f"{seeding}{_VEC_ENV}(env) has it"
        )


def refuse_indices(method: str, given: tuple[Any, ...]) -> None:
    """Raise TypeError where somebody gives ``get_attr`` or ``set_attr`` the ``indices`` of Stable-Baselines3."""
    if given:
        raise TypeError(
            f"{method} of a gymnasium vector environment takes no indices, got {given[0]!r}; Stable-Baselines3 and its "
            f"wrappers take {_VEC_ENV}(env)"
        )


def is_known(env: VectorEnv, name: str) -> bool:
    """Whether the environment, its options or its declaration have an attribute of this name."""
    declaration = env.environment
    options = {**declaration.constants, **declaration.parameters}
    return hasattr(env, name) or name in options or hasattr(declaration, name)


def attribute(env: VectorEnv, name: str) -> Any:
    """An attribute of the environment, an option, or an attribute of the declaration. Raises AttributeError."""
    if name in OF_ALL:
        some = 'reset(options={"reset_mask": mask}) resets some of them'
        remedy = some if name == "reset" else f"call env.{name}"
        raise AttributeError(f"{name}() is of all rows together; {remedy}")
    if name.startswith("_"):
        raise AttributeError(f"{name!r} is private; get_attr and call know public names only")
    declaration = env.environment
    if hasattr(env, _OF_ONE_ROW.get(name, name)):
        return getattr(env, _OF_ONE_ROW.get(name, name))
    for options in (declaration.constants, declaration.parameters):
        if name in options:
            return options[name]
    if hasattr(declaration, name):
        return getattr(declaration, name)
    raise AttributeError(f"neither {type(env).__name__} nor {declaration.name} has an attribute {name!r}")


def by_row(result: Any, rows: int) -> tuple[Any, ...]:
    """A result for each row: the row's entry of a tensor ``[rows, ...]``; anything else goes to all rows."""
    if isinstance(result, dict) and result and all(_is_of_rows(part, rows) for part in result.values()):
        return tuple({key: part[row] for key, part in result.items()} for row in range(rows))
    return tuple(result) if _is_of_rows(result, rows) else (result,) * rows


def _is_of_rows(value: Any, rows: int) -> bool:
    return isinstance(value, (torch.Tensor, np.ndarray)) and tuple(value.shape[:1]) == (rows,)


# ---- steps of episodes -----------------------------------------------------------------------------------------------


def check_counters(program: Program) -> None:
    """Raise SchemaError where ``Environment.step_counters`` names a column other than an integer of each world."""
    environment = program.environment
    given = environment.step_counters
    if not isinstance(given, (list, tuple)) or not all(isinstance(name, str) for name in given):
        write = f"; write ({given!r},)" if isinstance(given, str) else ""
        raise SchemaError(f"{environment.name}: step_counters must be a tuple of names, got {given!r}{write}")
    for name in given:
        try:
            column, selected = program.find(name, "step_counters")
        except (AttributeError, KeyError) as error:
            raise SchemaError(f"{environment.name}: {error.args[0]}") from None
        fields = column.component.fields
        counter = fields[0] if selected is None and len(fields) == 1 else selected
        integer = counter is not None and counter.type.dtype in INTEGER_DTYPES[:-1] and not counter.type.tensor_shape
        if not column.singleton or column.resource or not integer:
            raise SchemaError(
                f"{environment.name}: step_counters names {name!r}, but a counter is an integer field of a singleton"
            )


def episode_steps(sim: Simulator, agents: int) -> torch.Tensor:
    """A copy, int32 ``[rows]``: the agents of a world alike."""
    return sim.tensor("World.step").repeat_interleave(agents)


def set_episode_steps(sim: Simulator, agents: int, given: Any) -> None:
    """Set the counts of all worlds, and move the environment's own counters by as much.

    Args:
        given: integers ``[rows]``, the agents of a world alike, or ``[worlds]``.

    Raises TypeError or ValueError before anything has changed. On CUDA it waits for the device.
    """
    steps = number_tensor(given, "episode_steps", f"shape [{sim.num_worlds * agents}]")
    if steps.dtype not in INTEGER_DTYPES[:-1]:
        raise TypeError(f"episode_steps must be integers, got {str(steps.dtype).removeprefix('torch.')}")
    shape, worlds = tuple(steps.shape), sim.num_worlds
    if shape not in ((worlds * agents,), (worlds,)):
        allowed = f"[{worlds * agents}]" + (f" or [{worlds}] (worlds)" if agents > 1 else "")
        raise ValueError(f"episode_steps must have shape {allowed}, got {list(shape)}")
    steps = steps.to(sim.device).long()
    if shape != (worlds,):
        of_rows = steps.view(worlds, agents)
        steps = of_rows[:, 0]
        if bool((of_rows != steps[:, None]).any()):
            raise ValueError("episode_steps must be the same for all agents of a world, because they share its episode")
    least, greatest = int(steps.min()), int(steps.max())
    if least < 0 or greatest > _GREATEST:
        raise ValueError(f"episode_steps must be from 0 to {_GREATEST}, got {least if least < 0 else greatest}")
    present = sim.tensor("World.step")
    for name in sim.program.environment.step_counters:
        sim.tensor(name).add_(steps - present)
    present.copy_(steps)

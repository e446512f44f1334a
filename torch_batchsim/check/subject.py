"""The subject of a check: an environment, numbers of worlds and steps, and how its vector environments are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from ..base.names import suggestion
from ..build import emulation, jit
from ..declare.environment import Environment
from ..declare.run_options import RUN_ARGUMENTS, RunOptions
from ..memory.inputs import checked_count, checked_seed
from ..resolve.executors import EXECUTORS
from ..resolve.program import Program
from ..vector.own_modules import environment_classes, module_named
from ..vector.registration import declared, environment_class, find_id
from ..vector.vector_env import TorchVectorEnv
from .plays import Play, play_all

_SMALL_RUN = 300  # steps of runs that are compared, at most


@dataclass
class Subject:
    """An environment to check.

    Attributes:
        environment: the declaration, with its options.
        worlds, steps: of the longest run; comparisons take fewer.
        seed: of worlds and actions.
        reference: makes an object with ``reset(state)`` and ``step(action)``, or None.
        run: ``checks``, the findings of the checked build, which is a part of the check, and ``watchdog``. The checks
            choose the rest of how simulators run.

    Raises TypeError or ValueError for wrong ones.
    """

    environment: Environment
    worlds: int = 64
    steps: int = 2000
    seed: int = 0
    reference: Callable[[], Any] | None = None
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        self.worlds, self.steps = checked_count(self.worlds, "worlds"), checked_count(self.steps, "steps")
        self.seed = checked_seed(self.seed) or 0
        if self.reference is not None and not callable(self.reference):
            raise TypeError(f"reference must be a function that makes an object, got {self.reference!r}")
        checks = True if self.run.checks is None else self.run.checks
        allowed = RunOptions(checks=self.run.checks, watchdog=self.run.watchdog)
        others = [name for name in RUN_ARGUMENTS if self.run[name] != allowed[name]]
        if others:
            raise ValueError(f"a check takes checks and watchdog, and chooses {', '.join(others)} itself")
        self.run = replace(allowed, checks=checks, log=False).closed(torch.device("cpu"), self.worlds)
        if not self.run.checks:
            raise ValueError("checks must be True or torch_batchsim.Checks(...): the check runs the checked build")

    @cached_property
    def emulated(self) -> dict[str, Future[jit.Library]]:
        """The CUDA executors under g++, compiled beside other checks from the first look at this on."""
        pool = ThreadPoolExecutor(1, "compiles for an emulated device")
        units = {name: pool.submit(emulation.load, self.program, name) for name in EXECUTORS["cuda"]}
        pool.shutdown(wait=False)
        return units

    @cached_property
    def program(self) -> Program:
        return Program(self.environment)

    def make(self, worlds: int | None = None, *, checked: bool = False, **arguments: Any) -> TorchVectorEnv:
        """A vector environment of the checked build, or of the plain one; by default of few worlds."""
        # The check `bounds` reports observations outside of their space itself.
        run = replace(self.run, checks=checked and replace(self.run.checks, bounds=False))
        if "device" in arguments:
            run = replace(run, watchdog=None)  # a kernel cannot be stopped
        return TorchVectorEnv(self.environment, **{"num_worlds": worlds or self.few_worlds, **run, **arguments})

    @property
    def few_worlds(self) -> int:
        """Of runs that are compared with each other."""
        return min(self.worlds, 16)

    @cached_property
    def play(self) -> Play:
        """The observations of the longest run, which is taken once."""
        return play_all(self.make(self.worlds, checked=True), self.steps, self.seed)

    @property
    def few_steps(self) -> int:
        """Of runs that are compared: enough for two episodes of most worlds, where that is not too long."""
        mean = self.play.mean_length
        return min(self.steps, _SMALL_RUN, max(40, int(2.5 * mean) if mean else _SMALL_RUN))


def declaration(target: str | type[Environment] | Environment, options: Mapping[str, Any]) -> Environment:
    """The declaration of a class, an id, a short name, ``module:id``, ``module:Class`` or a file.

    Raises ValueError or TypeError.
    """
    if isinstance(target, Environment):
        if options:
            raise TypeError("options go with a class or an id, got options and an instance of Environment")
        return target
    env_id = _id_of(target)
    if env_id:
        return declared(env_id, options)
    cls = class_of(target)
    cls.check_options(options, ())
    return cls(**options)


def class_of(target: str | type[Environment]) -> type[Environment]:
    """The class that ``target`` names, as for ``declaration``."""
    env_id = _id_of(target)
    if env_id:
        return environment_class(env_id)
    if isinstance(target, type):
        if not issubclass(target, Environment):
            raise TypeError(f"a check needs a class of torch_batchsim.Environment, got {target!r}")
        return target
    if not isinstance(target, str):
        raise TypeError(f"a check needs an id, a class or an instance of Environment, got {target!r}")
    place, name = _place_and_name(target)
    module = module_named(place, target)
    own = environment_classes(module)
    if not name and len(own) == 1:
        return next(iter(own.values()))
    found = getattr(module, name, None) if name else None
    if not isinstance(found, type) or not issubclass(found, Environment):
        known = ", ".join(own) or "none"
        what = f"no environment {name!r}{suggestion(name, own)}" if name else f"{len(own)} environments"
        raise ValueError(f"{place} has {what}; name one as {place}:Class, known are: {known}")
    return found


def _id_of(target: Any) -> str:
    """The registered id that ``target`` names; empty where it is a class, or the name of one in a module or file."""
    if not isinstance(target, str):
        return ""
    place, name = _place_and_name(target)
    return "" if place and "/" not in name else find_id(target)


def _place_and_name(target: str) -> tuple[str, str]:
    """``("walk.py", "Walk")`` of ``"walk.py:Walk"``, and ``("walk.py", "")`` of ``"walk.py"``."""
    if target.endswith(".py"):
        return target, ""
    place, _, name = target.rpartition(":")
    return place, name

"""What is checked: an environment, in how many worlds and steps, and how its vector environments are made."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import emulation, jit
from ..environment import Environment
from ..executors import EXECUTORS
from ..names import suggestion
from ..program import Program
from ..registration import declared, find_id
from ..vector_env import TorchVectorEnv
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
    """

    environment: Environment
    worlds: int = 64
    steps: int = 2000
    seed: int = 0
    reference: Callable[[], Any] | None = None

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
        """A vector environment of few worlds, if nothing else is said; of the checked build, or the plain one."""
        return TorchVectorEnv(self.environment, num_worlds=worlds or self.few_worlds, checks=checked, **arguments)

    @property
    def few_worlds(self) -> int:
        """Of runs that are compared with each other."""
        return min(self.worlds, 16)

    @cached_property
    def play(self) -> Play:
        """What was seen in the longest run, which is taken once."""
        return play_all(self.make(self.worlds, checked=True), self.steps, self.seed)

    @property
    def few_steps(self) -> int:
        """Of runs that are compared: enough for two episodes of most worlds, where that is not too long."""
        mean = self.play.mean_length
        return min(self.steps, _SMALL_RUN, max(40, int(2.5 * mean) if mean else _SMALL_RUN))


def declaration(target: str | type[Environment] | Environment, options: Mapping[str, Any]) -> Environment:
    """The declaration that a user means: of a class, an id, a short name, ``module:id``, ``module:Class`` or a file.

    Raises ValueError or TypeError with a sentence for the user, gymnasium's error for unknown ids.
    """
    if isinstance(target, Environment):
        if options:
            raise TypeError("options are for an environment's class or id; this one has been made already")
        return target
    if isinstance(target, type):
        if not issubclass(target, Environment):
            raise TypeError(f"what is checked must be a class of torch_batchsim.Environment, got {target!r}")
        target.check_options(options, ())
        return target(**options)
    if not isinstance(target, str):
        raise TypeError(f"what is checked must be an id, a class or an instance of Environment, got {target!r}")
    place, _, name = target.rpartition(":")
    if target.endswith(".py"):
        place, name = target, ""
    if place.endswith(".py"):
        module = _of_file(Path(place))
        return _in_module(module, place, name, options)
    if place and "/" not in name:
        find_id(target)  # imports the module, or says why not
        return _in_module(importlib.import_module(place), place, name, options)
    return declared(find_id(target), options)


def _of_file(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # for modules beside it
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _in_module(module: Any, place: str, name: str, options: Mapping[str, Any]) -> Environment:
    """An environment of a module, by the name of its class or its id, or the only one that the module declares."""
    if "/" in name:
        return declared(find_id(name), options)
    own = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Environment) and value.__module__ == module.__name__
    }
    if not name and len(own) == 1:
        return declaration(next(iter(own.values())), options)
    found = getattr(module, name, None) if name else None
    if not isinstance(found, type) or not issubclass(found, Environment):
        known = ", ".join(own) or "none"
        what = f"no environment {name!r}{suggestion(name, own)}" if name else f"{len(own)} environments"
        raise ValueError(f"{place} has {what}; name one as {place}:Class; there are: {known}")
    return declaration(found, options)

"""How checks make environments, play them and compare the results.

``Make`` makes them: ``make("swarm", worlds, **arguments of TorchVectorEnv)``. It decides where they run, so that checks
need no GPU. A check raises if it fails; its result is a remark for the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from gymnasium.vector import AutoresetMode

from .. import testing
from ..errors import WorldFault
from ..run.simulator import Simulator
from ..testing import Tensors, assert_same_bits, ended_worlds, random_actions
from ..vector.vector_env import TorchVectorEnv
from . import builds
from .environments import ENVIRONMENTS

Make = Callable[..., TorchVectorEnv]
Story = Callable[[Make], tuple[str, list[Tensors], Simulator]]

MODES = tuple(AutoresetMode)
SEED = 7
_REFUSALS = ("cooperative", "not supported")  # in CUDA's words for a refused cooperative launch
_by_tiles = False  # whether this process has met one


def maker(device: str, executor: str | None = None) -> Make:
    """Makes environments of this package on ``device``, run by ``executor``."""

    def make(name: str, worlds: int | None, **arguments: Any) -> TorchVectorEnv:
        builds.require(name, executor)
        env = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=worlds, device=device, executor=executor, **arguments)
        return by_tiles(env) if _by_tiles else env

    return make


def by_tiles(env: TorchVectorEnv) -> TorchVectorEnv:
    """``env``, whose blocks do not go through the tasks together: that takes a cooperative launch."""
    execution = env.sim.execution
    if execution.choice().together:
        execution.take(replace(execution.choice(), together=False))
    return env


def goes_on_by_tiles(error: Exception) -> bool:
    """Whether ``error`` is the first refusal of a cooperative launch: from then on ``maker`` makes none."""
    global _by_tiles
    refused = isinstance(error, torch.cuda.CudaError) and any(words in str(error) for words in _REFUSALS)
    goes_on, _by_tiles = refused and not _by_tiles, refused or _by_tiles
    return goes_on


def flat(value: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """All tensors in the results of ``step``, with names."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from flat(part, f"{name}.{key}" if name else key)
    else:
        yield name, value


def copied(results: tuple[Any, ...]) -> Tensors:
    """Copies of the results of ``step``, by name; rows of final values that mean nothing are 0."""
    names = ("observations", "rewards", "terminations", "truncations", "infos")
    held = {name: tensor.clone() for name, tensor in flat(dict(zip(names, results, strict=True)))}
    for name in held:
        if name.startswith("infos.final"):
            ended = held["infos._final_obs"].view(-1, *[1] * (held[name].dim() - 1))
            held[name] = torch.where(ended, held[name], 0)
    return held


def play(env: TorchVectorEnv, steps: int, *, wait: bool = False, most_worlds: int | None = None) -> list[Tensors]:
    """Reset, take random steps, and return copies of the results of each.

    Without ``wait`` no call waits for the device before the end, so that work outside the stream's order shows. Tables
    that may grow need ``wait``, by which the host sees a crowded table after the same step on all devices.
    """
    batches = random_actions(env, steps, most_worlds=most_worlds)
    env.reset(seed=SEED)
    returned = []
    for step, actions in enumerate(batches):
        results = env.step(actions)
        returned.append(copied(results))
        if env.autoreset_mode is AutoresetMode.DISABLED and step % 3 == 0:
            env.reset(options={"reset_mask": ended_worlds(env)})
        if wait:
            env.check_faults()
    env.check_faults()
    return returned


def snapshot(sim: Simulator) -> Tensors:
    """The state of worlds, without final values, which mean something in ended rows only."""
    return testing.snapshot(sim, final=False)


def expect_same_steps(expected: list[Tensors], found: list[Tensors]) -> None:
    """Raise AssertionError with the first step whose results differ."""
    for step, (a, b) in enumerate(zip(expected, found, strict=True), start=1):
        assert_same_bits(a, b, f"step {step}: ")


def expect_same_story(reference: Make, make: Make, story: Story) -> str:
    """Raise AssertionError unless ``story`` gives the same with both makers.

    Args:
        story: plays, and returns a sentence, the results of steps, and the simulator at its end.

    Returns the sentence.
    """
    expected, returned, sim = story(reference)
    words, found, other = story(make)
    expect(words == expected, f"{words}, expected {expected}")
    expect_same_steps(returned, found)
    assert_same_bits(snapshot(sim), snapshot(other), "at the end: ")
    return words


def expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)


def fault_of(env: TorchVectorEnv) -> WorldFault:
    """The fault of the device. Raises AssertionError where the device has none."""
    try:
        env.check_faults()
    except WorldFault as fault:
        return fault
    raise AssertionError("one world should have a fault, and none has")


def filled(value: Any) -> Any:
    """Tensors like those of ``value``, with other contents."""
    if isinstance(value, Mapping):
        return {key: filled(part) for key, part in value.items()}
    return torch.full_like(value, 77)

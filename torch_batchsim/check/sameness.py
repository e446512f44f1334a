"""Checks that steps give the same bits with all threads, batch sizes and executors, and by their seed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from ..errors import BuildError
from ..resolve.executors import EXECUTORS
from ..vector.vector_env import TorchVectorEnv
from .lockstep import compared, first_difference, state_difference, stepped
from .outcomes import Failed, Warned
from .policies import Policy
from .subject import Subject

_LEFT_OVER = (
    "a world depends on what ran before it: look for workspace or scratch that a system reads before it writes, and "
    "for results that depend on which worlds are in one call (Worlds<n>)"
)
_EMULATED_STEPS, _EMULATED_WORLDS = 40, 6  # emulated devices are slow


def threads(subject: Subject) -> str:
    with _two_threads():
        one = subject.make(num_threads=1)
        two = subject.make(num_threads=2)
        choice = two.sim.execution.choice()
        two.sim.execution.take(replace(choice, threads=2, tile=max(1, two.num_worlds // 5)))
        _wake_threads_before_steps(two)
        _same(subject, one, two, ("on one thread", "on two"))
    return f"one and two threads give the same bits in {subject.few_steps} steps"


@contextmanager
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _wake_threads_before_steps(env: TorchVectorEnv) -> None:
    """Wake all threads before each step: another thread would finish the step before a sleeping one takes part."""
    step, numbers = env.step, torch.empty(1 << 17)  # so many that torch shares them out

    def step_by_all(actions: Tensor) -> object:
        numbers.zero_()
        return step(actions)

    env.step = step_by_all  # type: ignore[assignment, method-assign]


def batch_sizes(subject: Subject) -> str:
    """Some worlds give the same bits among more worlds and by themselves: the first ones, and later ones."""
    worlds = max(3, subject.few_worlds)
    few = worlds // 3
    for first in (0, few):
        whole, part = subject.make(worlds), subject.make(few, first_world=first)
        _same(subject, whole, part, (f"among {worlds} worlds", f"in a part of {few}"))
    return f"{few} of {worlds} worlds give the same bits by themselves"


def executors(subject: Subject) -> str:
    plain = subject.make()
    _same(subject, subject.make(checked=True), plain, ("in the checked build", "in the plain build"))
    shown = ["CPU: batch"]
    in_python = ("python",) if subject.program.python.texts else ()
    for name in (*EXECUTORS["cpu"][1:], *in_python):
        other = subject.make(executor=name)
        _same(subject, subject.make(), other, ("by the executor batch", f"by {name}"))
        shown.append(name)
    shown += _on_cuda(subject) if torch.cuda.is_available() else _emulated(subject)
    return f"the same bits by {', '.join(shown)}"


def _on_cuda(subject: Subject) -> list[str]:
    for name in EXECUTORS["cuda"]:
        other = subject.make(executor=name, device="cuda")
        _same(subject, subject.make(), other, ("on the CPU", f"on CUDA by {name}"))
        other.check_faults()
    return [f"{'CUDA: ' * (not number)}{name}" for number, name in enumerate(EXECUTORS["cuda"])]


def _emulated(subject: Subject) -> list[str]:
    """The CUDA units compiled by g++, on a machine without a GPU."""
    worlds, steps = min(subject.few_worlds, _EMULATED_WORLDS), min(subject.few_steps, _EMULATED_STEPS)
    for name, unit in subject.emulated.items():
        try:
            library = unit.result()
        except BuildError as error:
            raise Failed(
                f"the unit for CUDA ({name}) does not compile under g++: {error}",
                "write C++ that both compilers accept; the message has the line",
            ) from None
        other = subject.make(worlds, _library=library)
        other.sim.memory.context.tile = max(1, worlds // 2)
        sides = "on the CPU", f"by the CUDA executor {name}, emulated"
        _same(subject, subject.make(worlds), other, sides, steps)
    return [f"{'emulated CUDA: ' * (not number)}{name}" for number, name in enumerate(EXECUTORS["cuda"])]


def seeds(subject: Subject) -> str:
    first, second = subject.make(), subject.make()
    _same(
        subject,
        first,
        second,
        ("once", "and once more with the same seed"),
        remedy="draw by world.random() only: addresses, times and leftovers of others do not follow from the seed",
    )
    second.reset(seed=subject.seed + 1)
    first.reset(seed=subject.seed)
    policy = Policy(first, first.num_worlds, seed=subject.seed)
    for _ in range(min(subject.few_steps, 100)):
        one, other = stepped(first, policy), stepped(second, policy)
        if any(first_difference(one[name], other[name]) for name in one):
            return "the same seed gives the same bits, another seed other ones"
    if any(state_difference(first, world, second, world) for world in range(first.num_worlds)):
        return "the same seed gives the same bits, another seed another state, which observations do not show"
    raise Warned(
        "another seed gives the same episodes",
        "if that is intended, ignore this; otherwise draw in 'start' by world.random()",
    )


def _same(
    subject: Subject,
    first: TorchVectorEnv,
    second: TorchVectorEnv,
    sides: tuple[str, str],
    steps: int | None = None,
    remedy: str = _LEFT_OVER,
) -> None:
    first.reset(seed=subject.seed)
    policy = Policy(first, first.num_worlds, seed=subject.seed)
    compared(first, second, policy, steps or subject.few_steps, seed=subject.seed, sides=sides, remedy=remedy)



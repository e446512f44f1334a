"""Checks an environment: ``python -m torch_batchsim.check my_module:my/Env-v0``, or ``check_env`` in a test."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from ..base.names import suggestion
from ..declare.environment import Environment
from ..declare.run_options import RunOptions
from ..errors import BuildError, SchemaError, StepTimeout, SystemCrash, WorldFault
from .outcomes import CheckFailed, Failed, Outcome, Report, Skipped, Warned
from .progress import Progress
from .records import CHECKS, Check
from .subject import Subject, declaration

__all__ = ["CHECKS", "CheckFailed", "Outcome", "Report", "check_env", "run_checks"]


def check_env(
    environment: str | type[Environment] | Environment,
    *,
    worlds: int = 64,
    steps: int = 2000,
    seed: int = 0,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    reference: Callable[[], Any] | None = None,
    **options: Any,
) -> Report:
    """Run all checks of an environment, and raise one error with all that have failed.

    Args:
        environment: a class or instance of ``Environment``; or a name: a registered id, a short name (``"cartpole"``),
            ``"module:my/Env-v0"``, ``"module:Class"``, ``"file.py"`` or ``"file.py:Class"``.
        worlds, steps: of the long run with random and extreme actions; other checks take fewer.
        seed: of worlds and actions.
        only, skip: names of checks, as in ``CHECKS``, that run, or that do not.
        reference: makes an object with ``reset(state)`` and ``step(action)``, which is compared step by step.
        **options: of the environment; and of ``RunOptions``, such as ``checks``, the findings of the checked build
            (``Checks(nan=False)`` where inactive rows show infinity on purpose), and ``watchdog``: a check whose step
            takes longer fails.

    Returns the report, whose ``warnings`` may be of interest. Raises CheckFailed, an AssertionError; TypeError or
    ValueError for wrong arguments.
    """
    run = RunOptions.taken_from(options)
    subject = Subject(declaration(environment, options), worlds, steps, seed, reference, run)
    report = run_checks(subject, only, skip)
    if report.failed:
        raise CheckFailed(report)
    return report


def run_checks(
    subject: Subject,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    after_each: Callable[[Outcome], None] | None = None,
    progress: Progress | None = None,
) -> Report:
    """The report of all checks, or of those that are chosen; failures are in it. ``after_each`` gets each outcome."""
    chosen = _chosen(only, skip)
    checks_executors = any(check.name == "executors" for check in chosen) and not torch.cuda.is_available()
    outcomes: list[Outcome] = []
    for number, check in enumerate(chosen, 1):
        if progress is not None:
            progress.begin(check.name, number, len(chosen))
        try:
            outcomes.append(_outcome(check, subject, outcomes))
        finally:
            if progress is not None:
                progress.end()
        if check.name == "build" and outcomes[-1].status == "passed" and checks_executors:
            subject.emulated  # noqa: B018  compiled while other checks run
        if after_each is not None:
            after_each(outcomes[-1])
    title = f"{subject.environment.name}: {subject.worlds} worlds, {subject.steps} steps, seed {subject.seed}"
    return Report(title, tuple(outcomes))


def _chosen(only: Sequence[str], skip: Sequence[str]) -> list[Check]:
    known = [check.name for check in CHECKS]
    for what, names in (("only", only), ("skip", skip)):
        if isinstance(names, str):
            raise TypeError(f"{what} must be a sequence of names, got {names!r}; write ({names!r},)")
        for name in names:
            if name not in known:
                near = suggestion(name, known)
                raise ValueError(f"{what} names {name!r}, which is not a check{near}; checks are {', '.join(known)}")
    return [check for check in CHECKS if (not only or check.name in only) and check.name not in skip]


def _outcome(check: Check, subject: Subject, before: Sequence[Outcome]) -> Outcome:
    failed = [outcome.name for outcome in before if outcome.status == "failed"]
    if "build" in failed:
        return Outcome(check.name, "skipped", "the environment could not be built")
    try:
        return Outcome(check.name, "passed", check.run(subject))
    except Skipped as skipped:
        return Outcome(check.name, "skipped", str(skipped))
    except Warned as warned:
        return Outcome(check.name, "warning", warned.says, warned.remedy)
    except Failed as wrong:
        return Outcome(check.name, "failed", wrong.says, wrong.remedy)
    except WorldFault as fault:
        if "faults" in failed:
            return Outcome(check.name, "skipped", "stopped by a fault, which 'faults' reports")
        return Outcome(check.name, "failed", f"a system reported a fault: {fault.faults[0]}", "repair that system")
    except (BuildError, SchemaError) as error:
        return Outcome(check.name, "failed", str(error))
    except (StepTimeout, SystemCrash) as stopped:
        return Outcome(check.name, "failed", str(stopped), "repair that system")
    except Exception as error:  # a bug in the environment's Python, or in a reference
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}:{frame.lineno}, in {frame.name}"
        return Outcome(check.name, "failed", f"{where}: {type(error).__name__}: {error}", "repair what is named there")

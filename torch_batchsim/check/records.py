"""All checks, a record each, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import contract, course, lifetimes, reference, sameness, stale
from .subject import Subject


@dataclass(frozen=True)
class Check:
    """``run`` returns a sentence about its result, or raises ``Failed``, ``Warned`` or ``Skipped``."""

    name: str
    about: str
    run: Callable[[Subject], str]


CHECKS = (
    Check("build", "the declaration holds together, and the systems compile", contract.build),
    Check("faults", "thousands of steps with random and extreme actions report no fault", contract.faults),
    Check("spaces", "shapes and dtypes are those of the spaces", contract.spaces),
    Check("bounds", "observations lie within observation_space", contract.bounds_of_observations),
    Check("finite", "observations and rewards hold no NaN and no infinity", contract.finite),
    Check("masks", "every row has a legal action in every step", contract.masks),
    Check("refused", "actions outside the space are rejected, or clipped", contract.refused_actions),
    Check("episodes", "episodes end", course.episodes),
    Check("rewards", "rewards are not always the same", course.rewards),
    Check("observations", "observations change within episodes", course.observations),
    Check("actions", "actions make a difference", course.actions),
    Check("stale", "observations are of the state that they are returned with", stale.stale),
    Check("leftovers", "nothing depends on earlier contents of memory", stale.leftovers),
    Check("seeds", "the same seed gives the same episodes, another seed other ones", sameness.seeds),
    Check("threads", "one and two threads give the same bits", sameness.threads),
    Check("batch", "a world does not depend on the number of worlds beside it", sameness.batch_sizes),
    Check("executors", "all executors give the same bits", sameness.executors),
    Check("autoreset", "episodes are the same in all autoreset modes", lifetimes.autoreset),
    Check("partial", "a reset of some worlds changes no other world", lifetimes.partial_reset),
    Check("state", "a saved state goes on as its original", lifetimes.save_and_restore),
    Check("copies", "a copied world goes on as its source", lifetimes.copies),
    Check("reference", "every step is that of a reference in Python", reference.reference),
)

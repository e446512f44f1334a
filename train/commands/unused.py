"""Options that change nothing beside the others of a command: refused, so that nobody waits for what they would do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..base.errors import UsageError
from .options import Options


@dataclass(frozen=True)
class Need:
    """Options, whether the others let them change something, and what is said where they do not."""

    names: tuple[str, ...]
    is_met: Callable[[Options], bool]
    says: str


def _reads(kind: str) -> Callable[[Options], bool]:
    """Whether a part of the observation is read so."""
    return lambda options: any(text.rpartition("=")[2].partition(":")[0] == kind for text in options.config.encoders)


NEEDS = (
    Need(("memory_size",), lambda o: o.config.memory != "none", "without a memory: give --memory lstm or --memory gru"),
    Need(("conv_channels",), _reads("conv"), "without --encoders conv"),
    Need(("embedding_size",), _reads("embedding"), "without --encoders embedding"),
    Need(("attention_size", "attention_heads"), _reads("attention"), "without --encoders attention"),
    Need(("past_every", "past_most", "past_players"), lambda o: o.config.past_share > 0, "without --past-share"),
    Need(("anneal_from", "anneal_until"), lambda o: bool(o.config.anneal), "without --anneal, which names numbers"),
    Need(("clip_coef",), lambda o: o.config.algorithm == "ppo", "with --algorithm a2c, which does not clip"),
    Need(
        ("run_dir", "track", "checkpoint_every", "show", "tune"),
        lambda o: o.eval is None,
        "with --eval, which trains nothing",
    ),
    Need(
        ("eval_stochastic",),
        lambda o: o.eval_episodes > 0 or o.video_every is not None,
        "with --eval-episodes 0, which does without an evaluation",
    ),
)


def refuse(options: Options, arguments: Sequence[str]) -> None:
    """Raise UsageError for an option among the arguments that changes nothing.

    What a file of settings or an environment declares is not looked at: it holds all settings, those that rest too.

    Args:
        options: all of the command, those of a checkpoint that goes on too.
        arguments: what was given on the command line, in long forms.
    """
    given = [word.partition("=")[0].removeprefix("--").replace("-", "_") for word in arguments if word[:2] == "--"]
    for need in NEEDS:
        for name in need.names:
            if name in given and not need.is_met(options):
                raise UsageError(f"--{name.replace('_', '-')} changes nothing {need.says}; leave it out")

"""Learns from rollouts: one module for each algorithm, and the `Trainer` that runs them.

An algorithm is one module with its settings and its `Learner`, listed in `LEARNERS`.
It must not know files, progress reports or options of a command.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ..base.config import Config
from .a2c import A2C
from .learner import Learner
from .ppo import PPO

LEARNERS: dict[str, type[Learner]] = {each.settings.algorithm: each for each in (PPO, A2C)}
"""By the name that the setting `algorithm` has."""


def learner_of(algorithm: str) -> type[Learner]:
    """The learner of an algorithm. Raises ValueError for an unknown one."""
    if algorithm not in LEARNERS:
        raise ValueError(f"algorithm is {algorithm!r}, but must be one of {', '.join(LEARNERS)}")
    return LEARNERS[algorithm]


def names_of(algorithm: str | None = None) -> list[str]:
    """The names of the settings of an algorithm, or of all."""
    kinds = [each.settings for each in LEARNERS.values()] if algorithm is None else [learner_of(algorithm).settings]
    return list(dict.fromkeys(setting.name for kind in kinds for setting in fields(kind)))


def config_of(settings: Mapping[str, Any]) -> Config:
    """The settings by name, those of PPO unless `algorithm` names another. Raises ValueError for a refused one."""
    return learner_of(settings.get("algorithm", "ppo")).settings(**settings)

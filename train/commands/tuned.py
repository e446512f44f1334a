"""Settings with which an environment says that it is learned: ``torch_batchsim.Environment.training``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch_batchsim

from ..algorithms import config_of, names_of
from ..base.config import Config


def tuned_settings(env_id: str, env_options: Iterable[str] = (), algorithm: str | None = None) -> dict[str, Any]:
    """By name; of `env_options`, as key=value, and the algorithm the first that has settings of its own counts."""
    training = torch_batchsim.training_settings(env_id)
    special = (training[option] for option in [*env_options, f"algorithm={algorithm}"] if option in training)
    return dict(next(special, training.get("", {})))


def tuned_config(env_id: str, env_options: Iterable[str] = (), algorithm: str | None = None) -> Config:
    """The settings of an algorithm, by default that of the environment, with defaults where it declares nothing.

    Raises ValueError for a value that is refused.
    """
    declared = tuned_settings(env_id, env_options, algorithm)
    settings = {**declared, "algorithm": algorithm or declared.get("algorithm", "ppo")}
    names = names_of(settings["algorithm"])
    return config_of({name: value for name, value in settings.items() if name in names})

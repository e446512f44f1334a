"""Settings with which an environment says that it is learned: ``torch_batchsim.Environment.training``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import torch_batchsim

from ..base.config import Config


def tuned_settings(env_id: str, env_options: Iterable[str] = ()) -> dict[str, Any]:
    """By name; `env_options` are those given, as key=value: the first that has settings of its own counts."""
    training = torch_batchsim.training_settings(env_id)
    special = (training[option] for option in env_options if option in training)
    return dict(next(special, training.get("", {})))


def tuned_config(env_id: str, env_options: Iterable[str] = ()) -> Config:
    """Those of PPO, with the defaults of `Config` where the environment says nothing.

    Raises ValueError for values that `Config` refuses.
    """
    settings, names = tuned_settings(env_id, env_options), {setting.name for setting in fields(Config)}
    return Config(**{name: value for name, value in settings.items() if name in names})

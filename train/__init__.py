"""PPO and A2C for the environments of torch_batchsim: `python -m torch_batchsim.train --help`.

From code: `Trainer(env, Config(...)).iterate()` is one rollout and its updates.
"""

from .algorithms.advantages import generalised_advantages
from .algorithms.trainer import Trainer
from .base.config import Config
from .policies.networks import ActorCritic
from .rollouts.evaluation import EndlessEpisode, Evaluation, evaluate
from .rollouts.finite import NoLegalAction, NotFinite

__all__ = [
    "ActorCritic", "Config", "EndlessEpisode", "Evaluation", "NoLegalAction", "NotFinite", "Trainer",
    "evaluate", "generalised_advantages",
]  # fmt: skip

"""Trains policies in the environments of torch_batchsim: `python -m torch_batchsim.train --help`.

From code: `Trainer(env, PPOConfig(...)).iterate()` is one rollout and its updates.

Packages, each of which imports from those before it only:
1. `base/`
2. `policies/`
3. `rollouts/`
4. `algorithms/`
5. `run_folder/`
6. `commands/`
Above them stand the commands: `__main__`, `compare`, `export`, `match`, `teams`.
"""

from .algorithms.a2c import A2CConfig
from .algorithms.advantages import generalised_advantages
from .algorithms.ppo import PPOConfig
from .algorithms.trainer import Trainer
from .base.config import Config
from .policies.networks import ActorCritic
from .rollouts.evaluation import EndlessEpisode, Evaluation, evaluate
from .rollouts.finite import NoLegalAction, NotFinite

__all__ = [
    "A2CConfig", "ActorCritic", "Config", "EndlessEpisode", "Evaluation", "NoLegalAction", "NotFinite", "PPOConfig",
    "Trainer",
    "evaluate", "generalised_advantages",
]  # fmt: skip

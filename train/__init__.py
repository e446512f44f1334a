"""PPO for the environments of torch_batchsim: `python -m torch_batchsim.train --help`.

From code: `Trainer(env, Config(...)).iterate()` is one rollout and its updates.
"""

from .evaluation import EndlessEpisode, Evaluation, evaluate
from .finite import NotFinite
from .networks import ActorCritic
from .ppo import Config, Trainer, generalised_advantages

__all__ = [
    "ActorCritic", "Config", "EndlessEpisode", "Evaluation", "NotFinite", "Trainer", "evaluate",
    "generalised_advantages",
]  # fmt: skip

"""PPO and A2C for the environments of torch_batchsim: `python -m torch_batchsim.train --help`.

From code: `Trainer(env, Config(...)).iterate()` is one rollout and its updates.
"""

from .advantages import generalised_advantages
from .config import Config
from .evaluation import EndlessEpisode, Evaluation, evaluate
from .finite import NoLegalAction, NotFinite
from .networks import ActorCritic
from .trainer import Trainer

__all__ = [
    "ActorCritic", "Config", "EndlessEpisode", "Evaluation", "NoLegalAction", "NotFinite", "Trainer",
    "evaluate", "generalised_advantages",
]  # fmt: skip

"""rsl_rl: its ``VecEnv``, with all tensors on the device. It has policies for continuous actions only."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium.spaces import Box
from gymnasium.vector import VectorEnv

from ..declare.environment import Environment
from ..memory.inputs import checked_count, number_tensor
from ..testing import random_actions
from .episodes import stepped
from .records import ADAPTERS, Played
from .source import vector_env
from .stepping import Clipped

RECORD = ADAPTERS["rsl_rl"]
RECORD.require()

from rsl_rl.env import VecEnv  # noqa: E402
from tensordict import TensorDict  # noqa: E402


class RslRlEnv(VecEnv):
    """A vector environment for rsl_rl's runners, each row of it an environment.

    Args:
        env: an id, a declared environment, or a ``TorchVectorEnv`` with SAME_STEP, wrapped or not. Its actions are a
            Box with one axis.
        num_envs: rows, where it is made here; ``num_worlds`` may be given instead.
        max_episode_length: the most steps of an episode; by default the environment's option ``max_episode_steps``.
        seed: of the first reset, which is made here.
        options: arguments of ``TorchVectorEnv``, and with an id the environment's own.

    Observations are a ``TensorDict`` with the group ``"policy"``, float32 ``[rows, ...]``, also those of choices or
    bits; or, where the environment has a dict of them, with a group for each key. It is locked, and stays as it is
    until the step after the next one.
    Rewards are float32 ``[rows]``, dones bool ``[rows]``. ``extras["time_outs"]``, bool ``[rows]``, is true where an
    episode was truncated and not terminated. Actions outside the Box are clipped.

    Attributes: ``vector_env``, the ``TorchVectorEnv``; ``env``, the same with its wrappers; ``num_envs`` (rows),
    ``num_actions``, ``max_episode_length``, ``device``, ``cfg``.
    """

    def __init__(
        self,
        env: str | Environment | VectorEnv,
        num_envs: int | None = None,
        *,
        max_episode_length: int | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        self.env = vector_env(env, RECORD.interface("RslRlEnv"), options, num_envs)
        own = self.vector_env = self.env.unwrapped
        name, space = own.environment.name, own.single_action_space
        if not isinstance(space, Box) or len(space.shape) != 1:
            hint = "; make it with continuous=True" if "continuous" in own.environment.option_names() else ""
            raise ValueError(f"rsl_rl needs actions of a Box with one axis, and {name} has {space}{hint}")
        if max_episode_length is None:
            max_episode_length = getattr(own.environment.parameters, "max_episode_steps", None)
            if max_episode_length is None:
                raise ValueError(f"{name} has no option max_episode_steps: RslRlEnv needs max_episode_length")
        max_episode_length = checked_count(max_episode_length, "max_episode_length")
        self.num_envs, self.num_actions = own.num_envs, space.shape[0]
        self.max_episode_length, self.device = max_episode_length, own.device
        self.cfg = {"environment": name, "num_envs": self.num_envs}
        self._clipped = Clipped(own)
        self._observations, _ = self._begun(seed)

    def reset(self) -> tuple[TensorDict, dict[str, Any]]:
        """Begin new episodes in all worlds: ``(observations, extras)``. Runners do not call it."""
        self._observations, extras = self._begun(None)
        return self._observations, extras

    def get_observations(self) -> TensorDict:
        """The present ones."""
        self.vector_env.check_open()
        return self._observations

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        """``actions``: floats ``[rows, num_actions]``."""
        return stepped(self.env, self._clipped(actions), self._delivered)

    def _delivered(
        self,
        observations: Any,
        rewards: torch.Tensor,
        terminated: torch.Tensor,
        truncated: torch.Tensor,
        extras: dict[str, Any],
    ) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        extras.pop("episode", None)  # of EpisodeStatistics: rsl_rl counts by itself, and would average it over all rows
        extras["time_outs"] = torch.gt(truncated, terminated)
        dones = extras.get("_final_obs")
        if dones is None:
            dones = terminated | truncated
        self._observations = self._converted(observations)
        return self._observations, rewards, dones, extras

    @property
    def episode_length_buf(self) -> torch.Tensor:
        """Steps of each row's episode so far, int32 ``[rows]``, a copy: ``episode_steps`` of the vector environment.

        Assign to it to let episodes begin at different times, as runners do with ``init_at_random_ep_len=True``. The
        rows of a world share its episode; of the numbers that runners draw for them the first counts.
        """
        return self.vector_env.episode_steps

    @episode_length_buf.setter
    def episode_length_buf(self, steps: torch.Tensor) -> None:
        steps = number_tensor(steps, "episode_length_buf")
        if tuple(steps.shape) != (self.num_envs,):
            raise ValueError(f"episode_length_buf must have shape [{self.num_envs}], got {list(steps.shape)}")
        self.vector_env.episode_steps = steps[:: self.vector_env.num_agents]

    def render(self) -> Any:
        """As the vector environment does."""
        return self.env.render()

    def close(self) -> None:
        """Close the vector environment."""
        self.env.close()

    def _begun(self, seed: int | None) -> tuple[TensorDict, dict[str, Any]]:
        observations, infos = self.env.reset(seed=seed)
        return self._converted(observations), infos

    def _converted(self, observations: Any) -> TensorDict:
        groups = observations if isinstance(observations, dict) else {"policy": observations}
        floats = {key: part.float() if part.ndim > 1 else part.float().unsqueeze(-1) for key, part in groups.items()}
        return TensorDict(floats, batch_size=[self.num_envs], device=self.device).lock_()


def play(environment: str, num_envs: int, **options: Any) -> Played:
    """Rows with random actions."""
    env = RslRlEnv(environment, num_envs, seed=0, **options)
    return Played(env, RslRlEnv.step, random_actions(env.vector_env))

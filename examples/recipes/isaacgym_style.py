"""An environment for trainers in the manner of IsaacGym: dicts of tensors, one flag for both ends, autoreset within.

In CleanRL's ``ppo_continuous_action_isaacgym.py`` it takes the place of ``isaacgymenvs.make(...)``; imports of
``isaacgym`` and ``isaacgymenvs`` go::

    envs = IsaacGymStyle(torch_batchsim.make_vec("cartpolecontinuous", args.num_envs, device=device.type))
"""

from typing import Any

import torch

import torch_batchsim


class IsaacGymStyle(torch_batchsim.TorchVectorWrapper):
    """``reset() -> {"obs": ...}``, ``step(actions) -> ({"obs": ...}, rewards, dones int64, {"time_outs": ...})``."""

    def __init__(self, env: torch_batchsim.TorchVectorEnv) -> None:
        super().__init__(env)  # made with SAME_STEP, the default
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space

    def reset(self) -> dict[str, torch.Tensor]:
        return {"obs": self.env.reset()[0]}

    def step(self, actions: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor, Any]:
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        return {"obs": observations}, rewards, (terminations | truncations).long(), {**infos, "time_outs": truncations}

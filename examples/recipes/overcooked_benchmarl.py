"""BenchMARL with an environment of torch_batchsim: its MAPPO, or another algorithm, in Overcooked.

    python examples/recipes/overcooked_benchmarl.py --algorithm ippo --frames 192000

BenchMARL 1.5.2 asks for torchrl < 0.12, which the adapter takes too; docs/recipes.md says how it was run.
"""

import argparse
import copy
from collections.abc import Callable
from typing import Any

import torch
from benchmarl.algorithms import algorithm_config_registry
from benchmarl.environments import TaskClass
from benchmarl.experiment import Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from torchrl.data import Composite
from torchrl.envs import EnvBase, FlattenObservation, Transform

from torch_batchsim.adapters.torchrl import TorchRLEnv


class BatchsimTask(TaskClass):
    """``name`` is an environment's short name or ``module:Class`` (without a slash), ``config`` has its options."""

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], EnvBase]:
        config = copy.deepcopy(self.config)

        def make() -> EnvBase:
            env = TorchRLEnv(self.name, num_worlds=num_envs, device=str(device), **config)
            env.set_seed(seed)
            return env

        return make

    def supports_continuous_actions(self) -> bool:
        return False

    def supports_discrete_actions(self) -> bool:
        return True

    def max_steps(self, env: EnvBase) -> int:
        return self.config["horizon"]

    def has_render(self, env: EnvBase) -> bool:
        return False

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        return env.group_map

    def get_env_transforms(self, env: EnvBase) -> list[Transform]:
        """BenchMARL's MLP takes vectors."""
        return [FlattenObservation(-3, -1, in_keys=[(group, "observation") for group in env.group_map])]

    def observation_spec(self, env: EnvBase) -> Composite:
        return self._only(env, "observation")

    def action_mask_spec(self, env: EnvBase) -> Composite | None:
        return self._only(env, "action_mask")

    def info_spec(self, env: EnvBase) -> Composite | None:
        return self._only(env, "info")

    def state_spec(self, env: EnvBase) -> None:
        return None

    def action_spec(self, env: EnvBase) -> Composite:
        return env.full_action_spec_unbatched

    @staticmethod
    def env_name() -> str:
        return "torch_batchsim"

    def _only(self, env: EnvBase, name: str) -> Composite | None:
        """The specs of the groups without all other names; None where there is none of this name."""
        spec = env.full_observation_spec_unbatched.clone()
        for group in self.group_map(env):
            for key in [key for key in spec[group].keys() if key != name]:  # noqa: SIM118
                del spec[group, key]
        return spec if all(name in spec[group].keys() for group in self.group_map(env)) else None  # noqa: SIM118


def experiment(algorithm: str = "mappo", frames: int = 192_000, worlds: int = 64, seed: int = 0) -> Experiment:
    """One that learns in a small kitchen; ``run()`` runs it."""
    options = {"horizon": 100, "shaping_factor": 1.0, "obs_dtype": "float32"}
    config = ExperimentConfig.get_from_yaml()
    config.max_n_frames, config.max_n_iters = frames, None
    config.on_policy_n_envs_per_worker = config.off_policy_n_envs_per_worker = worlds
    config.on_policy_collected_frames_per_batch = config.off_policy_collected_frames_per_batch = worlds * 100
    config.on_policy_minibatch_size, config.on_policy_n_minibatch_iters = 1600, 4
    config.lr, config.loggers, config.create_json = 1e-3, [], False
    config.evaluation_interval, config.evaluation_episodes = worlds * 100 * 5, 16
    model = MlpConfig(num_cells=[64, 64], layer_class=torch.nn.Linear, activation_class=torch.nn.Tanh)
    return Experiment(
        task=BatchsimTask("overcooked", options),
        algorithm_config=algorithm_config_registry[algorithm].get_from_yaml(),
        model_config=model,
        critic_model_config=model,
        seed=seed,
        config=config,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--algorithm", default="mappo", choices=[*algorithm_config_registry])
    parser.add_argument("--frames", type=int, default=192_000)
    given = parser.parse_args()
    made = experiment(given.algorithm, given.frames)
    made.run()
    print(f"mean return {made.mean_return:.1f}")

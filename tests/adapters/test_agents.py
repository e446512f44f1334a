"""``by_agent=True``, as it is, under the wrappers that other libraries have for several agents."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from libraries_of_others import library

library(__file__, "pettingzoo", "skrl", "torchrl")

from pettingzoo.test import parallel_api_test  # noqa: E402
from pettingzoo.utils import BaseParallelWrapper  # noqa: E402
from skrl.envs.wrappers.torch import wrap_env  # noqa: E402
from skrl.memories.torch import RandomMemory  # noqa: E402
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model  # noqa: E402
from skrl.multi_agents.torch.ippo import IPPO, IPPO_CFG  # noqa: E402
from skrl.trainers.torch import SequentialTrainer  # noqa: E402
from torchrl.envs.libs.pettingzoo import PettingZooWrapper  # noqa: E402
from torchrl.envs.utils import check_env_specs, check_marl_grouping  # noqa: E402

from torch_batchsim import AgentsVectorEnv  # noqa: E402

OVERCOOKED = "torch_batchsim/Overcooked-v0"
ONE_WORLD = {
    "overcooked": (OVERCOOKED, {"horizon": 15}),
    "hanabi": ("torch_batchsim/Hanabi-v0", {"turns": "all"}),
    "cartpole": ("torch_batchsim/CartPole-v0", {"max_episode_steps": 15}),
    "swarm": ("torch_batchsim/Swarm-v0", {"max_episode_steps": 15}),
}


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """TorchRL says which version of PettingZoo it was tested with, and what it copies."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*PettingZoo in TorchRL is tested")
        yield


def one_world(name: str, **kwargs: Any) -> AgentsVectorEnv:
    """As interfaces to one world without autoreset want it."""
    id, options = ONE_WORLD[name]
    return gymnasium.make_vec(id, by_agent=True, autoreset_mode="Disabled", output="numpy", **options, **kwargs)


# ---- skrl: Isaac Lab's interface -----------------------------------------------------------------------------------


class Policy(CategoricalMixin, Model):
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.net = torch.nn.Linear(self.num_observations, self.num_actions)

    def compute(self, inputs: dict[str, torch.Tensor], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs["observations"].float()), {}


class Value(DeterministicMixin, Model):
    def __init__(self, **spaces: Any) -> None:
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = torch.nn.Linear(self.num_observations, 1)

    def compute(self, inputs: dict[str, torch.Tensor], role: str) -> tuple[torch.Tensor, dict[str, Any]]:
        return self.net(inputs["observations"].float()), {}


class Memory(RandomMemory):
    """Keeps also what rollouts after this one overwrite."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.kept: list[dict[str, torch.Tensor]] = []

    def add_samples(self, **tensors: torch.Tensor) -> None:
        self.kept.append({name: tensor.clone() for name, tensor in tensors.items()})
        super().add_samples(**tensors)


def test_skrls_ippo_learns_from_its_games(tmp_path: Path) -> None:
    """Its memories hold the transitions of an environment by row whose results are copies."""
    torch.manual_seed(0)
    worlds, steps, rollouts = 16, 48, 16
    kwargs = {"num_worlds": worlds, "horizon": 10}
    env = wrap_env(gymnasium.make_vec(OVERCOOKED, by_agent=True, **kwargs), wrapper="isaaclab-multi-agent")
    env._seed = 7  # skrl seeds by a global of its own
    assert (env.num_envs, env.num_agents, env.device) == (worlds, 2, torch.device("cpu"))
    models = {}
    for agent in env.possible_agents:
        spaces = {"observation_space": env.observation_space(agent), "action_space": env.action_space(agent)}
        models[agent] = {"policy": Policy(**spaces), "value": Value(**spaces)}
    memories = {agent: Memory(memory_size=rollouts, num_envs=worlds) for agent in env.possible_agents}
    quiet = {"write_interval": 0, "checkpoint_interval": 0, "directory": str(tmp_path)}
    empty = {  # by agent, since skrl 2.1.1 does not expand an empty dict
        f"{part}_kwargs": {agent: {} for agent in env.possible_agents}
        for part in ("learning_rate_scheduler", "observation_preprocessor", "state_preprocessor", "value_preprocessor")
    }
    config = IPPO_CFG(
        **empty, rollouts=rollouts, learning_epochs=1, mini_batches=1, time_limit_bootstrap=True, experiment=quiet
    )
    agents = IPPO(
        possible_agents=env.possible_agents, models=models, memories=memories, cfg=config,
        observation_spaces=env.observation_spaces, action_spaces=env.action_spaces, state_spaces=env.state_spaces,
    )  # fmt: skip
    before = {name: weight.clone() for name, weight in models["agent_1"]["policy"].named_parameters()}
    trainer = {"timesteps": steps, "headless": True, "disable_progressbar": True, "close_environment_at_exit": False}
    SequentialTrainer(cfg=trainer, env=env, agents=agents).train()
    assert any(not torch.equal(before[name], new) for name, new in models["agent_1"]["policy"].named_parameters())

    rows = gymnasium.make_vec(OVERCOOKED, copy=True, **kwargs)
    observations, _ = rows.reset(seed=7)
    for step in range(steps):
        stored = [memories[agent].kept[step] for agent in env.possible_agents]
        expected = rows.by_world(observations).flatten(2)
        assert torch.equal(torch.stack([kept["observations"] for kept in stored], 1), expected)
        assert all(torch.equal(kept["states"], expected.flatten(1)) for kept in stored)
        actions = torch.cat([kept["actions"] for kept in stored], 1)
        observations, _, _, truncations, _ = rows.step(actions.view(-1))
        assert torch.equal(torch.cat([kept["truncated"] for kept in stored], 1), rows.by_world(truncations))


# ---- PettingZoo, and TorchRL's wrapper for it ----------------------------------------------------------------------


class WithoutOptions(BaseParallelWrapper):
    """The test resets with an undefined option."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(seed=seed)


@pytest.mark.parametrize("name", ["overcooked", "cartpole", "swarm"])
def test_pettingzoos_test_of_parallel_environments(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(WithoutOptions(one_world(name)), num_cycles=60)


@pytest.mark.parametrize("name", ["overcooked", "hanabi", "swarm"])
def test_torchrls_wrapper_of_pettingzoo(name: str) -> None:
    """A rollout over the ends of episodes; of Hanabi with masks, without which a move would be a fault."""
    torch.manual_seed(0)
    env = PettingZooWrapper(BaseParallelWrapper(one_world(name)), use_mask=True)
    agents = env.possible_agents
    assert env.group_map == {"agent": agents}
    check_env_specs(env)
    check_marl_grouping(env.group_map, agents)
    rollout = env.rollout(40, break_when_any_done=False)
    assert rollout["next", "done"].any() and rollout["agent", "mask"].shape == (40, len(agents))
    if name == "hanabi":
        mask, actions = rollout["agent", "action_mask"], rollout["agent", "action"]
        assert mask.gather(-1, actions[..., None]).all() and not mask.all()

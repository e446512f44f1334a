"""A toy environment with the interface of torch_batchsim's, for the spaces that CartPole does not have."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from torch_batchsim.train.run_folder import report


class ToyEnv:
    """Observations are noise that differs in every row and step. Row r has episodes of r % 4 + 2 steps, which
    terminate where r is even and are truncated where it is odd. The reward is the number of the step.

    With `masked`, one choice is forbidden in each row, another one in each step. `step` asserts that actions
    are in the space and allowed.
    """

    def __init__(
        self,
        num_envs: int = 6,
        observation_space: gymnasium.Space | None = None,
        action_space: gymnasium.Space | None = None,
        masked: bool = False,
    ) -> None:
        self.num_envs, self.device, self.masked = num_envs, torch.device("cpu"), masked
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = observation_space or spaces.Box(-1, 1, (3,), np.float32)
        self.single_action_space = action_space or spaces.Discrete(4)
        self.now, self.seed = 0, 0
        self.lengths = torch.arange(num_envs) % 4 + 2
        self.bound: dict[str, Any] = {
            "observations": self.noise(0),
            "final_obs": self.noise(0),
            "rewards": torch.zeros(num_envs),
            "terminations": torch.zeros(num_envs, dtype=torch.bool),
            "truncations": torch.zeros(num_envs, dtype=torch.bool),
        }
        if masked:
            self.bound["action_mask"] = self.mask()

    def noise(self, salt: int) -> Any:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.now * 1009 + salt)

        def draw(box: spaces.Box) -> torch.Tensor:
            values = torch.rand(self.num_envs, *box.shape, generator=generator) * 255
            return values.to(torch.uint8) if box.dtype == np.uint8 else values / 128 - 1

        space = self.single_observation_space
        return {name: draw(box) for name, box in space.items()} if isinstance(space, spaces.Dict) else draw(space)

    def mask(self) -> torch.Tensor:
        choices = self.single_action_space.n
        forbidden = (torch.arange(self.num_envs) + self.now) % choices
        return ~torch.nn.functional.one_hot(forbidden, choices).bool()

    def bind_slots(self, **tensors: Any) -> None:
        self.slots = tensors

    def select_slot(self, slot: int) -> None:
        def at(tensors: Any) -> Any:
            return {name: part[slot] for name, part in tensors.items()} if isinstance(tensors, dict) else tensors[slot]

        self.bound |= {name: at(tensors) for name, tensors in self.slots.items()}

    @property
    def observations(self) -> Any:
        return self.bound["observations"]

    active = None  # all rows always take part

    @property
    def action_mask(self) -> torch.Tensor | None:
        return self.bound.get("action_mask")

    def write(self, target: Any, source: Any) -> None:
        for name in source if isinstance(source, dict) else [...]:
            target[name].copy_(source[name])

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        self.now, self.seed = 0, seed
        self.write(self.bound["observations"], self.noise(0))
        if self.masked:
            self.bound["action_mask"].copy_(self.mask())
        return self.bound["observations"], self.infos()

    def infos(self) -> dict[str, Any]:
        return {"action_mask": self.bound["action_mask"]} if self.masked else {}

    def step(self, actions: torch.Tensor) -> tuple[Any, ...]:
        if self.masked:
            assert self.mask().gather(1, actions[:, None]).all()
        for action in actions.numpy():
            assert self.single_action_space.contains(action)
        self.now += 1
        ends = self.now % self.lengths == 0
        even = torch.arange(self.num_envs) % 2 == 0
        self.bound["rewards"].fill_(self.now)
        self.bound["terminations"].copy_(ends & even)
        self.bound["truncations"].copy_(ends & ~even)
        self.write(self.bound["final_obs"], self.noise(1))
        self.write(self.bound["observations"], self.noise(0))
        if self.masked:
            self.bound["action_mask"].copy_(self.mask())
        outputs = (self.bound[name] for name in ("observations", "rewards", "terminations", "truncations"))
        return (*outputs, self.infos() | {"final_obs": self.bound["final_obs"], "_final_obs": ends})

    def state_dict(self) -> dict[str, Any]:
        return {"now": self.now, "seed": self.seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.now, self.seed = state["now"], state["seed"]
        self.write(self.bound["observations"], self.noise(0))
        if self.masked:
            self.bound["action_mask"].copy_(self.mask())


@pytest.fixture
def toy_env() -> type[ToyEnv]:
    return ToyEnv


@pytest.fixture(autouse=True)
def no_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings write an empty picture, because a curve takes half a second; tests of pictures draw it."""
    if request.module.__name__.rpartition(".")[2] not in ("test_report", "test_compare_runs"):
        monkeypatch.setattr(report, "save_curves", lambda axes, path, steps=None: path.write_bytes(b""))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """The bits of matrix products depend on the number of threads, and tests run beside others."""
    torch.set_num_threads(1)

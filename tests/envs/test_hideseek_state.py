"""Hide and seek: how many bytes a world has, and that they are enough."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hideseek_scene import FORWARD
from torch_batchsim.envs.hideseek import HideSeek

from torch_batchsim import TorchVectorEnv
from torch_batchsim.testing import random_actions

MOST_BYTES = 8192  # of a world without its observations
WORLDS = 64


def played(steps: int = 0, **options: Any) -> TorchVectorEnv:
    """With ``critic``, as most tests have it: what that shows beside observations is none of a world's own either."""
    env = TorchVectorEnv(HideSeek(critic=True, **options), num_worlds=WORLDS)
    env.reset(seed=0)
    for actions in random_actions(env, steps):
        env.step(actions)
    return env


def test_a_world_has_at_most_8_kib_without_observations() -> None:
    env = played()
    observations = {*env.environment.observation.values(), *env.environment.critic.values()}
    sizes = env.sim.bytes_by_column
    assert observations <= sizes.keys()
    assert sum(size for name, size in sizes.items() if name not in observations) <= MOST_BYTES
    saved = {name: tensor.numel() / WORLDS for name, tensor in env.sim.state_dict()["tensors"].items()}
    for name, size in sizes.items():  # what is counted is what is saved
        field = f"column_{name.replace('.', '_')}"
        assert saved.pop(field, size) == size
    assert not [name for name in saved if name.startswith("column_") and name != "column_physics_Hulls"]


@pytest.mark.full
def test_all_contacts_that_bear_something_are_kept() -> None:
    env = played()
    most = env.sim.tensor("physics.Contacts.preload").shape[-1]
    for actions in random_actions(env, 60, seed=1):
        actions[:, :3] = torch.tensor(FORWARD[:3], dtype=actions.dtype)  # up to what is ahead, and against it
        actions[:, 4] = 0
        env.step(actions)
        rows, count = env.sim.tensor("physics.Contacts.rows"), env.sim.tensor("physics.Contacts.count")
        assert (rows <= count).all()
        assert (rows < most).all()
    assert rows.max() > 16  # more than all that move on the floor


@pytest.mark.full
def test_contacts_that_find_no_room_to_be_kept_begin_anew() -> None:
    env = played(60, physics={"kept_contacts": 4})
    assert (env.sim.tensor("physics.Contacts.count") > 4).all()
    assert (env.sim.tensor("physics.Contacts.rows") == 4).all()
    height = env.sim.tensor("Agent.physics.Pose.position")[..., 2]
    assert ((height > 0.9) & (height < 4.0)).all()  # they stand, on the floor or on a ramp

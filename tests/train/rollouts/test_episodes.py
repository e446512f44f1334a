"""Returns and lengths of episodes, followed from rollout to rollout."""

from types import SimpleNamespace

import pytest
import torch
from torch_batchsim.train.base.ranks import ALONE
from torch_batchsim.train.rollouts import episodes
from torch_batchsim.train.rollouts.rollout import Storage


@pytest.mark.parametrize("come_and_go", [False, True])
def test_torch_and_cpp_follow_them_alike(come_and_go, monkeypatch):
    torch.manual_seed(0)
    steps, rows = 9, 60
    env = SimpleNamespace(num_envs=rows, num_agents=3, device=torch.device("cpu"), metadata={})
    ways = [episodes.Episodes(env, ALONE) for _ in range(2)]
    active = torch.ones(rows, dtype=torch.bool) if come_and_go else None
    storage = Storage(steps, torch.zeros(rows, 2), torch.zeros(rows, dtype=torch.int64), None, active)
    for _ in range(6):
        storage.rewards.normal_()
        storage.terminations.copy_(torch.rand(steps, rows) < 0.1)
        storage.truncations.copy_(torch.rand(steps, rows) < 0.1)
        if come_and_go:
            storage.active.copy_(torch.rand(steps + 1, rows) < 0.7)
            storage.rewards[~storage.active[:-1]] = torch.nan
        found = []
        for way, at_once in zip(ways, (True, False), strict=True):
            with monkeypatch.context() as patch:
                patch.setattr(episodes, "can_compute", lambda *_, at_once=at_once: at_once)
                found.append(way.statistics(storage) | way.state_dict())
        torch.testing.assert_close(*found, equal_nan=True)
    assert found[0]["all_ended"] and found[0]["charts/episodic_return/agent_2"].isfinite()

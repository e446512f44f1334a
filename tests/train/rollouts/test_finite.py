"""A training that meets NaN or infinity stops, and names what it was and where."""

import itertools
import re

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch_batchsim.train import NoLegalAction, NotFinite, PPOConfig, Trainer
from torch_batchsim.train.algorithms.ppo import PPO
from torch_batchsim.train.commands import cli
from torch_batchsim.train.rollouts.finite import FiniteCheck
from torch_batchsim.train.rollouts.rollout import Storage
from torch_batchsim.train.run_folder import checkpoint

from torch_batchsim import Component, Struct, f32
from torch_batchsim.declare.columns import Column

ENV = "torch_batchsim/CartPole-v0"
SMALL = {"num_envs": 6, "num_steps": 8, "num_minibatches": 2, "total_steps": 480, "hidden_sizes": (8,)}
COMMAND = "--num-envs 8 --num-steps 16 --num-minibatches 2 --total-steps 1024 --eval-episodes 2".split()


def toy_trainer(env, **settings):
    return Trainer(env, PPOConfig(**SMALL | settings))


def after_step(env, number, change):
    """Lets `change(env)` happen after the step with this number, from 1."""
    step, count = env.step, iter(range(1, 10_000))

    def changed(actions):
        outputs = step(actions)
        if next(count) == number:
            change(env.bound)
        return outputs

    env.step = changed


def test_the_observation_is_named(toy_env):
    env = toy_env()
    env.num_agents = 2
    trainer = toy_trainer(env)
    after_step(env, 12, lambda bound: bound["observations"][3].copy_(torch.tensor([0.5, -torch.inf, torch.nan])))
    trainer.iterate()
    before = trainer.groups[0].learner.parameters.clone()
    with pytest.raises(NotFinite) as raised:
        trainer.iterate()
    assert str(raised.value) == (
        "observation[1] of world 1, agent 1 (row 3) is -infinity after step 4 of update 2 "
        "(2 values there are not finite): correct the value that the environment writes there"
    )
    assert torch.equal(trainer.groups[0].learner.parameters, before)  # nothing was learned from it
    assert trainer.iteration == 1


def test_the_part_of_a_dict_is_named(toy_env):
    space = spaces.Dict(a=spaces.Box(-1, 1, (2,), np.float32), b=spaces.Box(-1, 1, (2, 3), np.float32))
    env = toy_env(observation_space=space)
    after_step(env, 1, lambda bound: bound["observations"]["b"][5, 1, 2].fill_(torch.nan))
    with pytest.raises(NotFinite, match=re.escape("observation['b'][1, 2] of world 5 is nan after step 1 of update 1")):
        toy_trainer(env).iterate()


def test_the_reward_is_named(toy_env):
    env = toy_env()
    after_step(env, 3, lambda bound: bound["rewards"][2].fill_(torch.inf))
    with pytest.raises(NotFinite, match=r"^the reward of world 2 is infinity in step 3 of update 1: correct the value"):
        toy_trainer(env).iterate()


def test_only_the_final_observations_count_that_are_learned_from(toy_env):
    def spoil(row):
        env = toy_env()  # row 0 terminates after 2 steps, row 1 is truncated after 3
        after_step(env, 3, lambda bound: bound["final_obs"][row].fill_(torch.nan))
        return toy_trainer(env)

    spoil(0).iterate()
    with pytest.raises(NotFinite, match=r"^final observation\[0\] of world 1 is nan after step 3 of update 1"):
        spoil(1).iterate()


def test_inactive_rows_may_hold_anything(toy_env):
    trainer = toy_trainer(toy_env())
    storage, active = trainer.storage, torch.ones(9, 6, dtype=torch.bool)
    trainer.rollout()
    storage.obs[4, 2], storage.rewards[4, 2], active[4, 2] = torch.nan, torch.nan, False
    trainer.finite.look_at_rollout(1, storage.of(None)._replace(active=active))
    trainer.finite.raise_found()
    trainer.finite.look_at_rollout(1, storage)
    with pytest.raises(NotFinite, match="of world 2 is nan after step 4"):
        trainer.finite.raise_found()


def test_parameters_that_large_rewards_have_spoilt_are_named(toy_env):
    env = toy_env()
    after_step(env, 2, lambda bound: bound["rewards"].fill_(1e30))
    trainer = toy_trainer(env)
    with pytest.raises(NotFinite, match=r"losses|value_loss") as raised:
        trainer.iterate()
    assert re.match(r"value_loss is (nan|infinity) in update 1", str(raised.value))
    assert re.search(r"observations \(up to 0\.\d+\) and returns \(up to 1e\+30\) were finite", str(raised.value))


def test_worlds_and_rows_are_those_of_all_processes(toy_env):
    env = toy_env()
    check = FiniteCheck(env, 2, first_world=10)
    env.observations[5, 0] = torch.nan
    check.look_at_step(7, env.observations, None, None)
    with pytest.raises(NotFinite, match=r"observation\[0\] of world 12, agent 1 \(row 25\) is nan after step 7: "):
        check.raise_found()


def test_returns_that_overflow_are_not_called_finite(toy_env):
    env = toy_env()
    after_step(env, 2, lambda bound: bound["rewards"].fill_(3e38))
    after_step(env, 3, lambda bound: bound["rewards"].fill_(3e38))
    with pytest.raises(NotFinite, match=r"rewards were finite, but returns made of them are (nan|inf): let"):
        toy_trainer(env).iterate()


def test_a_parameter_is_named_by_its_layer(toy_env):
    trainer = toy_trainer(toy_env())
    update = trainer.groups[0].learner.update

    def spoilt(batch):
        metrics = update(batch)
        trainer.groups[0].agent.critic.head.weight.data[0, 3] = torch.nan
        return metrics

    trainer.groups[0].learner.update = spoilt
    with pytest.raises(NotFinite, match=r"^parameter critic\.head\.weight is nan after update 1: observations"):
        trainer.iterate()


def test_the_first_is_reported_where_reading_has_to_wait(toy_env, monkeypatch):
    """As on CUDA, where nothing is read in an iteration."""
    env = toy_env()
    after_step(env, 2, lambda bound: bound["rewards"][4].fill_(torch.nan))
    trainer = toy_trainer(env)
    with monkeypatch.context() as patched:
        patched.setattr(trainer, "check_finite", lambda wait=True: None)
        for _ in range(3):
            trainer.iterate()
    assert trainer.groups[0].learner.parameters.isnan().any()
    with pytest.raises(NotFinite, match=r"^the reward of world 4 is nan in step 2 of update 1"):
        trainer.check_finite()


def test_fields_are_named():
    env = gymnasium.make_vec("torch_batchsim/Swarm-v0", num_envs=1)
    names = [env.observation_name([i]) for i in (0, 1, 4, 5, 6, 17, 55)]
    assert names == [f"Ship.View.{name}" for name in (
        "place[0]", "place[1]", "wait", "hull", "drones[0, 0]", "drones[2, 1]", "bullets[4, 4]")]  # fmt: skip


class Leg(Struct):
    angle: f32
    hip: f32[2]


class Body(Component):
    x: f32
    legs: Leg[2]


def test_fields_in_structs_are_named():
    column = Column("Dog.Body", "Dog", Body, 1, False)
    names = [column.element_name([i]).removeprefix("Dog.Body.") for i in range(7)]
    legs = [f"legs.{name}" for i in (0, 1) for name in (f"angle[{i}]", f"hip[{i}, 0]", f"hip[{i}, 1]")]
    assert names == ["x", *legs]


@pytest.mark.parametrize("continuous", [False, pytest.param(True, marks=pytest.mark.full)])
def test_the_command_stops_and_goes_on_when_the_cause_is_gone(continuous, tmp_path, monkeypatch, capsys):
    rollout = Trainer.rollout

    def spoilt(self):
        if self.iteration == 3:
            self.env.sim.tensor("Cart.CartState.theta_dot")[5] = torch.nan
        rollout(self)

    options = ["--continuous", "true"] if continuous else []
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "rollout", spoilt)
        assert cli.main(["cartpole", *COMMAND, *options, "--run-dir", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    what = r"observation\[\d\] \(Cart\.CartState\.\w+\) of world 5 is nan after step 1 of update 4"
    assert re.match(f"error: training failed after 384 steps: {what}", captured.err)
    path = tmp_path / "checkpoint.pt"
    assert f"--resume {path}" in captured.out
    contents = checkpoint.load(path, ENV)
    assert all(tensor.isfinite().all() for tensor in contents["trainer"]["groups"][0]["agent"].values())
    assert cli.main(["cartpole", "--resume", str(path), "--eval-episodes", "2"]) == 0


def test_spoilt_networks_are_not_saved(tmp_path, monkeypatch, capsys):
    update, updates = PPO.update, itertools.count()

    def spoilt(self, batch):
        metrics = update(self, batch)
        if next(updates) == spoil_at:
            self.parameters.data.fill_(torch.nan)
        return metrics

    monkeypatch.setattr(PPO, "update", spoilt)
    spoil_at = 5
    assert cli.main(["cartpole", *COMMAND, "--checkpoint-every", "2", "--run-dir", str(tmp_path / "a")]) == 1
    assert checkpoint.load(tmp_path / "a" / "checkpoint.pt", ENV)["steps"] == 4 * 128
    spoil_at, updates = 0, itertools.count()
    capsys.readouterr()
    assert cli.main(["cartpole", *COMMAND, "--run-dir", str(tmp_path / "b")]) == 1
    captured = capsys.readouterr()
    assert "checkpoint      none" in captured.out and "--resume" not in captured.out
    assert "parameter log_std is nan" in captured.err or "parameter actor.body.0.weight is nan" in captured.err




# ---- masks that allow nothing ----------------------------------------------------------------------------


def test_an_agent_without_a_legal_action_is_named(toy_env):
    env = toy_env(masked=True)
    env.num_agents = 2
    trainer = toy_trainer(env)
    after_step(env, 12, lambda bound: bound["action_mask"][3].fill_(False))
    trainer.iterate()
    before = trainer.groups[0].learner.parameters.clone()
    env.mask = lambda: torch.ones(6, 4, dtype=torch.bool)  # takes any action: it is the mask that is wrong
    with pytest.raises(NoLegalAction) as raised:
        trainer.iterate()
    assert str(raised.value) == (
        "world 1, agent 1 (row 3) has no legal action after step 4 of update 2: its action_mask must allow at least "
        "one action, a pass for one that does not act"
    )
    assert torch.equal(trainer.groups[0].learner.parameters, before)


def test_what_a_fault_keeps_from_being_taken_has_no_mask(toy_env):
    env = toy_env(masked=True)

    def fail(bound):
        raise RuntimeError("a fault")

    after_step(env, 2, fail)
    with pytest.raises(RuntimeError, match=r"^a fault$"):
        toy_trainer(env).iterate()


@pytest.mark.parametrize("active", [False, True])
def test_each_of_several_choices_needs_an_action(toy_env, active):
    env = toy_env(action_space=spaces.MultiDiscrete([2, 3]))
    check = FiniteCheck(env, 1)
    masks, rows = torch.ones(3, 6, 5, dtype=torch.bool), torch.ones(3, 6, dtype=torch.bool)
    masks[1, 4, 2:] = False
    rows[1, 4] = active
    rollout = Storage(2, torch.zeros(6, 3), torch.zeros(6, 2, dtype=torch.int64)).of(None)
    check.look_at_rollout(3, rollout._replace(active=rows, action_masks=masks))
    if active:
        with pytest.raises(NoLegalAction, match=r"^world 4 has no legal action in choice 1 of 2 after step 1 of"):
            check.raise_found()
    else:
        check.raise_found()

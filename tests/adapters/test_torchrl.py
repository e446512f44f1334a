"""TorchRL: its own checks of environments, and data that equal those of the vector environment."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.drift import Drift
from environments.duel import Duel
from environments.melee import Melee
from gymnasium.spaces import Discrete
from libraries_of_others import library, run_example, run_script

from torch_batchsim import EpisodeStatistics, TorchVectorEnv

library(__file__, "torchrl", "tensordict")
from tensordict import TensorDict, TensorDictBase  # noqa: E402
from torchrl import logger  # noqa: E402
from torchrl.collectors import Collector  # noqa: E402
from torchrl.envs import (  # noqa: E402
    ActionMask,
    Compose,
    GymWrapper,
    MarlGroupMapType,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from torchrl.envs.utils import check_env_specs, check_marl_grouping, step_mdp  # noqa: E402

from torch_batchsim.adapters.torchrl import TorchRLEnv  # noqa: E402

logger.setLevel("WARNING")
MODES = ("Disabled", "NextStep", "SameStep")
SHORT = {  # options with which episodes end soon
    "CartPole": {"max_episode_steps": 20},
    "Swarm": {"max_episode_steps": 9},
    "Overcooked": {"horizon": 9},
    "Hanabi": {},
    "HideSeek": {"max_episode_steps": 9},
}
NAMES = [pytest.param(name, marks=pytest.mark.full) if name == "HideSeek" else name for name in SHORT]


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    torch.manual_seed(0)


def made(name: str, num_worlds: int = 3, *, mode: str = "Disabled", **options: Any) -> TorchRLEnv:
    id = f"torch_batchsim/{name}-v0"
    return TorchRLEnv(id, num_worlds=num_worlds, autoreset_mode=mode, **SHORT[name], **options)


def melee(mode: str = "Disabled", **options: Any) -> TorchRLEnv:
    return TorchRLEnv(TorchVectorEnv(Melee(), num_worlds=5, autoreset_mode=mode), **options)


def assert_as_stepped(data: TensorDictBase, bare: TorchVectorEnv, seed: int | None) -> None:
    """The transitions ``data [worlds, steps]`` are those of a vector environment with the same actions.

    Args:
        bare: with ``SAME_STEP`` and ``copy=True``.
    """

    def assert_alike(found: TensorDictBase, observations: Any, infos: dict[str, torch.Tensor], where: str) -> None:
        named = observations if isinstance(observations, dict) else {(): observations}
        expected = {("observation", *np.atleast_1d(key)): rows for key, rows in named.items()}
        for key in bare.sim.program.info:
            rows = infos[key]
            if key == "action_mask":
                rows = rows | ~rows.any(1, keepdim=True)
            expected[(key,) if key in ("action_mask", "active") else ("info", key)] = rows
        for path, rows in expected.items():
            assert torch.equal(found[path].reshape(rows.shape), rows), f"{path} {where}"

    group = (lambda now: now["agents"]) if bare.num_agents > 1 else (lambda now: now)
    observations, infos = bare.reset(seed=seed)
    for step in range(data.shape[1]):
        now = data[:, step]
        assert_alike(group(now), observations, infos, f"before step {step}")
        actions = group(now)["action"].reshape(bare.action_space.shape)
        observations, rewards, terminations, truncations, infos = bare.step(actions)
        ended = infos["_final_obs"]

        def last(final: Any, rows: Any, ended: torch.Tensor = ended) -> Any:
            if isinstance(rows, dict):
                return {key: last(final[key], part) for key, part in rows.items()}
            return torch.where(ended.view(-1, *(1,) * (rows.ndim - 1)), final, rows)

        final_infos = {key: last(infos["final_info"][key], infos[key]) for key in bare.sim.program.info}
        assert_alike(group(now["next"]), last(infos["final_obs"], observations), final_infos, f"after step {step}")
        assert torch.equal(group(now["next"])["reward"].flatten(), rewards)
        worlds = [bare.sim.tensor(f"World.{name}") for name in ("terminated", "truncated")]
        for name, flags in zip(("terminated", "truncated", "done"), (*worlds, worlds[0] | worlds[1]), strict=True):
            assert torch.equal(now["next", name].flatten(), flags), f"{name} after step {step}"
        if bare.sim.program.agent_end is not None:
            assert torch.equal(now["next", "agents", "terminated"].flatten(), terminations)
            assert torch.equal(now["next", "agents", "truncated"].flatten(), truncations)


def bare_of(env: TorchRLEnv) -> TorchVectorEnv:
    return TorchVectorEnv(env.vector_env.environment, num_worlds=env.vector_env.num_worlds, copy=True)


# ---- TorchRL's checks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("categorical", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_specs(name, mode, categorical) -> None:
    for num_worlds in (1, 2, 7):
        env = made(name, num_worlds, mode=mode, categorical_actions=categorical)
        assert env.batch_size == (num_worlds,)
        check_env_specs(env, seed=1)
        for break_when_any_done in (True, False):
            check_env_specs(env, break_when_any_done=break_when_any_done)


@pytest.mark.parametrize("mode", MODES)
def test_specs_where_agents_have_ends_of_their_own(mode) -> None:
    env = melee(mode)
    check_env_specs(env, break_when_any_done="both")
    assert env.full_done_spec["agents", "done"].shape == (5, 4, 1)
    assert env.observation_spec["agents", "active"].shape == (5, 4, 1)


def test_several_environments_in_one() -> None:
    several = SerialEnv(2, partial(made, "Overcooked"))
    check_env_specs(several)
    assert several.rollout(20, break_when_any_done=False)["next", "done"].sum() == 2 * 3 * 2
    several.close()


# ---- data ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_rollouts_hold_the_results_of_a_vector_environment_with_copies(name, mode) -> None:
    env = made(name, mode=mode)
    for seed, break_when_any_done in ((5, False), (6, True)):
        env.set_seed(seed)
        data = env.rollout(45, break_when_any_done=break_when_any_done)
        assert_as_stepped(data, bare_of(env), seed)
        ends = data["next", "done"].sum(1)
        assert 1 <= ends.sum() == data["next", "done"][:, -1].sum() if break_when_any_done else ends.sum() > 3


@pytest.mark.parametrize("mode", MODES)
def test_rollouts_hold_ends_of_agents(mode) -> None:
    env = melee(mode)
    env.set_seed(2)
    data = env.rollout(60, break_when_any_done=False)
    assert_as_stepped(data, bare_of(env), 2)
    assert (data["next", "agents", "done"] & ~data["next", "done"].unsqueeze(-1)).any()  # and the world goes on
    assert not data["agents", "active"].all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["CartPole", "Hanabi"])
def test_a_collector_over_ends_of_episodes(name, mode) -> None:
    env = made(name, mode=mode)
    env.set_seed(4)
    collector = Collector(env, env.rand_action, frames_per_batch=3 * 25, total_frames=2 * 3 * 25)
    batches = [batch.clone() for batch in collector]
    data = torch.cat(batches, 1)
    assert data.shape == (3, 50) and data["next", "done"].sum() > 3
    assert_as_stepped(data, bare_of(env), 4)
    changes = data["collector", "traj_ids"][:, 1:] != data["collector", "traj_ids"][:, :-1]
    assert torch.equal(changes, data["next", "done"][:, :-1, 0])


@pytest.mark.parametrize("mode", MODES)
def test_worlds_are_reset_by_masks(mode) -> None:
    env = made("CartPole", 4, mode=mode)
    env.set_seed(0)
    data = env.rollout(3, break_when_any_done=False)[:, -1]
    now = step_mdp(data)
    before = now["observation"].clone()
    now["_reset"] = mask = torch.tensor([[True], [False], [True], [False]])
    after = env.reset(now)
    changed = (after["observation"] != before).any(1, keepdim=True)
    assert torch.equal(changed, mask)
    assert torch.equal(env.vector_env.sim.tensor("World.step"), torch.tensor([0, 3, 0, 3], dtype=torch.int32))
    assert torch.equal(env.vector_env.observations, after["observation"])


def test_a_seed_holds_from_the_next_reset_of_all_worlds_on() -> None:
    env = made("Overcooked", random_start=True)
    first = [env.set_seed(3), env.reset(), env.reset()][1:]
    again = [env.set_seed(3), env.reset(), env.reset()][1:]
    other = [env.set_seed(4), env.reset()][1]
    for a, b in zip(first, again, strict=True):
        assert (a == b).all()
    assert not (first[0] == first[1]).all() and not (first[0] == other).all()
    assert (env.reset(seed=3) == first[0]).all()


# ---- action masks ----------------------------------------------------------------------------------------------------


def test_random_actions_are_legal() -> None:
    env = TransformedEnv(made("Hanabi", 8), Compose(ActionMask(), StepCounter(), RewardSum()))
    check_env_specs(env)
    data = env.rollout(60, break_when_any_done=False)
    assert data["action_mask"].gather(-1, data["action"].unsqueeze(-1)).all()
    assert data["next", "done"].sum() > 8
    assert data["step_count"].max() > 1 and not data["action_mask"][~data["done"].squeeze(-1)].all()
    ended = data["next", "done"].squeeze(-1)
    assert data["next", "action_mask"][ended].all()  # of episodes that have ended everything


def test_worlds_that_are_done_stand_still_until_all_are() -> None:
    torch.manual_seed(0)  # at random, all worlds end in one step now and then
    env = made("Hanabi", 6)
    data = env.rollout(100, break_when_all_done=True)
    assert data["next", "done"][:, -1].all() and not data["next", "done"][:, -2].all()
    now = env.reset()
    now["_step"] = torch.tensor([True] * 5 + [False])
    with pytest.raises(ValueError, match="'_step' may leave out only worlds that are done"):
        env.rand_step(now)
    with pytest.raises(ValueError, match="need autoreset_mode='Disabled'"):
        made("Hanabi", 6, mode="SameStep").rollout(100, break_when_all_done=True)


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_groups_of_agents() -> None:
    env = made("Overcooked")
    check_marl_grouping(env.group_map, env.agent_names)
    assert env.group_map == {"agents": ["agent_0", "agent_1"]}
    assert env.full_action_spec["agents", "action"].shape == (3, 2)
    assert env.observation_spec["agents", "observation"].shape == (3, 2, 5, 4, 26)
    assert env.full_reward_spec["agents", "reward"].shape == (3, 2, 1)
    each = made("Overcooked", group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT)
    check_marl_grouping(each.group_map, each.agent_names)
    check_env_specs(each, break_when_any_done="both")
    env.set_seed(1), each.set_seed(1)
    now, apart = env.reset(), each.reset()
    for _ in range(12):
        env.rand_action(now)
        for agent in range(2):
            apart[f"agent_{agent}", "action"] = now["agents", "action"][:, agent : agent + 1]
        (then, now), (then_apart, apart) = env.step_and_maybe_reset(now), each.step_and_maybe_reset(apart)
        for agent in range(2):
            assert (then["next", "agents"][:, [agent]] == then_apart["next", f"agent_{agent}"]).all()


@pytest.mark.parametrize("mode", MODES)
def test_scattered_groups(mode) -> None:
    grouping = {"odd": ["agent_3", "agent_1"], "even": ["agent_0", "agent_2"]}
    env, whole = melee(mode, group_map=grouping), melee(mode)
    check_marl_grouping(env.group_map, env.agent_names)
    check_env_specs(env, break_when_any_done="both")
    env.set_seed(1), whole.set_seed(1)
    now, together = env.reset(), whole.reset()
    for _ in range(30):
        whole.rand_action(together)
        now["odd", "action"], now["even", "action"] = (together["agents", "action"][:, [*a]] for a in ((3, 1), (0, 2)))
        (then, now), (then_together, together) = env.step_and_maybe_reset(now), whole.step_and_maybe_reset(together)
        for name, agents in (("odd", [3, 1]), ("even", [0, 2])):
            assert (then["next", name] == then_together["next", "agents"][:, agents]).all()


def test_teams_are_groups() -> None:
    env = melee(group_map="team")
    assert env.group_map == {"team_0": ["agent_0", "agent_2"], "team_1": ["agent_1", "agent_3"]}
    check_env_specs(env)
    assert (env.reset()["team_1", "info", "team"] == 1).all()


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_actions_of_all_kinds() -> None:
    class Shifted(Melee):
        action_space = Discrete(3, start=1)

    env = TorchRLEnv(TorchVectorEnv(Shifted(), num_worlds=2, autoreset_mode="Disabled"))
    now = env.rand_action(env.reset())
    env.step(now)
    here, chosen = now["agents", "active"].squeeze(-1), now["agents", "action"].int()
    assert torch.equal(env.vector_env.sim.tensor("Fighter.Choice.strike")[here], chosen[here] + 1)
    drift = TorchRLEnv(TorchVectorEnv(Drift(), num_envs=3))
    check_env_specs(drift)
    assert (drift.action_spec.space.high == torch.tensor([1.0, 2.0, 3.0])).all()
    duel = TorchRLEnv(TorchVectorEnv(Duel(), num_worlds=3), categorical_actions=False)
    check_env_specs(duel, break_when_any_done="both")
    assert duel.full_action_spec["agents", "action"].shape == (3, 2, 5)  # 3 and 2 choices


def test_resets_take_options() -> None:
    env = made("Hanabi", 4)
    deck = torch.tensor([5 * colour + rank for colour in range(5) for rank in (0, 0, 0, 1, 1, 2, 2, 3, 3, 4)])
    now = env.reset(options={"deck": deck.expand(4, 50), "start_player": torch.tensor([0, 0, 1, 1])})["observation"]
    assert torch.equal(now[0], now[1]) and torch.equal(now[2], now[3]) and not torch.equal(now[0], now[2])
    with pytest.raises(TypeError, match=r"reset\(\) got an unexpected keyword argument 'option'; it takes seed"):
        env.reset(option=1)


def test_the_device_of_outputs() -> None:
    env = melee()
    assert env.to("cpu") is env and env.device == torch.device("cpu")
    env.to("meta")  # whose values nobody can read, as a reset of TorchRL does
    now = env._reset()
    assert now.device == torch.device("meta") and now["agents", "observation"].device.type == "meta"
    assert env.full_action_spec["agents", "action"].device.type == "meta"


@pytest.mark.parametrize(
    "made_with, options, error, words",
    [
        ({"output": "numpy"}, {}, ValueError, "needs output='torch', got an environment with output='numpy'"),
        ({"final_obs": False}, {}, ValueError, "needs final_obs=True with SAME_STEP"),
        (EpisodeStatistics, {}, TypeError, r"without wrappers, .*EpisodeStatistics.*RewardSum\(\), StepCounter\(\)"),
        ({}, {"group_map": 3}, TypeError, "must be a MarlGroupMapType, a dict, 'team' or None, got 3"),
        ({}, {"group_map": {"a": ["agent_0"]}}, ValueError, "agent_1 wasn't found in any"),
    ],
)
def test_wrong_arguments(made_with, options, error, words) -> None:
    if made_with is EpisodeStatistics:
        env = EpisodeStatistics(TorchVectorEnv(Melee(), 4))
    else:
        env = TorchVectorEnv(Melee(), 4, **made_with)
    with pytest.raises(error, match=words):
        TorchRLEnv(env, **options)


def test_actions_that_do_not_fit_are_refused_before_anything_steps() -> None:
    env, teams = made("CartPole"), melee(group_map="team")
    now, of_teams = env.reset(), teams.reset()
    wrong = torch.zeros(3, 1, dtype=torch.int64), torch.zeros(2, dtype=torch.int64), torch.zeros(3, 2)
    for actions in wrong:
        given = TensorDict({"action": actions}, [])  # whose batch size checks no shape
        with pytest.raises(ValueError, match=rf"actions of shape \[3\] at 'action', got shape .*{actions.shape[-1]}\]"):
            env._step(given)
    with pytest.raises(ValueError, match=r"step\(\) needs actions of shape \[3\] at 'action', got none"):
        env.step(now)
    of_teams["team_0", "action"] = torch.zeros(5, 2, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"actions of shape \[5, 2\] at \('team_1', 'action'\), got none"):
        teams.step(of_teams)
    with pytest.raises(TypeError, match="actions must have dtype"):
        env.step(now.set("action", torch.zeros(3)))
    assert not env.vector_env.episode_steps.any() and not teams.vector_env.episode_steps.any()


def test_one_hot_actions_have_a_single_1() -> None:
    env, duel = made("CartPole", categorical_actions=False), TorchVectorEnv(Duel(), num_worlds=3)
    now = env.reset()
    for one_hot in ([0, 0], [1, 1], [2, 1]):
        actions = torch.tensor([[1, 0], one_hot, [0, 1]])
        with pytest.raises(ValueError, match=rf"has one 1 and 0 elsewhere; that at 'action' \[1\] is \[{one_hot[0]}, "):
            env.step(now.set("action", actions))
    env.step(now.set("action", torch.tensor([[True, False], [False, True], [False, True]])))
    env = TorchRLEnv(duel, categorical_actions=False)
    now = env.rand_action(env.reset())
    now["agents", "action"][2, 0] = torch.tensor([1, 1, 0, 1, 0])  # two in one part
    with pytest.raises(ValueError, match=r"one 1 in each of its parts of \[3, 2\] choices .* \[2, 0\] is \[1, 1, 0, 1"):
        env.step(now)
    assert not duel.episode_steps.any()
    env = melee(categorical_actions=False)
    env.set_seed(2)
    now = env.reset()
    while now["agents", "active"].all():
        now = step_mdp(env.rand_step(now))
    env.rand_action(now)["agents", "action"][~now["agents", "active"].squeeze(-1)] = 0  # of those that have left
    env.step(now)


def test_masks_that_do_not_fit_are_refused() -> None:
    env = made("CartPole")
    now = env.rand_step(env.reset())["next"]
    for mask in (torch.ones(3, 2, dtype=torch.bool), torch.ones(3, 1, 1, dtype=torch.bool)):
        with pytest.raises(ValueError, match=r"'_reset' must have shape \[3, 1\] or \[3\], got \[3, "):
            env.reset(now.clone().set("_reset", mask))
    with pytest.raises(TypeError, match="'_reset' must have dtype bool, got int64"):
        env.reset(now.clone().set("_reset", torch.ones(3, 1, dtype=torch.int64)))
    agents = melee()
    of_agents = TensorDict({"_reset": torch.ones(5, 4, 1, dtype=torch.bool)}, [5, 4])
    with pytest.raises(ValueError, match=r"worlds are reset by '_reset' at the root, got .*'agents', '_reset'"):
        agents.reset(agents.reset().empty().set("agents", of_agents))
    assert env.vector_env.episode_steps.tolist() == [1, 1, 1]


def test_pictures() -> None:
    env = made("CartPole", 2, render_mode="rgb_array")
    env.reset()
    frames = env.render()
    assert len(frames) == 2 and frames[0].dtype == np.uint8 and frames[0].shape[-1] == 3


def test_teams_must_be_there() -> None:
    with pytest.raises(ValueError, match="group_map='team' needs teams"):
        made("CartPole", group_map="team")


def test_closing() -> None:
    env = made("CartPole")
    assert not env.is_closed
    env.close()
    assert env.is_closed and env.vector_env.closed
    given = TorchVectorEnv(Melee(), 4)
    env = TorchRLEnv(given)
    assert not env.is_closed
    env.close()
    assert env.is_closed and not given.closed


# ---- beside it -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["Disabled", "SameStep"])
def test_the_wrapper_of_torchrl_takes_a_vector_environment(mode) -> None:
    options = {"num_envs": 3, "autoreset_mode": mode, **SHORT["CartPole"]}
    make = partial(gymnasium.make_vec, "torch_batchsim/CartPole-v0", **options)
    env = GymWrapper(make(), categorical_action_encoding=True)
    check_env_specs(env)
    env.set_seed(1)  # which resets
    bare = bare_of(made("CartPole"))
    bare.reset(seed=1)
    assert_as_stepped(env.rollout(40, break_when_any_done=False), bare, None)
    overwritten = GymWrapper(make(copy=False), categorical_action_encoding=True).rollout(9)["observation"]
    assert torch.equal(overwritten[:, 3], overwritten[:, 5])


@pytest.mark.full
def test_ppo_learns_cartpole() -> None:
    names = run_script("TorchRL", 0)
    assert np.mean(names["returns"][-5:]) > 150 > 50 > names["returns"][0]


@pytest.mark.full
def test_mappo_learns_in_overcooked() -> None:
    returns = run_example("torchrl_mappo")["returns"]
    assert np.mean(returns[-4:]) > 3 * np.mean(returns[:4])

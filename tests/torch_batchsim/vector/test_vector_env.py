"""The contract of gymnasium's ``VectorEnv``, and the additions of ``TorchVectorEnv``."""

from __future__ import annotations

import copy
import gc
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.drift import Drift
from environments.duel import Duel
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import ENVIRONMENTS as ALL
from support import all_but_hideseek, assert_same_bits, ended_worlds, full_but, of_worlds, random_actions, snapshot
from torch_batchsim.envs.cartpole import CartPole

import torch_batchsim
from torch_batchsim import EpisodeStatistics, TorchVectorEnv, WorldFault
from torch_batchsim.draw import Canvas

ID = "torch_batchsim/CartPole-v0"
MODES = list(AutoresetMode)
SHORT = {
    "cartpole": {"max_episode_steps": 6},
    "duel": {"max_episode_steps": 6},
    "drift": {"max_episode_steps": 6},
    "zoo": {"max_episode_steps": 6},
    "swarm": {"max_episode_steps": 6},
    "overcooked": {"horizon": 6},
    "hanabi": {"colors": 2, "hand_size": 9, "max_information_tokens": 1},  # six moves at most
    "forge": {"max_episode_steps": 6},
    "melee": {"max_episode_steps": 6},
    "hideseek": {"max_episode_steps": 6},
}
# "yard" is for systems, not for what is tested here: its tables grow, and its worlds end at different times.
ENVIRONMENTS = {name: ALL[name] for name in SHORT}
SMALL = [name for name in ENVIRONMENTS if name != "hideseek"]  # of which each simulator is made at once
quick = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def make(name: str, worlds: int, mode: AutoresetMode = AutoresetMode.SAME_STEP, **kwargs: Any) -> TorchVectorEnv:
    """A test environment with short episodes."""
    return TorchVectorEnv(ENVIRONMENTS[name](**SHORT[name]), num_worlds=worlds, autoreset_mode=mode, **kwargs)


def leaves(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor or array within dicts and tuples."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def copied(value: Any) -> Any:
    return copy.deepcopy(value)


def equal(first: Any, second: Any) -> bool:
    """Bit for bit."""
    pairs = list(zip(leaves(first), leaves(second), strict=True))
    return all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in pairs)


def rows(value: Any, selected: torch.Tensor) -> list[torch.Tensor]:
    return [part[selected] for part in leaves(value)]


# ---- how it is made ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", [ID, f"torch_batchsim:{ID}"])
def test_make_vec_by_id(id: str) -> None:
    """With options; a run's configuration is stored and made again from its spec."""
    before = copy.deepcopy((CartPole.metadata, VectorEnv.metadata, TorchVectorEnv.metadata))
    env = gymnasium.make_vec(id, num_envs=3, device="cpu", length=0.7, max_episode_steps=3)
    assert isinstance(env, TorchVectorEnv) and isinstance(env, VectorEnv) and env.unwrapped is env
    assert env.spec is not None and env.spec.id == ID and env.spec.kwargs["num_envs"] == 3
    assert env.num_envs == env.num_worlds == 3 and env.device == torch.device("cpu")
    parameters = env.environment.parameters
    assert (parameters.length, parameters.max_episode_steps) == (0.7, 3)
    again = gymnasium.make_vec(env.spec)
    assert again.num_envs == 3 and again.environment.parameters == parameters
    assert gymnasium.make(ID, gravity=5.0).spec.kwargs["gravity"] == 5.0
    assert gymnasium.make_vec(ID).environment.parameters.max_episode_steps == 500
    assert before == (CartPole.metadata, VectorEnv.metadata, TorchVectorEnv.metadata)


@pytest.mark.full
def test_num_worlds_counts_worlds_and_num_envs_rows() -> None:
    for counts in ({"num_worlds": 4}, {"num_envs": 12}, {"num_envs": 12, "num_worlds": 4}):
        env = TorchVectorEnv(Duel(fighters=3), **counts)
        assert (env.num_worlds, env.num_agents, env.num_envs) == (4, 3, 12)
        assert env.reset()[0]["cells"].sum(1).tolist() == [3 + 3 * 16] * 12
    assert TorchVectorEnv(Duel(fighters=3)).num_worlds == 1


def test_register_an_environment_of_ones_own() -> None:
    id = "torch_batchsim_tests/Duel-v0"
    torch_batchsim.register(id, Duel, max_episode_steps=4)
    try:
        env = gymnasium.make_vec(id, num_worlds=3, fighters=3)
        assert env.num_envs == 9
        assert env.environment.parameters.max_episode_steps == 4
        one = gymnasium.make(id, as_agent=2, fighters=3)
        one.reset(seed=0)
        assert [one.step([0, 0])[3] for _ in range(4)] == [False, False, False, True]  # gymnasium's limit
    finally:
        del gymnasium.registry[id]


@pytest.mark.parametrize("mode", [None, *MODES, *(m.value for m in MODES)], ids=str)
def test_autoreset_mode_is_the_enum_in_both_places(mode: AutoresetMode | str | None) -> None:
    env = gymnasium.make_vec(ID, **({} if mode is None else {"autoreset_mode": mode}))
    expected = AutoresetMode.SAME_STEP if mode is None else AutoresetMode(mode)
    assert env.metadata["autoreset_mode"] is expected
    assert env.autoreset_mode is expected
    assert env.metadata["render_modes"] == ["rgb_array"]
    assert env.metadata["render_fps"] == 50


@pytest.mark.parametrize("name", all_but_hideseek(ENVIRONMENTS))
def test_spaces_are_batches_of_the_single_ones_and_contain_the_results(name: str) -> None:
    env = make(name, 4)
    assert env.action_space == batch_space(env.single_action_space, env.num_envs)
    assert env.observation_space == batch_space(env.single_observation_space, env.num_envs)
    generator = np.random.default_rng(0)
    observations, _ = env.reset(seed=0)
    for _ in range(12):
        parts = isinstance(observations, dict)
        as_numpy = {k: v.numpy() for k, v in observations.items()} if parts else observations.numpy()
        assert env.observation_space.contains(as_numpy)
        observations, rewards, terminations, truncations, infos = env.step(random_actions(env, generator))
        assert (rewards.dtype, terminations.dtype, truncations.dtype) == (torch.float32, torch.bool, torch.bool)
        assert rewards.shape == terminations.shape == truncations.shape == (env.num_envs,)
        assert isinstance(infos, dict)
        assert all(isinstance(part, torch.Tensor) and part.shape[0] == env.num_envs for part in leaves(infos))


# ---- one world as a plain environment ------------------------------------------------------------------------------


def test_gymnasiums_checker_has_nothing_to_say() -> None:
    env = gymnasium.make(ID, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*Box observation space m..imum value is -?infinity")  # as CartPole-v1's
        check_env(env.unwrapped)
    env.close()


def test_a_single_environment_plays_the_vector_environments_first_world() -> None:
    single, vector = gymnasium.make(ID), gymnasium.make_vec(ID, num_envs=2, output="numpy")
    observation, info = single.reset(seed=9)
    observations, _ = vector.reset(seed=9)
    assert isinstance(observation, np.ndarray)
    assert np.array_equal(observation, observations[0])
    assert info == {}
    for step in range(60):
        observation, reward, terminated, truncated, _ = single.step(step // 3 % 2)
        observations, rewards, terminations, _, infos = vector.step(np.full(2, step // 3 % 2))
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)
        assert (reward, terminated) == (rewards[0], terminations[0])
        if terminated:
            assert np.array_equal(observation, infos["final_obs"][0])
            break
        assert np.array_equal(observation, observations[0])
    assert terminated


def test_single_environments_in_gymnasiums_own_vectorisers() -> None:
    env = gymnasium.make_vec(ID, num_envs=2, vectorization_mode="sync")
    observations, _ = env.reset(seed=0)
    assert observations.shape == (2, 4)
    assert not np.array_equal(observations[0], observations[1])
    env.step(env.action_space.sample())
    env.close()


# ---- autoreset -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", all_but_hideseek(ENVIRONMENTS))
def test_same_step(name: str) -> None:
    """``final_obs`` is what a world that is not reset shows at its end; observations are those of the next start."""
    env, still = make(name, 50), make(name, 50, AutoresetMode.DISABLED)
    generator = np.random.default_rng(0)
    env.reset(seed=1)
    still.reset(seed=1)
    ends = 0
    for _ in range(20):
        actions = random_actions(env, generator)
        observations, rewards, terminations, truncations, infos = env.step(actions)
        last, still_rewards, still_terminations, still_truncations, still_infos = still.step(actions)
        ended = terminations | truncations
        assert equal((rewards, terminations, truncations), (still_rewards, still_terminations, still_truncations))
        assert infos["_final_obs"] is not None
        assert torch.equal(infos["_final_obs"], ended)
        assert torch.equal(infos["_final_info"], ended)
        assert equal(tuple(rows(infos["final_obs"], ended)), tuple(rows(last, ended)))
        assert equal(tuple(rows(observations, ~ended)), tuple(rows(last, ~ended)))
        for key in set(infos) - {"final_obs", "_final_obs", "final_info", "_final_info"}:
            assert torch.equal(infos["final_info"][key][ended], still_infos[key][ended])
            assert torch.equal(infos["final_info"][f"_{key}"], ended)
        if ended.any():
            started, _ = still.reset(options={"reset_mask": ended_worlds(still)})
            assert equal(observations, started)
        ends += int(ended.sum())
    assert ends > 100
    # A reset by mask clears the rewards and the own ends of those that have ended in this very step.
    columns = ({k: t for k, t in snapshot(e.sim).items() if k.startswith("column")} for e in (env, still))
    assert_same_bits(*({k: t for k, t in each.items() if not k.endswith(("Reward", "AgentEnd"))} for each in columns))


@pytest.mark.parametrize("name", all_but_hideseek(ENVIRONMENTS))
def test_next_step(name: str) -> None:
    """The step after an end ignores the action, rewards 0, sets no flag, and shows the next start."""
    env, other = make(name, 50, AutoresetMode.NEXT_STEP), make(name, 50, AutoresetMode.NEXT_STEP)
    generator = np.random.default_rng(0)
    env.reset(seed=1)
    other.reset(seed=1)
    ended = torch.zeros(env.num_envs, dtype=torch.bool)
    ends = 0
    for _ in range(20):
        actions, others = random_actions(env, generator), random_actions(env, generator)
        mixed = torch.where(ended.view(-1, *[1] * (actions.dim() - 1)), others, actions)
        result = env.step(actions)
        assert equal(result, other.step(mixed))
        _, rewards, terminations, truncations, infos = result
        assert not (terminations | truncations)[ended].any()
        assert torch.all(rewards[ended] == 0)
        assert "final_obs" not in infos
        assert "final_info" not in infos
        episodes = env.sim.tensor("World.step").repeat_interleave(env.num_agents)
        assert torch.all(episodes[ended] == 0)
        ends += int(ended.sum())
        ended = ended_worlds(env).repeat_interleave(env.num_agents)
    assert ends >= 100


@pytest.mark.parametrize("name", all_but_hideseek(ENVIRONMENTS))
def test_disabled_worlds_stand_still(name: str) -> None:
    env = make(name, 50, AutoresetMode.DISABLED)
    generator = np.random.default_rng(0)
    env.reset(seed=1)
    for _ in range(6):
        env.step(random_actions(env, generator))
    observations, _, terminations, truncations, _ = copied(env.step(random_actions(env, generator)))
    assert torch.all(terminations | truncations)  # the time limit at the latest
    steps = env.sim.tensor("World.step").clone()
    for _ in range(2):
        again, rewards, *flags, infos = env.step(random_actions(env, generator))
        assert equal(again, observations)
        assert equal(tuple(flags), (terminations, truncations))
        assert not rewards.any()
        assert "final_obs" not in infos
    assert torch.equal(env.sim.tensor("World.step"), steps)


# ---- reset ---------------------------------------------------------------------------------------------------------


def test_seeds() -> None:
    env = make("cartpole", 6)
    first = copied(env.reset(seed=4)[0])
    second = copied(env.reset()[0])
    assert not equal(first, second) and len(torch.unique(first)) == first.numel()
    assert equal(copied(env.reset(seed=4)[0]), first)
    assert equal(copied(env.reset(seed=None)[0]), second)  # goes on with the present seed
    assert equal(copied(env.reset(seed=np.int64(4))[0]), first)
    seen = [first, *(copied(env.reset(seed=seed)[0]) for seed in (0, 5, 2**32, 2**63, 2**64 - 1))]
    seen += [make("cartpole", 6).reset()[0] for _ in range(2)]  # without a seed every run is another
    assert not any(equal(a, b) for i, a in enumerate(seen) for b in seen[:i])


@pytest.mark.crossed
@pytest.mark.parametrize("kind", ["torch", "numpy"])
@pytest.mark.parametrize("per", ["row", "world"])
@pytest.mark.parametrize("name", all_but_hideseek(ENVIRONMENTS))
def test_reset_mask_resets_those_worlds_alone(name: str, per: str, kind: str) -> None:
    env = make(name, 9, AutoresetMode.DISABLED)
    generator = np.random.default_rng(0)
    env.reset(seed=2)
    for _ in range(3):
        env.step(random_actions(env, generator))
    worlds = torch.tensor([True, False, False, True, False, False, False, False, True])
    mask = worlds if per == "world" else worlds.repeat_interleave(env.num_agents)
    before = snapshot(env.sim)
    env.reset(options={"reset_mask": torch.zeros_like(mask)})
    assert_same_bits(before, snapshot(env.sim))
    observations, _ = env.reset(options={"reset_mask": mask if kind == "torch" else mask.numpy()})
    after = snapshot(env.sim)
    assert_same_bits(of_worlds(after, ~worlds), of_worlds(before, ~worlds))
    assert torch.equal(env.sim.tensor("World.step") == 0, worlds)
    assert torch.equal(env.sim.tensor("World.episode"), worlds.int())
    fresh = make(name, 9, AutoresetMode.DISABLED)
    fresh.reset(seed=2)
    second, _ = fresh.reset()
    selected = worlds.repeat_interleave(env.num_agents)
    assert equal(tuple(rows(observations, selected)), tuple(rows(second, selected)))


def test_reset_mask_with_a_seed_seeds_those_worlds() -> None:
    env = make("cartpole", 4)
    first = copied(env.reset(seed=1)[0])
    other = copied(env.reset(seed=2)[0])
    mixed, _ = env.reset(seed=1, options={"reset_mask": np.array([True, False, True, False])})
    assert torch.equal(mixed[[0, 2]], first[[0, 2]])
    assert torch.equal(mixed[[1, 3]], other[[1, 3]])


# ---- memory --------------------------------------------------------------------------------------------------------


@pytest.mark.crossed
@pytest.mark.parametrize("output", ["torch", "numpy"])
@pytest.mark.parametrize("name", SMALL)
def test_with_copy_false_outputs_are_in_one_place(name: str, output: str) -> None:
    env = make(name, 3, output=output, copy=False)
    generator = np.random.default_rng(0)
    first, _ = env.reset(seed=0)
    result = env.step(random_actions(env, generator))
    held = copied(result)
    again = env.step(random_actions(env, generator))
    assert equal(result, again)  # what was returned has become what is returned
    assert equal(first, again[0])
    assert not equal(held, result)
    kind = torch.Tensor if output == "torch" else np.ndarray
    assert all(isinstance(part, kind) for part in leaves(result))
    column = env.sim.tensor(env.sim.program.reward.name)
    column.fill_(7)
    assert (again[1] == 7).all()


@pytest.mark.crossed
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("name", SMALL)
def test_results_stay_until_the_step_after_the_next_one(name: str, mode: AutoresetMode) -> None:
    """Also where some worlds are reset between steps; and what a reset returned stays as long."""
    env, generator = make(name, 4, mode), np.random.default_rng(0)
    env.reset(seed=0)
    mask = torch.tensor([True, False, False, True])
    held: list[tuple[Any, Any]] = []
    for step in range(12):
        results = [env.step(random_actions(env, generator))]
        held.append((results[0], copied(results[0])))
        if step % 3:
            results.append(env.reset(options={"reset_mask": mask} if step % 4 else None))
        for returned, as_it_was in held:
            assert equal(returned, as_it_was), f"step {step}"
        held = [(result, copied(result)) for result in results]


def test_slots_and_own_outputs_stay_beside_each_other() -> None:
    """Outputs outside of slots take turns, also with an odd number of slots and after resets."""
    env = make("duel", 3)
    zeros = torch.zeros(6, 2, dtype=torch.int64)
    first = env.reset(seed=0)
    held = [(first[0], copied(first[0]))]
    env.bind_slots(rewards=torch.zeros(3, 6))
    for step in range(9):
        env.select_slot(step % 3)
        result = env.step(zeros)
        assert all(equal(returned, as_it_was) for returned, as_it_was in held), step
        held = [(result[0], copied(result[0]))]
        if step % 2:
            fresh = env.reset(options={"reset_mask": torch.tensor([True, False, True])})[0]
            held.append((fresh, copied(fresh)))


@pytest.mark.parametrize("change", ["load", "copy"])
def test_results_survive_changes_from_outside(change: str) -> None:
    env = make("cartpole", 4)
    env.reset(seed=0)
    state = env.state_dict()
    mine = torch.zeros(4, 4)
    env.bind(observations=mine)
    actions = torch.zeros(4, dtype=torch.int64)
    env.step(actions)
    env.unbind()
    result = env.step(actions)
    held, kept = copied(result), mine.clone()
    env.load_state_dict(state) if change == "load" else env.sim.copy_worlds([0], [1])
    assert equal(result, held) and torch.equal(mine, kept)
    expected = env.sim.tensor("Cart.CartState").view(4, 4)
    assert torch.equal(env.observations, expected)


def test_reset_clears_flags_and_rewards() -> None:
    env = make("cartpole", 3, AutoresetMode.DISABLED, copy=False)
    env.reset(seed=0)
    for _ in range(6):
        _, rewards, _, truncations, _ = env.step(torch.zeros(3, dtype=torch.int64))
    assert truncations.all() and rewards.all()
    env.reset(options={"reset_mask": torch.tensor([True, False, False])})
    assert truncations.tolist() == [False, True, True] and rewards.tolist() == [0, 1, 1]


def test_a_masked_reset_keeps_the_rows_of_the_other_worlds() -> None:
    env = make("duel", 4, AutoresetMode.DISABLED)
    env.reset(seed=0)
    before = copied(env.step(torch.zeros(8, 2, dtype=torch.int64)))
    mask = torch.tensor([False, True, False, False])
    observations, infos = env.reset(options={"reset_mask": mask})
    others = ~mask.repeat_interleave(2)
    for key, part in observations.items():
        assert torch.equal(part[others], before[0][key][others])
    for key, part in infos.items():
        assert torch.equal(part[others], before[4][key][others])
    rewards = env.sim.tensor(env.sim.program.reward.name).flatten()
    assert torch.equal(rewards[others], before[1][others])


def test_a_refused_step_changes_nothing_that_was_returned() -> None:
    env = make("cartpole", 3)
    env.reset(seed=0)
    result = env.step(torch.tensor([0, 1, 0]))
    held = copied(result)
    for _ in range(3):
        with pytest.raises(ValueError, match="no world has stepped"):
            env.step(torch.tensor([0, 2, 0]))
    assert equal(result, held) and torch.equal(env.observations, held[0])
    twin = make("cartpole", 3)
    twin.reset(seed=0)
    twin.step(torch.tensor([0, 1, 0]))
    assert equal(env.step(torch.tensor([1, 1, 0])), twin.step(torch.tensor([1, 1, 0])))


def comparable(torch_result: Any, result: Any) -> Any:
    """Without the masks that arrays have beside."""
    infos = {key: part for key, part in result[-1].items() if key in torch_result[-1]}
    assert all(key.startswith("_") for key in result[-1].keys() - infos.keys())
    return (*result[:-1], infos)


@pytest.mark.crossed
@pytest.mark.parametrize("output", ["torch", "numpy"])
@pytest.mark.parametrize("name", SMALL)
def test_copies_are_the_users(name: str, output: str) -> None:
    env, plain = make(name, 3, output=output, copy=True), make(name, 3)
    generator, same = np.random.default_rng(0), np.random.default_rng(0)
    expected = [copied(plain.reset(seed=0))]
    results = [comparable(expected[0], env.reset(seed=0))]
    for _ in range(8):
        expected.append(copied(plain.step(random_actions(plain, same))))
        results.append(comparable(expected[-1], env.step(random_actions(env, generator))))
    assert equal(results[0], expected[0])
    for mine, theirs in zip(results[1:], expected[1:], strict=True):
        assert equal(with_valid_rows_alone(mine), with_valid_rows_alone(theirs))
    for part in leaves(results[-1]):
        part[...] = 0  # writing there harms nobody
    after = plain.step(random_actions(plain, same))
    mine = comparable(after, env.step(random_actions(env, generator)))
    assert equal(with_valid_rows_alone(mine), with_valid_rows_alone(after))


def test_numpy_dtypes() -> None:
    env = make("duel", 2, output="numpy")
    env.reset(seed=0)
    observations, rewards, terminations, truncations, infos = env.step(np.zeros((4, 2), np.int64))
    assert observations["cells"].dtype == np.uint8
    assert observations["self"].dtype == rewards.dtype == np.float32
    assert terminations.dtype == truncations.dtype == infos["action_mask"].dtype == np.bool_
    assert infos["hits"].dtype == np.int32


@pytest.mark.parametrize("name", all_but_hideseek(ENVIRONMENTS))
def test_actions_in_every_type_that_holds_them_mean_the_same(name: str) -> None:
    plain = random_actions(make(name, 5), np.random.default_rng(3))
    if name == "drift":
        plain = plain.round()
        variants: list[Any] = [plain.double(), plain.half(), plain.bfloat16(), plain.long()]
        variants += [plain.numpy().astype(np.float16), plain.clone().requires_grad_()]
    else:
        variants = [plain.to(t) for t in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)]
        variants += [plain.numpy().astype(t) for t in (np.uint16, np.uint32, np.uint64, ">i8", "<i2")]
    variants += [plain.numpy(), plain.tolist(), plain.flip(0).numpy()[::-1], plain.repeat_interleave(2, 0)[::2]]
    read_only = plain.numpy().copy()
    read_only.flags.writeable = False
    variants.append(read_only)
    kept = copied(plain)
    env = make(name, 5)
    outcomes = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for actions in [plain, *variants]:
            env.reset(seed=0)
            outcomes.append(copied(env.step(actions)))
    assert all(equal(outcomes[0], outcome) for outcome in outcomes[1:])
    env.reset(seed=0)
    assert not equal(outcomes[0], env.step(torch.zeros_like(plain)))
    assert torch.equal(plain, kept)  # actions are not written to


def test_state_injection() -> None:
    env = make("cartpole", 3)
    observations, _ = env.reset(seed=0)
    state = torch.tensor([[0.1, 0.2, 0.03, 0.4]] * 3)
    held = observations.clone()
    env.unwrapped.sim.tensor("Cart.CartState").copy_(state[:, None])
    x = env.sim.tensor("Cart.CartState.x")
    x[1] = 5.0
    assert torch.equal(observations, held)  # what was returned stays; the next step shows what comes of the state
    observations[2] = 9.0  # nor does a change of it reach the state
    assert env.sim.tensor("Cart.CartState")[2, 0].tolist() == pytest.approx(state[2].tolist())
    _, _, terminations, _, infos = env.step(torch.zeros(3, dtype=torch.int64))
    assert terminations.tolist() == [False, True, False]
    assert infos["final_obs"][1, 0] == pytest.approx(5.004)
    x[2] = -3.0  # state does not move
    env.sim.tensor("World.step")[0] = 5  # nor the step counter: it ends the episode early
    _, _, terminations, truncations, _ = env.step(torch.zeros(3, dtype=torch.int64))
    assert (terminations.tolist(), truncations.tolist()) == ([False, False, True], [True, False, False])


# ---- bind ----------------------------------------------------------------------------------------------------------


def like(value: Any) -> Any:
    """New tensors full of rubbish, in the shape of ``value``."""
    if isinstance(value, dict):
        return {key: like(part) for key, part in value.items()}
    return torch.full_like(value, 1 if value.dtype == torch.bool else 77)


@pytest.mark.crossed
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("name", SMALL)
def test_a_rollout_is_written_in_place(name: str, mode: AutoresetMode) -> None:
    """Outputs bound to slot t of a storage: every slot holds what an environment without it returns as copies."""
    env, plain = make(name, 7, mode), make(name, 7, mode, copy=True)
    generator, same = np.random.default_rng(0), np.random.default_rng(0)
    env.reset(seed=3)
    shown, _ = plain.reset(seed=3)
    stored, expected = [], []
    for _ in range(15):
        slot = {
            "observations": like(shown),
            "rewards": torch.full((env.num_envs,), 77.0),
            "terminations": torch.ones(env.num_envs, dtype=torch.bool),
            "truncations": torch.ones(env.num_envs, dtype=torch.bool),
        }
        if mode is AutoresetMode.SAME_STEP:
            slot["final_obs"] = like(shown)
        roles = {role: getattr(env, role) for role in ("action_mask", "active") if getattr(env, role) is not None}
        assert len(roles) == (name in ("duel", "hanabi", "melee"))
        slot |= {role: like(tensor) for role, tensor in roles.items()}
        before, held = env.observations, copied(env.observations)
        env.bind(**slot)
        assert equal(before, held) and equal(env.observations, held)  # nothing moves before the step
        result = env.step(random_actions(env, generator))
        for key, part in zip(("observations", "rewards", "terminations", "truncations"), result[:4], strict=True):
            for mine, theirs in zip(leaves(slot[key]), leaves(part), strict=True):
                assert mine.data_ptr() == theirs.data_ptr()
        assert all(getattr(env, role).data_ptr() == slot[role].data_ptr() for role in roles)
        if mode is AutoresetMode.SAME_STEP:
            ended = result[4]["_final_obs"]
            slot["final_obs"] = tuple(rows(slot["final_obs"], ended))
        stored.append(slot)
        shown, rewards, terminations, truncations, infos = plain.step(random_actions(plain, same))
        kept = {
            "observations": shown, "rewards": rewards, "terminations": terminations, "truncations": truncations,
        }  # fmt: skip
        if mode is AutoresetMode.SAME_STEP:
            kept["final_obs"] = tuple(rows(infos["final_obs"], infos["_final_obs"]))
        kept |= {role: infos[role] for role in roles}
        expected.append(kept)
    for slot, kept in zip(stored, expected, strict=True):
        for key, value in kept.items():
            assert equal(slot[key], value), key


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_bound_actions_are_used_in_place(dtype: torch.dtype) -> None:
    env, plain = make("cartpole", 4), make("cartpole", 4)
    env.reset(seed=0)
    plain.reset(seed=0)
    policy_output = torch.tensor([1, 0, 1, 1], dtype=torch.int32)
    env.bind(actions=policy_output)
    assert policy_output.tolist() == [0, 0, 0, 0]  # carried
    assert env.sim.tensor("Cart.Push.direction").data_ptr() == policy_output.data_ptr()
    policy_output.copy_(torch.tensor([1, 0, 1, 1]))
    given = policy_output if dtype is torch.int32 else policy_output.long()
    assert equal(env.step(given), plain.step(torch.tensor([1, 0, 1, 1])))
    policy_output.copy_(torch.tensor([0, 0, 1, 0]))
    env.sim.step()  # the column is read directly
    plain.step(torch.tensor([0, 0, 1, 0]))
    assert torch.equal(env.sim.tensor("Cart.CartState"), plain.sim.tensor("Cart.CartState"))


def test_a_partial_bind_leaves_the_rest() -> None:
    env = make("duel", 3)
    env.reset(seed=0)
    cells = torch.zeros(6, 7, dtype=torch.uint8)
    places = set()
    env.bind(observations={"cells": cells})
    for _ in range(4):
        after = env.step(torch.zeros(6, 2, dtype=torch.int64))[0]
        assert after["cells"].data_ptr() == cells.data_ptr()
        places.add(after["self"].data_ptr())
    assert len(places) == 2
    with pytest.raises(ValueError, match=r"observations .*'other'"):
        env.bind(observations={"cells": torch.zeros(6, 7, dtype=torch.uint8), "other": torch.zeros(6)})
    assert env.step(torch.zeros(6, 2, dtype=torch.int64))[0]["cells"].data_ptr() == cells.data_ptr()


def test_infos_are_a_dict_of_ones_own_each_time() -> None:
    env = make("duel", 3, final_obs=False)
    _, first = env.reset(seed=0)
    assert set(first) == {"hits", "action_mask"}
    first["mine"] = 1
    first.pop("hits")
    for _ in range(2):
        infos = env.step(torch.zeros(6, 2, dtype=torch.int64))[4]
        assert set(infos) == {"hits", "action_mask"}
        infos["mine"] = 1


@pytest.mark.crossed
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("name", all_but_hideseek(ENVIRONMENTS))
def test_slots_hold_a_rollout(name: str, mode: AutoresetMode) -> None:
    """Slots chosen in any order, with masked resets, refused steps and changes of state between steps."""
    env, plain = make(name, 5, mode), make(name, 5, mode, copy=True)
    generator, same = np.random.default_rng(0), np.random.default_rng(0)
    env.reset(seed=3)
    shown, infos = plain.reset(seed=3)
    stored: dict[str, Any] = {"observations": stacked(shown, 8), "rewards": torch.full((8, env.num_envs), 77.0)}
    if "action_mask" in infos:
        stored["action_mask"] = stacked(infos["action_mask"], 8)
    env.bind_slots(**stored)
    order, held = [0, 1, 3, 2, 7, 7, 4, 6, 5, 0, 1, 2], {}
    for step, slot in enumerate(order):
        env.select_slot(slot)
        result = env.step(random_actions(env, generator))
        expected = plain.step(random_actions(plain, same))
        assert equal(result[:4], expected[:4])
        if step == 5:
            mask = torch.tensor([False, True, True, False, False])
            kept = copied(stored)
            fresh = env.reset(options={"reset_mask": mask})
            assert equal(fresh[0], plain.reset(options={"reset_mask": mask})[0])
            assert equal(stored, kept)  # what is in slots is of steps
        if step == 7 and name == "cartpole":
            for one in (env, plain):
                one.sim.tensor("Cart.CartState.theta_dot")[2] = 1.5
        held[slot] = copied(expected[0])
        for t, observations in held.items():
            assert equal(at_slot(stored["observations"], t), observations), f"step {step}, slot {t}"
        assert torch.equal(stored["rewards"][slot], expected[1])
    env.unbind()
    kept = copied(stored)
    assert equal(env.step(random_actions(env, generator))[:4], plain.step(random_actions(plain, same))[:4])
    assert equal(stored, kept)


def stacked(value: Any, count: int) -> Any:
    """Storage for ``count`` of ``value``."""
    if isinstance(value, dict):
        return {key: stacked(part, count) for key, part in value.items()}
    return like(value.expand(count, *value.shape).clone())


def at_slot(value: Any, slot: int) -> Any:
    return {key: part[slot] for key, part in value.items()} if isinstance(value, dict) else value[slot]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({}, ValueError, "bind_slots needs at least one output"),
        ({"observations": torch.zeros(3, 4)}, ValueError, r"needs shape \[4, 1, 4\] or \[4, 4\], got \[4\]"),
        ({"observations": torch.zeros(0, 4, 4)}, ValueError, r"needs a tensor \[slots, ...\], got shape \[0, 4, 4\]"),
        ({"observations": torch.zeros(3, 4, 4).double()}, TypeError, "needs dtype torch.float32, got torch.float64"),
        ({"observations": torch.zeros(4, 4).expand(3, 4, 4)}, ValueError, "needs a contiguous tensor"),
        ({"observations": torch.zeros(4, 3, 4).transpose(0, 1)}, ValueError, "needs a contiguous tensor"),
        ({"observations": torch.zeros(3, 4, 4), "rewards": torch.zeros(2, 4)}, ValueError, "slots .* 3 of .* 2 of"),
        ({"rewards": [0.0]}, TypeError, "needs a torch tensor, got list"),
        ({"observations": torch.zeros(51)[3:].view(3, 4, 4)}, ValueError, " 16 bytes.* 12 bytes"),
        ({"action_mask": torch.ones(3, 4, 2, dtype=torch.bool)}, ValueError, "this environment has none"),
    ],
)
def test_slots_that_do_not_fit(given: dict[str, Any], error: type[Exception], says: str) -> None:
    env = make("cartpole", 4)
    env.reset(seed=0)
    before = env.sim.memory.outputs.next
    with pytest.raises(error, match=says):
        env.bind_slots(**given)
    assert env.sim.memory.outputs.next is before and env.sim.memory.outputs.num_slots == 0


def test_slots_that_share_memory_or_come_twice() -> None:
    env = make("cartpole", 4)
    env.reset(seed=0)
    memory = torch.zeros(100)
    with pytest.raises(ValueError, match="share memory"):
        env.bind_slots(observations=memory[:48].view(3, 4, 4), rewards=memory[40:52].view(3, 4))
    with pytest.raises(IndexError, match="there is no slot 0: call bind_slots"):
        env.select_slot(0)
    env.bind_slots(observations=memory[:48].view(3, 4, 4))
    for slot in (-1, 3):
        with pytest.raises(IndexError, match=f"there is no slot {slot}; slots are from 0 to 2"):
            env.select_slot(slot)
    for slot in (1.0, None, True):
        with pytest.raises(TypeError, match=f"a slot is an integer, got {slot}"):
            env.select_slot(slot)
    env.step(torch.zeros(4, dtype=torch.int64))
    for bind in (
        lambda: env.bind_slots(rewards=torch.zeros(3, 4)),
        lambda: env.bind(rewards=torch.zeros(4)),
    ):
        with pytest.raises(ValueError, match="call unbind"):
            bind()
    env.unbind()
    with pytest.raises(ValueError, match="memory that nothing else is in"):  # it lies across slot 0
        env.bind(observations=memory[4:20].view(4, 4))
    env.bind(terminations=(flags := torch.zeros(4, dtype=torch.bool)))
    state = env.sim.tensor("Cart.CartState")
    mine = torch.zeros(4)
    for wrong in (
        {"truncations": flags},
        {"rewards": state.view(-1)[:4]},
        {"rewards": mine, "actions": mine.view(torch.int32)},
    ):
        with pytest.raises(ValueError, match=r"memory that nothing else is in|share memory"):
            env.bind(**wrong)
    env.unbind()
    env.bind_slots(observations=memory[:48].view(3, 4, 4))  # where it lies already
    env.step(torch.zeros(4, dtype=torch.int64))
    assert torch.equal(memory[:16].view(4, 4), env.sim.tensor("Cart.CartState").view(4, 4))


def test_bound_memory_lives_as_long_as_the_simulator() -> None:
    env = make("cartpole", 1000)
    env.reset(seed=0)
    env.bind(observations=torch.zeros(1000, 4), rewards=torch.zeros(1000))
    rubbish = [torch.full((1000, 4), 9.0) for _ in range(20)]
    result = env.step(torch.zeros(1000, dtype=torch.int64))
    assert all(torch.all(part == 9) for part in rubbish)
    assert result[0].abs().max() < 1


def with_valid_rows_alone(result: tuple) -> Any:
    """A copy of what a step returned, with rows of final values only where they are valid."""
    *outputs, infos = result
    infos = dict(infos)
    for key in ("final_obs", "final_info"):
        if key in infos:
            infos[key] = tuple(rows(infos[key], infos[f"_{key}"]))
    return copied((*outputs, infos))


# ---- state ---------------------------------------------------------------------------------------------------------


@quick
@given(
    name=st.sampled_from(SMALL),
    mode=st.sampled_from(MODES),
    before=st.integers(0, 15),
    after=st.integers(0, 15),
    seed=st.integers(0, 2**64 - 1),
)
def test_a_state_restores_everything(name: str, mode: AutoresetMode, before: int, after: int, seed: int) -> None:
    """Whatever runs in between, and in a new simulator too, what follows a state is the same to the bit."""
    env = make(name, 6, mode)
    generator = np.random.default_rng(0)
    env.reset(seed=seed)
    for _ in range(before):
        env.step(random_actions(env, generator))
    state = env.state_dict()
    actions = [random_actions(env, generator) for _ in range(after)]
    first = [with_valid_rows_alone(env.step(a)) for a in actions]
    end = env.state_dict()["tensors"]
    fresh = make(name, 6, mode)
    for other in (env, fresh):
        other.load_state_dict(state)
        second = [with_valid_rows_alone(other.step(a)) for a in actions]
        assert all(equal(a, b) for a, b in zip(first, second, strict=True))
        assert_same_bits(end, other.state_dict()["tensors"])


def test_a_state_goes_through_a_file(tmp_path: Any) -> None:
    env = make("duel", 3)
    env.reset(seed=0)
    env.step(torch.zeros(6, 2, dtype=torch.int64))
    torch.save(env.state_dict(), tmp_path / "state.pt")
    fresh = make("duel", 3)
    fresh.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert_same_bits(env.state_dict()["tensors"], fresh.state_dict()["tensors"])
    assert equal(env.step(torch.ones(6, 2, dtype=torch.int64)), fresh.step(torch.ones(6, 2, dtype=torch.int64)))


def test_a_state_is_a_copy_and_loads_into_bound_memory() -> None:
    env = make("cartpole", 3)
    observations, _ = env.reset(seed=0)
    state = env.state_dict()
    held = observations.clone()
    env.step(torch.zeros(3, dtype=torch.int64))
    bound = torch.zeros(3, 4)
    env.bind(observations=bound)
    env.step(torch.zeros(3, dtype=torch.int64))
    env.load_state_dict(state)
    assert torch.equal(bound, held) and torch.equal(env.observations, held)


def test_a_state_before_the_first_reset() -> None:
    env = make("cartpole", 3)
    fresh = env.state_dict()
    env.reset(seed=0)
    env.load_state_dict(fresh)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(torch.zeros(3, dtype=torch.int64))


@quick
@given(
    name=st.sampled_from(["cartpole", "duel"]),  # Drift's starts depend on world.id, which is not copied
    pairs=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), unique_by=lambda pair: pair[1]),
    before=st.integers(0, 9),
)
def test_copied_worlds_live_on_alike(name: str, pairs: list[tuple[int, int]], before: int) -> None:
    """A copy has all of its source, the random numbers to come included; the other worlds do not notice."""
    env, untouched = make(name, 8), make(name, 8)
    generator = np.random.default_rng(0)
    for one in (env, untouched):
        one.reset(seed=5)
    for _ in range(before):
        actions = random_actions(env, generator)
        env.step(actions)
        untouched.step(actions)
    sources, targets = [s for s, _ in pairs], [t for _, t in pairs]
    env.sim.copy_worlds(sources, torch.tensor(targets, dtype=torch.int64))
    origin = list(range(8))
    for source, target in pairs:
        origin[target] = source
    agents = env.num_agents
    for _ in range(14):
        actions = random_actions(env, generator)
        by_world = actions.view(8, agents, *actions.shape[1:])
        mirrored = by_world[origin].reshape(actions.shape)
        env.step(mirrored)
        untouched.step(actions)
    left, right = snapshot(env.sim), snapshot(untouched.sim)
    for key, tensor in left.items():
        assert torch.equal(tensor.view(8, -1), right[key].view(8, -1)[origin]), key


def test_a_reseeded_copy_goes_its_own_way() -> None:
    env = make("drift", 2)
    env.reset(seed=0)
    env.sim.copy_worlds([0], [1])
    env.sim.reseed(99, torch.tensor([False, True]))
    observations = env.step(torch.zeros(2, 3))[0]
    assert not torch.equal(observations[0], observations[1])


# ---- render --------------------------------------------------------------------------------------------------------


def test_render() -> None:
    env = make("cartpole", 20, render_mode="rgb_array")
    env.reset(seed=0)
    frames = env.render()
    assert isinstance(frames, tuple)
    assert len(frames) == 20
    assert all(frame.shape == (400, 600, 3) and frame.dtype == np.uint8 for frame in frames)
    assert np.array_equal(frames[3], env.render_world(3))
    assert not np.array_equal(env.render_world(19), env.render_world(18))
    before = snapshot(env.sim)
    env.render()
    assert_same_bits(before, snapshot(env.sim))
    env.render_worlds = 3
    assert [np.array_equal(a, b) for a, b in zip(env.render(), frames, strict=False)] == [True] * 3


PICTURE = np.zeros((4, 5, 3), np.uint8)
WRONG_PICTURES = [
    (TypeError, lambda: PICTURE / 255, r"float64 \[4, 5, 3\]: convert it by `\(255 \* picture\)\.astype\(np\.uint8\)`"),
    (TypeError, lambda: PICTURE + np.int16(200), r"int16 \[4, 5, 3\]: convert it by `picture\.astype"),
    (TypeError, lambda: PICTURE.astype(bool), r"bool \[4, 5, 3\]: convert"),
    (TypeError, lambda: torch.from_numpy(PICTURE), r"a tensor of uint8 \[4, 5, 3\]: return `picture\.numpy\(\)`"),
    (TypeError, lambda: PICTURE.tolist(), r"list \[\[\[0, 0"),
    (TypeError, lambda: None, r"None: end the method by `return picture`"),
    (TypeError, lambda: "picture", r"str 'picture'"),
    (TypeError, lambda: Canvas(5, 4), r"Canvas .*: return `canvas\.pixels`"),
    (ValueError, lambda: PICTURE[..., 0], r"uint8 \[4, 5\]: repeat grey values"),
    (ValueError, lambda: np.zeros((4, 5, 4), np.uint8), r"uint8 \[4, 5, 4\]: leave out the alpha"),
    (ValueError, lambda: PICTURE.transpose(2, 0, 1), r"uint8 \[3, 4, 5\]: colours come last"),
    (ValueError, lambda: PICTURE[None], r"uint8 \[1, 4, 5, 3\]"),
    (ValueError, lambda: PICTURE[:0], r"uint8 \[0, 5, 3\]"),
]


@pytest.mark.parametrize(("error", "made", "says"), WRONG_PICTURES)
def test_a_picture_of_another_form_is_rejected(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception], made: Callable[[], object], says: str
) -> None:
    monkeypatch.setattr(ALL["cartpole"], "render", lambda self, world: made())
    env = make("cartpole", 2, render_mode="rgb_array")
    env.reset(seed=0)
    for draw in (env.render, lambda: env.render_world(1), lambda: env.call("render")):
        with pytest.raises(error, match=rf"CartPole\.render\(\) must return an array of uint8 \[height.*, got {says}"):
            draw()


def test_render_gives_each_row_the_picture_of_its_world() -> None:
    env = TorchVectorEnv(ALL["overcooked"](), num_worlds=3, render_mode="rgb_array")
    env.reset(seed=0)
    frames = env.render()
    assert len(frames) == env.num_envs == 6
    assert all(np.array_equal(frame, env.render_world(row // 2)) for row, frame in enumerate(frames))
    few = TorchVectorEnv(ALL["overcooked"](), num_worlds=3, render_mode="rgb_array", render_worlds=2)
    few.reset(seed=0)
    assert len(few.render()) == 2 and np.array_equal(few.render()[1], frames[2])


def test_render_of_many_worlds_says_how_many_to_ask_for() -> None:
    env = make("cartpole", 65, render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"does not draw 65 worlds.*render_worlds=16.*render_world\(world\)"):
        env.render()
    env.render_worlds = 2
    assert len(env.render()) == 2
    for count in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match="render_worlds must be a positive integer"):
            make("cartpole", 2, render_worlds=count)


# ---- render as text ------------------------------------------------------------------------------------------------


def test_names_that_an_observation_or_a_picture_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make("cartpole", 2, render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"\[4\].* 3"):
        env.observation_name(3)
    with pytest.raises(KeyError, match="'speed'"):
        env.observation_name([0], "speed")
    monkeypatch.setattr(CartPole, "render", lambda self, world: world["Cart.CartStat.x"])
    with pytest.raises(KeyError, match=r"'Cart\.CartStat\.x'.*'Cart\.CartState"):
        env.render()


def text(self: CartPole, world: dict[str, np.ndarray]) -> str:
    return f"cart at {world['Cart.CartState.x'].item()!r}"


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """CartPole with a text beside its picture."""
    monkeypatch.setattr(CartPole, "render_text", text)


@pytest.mark.usefixtures("texts")
def test_ansi_gives_a_text_of_each_of_the_first_worlds() -> None:
    env = make("cartpole", 20, render_mode="ansi", render_worlds=16)
    assert env.metadata["render_modes"] == ["rgb_array", "ansi"]
    env.reset(seed=0)
    positions = env.sim.tensor("Cart.CartState.x").flatten().numpy()
    texts = env.render()
    assert texts == tuple(f"cart at {position.item()!r}" for position in positions[:16])
    assert env.render_world(19) == f"cart at {positions[19].item()!r}"
    assert make("cartpole", 2, render_mode="rgb_array").metadata["render_modes"] == ["rgb_array", "ansi"]


@pytest.mark.usefixtures("texts")
def test_ansi_by_id() -> None:
    single, vector = (
        gymnasium.make(ID, render_mode="ansi"),
        gymnasium.make_vec(ID, num_envs=2, render_mode="ansi"),
    )
    assert (single.render_mode, vector.render_mode) == ("ansi", "ansi")
    single.reset(seed=0)
    vector.reset(seed=0)
    text = single.render()
    assert isinstance(text, str)
    assert text == vector.render()[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*Box observation space m..imum value is -?infinity")
        check_env(single.unwrapped)
    synchronous = gymnasium.make_vec(ID, num_envs=2, vectorization_mode="sync", render_mode="ansi")
    synchronous.reset(seed=0)
    assert synchronous.render()[0] == text


def test_render_modes_are_those_that_the_environment_defines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make("drift", 2).metadata["render_modes"] == []
    for name, mode, missing in (("cartpole", "ansi", "render_text"), ("drift", "rgb_array", r"render\(")):
        with pytest.raises(ValueError, match=f"render_mode.* '{mode}'.*{missing}"):
            make(name, 2, render_mode=mode)
    monkeypatch.setattr(Drift, "render_text", lambda self, world: "drift", raising=False)
    with pytest.raises(ValueError, match=r"'ansi'.* 'rgb_array'.*render\("):
        make("drift", 2, render_mode="rgb_array")
    env = make("drift", 2, render_mode="ansi")
    assert env.metadata["render_modes"] == ["ansi"]
    env.reset(seed=0)
    assert env.render() == ("drift", "drift")
    for name, mode in (("drift", "ansi"), ("cartpole", "rgb_array")):
        silent = make(name, 2)
        silent.reset(seed=0)
        with pytest.warns(UserWarning, match=f"render_mode='{mode}'"):
            assert silent.render() is None
    for mode in ("human", "", 1, ["ansi"]):
        with pytest.raises(ValueError, match=f"render_mode.*{re.escape(repr(mode))}"):
            make("cartpole", 2, render_mode=mode)


# ---- close ---------------------------------------------------------------------------------------------------------


def test_close_twice_is_no_error_and_leaves_tensors_readable() -> None:
    env = make("cartpole", 2)
    observations, _ = env.reset(seed=0)
    held = observations.clone()
    env.close()
    env.close()
    assert env.closed
    del env
    assert torch.equal(observations, held)


# ---- many agents ---------------------------------------------------------------------------------------------------


def test_rows_are_the_agents_of_all_worlds() -> None:
    env = make("duel", 4)
    observations, infos = env.reset(seed=0)
    assert set(observations) == {"self", "cells"}
    assert infos["action_mask"].shape == (8, 5)
    place = env.sim.tensor("Fighter.Place.cell")
    assert torch.equal(env.by_world(observations["self"])[..., 0], place.float())
    assert torch.equal(env.by_world(infos["action_mask"])[..., 0], place > 0)
    assert torch.equal(env.action_mask, infos["action_mask"])
    env.sim.tensor("Fighter.Place.cell")[:] = torch.tensor([[0, 6], [3, 3], [1, 2], [5, 5]])
    actions = torch.tensor([[1, 1]] * 8)  # stay and strike
    env.sim.tensor("Weather.total").zero_()
    _, rewards, terminations, truncations, infos = env.step(actions)
    cells = env.sim.tensor("Fighter.Place.cell")
    together = cells[:, 0] == cells[:, 1]
    assert torch.equal(env.by_world(rewards), together[:, None].expand(4, 2) * 1.5)
    assert torch.equal(env.by_world(infos["hits"]), together[:, None].expand(4, 2).int())
    for flags in (terminations, truncations):
        by_world = env.by_world(flags)
        assert by_world.data_ptr() == flags.data_ptr() and torch.equal(by_world[:, 0], by_world[:, 1])
    with pytest.raises(ValueError, match=r"8.*\[5\]"):
        env.by_world(torch.zeros(5))


def test_box_actions_move_the_particles() -> None:
    env = TorchVectorEnv(Drift(), 3)
    env.reset(seed=0)
    before = env.sim.Particle.Body.position.clone()
    force = torch.tensor([[0.5, -1.0, 0.25], [1.0, 2.0, 3.0], [-1.0, -1.0, -1.0]])
    env.step(force)
    moved = (env.sim.Particle.Body.position - before)[:, 0]
    assert torch.allclose(moved[:, :2], force[:, :2], atol=1e-6)
    assert torch.allclose(moved[:, 2], force[:, 2], atol=0.1)  # noise of 0.01
    trail = env.sim.Particle.Trail
    assert (trail.flips.dtype, trail.length.dtype, trail.last.dtype) == (torch.uint64, torch.float64, torch.float32)
    assert torch.equal(trail.last, env.sim.Particle.Body.position[..., 0])
    assert torch.allclose(trail.length[:, 0].float(), moved.norm(dim=-1))


# ---- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_fault_names_world_system_cause_and_value_and_the_others_go_on(threads: int, mode: AutoresetMode) -> None:
    env = make("duel", 900, mode, num_threads=threads)
    sound = make("duel", 900, mode, num_threads=threads)
    generator = np.random.default_rng(0)
    for one in (env, sound):
        one.reset(seed=1)
    env.sim.Fighter.Place.strength[[7, 700], 1] = torch.tensor([140.5, 222.5])
    actions = random_actions(env, generator)
    with pytest.raises(WorldFault) as raised:
        env.step(actions)
    sound.step(actions)
    fault, second = raised.value.faults
    assert (fault.world, fault.system, fault.row, fault.cause, fault.value) == (7, "move", 1, "too_strong", 140)
    assert (second.world, second.value) == (700, 222)
    assert raised.value.mask.nonzero().flatten().tolist() == [7, 700]
    assert re.match(r"\w+\.h:\d+: world 7: .*'move'.* row 1: too_strong .*140.* step 1 ", str(raised.value))
    others = ~raised.value.mask
    for key, tensor in snapshot(env.sim).items():  # the others have stepped as always
        assert torch.equal(tensor.view(900, -1)[others], snapshot(sound.sim)[key].view(900, -1)[others]), key
    held = snapshot(env.sim)
    env.reset(options={"reset_mask": raised.value.mask})
    for key, tensor in snapshot(env.sim).items():
        assert torch.equal(tensor.view(900, -1)[others], held[key].view(900, -1)[others]), key
    assert env.sim.tensor("World.step")[[7, 700]].tolist() == [0, 0]
    actions = random_actions(env, generator)
    mine_and_theirs = env.step(actions)[:4], sound.step(actions)[:4]  # all go on
    for mine, theirs in zip(*map(leaves, mine_and_theirs), strict=True):
        assert torch.equal(env.by_world(mine)[others], sound.by_world(theirs)[others])
    env.check_faults()


def test_a_fault_that_stays_is_raised_in_every_step() -> None:
    env = make("duel", 4, AutoresetMode.DISABLED)
    env.reset(seed=0)
    env.sim.Fighter.Place.strength[2, 0] = 500.0
    actions = torch.zeros(8, 2, dtype=torch.int64)
    for step in (1, 2, 3):
        with pytest.raises(WorldFault, match=rf"world 2: .*too_strong.*(499|500).*step {step} "):
            env.step(actions)


def test_a_fault_of_nan_carries_the_outputs_of_its_step_and_statistics_count_it() -> None:
    env = EpisodeStatistics(make("drift", 100))
    env.reset(seed=0)
    position = env.unwrapped.sim.Particle.Body.position
    position[3, 0, 0] = float("nan")
    with pytest.raises(WorldFault, match=r"world 3: system 'drift' failed at row 0: nan .*step 1 ") as raised:
        env.step(torch.zeros(100, 3))
    observations, rewards, terminations, truncations, infos = raised.value.outputs
    assert observations.shape == (100, 3) and rewards[:3].isfinite().all() and rewards[3].isnan()
    assert not (terminations | truncations).any() and "episode" in infos
    assert env.episode_lengths.tolist() == [1] * 100
    position[..., 0] = float("nan")
    with pytest.raises(WorldFault, match="99 more") as raised:
        env.step(torch.zeros(100, 3))
    assert len(raised.value.faults) == 16 and raised.value.mask.all()


def test_a_fault_in_the_first_reset_leaves_the_other_worlds_usable(tmp_path: Path) -> None:
    text = CartPole().sources[0].read_text()
    source = tmp_path / "sick.h"
    for line, failing in (
        ("    cart.x = random", "world.id == 3 && world.episode() == 0"),
        ("    episode.terminated", "world.id == 2 && world.step() >= 4"),
    ):
        text = text.replace(line, f"    if ({failing}) world.fail(Fault::nan);\n{line}")
    source.write_text(text)
    env = TorchVectorEnv(type("Sick", (CartPole,), {"systems": str(source)})(max_episode_steps=5), 6)
    with pytest.raises(WorldFault, match=r"world 3: system 'start_.*, as its episode began") as raised:
        env.reset(seed=0)
    assert raised.value.outputs is None and not raised.value.stepped
    env.reset(options={"reset_mask": raised.value.mask})
    assert env.step(torch.zeros(6, dtype=torch.int64))[1].tolist() == [1.0] * 6
    env.sim.tensor("World.step")[:] = 3
    for step in (4, None):  # with the fifth step the next episode has begun
        with pytest.raises(WorldFault, match="world 2: system 'judge' failed") as raised:
            env.step(torch.zeros(6, dtype=torch.int64))
        assert raised.value.faults[0].step == step


def test_assignment_to_a_field_fills_it() -> None:
    env = make("duel", 3)
    env.reset(seed=0)
    env.sim.Fighter.Place.strength = 2.5
    assert (env.sim.tensor("Fighter.Place.strength") == 2.5).all()
    env.sim.Fighter.Place.strength += 1.0
    assert (env.sim.tensor("Fighter.Place.strength") == 3.5).all()
    env.sim.Weather.wind = torch.tensor([1, 2, 3], dtype=torch.int32)
    assert env.sim.tensor("Weather.wind").tolist() == [1, 2, 3]
    with pytest.raises(AttributeError, match="'stregth'"):
        env.sim.Fighter.Place.stregth = 1.0
    with pytest.raises(RuntimeError, match=r"Fighter\.Place\.strength .*\[3, 2\].*\[5\]"):
        env.sim.Fighter.Place.strength = torch.zeros(5)


def test_an_environment_without_a_registered_limit_keeps_its_own() -> None:
    torch_batchsim.register("test/OwnLimit-v0", CartPole)
    env = gymnasium.make("test/OwnLimit-v0", max_episode_steps=None, force_mag=0.0)
    env.reset(seed=0)
    env.unwrapped.sim.Cart.CartState.x_dot = 0.0
    for step in range(1, 501):
        env.unwrapped.sim.Cart.CartState.theta = 0.0
        env.unwrapped.sim.Cart.CartState.theta_dot = 0.0
        _, _, terminated, truncated, _ = env.step(0)
        assert (terminated, truncated) == (False, step == 500)


# ---- lifetime ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", full_but(["cartpole"], ["cartpole", "zoo", "duel"]))
def test_nothing_keeps_a_simulator_alive(name: str) -> None:
    """``del env`` frees its memory at once, without the garbage collector, after all that could have held on to it."""
    env = make(name, 64, AutoresetMode.DISABLED)
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    env.bind(rewards=torch.zeros(env.num_envs))
    env.step(random_actions(env, generator))
    env.unbind()
    env.bind_slots(rewards=torch.zeros(2, env.num_envs))
    env.step(random_actions(env, generator))
    env.reset(options={"reset_mask": torch.ones(64, dtype=torch.bool)})
    env.load_state_dict(env.state_dict())
    with env.tracing(64):
        env.step(random_actions(env, generator))
    memory = env.sim.memory
    tensors = list(memory.columns.values())
    held = [weakref.ref(tensor) for tensor in tensors]
    parts = [weakref.ref(part) for part in (env, env.sim, memory, env.sim.execution)]
    del tensors, memory
    gc.collect()
    gc.disable()
    try:
        del env
        assert [part() for part in parts] == [None] * 4
        assert sum(tensor().numel() for tensor in held if tensor() is not None) == 0
    finally:
        gc.enable()

"""The contract with trainers beyond ``reset`` and ``step``: masks, samples, attributes by row, counters, own memory."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.duel import Duel
from gymnasium.spaces import Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode
from support import ENVIRONMENTS, all_but_hideseek, assert_same_bits, random_actions, snapshot
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.hanabi import Hanabi
from torch_batchsim.envs.overcooked import Overcooked

from torch_batchsim import SchemaError, TorchVectorEnv, WorldFault
from torch_batchsim.vector.registration import _class_of, environment_ids

MODES = list(AutoresetMode)
LIMITED = [name for name in ENVIRONMENTS if name not in ("hanabi",)]  # a game of Hanabi ends by its rules
TINY = partial(Hanabi, colors=2, hand_size=9, max_information_tokens=1)  # six moves at most


def leaves(value: Any) -> Iterator[torch.Tensor]:
    """Every tensor within dicts and tuples."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


# ---- outputs are never the state -----------------------------------------------------------------------------------


@pytest.mark.crossed
@pytest.mark.parametrize("copies", [None, False])
@pytest.mark.parametrize("name", all_but_hideseek(ENVIRONMENTS))
def test_whatever_is_written_into_outputs_the_worlds_go_on_as_before(name: str, copies: bool | None) -> None:
    """No output is live state, CartPole's observation neither."""
    env, other = (TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=3, copy=copies) for _ in range(2))
    generator = np.random.default_rng(0)

    def spoil(outputs: Any) -> None:
        for tensor in leaves(outputs):
            tensor.view(-1).view(torch.uint8).copy_(torch.from_numpy(generator.integers(0, 2, tensor.nbytes, np.uint8)))

    assert all(torch.equal(a, b) for a, b in zip(leaves(env.reset(seed=1)), leaves(other.reset(seed=1)), strict=True))
    for step in range(12):
        actions = random_actions(other, np.random.default_rng(step))
        results = []
        for each in (env, other):
            try:
                results.append(each.step(actions))
            except WorldFault as fault:
                results.append(fault.outputs)
        ended = other.sim.tensor("Agents.done").view(-1).clone()
        for i, (a, b) in enumerate(zip(leaves(results[0]), leaves(results[1]), strict=True)):
            final = i >= len([*leaves(results[0][:4])]) and a.shape[:1] == ended.shape
            assert torch.equal(a[ended], b[ended]) if final else torch.equal(a, b), (step, i)
        spoil(results[0])
        columns = env.sim.memory._fixed
        for tensor in leaves(results[0]):
            first, last = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
            assert all(last <= c.data_ptr() or c.data_ptr() + c.nbytes <= first for c in columns.values())


# ---- masks and samples ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["torch", "numpy"])
@pytest.mark.parametrize("copies", [None, True])
def test_action_masks_are_those_of_the_last_step(output: str, copies: bool | None) -> None:
    env = TorchVectorEnv(TINY(turns="all"), num_worlds=3, output=output, copy=copies)
    infos = env.reset(seed=0)[1]
    kind = torch.Tensor if output == "torch" else np.ndarray
    for _ in range(4):
        masks = env.action_masks()
        assert isinstance(masks, kind) and (masks == infos["action_mask"]).all()
        assert (env.get_action_masks() == masks).all()
        infos = env.step(env.sample_actions())[4]
    masks[:] = False
    assert copies is None or env.action_masks().any()


def test_without_masks_a_call_for_them_raises() -> None:
    env = TorchVectorEnv(CartPole(), 2)
    for call in (env.action_masks, env.get_action_masks):
        with pytest.raises(AttributeError, match=r"CartPole has no action masks: every action of Discrete\(2\) is"):
            call()
    env.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        env.action_masks()


@pytest.mark.crossed
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("turns", ["current", "all"])
def test_legal_samples_play_hanabi_without_a_fault_in_every_mode(turns: str, mode: AutoresetMode) -> None:
    """Also the ignored step of NEXT_STEP, and worlds that stand still, have something to sample by their masks."""
    env = TorchVectorEnv(TINY(turns=turns), num_worlds=8, autoreset_mode=mode)
    env.reset(seed=0)
    env.action_space.seed(3)
    ends = 0
    for _ in range(40):
        assert env.action_masks().any(1).all()
        logits = torch.zeros(env.action_mask.shape).masked_fill(~env.action_mask, -torch.inf)
        torch.distributions.Categorical(logits=logits)  # which refuses a row of nothing but -inf
        actions = env.sample_actions()
        assert env.action_mask.gather(1, actions[:, None]).all()
        ends += int(env.step(actions)[2].sum())
    assert ends >= 8


@pytest.mark.crossed
@pytest.mark.parametrize("output", ["torch", "numpy"])
@pytest.mark.parametrize("name", all_but_hideseek(ENVIRONMENTS))
def test_samples_are_steps_that_are_taken(name: str, output: str) -> None:
    first, second = (TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=4, output=output) for _ in range(2))
    drawn = []
    for env in (first, second):
        env.reset(seed=0)
        env.action_space.seed(5)
        actions = []
        for _ in range(6):
            actions.append(env.sample_actions())
            assert tuple(actions[-1].shape) == env.action_space.shape
            assert all(env.single_action_space.contains(np.asarray(row, env.action_space.dtype)) for row in actions[-1])
            env.step(actions[-1])
        drawn.append(np.stack([np.asarray(each) for each in actions]))
    assert np.array_equal(*drawn) and len(np.unique(drawn[0][0])) > 1
    assert isinstance(actions[0], torch.Tensor if output == "torch" else np.ndarray)
    if first.action_mask is None:  # as gymnasium samples
        second.action_space.seed(5)
        assert np.array_equal(drawn[0][0], second.action_space.sample())


def test_each_legal_choice_is_as_likely() -> None:
    env = TorchVectorEnv(Duel(), num_worlds=3000)
    env.reset(seed=0)
    masks, actions = env.action_masks(), env.sample_actions()
    assert actions.shape == (6000, 2) and actions.dtype == torch.int64
    for part, (first, choices) in enumerate(((0, 3), (3, 2))):
        legal = masks[:, first : first + choices]
        assert legal.gather(1, actions[:, part, None]).all()
        rows = legal.all(1)
        counts = torch.bincount(actions[rows, part], minlength=choices)
        assert (counts > 0.8 * rows.sum() / choices).all()


# ---- attributes by row ---------------------------------------------------------------------------------------------


def sync(rows: int, **kwargs: Any) -> gymnasium.vector.SyncVectorEnv:
    return gymnasium.make_vec("torch_batchsim/CartPole-v0", rows, vectorization_mode="sync", **kwargs)


@pytest.mark.parametrize("name", ["render_mode", "action_space", "observation_space", "marker", "several"])
def test_attributes_are_tuples_as_gymnasiums_sync_vector_env_gives(name: str) -> None:
    ours, theirs = gymnasium.make_vec("torch_batchsim/CartPole-v0", 3), sync(3)
    for env in (ours, theirs):
        env.set_attr("marker", 7)
        env.set_attr("several", [1, 2, 3])
    assert ours.get_attr(name) == theirs.get_attr(name)
    assert ours.call(name) == theirs.call(name)
    assert len(ours) == 3
    for env in (ours, theirs):
        with pytest.raises(ValueError, match="3"):
            env.set_attr("marker", [1, 2])
    assert copy.deepcopy(ours).get_attr("several") == (1, 2, 3)


def test_attributes_that_each_row_has_for_itself() -> None:
    env = TorchVectorEnv(TINY(turns="all"), num_worlds=2)
    env.reset(seed=0)
    masks = env.get_attr("action_mask")
    assert isinstance(masks, tuple) and len(masks) == 4 and torch.equal(torch.stack(masks), env.action_mask)
    assert torch.equal(torch.stack(env.call("action_masks")), env.action_mask)
    assert env.get_attr("num_agents") == (2,) * 4
    env.set_attr("episode_steps", [3, 3, 5, 5])
    assert [int(steps) for steps in env.get_attr("episode_steps")] == [3, 3, 5, 5]
    duel = TorchVectorEnv(Duel(), num_worlds=2)
    duel.reset(seed=0)
    parts = duel.get_attr("observations")
    assert all(torch.equal(parts[3][key], tensor[3]) for key, tensor in duel.observations.items())


def test_a_call_of_render_gives_each_row_its_picture() -> None:
    ours = gymnasium.make_vec("torch_batchsim/CartPole-v0", 2, render_mode="rgb_array")
    theirs = sync(2, render_mode="rgb_array")
    for env in (ours, theirs):
        env.reset(seed=0)
    assert [frame.shape for frame in ours.call("render")] == [frame.shape for frame in theirs.call("render")]
    assert all(np.array_equal(a, b) for a, b in zip(ours.call("render"), ours.render(), strict=True))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda env: env.get_attr("gravty"), "neither TorchVectorEnv nor CartPole has an attribute 'gravty'"),
        (lambda env: env.call("reset"), r"reset\(\) is of all rows together; reset\(options={\"reset_mask\": mask}\)"),
        (lambda env: env.call("step", 1), r"step\(\) is of all rows together; call env.step"),
        (lambda env: env.get_attr("close_extras"), r"close_extras\(\) is of all rows together"),
        (lambda env: env.call("unbind"), r"unbind\(\) is of all rows together; call env.unbind"),
        (lambda env: env.get_attr("_ready"), "'_ready' is private"),
        (lambda env: env.set_attr("gravity", 3.0), "set_attr cannot set 'gravity', which is of the whole batch"),
        (lambda env: env.set_attr("num_envs", 3), "set_attr cannot set 'num_envs'"),
        (lambda env: env.call("render"), "render needs an environment that is made with a render_mode"),
    ],
)
def test_attributes_that_no_row_has(call: Any, says: str) -> None:
    env = TorchVectorEnv(CartPole(), 2)
    env.reset(seed=0)
    before = snapshot(env.sim)
    with pytest.raises(AttributeError, match=says):
        call(env)
    assert env.get_attr("gravity") == (env.environment.parameters["gravity"],) * 2
    assert_same_bits(before, snapshot(env.sim))


# ---- infos as arrays -----------------------------------------------------------------------------------------------


def check_masks(infos: dict[str, Any], rows: int) -> None:
    """Each key has its mask, in nested dicts too."""
    for key, value in infos.items():
        if not key.startswith("_"):
            mask = infos[f"_{key}"]
            assert isinstance(mask, np.ndarray) and (mask.shape, mask.dtype) == ((rows,), bool), key
        if isinstance(value, dict) and key != "final_obs":
            check_masks(value, rows)


@pytest.mark.crossed
@pytest.mark.parametrize("copies", [None, False, True])
@pytest.mark.parametrize("name", ["cartpole", "overcooked", "hanabi", "duel", "melee"])
def test_infos_of_arrays_have_gymnasiums_masks(name: str, copies: bool | None) -> None:
    env = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=3, output="numpy", copy=copies)
    plain = TorchVectorEnv(ENVIRONMENTS[name](), num_worlds=3)
    infos, plainly = env.reset(seed=10)[1], plain.reset(seed=10)[1]
    for step in range(4):
        check_masks(infos, env.num_envs)
        assert {key for key in infos if key in plainly or not key.startswith("_")} == set(plainly)
        assert all(infos[f"_{key}"].all() for key in plainly if not key.startswith(("_", "final")))
        actions = random_actions(env, np.random.default_rng(step))
        infos, plainly = env.step(actions.numpy())[4], plain.step(actions)[4]
        assert np.array_equal(infos["_final_obs"], plainly["_final_obs"])
    masked = env.reset(options={"reset_mask": np.array([True, False, False])})[1]
    check_masks(masked, env.num_envs)


# ---- steps of episodes ---------------------------------------------------------------------------------------------


def limit_of(env: TorchVectorEnv) -> int:
    given = env.environment.parameters
    return given["horizon"] if "horizon" in given else given["max_episode_steps"]


@pytest.mark.crossed
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("name", all_but_hideseek(LIMITED))
def test_an_episode_is_truncated_at_the_count_that_was_written(name: str, mode: AutoresetMode) -> None:
    option = "horizon" if name == "overcooked" else "max_episode_steps"
    env = TorchVectorEnv(ENVIRONMENTS[name](**{option: 400}), num_worlds=3, autoreset_mode=mode)
    env.reset(seed=10)  # with which nobody of melee wins so soon
    assert env.episode_steps.dtype == torch.int32 and env.episode_steps.tolist() == [0] * env.num_envs
    generator = np.random.default_rng(0)
    env.step(random_actions(env, generator))
    assert env.episode_steps.tolist() == [1] * env.num_envs
    limits = torch.tensor([400, 400, 400]) + (torch.arange(3) % 3 if name == "yard" else 0)  # Yard: by world
    env.episode_steps = (limits - torch.tensor([1, 3, 300])).repeat_interleave(env.num_agents)
    ended = []
    for _ in range(3):
        env.step(random_actions(env, generator))
        ended.append(env.sim.tensor("World.truncated").tolist())
    after = mode is AutoresetMode.DISABLED  # where a world stands still with its flags set
    assert ended == [[True, False, False], [after, False, False], [after, True, False]]


def test_overcookeds_clock_moves_with_the_count() -> None:
    env = TorchVectorEnv(Overcooked(), num_worlds=2)
    env.reset(seed=0)
    env.step(env.sample_actions())
    env.episode_steps = [7, 390]  # of worlds
    assert env.sim.tensor("Kitchen.timestep").tolist() == [7, 390]
    seen = env.by_world(env.step(env.sample_actions())[0])
    urgency = seen[..., -1].flatten(1).any(1)
    assert urgency.tolist() == [False, True]


def test_counts_are_arrays_where_all_else_is() -> None:
    env = TorchVectorEnv(Overcooked(), num_worlds=2, output="numpy")
    env.reset(seed=0)
    env.episode_steps = np.array([3, 3, 5, 5])
    steps = env.episode_steps
    assert type(steps) is np.ndarray and steps.dtype == np.int32 and steps.tolist() == [3, 3, 5, 5]
    steps += 1  # a copy
    env.set_attr("episode_steps", list(steps))
    assert env.get_attr("episode_steps") == (4, 4, 6, 6)
    assert type(env.ended_worlds()) is np.ndarray and env.ended_worlds().tolist() == [False, False]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (torch.arange(5), ValueError, r"episode_steps must have shape \[4\] or \[2\] \(worlds\), got \[5\]"),
        (torch.zeros(4), TypeError, "episode_steps must be integers, got float32"),
        ([0, 1, 2, 2], ValueError, "episode_steps must be the same for all agents of a world"),
        ([0, 0, -1, -1], ValueError, "episode_steps must be from 0 to 2147483647, got -1"),
        ([0, 0, 2**31, 2**31], ValueError, "episode_steps must be from 0 to 2147483647, got 2147483648"),
        ("ten", TypeError, "episode_steps must be"),
    ],
)
def test_counts_that_cannot_be(given: Any, error: type[Exception], says: str) -> None:
    env = TorchVectorEnv(Overcooked(), num_worlds=2)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) before episode_steps are written"):
        env.episode_steps = given
    env.reset(seed=0)
    before = snapshot(env.sim)
    with pytest.raises(error, match=says):
        env.episode_steps = given
    assert_same_bits(before, snapshot(env.sim))


@pytest.mark.parametrize("name", ["Kitchen.clock", "Chef.Place.cell", "Kitchen", "Shaping.factor", "nothing"])
def test_step_counters_are_integers_of_a_world(name: str) -> None:
    class Other(Overcooked):
        step_counters = (name,)

    with pytest.raises(SchemaError, match="step_counters"):
        TorchVectorEnv(Other(), num_worlds=1)


# ---- observations of networks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({*environment_ids()} - {"atari"}))  # whose pictures are bytes, as everywhere
def test_every_environment_shows_float32_or_offers_it(name: str) -> None:
    """Natively: the systems write it, and it can be bound."""
    from torch_batchsim.resolve.program import Program

    cls = _class_of(environment_ids()[name])
    given = {"obs_dtype": "float32"} if "obs_dtype" in cls.option_names() else {}
    assert all(column.dtype == torch.float32 for column in Program(cls(**given)).observations.values())


# ---- what adapters rely on -----------------------------------------------------------------------------------------


def test_the_last_results_stay_available() -> None:
    env = TorchVectorEnv(Hanabi(), num_worlds=3)
    assert not env.has_begun and env.delivers_final and not env.copies
    assert env.has_attr("players") and env.has_attr("num_agents")
    assert not any(map(env.has_attr, ("reset", "bind", "_ready", "nothing")))
    _, infos = env.reset(seed=0)
    assert env.has_begun and env.infos.keys() == infos.keys()
    results = env.step(env.checked_actions(env.sample_actions().numpy()))
    again = env.step_results()
    assert all(map(torch.equal, leaves(results), leaves(again)))
    assert all(env.infos[name] is results[4][name] for name in env.infos) and "final_obs" not in env.infos
    env.set_attr("skill", 3)
    assert env.has_attr("skill")
    with pytest.raises(ValueError, match=r"actions must have shape \[3\], got \[2\]"):
        env.checked_actions([0, 1])


# ---- habits of gymnasium's users -------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["torch", "numpy"])
def test_spaces_sample_by_the_masks_of_infos(output: str) -> None:
    env = TorchVectorEnv(Hanabi(), num_worlds=3, output=output)
    _, infos = env.reset(seed=0)
    for _ in range(20):
        mask = infos["action_mask"]
        actions = env.action_space.sample(mask)
        assert actions in env.action_space and np.asarray(mask)[range(3), actions].all()
        assert mask[0][env.single_action_space.sample(mask[0])]
        infos = env.step(torch.from_numpy(actions) if output == "torch" else actions)[4]
    assert env.action_space.sample((np.ones(20, np.int8),) * 3) in env.action_space  # as gymnasium's
    with pytest.raises(AssertionError):
        env.action_space.sample(np.ones((2, 1), bool))
    assert env.action_space == gymnasium.vector.utils.batch_space(env.single_action_space, env.num_envs)
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        env.single_action_space.seed(4)
        twin.single_action_space.seed(4)
        assert type(twin.single_action_space) is Discrete and type(twin.action_space) is MultiDiscrete
        assert twin.single_action_space.sample(mask[0]) == env.single_action_space.sample(mask[0])
    several = TorchVectorEnv(Duel(), num_worlds=3, output=output)
    mask = np.array([False, False, True, True, False])
    assert several.single_action_space.sample(mask if output == "numpy" else torch.from_numpy(mask)).tolist() == [2, 0]


def test_gymnasium_collects_the_pictures_of_a_world() -> None:
    env = gymnasium.make("torch_batchsim/CartPole-v0", render_mode="rgb_array_list")
    env.reset(seed=0)
    env.step(0)
    pictures = env.render()
    assert len(pictures) == 2 and pictures[0].shape[2] == 3
    with pytest.warns(UserWarning, match="HumanRendering"), pytest.raises(gymnasium.error.DependencyNotInstalled):
        gymnasium.make("torch_batchsim/CartPole-v0", render_mode="human").reset()

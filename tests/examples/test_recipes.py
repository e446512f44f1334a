"""The recipes: ``module:id`` under gymnasium's wrappers, as CleanRL stacks them, and the files of examples/recipes/."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import (
    ClipAction,
    FlattenObservation,
    NormalizeObservation,
    NormalizeReward,
    RecordEpisodeStatistics,
    TransformObservation,
    TransformReward,
)

import torch_batchsim

RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
DISCRETE, CONTINUOUS = (f"torch_batchsim:torch_batchsim/CartPole{kind}-v0" for kind in ("", "Continuous"))


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a file of examples/recipes/ as a script beside it does."""
    monkeypatch.syspath_prepend(str(RECIPES))
    names: list[str] = []

    def imported(name: str) -> ModuleType:
        names.append(name)
        return importlib.import_module(name)

    yield imported
    for name in names:
        sys.modules.pop(name, None)


# ---- ids of scripts with --env-id ----------------------------------------------------------------------------------


@pytest.mark.full
def test_the_module_before_an_id_is_all_that_a_script_needs() -> None:
    lines = (
        "import gymnasium as gym",
        "import sys",
        "env = gym.make(sys.argv[1])",
        "envs = gym.make_vec(sys.argv[1], num_envs=3)",
        "print(env.reset(seed=1)[0].shape, tuple(envs.reset(seed=1)[0].shape), env.spec.id)",
    )
    command = [sys.executable, "-c", "\n".join(lines), DISCRETE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(4,) (3, 4) torch_batchsim/CartPole-v0"


def discrete() -> gymnasium.Env:
    """As in CleanRL's ppo.py."""
    return RecordEpisodeStatistics(gymnasium.make(DISCRETE, max_episode_steps=30))


def continuous() -> gymnasium.Env:
    """As in CleanRL's ppo_continuous_action.py."""
    env = RecordEpisodeStatistics(FlattenObservation(gymnasium.make(CONTINUOUS, max_episode_steps=30)))
    env = NormalizeObservation(ClipAction(env))
    env = TransformObservation(env, lambda seen: np.clip(seen, -10, 10), env.observation_space)
    return TransformReward(NormalizeReward(env, gamma=0.99), lambda reward: np.clip(reward, -10, 10))


@pytest.mark.crossed
@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("make", [discrete, continuous])
def test_environments_of_cleanrl(make: Callable[[], gymnasium.Env], mode: AutoresetMode) -> None:
    """Finished episodes are where its scripts look for them with gymnasium 1: at the end, or with final infos."""
    envs = SyncVectorEnv([make] * 3, autoreset_mode=mode)
    envs.action_space.seed(1)
    seen, _ = envs.reset(seed=1)
    lengths, found, running = [], [], np.zeros(3, int)
    for _ in range(120):
        assert seen.shape == (3, 4) and seen.dtype == envs.single_observation_space.dtype and np.isfinite(seen).all()
        actions = envs.action_space.sample()
        seen, _, terminated, truncated, infos = envs.step(3 * actions if make is continuous else actions)  # it clips
        ended = terminated | truncated
        running += 1
        lengths += running[ended].tolist()
        if ended.any():
            stats, of = (infos["final_info"], "_final_info") if mode is AutoresetMode.SAME_STEP else (infos, "_episode")
            assert np.array_equal(infos[of], ended)
            found += stats["episode"]["l"][ended].tolist()
        running[ended] = -1 if mode is AutoresetMode.NEXT_STEP else 0  # its next step only begins
        if mode is AutoresetMode.DISABLED and ended.any():
            seen, _ = envs.reset(options={"reset_mask": ended})
    envs.close()
    assert found == lengths and len(found) > 6 and (make is continuous or max(found) <= 30)


# ---- trainers in the manner of IsaacGym ----------------------------------------------------------------------------


def test_dicts_and_one_flag_for_both_ends(recipe: Callable[[str], ModuleType]) -> None:
    options = {"num_envs": 6, "max_episode_steps": 12, "force_mag": 1.0}
    made = torch_batchsim.make_vec("cartpolecontinuous", **options)
    env = recipe("isaacgym_style").IsaacGymStyle(torch_batchsim.EpisodeStatistics(made))
    bare = torch_batchsim.make_vec("cartpolecontinuous", **options)
    assert env.observation_space == bare.single_observation_space and env.action_space.shape == (1,)
    made.action_space.seed(1)
    seen = env.reset()
    bare.reset()
    bare.load_state_dict(made.state_dict())
    ends = []
    for _ in range(30):
        actions = made.sample_actions()
        (seen, rewards, dones, extras), theirs = env.step(actions), bare.step(actions)
        assert torch.equal(seen["obs"], theirs[0]) and torch.equal(rewards, theirs[1])
        assert torch.equal(dones, (theirs[2] | theirs[3]).long()) and torch.equal(extras["time_outs"], theirs[3])
        ends.append(dones.clone())
    assert torch.stack(ends).sum() >= 12 and env.totals()[2] == torch.stack(ends).sum()


# ---- scripts with other pins ---------------------------------------------------------------------------------------


def old_gym() -> SimpleNamespace:
    """What of gym 0.23 the script's side takes."""
    named = {"spaces": gymnasium.spaces, "vector": gymnasium.vector}
    return SimpleNamespace(__name__="gym", **named)


@pytest.mark.full
@pytest.mark.parametrize(
    ("env_id", "old"),
    [
        ("torch_batchsim/CartPole-v0", False),
        ("torch_batchsim/CartPoleContinuous-v0", True),
        ("torch_batchsim/CartPole-v0", True),
        ("torch_batchsim/CartPoleContinuous-v0", False),
    ],
)
def test_worlds_in_another_python(recipe: Callable[[str], ModuleType], env_id: str, old: bool) -> None:
    """They give what the environment here gives, in the form of gymnasium 0.29 or of gym 0.23."""
    pins, options = recipe("other_pins"), {"max_episode_steps": 12}
    envs = pins.make_vec(old_gym() if old else gymnasium, sys.executable, env_id, 5, **options)
    bare = gymnasium.make_vec(env_id, num_envs=5, output="numpy", copy=True, **options)
    assert envs.single_observation_space == bare.single_observation_space
    assert envs.single_action_space == bare.single_action_space and envs.action_space == bare.action_space
    seen = envs.reset(seed=3) if old else envs.reset(seed=3)[0]
    assert np.array_equal(seen, bare.reset(seed=3)[0])
    returns, count = np.zeros(5), 0
    bare.action_space.seed(1)
    for _ in range(40):
        actions = bare.action_space.sample()
        given, wanted = envs.step(actions), bare.step(actions)
        ended = wanted[2] | wanted[3]
        flags = [ended] if old else [*wanted[2:4]]
        for mine, theirs in zip(given[:-1], [*wanted[:2], *flags], strict=True):
            assert np.array_equal(mine, theirs) and mine.dtype == theirs.dtype
        returns += wanted[1]
        for row in ended.nonzero()[0]:
            info = given[-1][row] if old else given[-1]["final_info"][row]
            final = info["terminal_observation"] if old else given[-1]["final_observation"][row]
            assert np.array_equal(final, wanted[4]["final_obs"][row]) and info["episode"]["r"] == returns[row]
            assert not old or info["TimeLimit.truncated"] == (wanted[3] & ~wanted[2])[row]
            count += 1
        returns[ended] = 0
        if old:
            assert [bool(info) for info in given[-1]] == ended.tolist()
        else:
            assert ("final_info" in given[-1]) == ended.any()
    assert count > 10
    with pytest.raises(ValueError, match=r"actions must have shape \[5"):
        envs.step(np.zeros((4, *envs.single_action_space.shape)))
    envs.close()
    assert envs._server.returncode == 0


@pytest.mark.full
def test_what_ends_the_other_python_is_told(recipe: Callable[[str], ModuleType]) -> None:
    pins = recipe("other_pins")
    with pytest.raises(RuntimeError, match="the process with the worlds has ended; it has printed why"):
        pins.make_vec(gymnasium, sys.executable, "torch_batchsim/Nothing-v0", 2)
    envs = pins.make_vec(gymnasium, sys.executable, "torch_batchsim/CartPole-v0", 2)
    envs.reset()
    with pytest.raises(RuntimeError, match="the process with the worlds has ended"):
        envs.step(np.array([0, 7]))


def test_the_scripts_side_needs_no_more_than_numpy() -> None:
    """Nor a Python later than 3.7."""
    lines = ("import sys, json", "import other_pins", "print(json.dumps(sorted(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=RECIPES, capture_output=True, check=True)
    assert not {"torch", "gymnasium", "torch_batchsim"} & set(json.loads(done.stdout))
    ast.parse((RECIPES / "other_pins.py").read_text(), feature_version=(3, 7))


# ---- several agents ------------------------------------------------------------------------------------------------


def test_tuples_of_agents(recipe: Callable[[str], ModuleType]) -> None:
    recipe("epymarl_env")
    kwargs = {"environment": "overcooked", "shaping_factor": 1.0}
    env = gymnasium.make("epymarl_env:epymarl_env/Batchsim-v0", max_episode_steps=25, **kwargs)
    env = gymnasium.wrappers.TimeLimit(env, max_episode_steps=25)  # as gymma does once more
    same = torch_batchsim.make("overcooked", shaping_factor=1.0)
    assert env.unwrapped.n_agents == 2 and [space.n for space in env.action_space] == [6, 6]
    seen, infos = env.reset(seed=4)
    theirs = same.reset(seed=4)[0]
    assert seen in env.observation_space and not infos
    steps = 0
    env.action_space.seed(1)
    while True:
        actions = [int(action) for action in env.action_space.sample()]
        seen, rewards, terminated, truncated, infos = env.step(actions)
        theirs, reward, *_ = same.step({f"agent_{agent}": action for agent, action in enumerate(actions)})
        assert all(np.array_equal(seen[agent], theirs[f"agent_{agent}"]) for agent in range(2))
        assert len(rewards) == 2 and sum(rewards) == reward and not infos
        steps += 1
        if terminated or truncated:
            break
    assert steps == 25 and truncated
    env.close()
    gymnasium.registry.pop("epymarl_env/Batchsim-v0")


@pytest.mark.full
@pytest.mark.parametrize("players", [2, 3])
def test_games_of_hanabi_by_turns(recipe: Callable[[str], ModuleType], players: int) -> None:
    """Stepped as on-policy's ``HanabiRunner.collect`` steps them: a round of all players, then resets."""
    args = Namespace(hanabi_name="Hanabi-Very-Small", num_agents=players, use_obs_instead_of_state=False)
    games = recipe("onpolicy_hanabi").HanabiGames(args, 16, 3)
    bare = torch_batchsim.make_vec("hanabi", 16, preset="Hanabi-Very-Small", players=players, critic=True)
    bare.reset(seed=3)
    assert len(games.action_space) == len(games.observation_space) == len(games.share_observation_space) == players
    every, random = np.ones(16, bool), np.random.default_rng(1)
    obs, share_obs, legal = games.reset(every)
    assert np.array_equal(obs[:, :-players], bare.observations.numpy()) and (obs[:, -players:].argmax(1) == 0).all()
    own = bare.infos["own_hand"].flatten(1).numpy()
    assert np.array_equal(share_obs, np.concatenate((own, obs), axis=1))
    assert [obs.shape[1], share_obs.shape[1]] == games.observation_space[0] + games.share_observation_space[0]
    totals, finished = np.zeros(16), 0
    for _ in range(60):
        ended = np.zeros(16, bool)
        for player in range(players):
            acts = (legal == 1).any(1)
            if not acts.any():
                break
            assert (obs[acts, -players:].argmax(1) == player).all() and np.array_equal(acts, ~ended)
            moves = -np.ones((16, 1), np.float32)
            moves[acts, 0] = [random.choice(np.flatnonzero(row)) for row in legal[acts]]
            obs, share_obs, rewards, dones, infos, legal = games.step(moves)
            assert rewards.shape == (16, players, 1) and (rewards == rewards[:, :1]).all()
            assert all((done is None) == (not act) for done, act in zip(dones, acts, strict=True))
            assert not obs[~acts].any() and not share_obs[~acts].any() and not rewards[~acts].any()
            totals += rewards[:, 0, 0]
            over = dones == True  # noqa: E712  objects
            for row in over.nonzero()[0]:
                assert totals[row] == infos[row]["score"]
            legal, ended = np.where(over[:, None], 0, legal), ended | over
        fresh = games.reset(ended)
        assert not any(part[~ended].any() for part in fresh)
        obs, share_obs, legal = (
            np.where(ended[:, None], new, old) for new, old in zip(fresh, (obs, share_obs, legal), strict=True)
        )
        finished, totals[ended] = finished + ended.sum(), 0
    games.close()
    assert finished > 30


def test_hanabi_refuses_what_it_does_not_make(recipe: Callable[[str], ModuleType]) -> None:
    args = Namespace(hanabi_name="Hanabi-Very-Small", num_agents=2, use_obs_instead_of_state=True)
    with pytest.raises(ValueError, match="use_obs_instead_of_state needs the observations of all players"):
        recipe("onpolicy_hanabi").HanabiGames(args, 4, 0)

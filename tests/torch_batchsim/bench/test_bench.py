"""The benchmark of an environment: its options, whole worlds, legal actions; and other libraries beside ours."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.duel import Duel
from gymnasium.spaces import Discrete, MultiDiscrete
from support import COMPILED, random_actions

import torch_batchsim
from torch_batchsim import TorchVectorEnv, testing
from torch_batchsim.bench import cli as bench
from torch_batchsim.bench import peers
from torch_batchsim.bench.policy import Policy
from torch_batchsim.bench.throughput import build_seconds, measure, us_of_drawing
from torch_batchsim.command_line import parse_env_options
from torch_batchsim.run.legal import legal_actions

torch_batchsim.register("bench_tests/Duel-v0", Duel)
Run = Callable[..., tuple[dict[str, Any], str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command; gives its JSON and what it has printed."""

    def run(*arguments: object) -> tuple[dict[str, Any], str]:
        path = tmp_path / "out" / "figures.json"
        given = [*arguments, "--seconds", 0.001, "--runs", 1, "--no-build", "--json", path]
        monkeypatch.setattr(sys, "argv", ["bench", *map(str, given)])
        bench.main()
        return json.loads(path.read_text()), capsys.readouterr().out

    return run


# ---- legal actions ---------------------------------------------------------------------------------------------------


def test_legal_choices_are_equally_likely() -> None:
    mask = torch.tensor([[True, False, True, True, False]]).expand(30_000, -1)
    drawn = legal_actions(Discrete(5, start=-2), mask, torch.rand(mask.shape))
    assert drawn.dtype == torch.int64 and drawn.shape == (30_000,)
    counts = torch.bincount(drawn + 2, minlength=5).tolist()
    assert counts[1] == counts[4] == 0
    assert [counts[choice] for choice in (0, 2, 3)] == pytest.approx([10_000] * 3, rel=0.05)


@pytest.mark.parametrize("space", [MultiDiscrete([3, 2]), MultiDiscrete([[3], [2]], start=[[5], [-1]])])
def test_each_part_of_an_action_is_legal(space: MultiDiscrete) -> None:
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand((500, 5), generator=generator) < 0.5
    mask[0] = False
    drawn = legal_actions(space, mask, 1 + torch.rand(mask.shape, generator=generator))
    assert drawn.shape == (500, *space.shape) and all(action in space for action in drawn.numpy())
    chosen = (drawn - torch.from_numpy(np.asarray(space.start))).reshape(500, 2)
    for part, legal in zip(chosen.T, mask.split([3, 2], dim=1), strict=True):
        assert (legal.gather(1, part[:, None])[:, 0] | ~legal.any(1)).all()


def noting(env: TorchVectorEnv) -> tuple[Callable[[torch.Tensor], Any], list[bool]]:
    """``env.step`` of a Duel, and whether all actions were legal, for each of its calls."""
    legal: list[bool] = []

    def step(actions: torch.Tensor) -> Any:
        rows = torch.arange(env.num_envs)
        mask = env.unwrapped.action_mask
        legal.append(bool((mask[rows, actions[:, 0]] & mask[rows, 3 + actions[:, 1]]).all()))
        return env.step(actions)

    return step, legal


def test_steps_are_timed_with_legal_actions() -> None:
    env = gymnasium.make_vec("bench_tests/Duel-v0", num_worlds=30)
    env.reset(seed=0)
    step, legal = noting(env)
    actions = testing.random_actions(env)
    measure(step, actions, env.num_envs, 0.01, 2)
    assert len(legal) > 100 and all(legal)
    assert us_of_drawing(actions, 0.01, "cpu") > 0
    generator, (step, legal) = np.random.default_rng(0), noting(env)
    for _ in range(20):
        step(random_actions(env, generator))
    assert not all(legal)  # without the masks they would not be


def test_actions_are_prepared_where_there_are_no_masks() -> None:
    env = gymnasium.make_vec("torch_batchsim/Swarm-v0", num_worlds=3)
    actions = testing.random_actions(env)
    assert isinstance(actions, list) and all(batch.numpy() in env.action_space for batch in actions)
    assert us_of_drawing(actions, 0.01, "cpu") == 0.0


def test_drawing_is_printed(run: Run) -> None:
    result, printed = run("bench_tests/Duel-v0", "--num-envs", 20)
    [row] = result["rows"]
    assert row["us_of_drawing"] > 0 and "every step includes drawing actions that the masks allow" in printed
    result, printed = run("cartpole", "--num-envs", 20)
    assert "us_of_drawing" not in result["rows"][0] and "includes drawing" not in printed
    assert "world_steps_per_second" not in result["rows"][0] and "rounded" not in printed  # one agent in a world


# ---- a policy between steps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cartpole", "overcooked", "drift"])
def test_a_policy_gives_actions_of_the_space(name: str) -> None:
    env = TorchVectorEnv(COMPILED[name](), num_worlds=50)
    policy, observations, seen = Policy(env), env.reset(seed=0)[0], []
    for _ in range(20):
        seen.append(policy(observations))
        assert seen[-1].numpy() in env.action_space
        observations = env.step(seen[-1])[0]
    assert len(torch.stack(seen).unique()) > 1


def test_a_policy_gives_legal_actions() -> None:
    env = gymnasium.make_vec("bench_tests/Duel-v0", num_worlds=30)
    step, legal = noting(env)
    policy, observations = Policy(env), env.reset(seed=0)[0]
    for _ in range(20):
        observations = step(policy(observations))[0]
    assert all(legal)


@pytest.mark.full
def test_steps_between_decisions_of_a_policy_are_measured(run: Run) -> None:
    result, printed = run("cartpole", "--num-envs", 20, 40, "--policy")
    for row in result["rows"]:
        assert row["policy_steps_per_second"] > row["loop_steps_per_second"] > 0
    assert "policy_steps_per_second is env.step without the policy of 64 tanh units" in printed
    result, printed = run("cartpole", "--num-envs", 20)
    assert "loop_steps_per_second" not in result["rows"][0] and "tanh" not in printed


# ---- options of the environment, whole worlds ------------------------------------------------------------------------


def test_env_options_are_literals_or_text() -> None:
    pairs = ("a=1", "b=0.5", "c=true", "d=False", "e=[1, 'x']", "f=hello world", "g=", "h=k=v", "i=None", "j=1e3")
    expected = {"a": 1, "b": 0.5, "c": True, "d": False, "e": [1, "x"], "f": "hello world", "g": "", "h": "k=v"}
    assert parse_env_options(pairs, {}) == {**expected, "i": None, "j": 1000.0}


@pytest.mark.parametrize(
    "pairs, message",
    [
        (["force"], "--env-option takes key=value, but 'force' was given"),
        (["a b=1"], "--env-option takes key=value, but 'a b=1' was given"),
        (["a=1", "a=2"], "the option a of the environment was given twice"),
        (["num_envs=2"], "num_envs is not an option of the environment; use --num-envs"),
        (["final_obs=False"], "final_obs is not an option of the environment, and cannot be chosen here"),
    ],
)
def test_wrong_env_options_are_refused(pairs: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_env_options(pairs, {"num_envs": "--num-envs"})


@pytest.mark.full
def test_env_options_reach_the_environment_and_are_printed(run: Run) -> None:
    options = ("--env-option", "layout=coordination_ring", "--env-option", "obs_dtype=float32")
    result, printed = run("overcooked", "--num-envs", 8, *options)
    assert result["env_options"] == {"layout": "coordination_ring", "obs_dtype": "float32"}
    assert "options of the environment: layout='coordination_ring', obs_dtype='float32'" in printed
    bytes_of_observations = 2 * 2 * 2 * (5 * 5 * 26 * 4)  # of two chefs, final ones too, in both sets of outputs
    assert bytes_of_observations < result["rows"][0]["bytes_per_world"] < 1.1 * bytes_of_observations


def test_worlds_of_several_agents_are_whole_and_counted(run: Run) -> None:
    result, printed = run("overcooked", "--num-envs", 1, 7, 8)
    assert [(row["num_envs"], row["num_worlds"]) for row in result["rows"]] == [(2, 1), (6, 3), (8, 4)]
    for row in result["rows"]:
        assert row["steps_per_second"] == pytest.approx(2 * row["world_steps_per_second"])  # each is rounded by itself
    assert result["num_agents"] == 2 and "2 agents in a world; steps_per_second counts agents (rows)" in printed
    assert "--num-envs 1: rounded to 2 rows, which are 1 world of 2 agents" in printed
    assert "--num-envs 7: rounded to 6 rows, which are 3 worlds of 2 agents" in printed
    assert "--num-envs 8" not in printed


@pytest.mark.full
def test_builds_are_measured_with_the_options() -> None:
    cold, warm = build_seconds("cartpole", "cpu", {"length": 0.7}, runs=1)
    assert cold > warm > 0
    with pytest.raises(subprocess.CalledProcessError) as failed:
        build_seconds("torch_batchsim/CartPole-v0", "cpu", {"length": float("inf")}, runs=1)
    assert "got inf" in failed.value.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["overcooked", "--env-option", "layouts=2"], "got an unexpected keyword argument 'layouts'"),
        (["cartpole", "--env-option", "num_threads=2"], "num_threads is not an option .*; use --num-threads"),
        (["ecs", "--env-option", "a=2"], "--env-option can only be given for environments, got 'ecs'"),
        (["peers", "--executor", "batch", "--tune"], "--executor and --tune can only be given for environments, got"),
        (["ecs", "--policy"], "--policy can only be given for environments, got 'ecs'"),
        (["cartpole", "--executor", "batch", "--tune"], "--tune chooses the executor, but --executor batch was given"),
        (["cartpole", "--num-envs", "0"], "must be positive"),
        (["ecs", "--device", "cuda"], "'ecs' has a baseline for CPU only"),
        (["peers", "--peers-of", "chess"], "--peers-of is one of cartpole, overcooked, hanabi, got 'chess'"),
        (["ecs", "--rows", "0"], "must be positive"),
        (["chess"], "there is no environment 'chess'"),
        (["cartpole", "--force", "3"], "--force .*--force-mag"),
        (["cartpole", "--worlds", "3"], "--worlds .*--num-envs"),
        (["cartpole", "--xyz", "3"], "--xyz; there are --build, --checks, --continuous, --device, "),
    ],
)
def test_wrong_options_end_in_a_sentence(arguments: list[str], message: str, run: Run) -> None:
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        run(*arguments)


# ---- other libraries -------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("options", [(), ("turns=all",), ("preset=Hanabi-Small", "players=3")])
def test_hanabi_is_measured(options: tuple[str, ...], run: Run) -> None:
    given = [argument for option in options for argument in ("--env-option", option)]
    result, _ = run("hanabi", "--num-envs", 6, *given)  # a move that is not legal would end it
    assert result["rows"][0]["us_of_drawing"] > 0 and result["num_agents"] == (2 if "turns=all" in options else 1)


@pytest.mark.full
@pytest.mark.parametrize("environment", peers.PEERS)
def test_libraries_that_are_not_installed_are_left_out(environment: str, run: Run) -> None:
    result, printed = run("peers", "--peers-of", environment, "--num-envs", 3)
    assert result["peers_of"] == environment
    measured = [row["library"] for row in result["rows"]]
    assert measured[0].startswith("torch_batchsim") and all(row["world_steps_per_second"] > 0 for row in result["rows"])
    for name in set(peers.PEERS[environment]) - set(measured):
        assert f"{name}: left out (No module named" in printed


@pytest.mark.full
def test_peers_are_measured_up_to_their_greatest_number(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    stepped = []

    def prepare(worlds: int) -> tuple[Callable[[Any], Any], list[int], int]:
        return (lambda action: stepped.append((worlds, action))), [7], 64

    monkeypatch.setitem(peers.PEERS, "cartpole", {"small": peers.Peer(prepare, 8), "any": peers.Peer(prepare)})
    result, printed = run("peers", "--num-envs", 4, 16)
    assert [(row["library"], row["num_worlds"]) for row in result["rows"]] == [("small", 4), ("any", 4), ("any", 16)]
    assert "small: 16 worlds left out (more than 8 are not measured)" in printed
    assert set(stepped) == {(4, 7), (16, 7)}

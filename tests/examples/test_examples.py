"""The scripts in examples/: a few updates of each, whose rollouts and advantages are computed here again."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from libraries_of_others import run_script
from support import of_today
from torch import Tensor
from torch_batchsim.envs.cartpole import CartPole

import torch_batchsim

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted({path.name for path in EXAMPLES.glob("ppo_*.py")} - {"ppo_jax.py"})  # see adapters/test_jax.py
SHORT = "tests/ShortCartPole-v0"  # with episodes that end by falling, and by the limit


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One thread; afterwards torch's random numbers and gymnasium's environments are as they were."""
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    torch_batchsim.register(SHORT, CartPole, max_episode_steps=12)
    yield
    del gymnasium.registry[SHORT]
    torch.set_num_threads(threads)
    torch.set_rng_state(state)


def run(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str) -> dict[str, Any]:
    """The names of a script after its last update."""
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    return runpy.run_path(str(EXAMPLES / script), run_name="__main__")


def few_updates(monkeypatch: pytest.MonkeyPatch, script: str, *arguments: str, updates: int = 2) -> dict[str, Any]:
    sizes = {"--num-envs": 16, "--num-steps": 24, "--num-minibatches": 2, "--total-steps": 16 * 24 * updates}
    return run(monkeypatch, script, *arguments, *(str(part) for pair in sizes.items() for part in pair))


def advantages_of(names: dict[str, Any], values: Tensor, final_values: Tensor) -> Tensor:
    """By the definition, a sum for each step: ``[T, N]``."""
    args, rewards = names["args"], names["rewards"]
    terminations, truncations = names["terminations"], names["truncations"]
    expected = torch.zeros_like(rewards)
    for t, row in torch.cartesian_prod(torch.arange(len(rewards)), torch.arange(rewards.shape[1])).tolist():
        weight = 1.0
        for later in range(t, len(rewards)):
            following = final_values[later, row] if truncations[later, row] else values[later + 1, row]
            following = 0.0 if terminations[later, row] else following
            delta = rewards[later, row] + args.gamma * following - values[later, row]
            expected[t, row] += weight * delta
            weight *= args.gamma * args.gae_lambda
            if terminations[later, row] or truncations[later, row]:
                break
    return expected


def test_scripts_know_the_package_and_nothing_of_its_trainer() -> None:
    allowed = {"__future__", "dataclasses", "gymnasium", "math", "time", "torch", "torch_batchsim", "tyro"}
    assert SCRIPTS == ["ppo_discrete.py", "ppo_lstm.py", "ppo_masked.py"]
    for script in SCRIPTS:
        for node in ast.walk(ast.parse((EXAMPLES / script).read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] in allowed and not name.startswith("torch_batchsim."), (script, name)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_few_updates_change_the_agent(monkeypatch, capsys, script: str) -> None:
    first = few_updates(monkeypatch, script, "--learning-rate", "0", updates=1)["agent"].state_dict()
    trained = few_updates(monkeypatch, script)["agent"].state_dict()
    assert all(parameter.isfinite().all() for parameter in trained.values())
    assert all(not torch.equal(first[name], trained[name]) for name in first if "weight" in name)
    assert re.search(r"^ +768 steps .* steps/s .* episodes  return -?[\d.]+$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize("script", SCRIPTS)
def test_minibatches_that_do_not_fit_are_refused(monkeypatch, script: str) -> None:
    sizes = [(2, 4, 16), (2, 2, 4), (4, 3, 5), (4, 4, 0), (4, 4, -4)]
    sizes += [(6, 4, 8), (4, 1, 4)] if script == "ppo_lstm.py" else []
    for environments, steps, minibatches in sizes:
        options = ("--num-envs", str(environments), "--num-steps", str(steps), "--num-minibatches", str(minibatches))
        with pytest.raises(SystemExit, match=rf"^--num-minibatches must cut the .* got {minibatches}$"):
            run(monkeypatch, script, *options)


def test_the_discrete_one_bootstraps_truncated_episodes(monkeypatch) -> None:
    names = few_updates(monkeypatch, "ppo_discrete.py", "--env-id", SHORT, "--learning-rate", "0")
    assert names["terminations"].any() and names["truncations"].any()
    agent, observations = names["agent"], names["observations"]
    with torch.no_grad():
        expected = advantages_of(names, agent.value(observations), agent.value(names["final_observations"]))
    torch.testing.assert_close(names["advantages"].view_as(expected), expected, rtol=1e-4, atol=1e-4)
    moved = (observations[1:] - observations[:-1]).abs().amax(-1)
    assert (moved > 0).all()  # each step wrote a slot of its own
    torch.testing.assert_close(names["ratio"], torch.ones_like(names["ratio"]))


def test_the_masked_one_never_moves_illegally(monkeypatch) -> None:
    names = few_updates(monkeypatch, "ppo_masked.py", "--learning-rate", "0")  # an illegal move is a fault
    legal, actions = names["legal"], names["actions"]
    assert names["terminations"].any() and not legal[:-1].all()
    assert legal[:-1].gather(-1, actions[..., None]).all()
    with torch.no_grad():
        probabilities = names["agent"].policy(names["seen"], names["allowed"]).probs
        values = names["agent"].value(names["observations"])
        expected = advantages_of(names, values, values[1:])
    assert (probabilities[~names["allowed"]] == 0).all()
    torch.testing.assert_close(names["ratio"], torch.ones_like(names["ratio"]))
    torch.testing.assert_close(names["advantages"].view_as(expected), expected, rtol=1e-4, atol=1e-4)
    assert names["mercy"] == pytest.approx(0.5)  # of the second of two updates


@pytest.mark.parametrize("memory", [True, False])
def test_the_lstm_one_begins_episodes_with_zeros(monkeypatch, memory: bool) -> None:
    options = ("--env-id", SHORT, "--learning-rate", "0", "--memory" if memory else "--no-memory")
    names = few_updates(monkeypatch, "ppo_lstm.py", *options)
    agent, scale = names["agent"], torch.tensor([2.4, torch.pi / 15])
    inputs, last_inputs = (names[name][..., [0, 2]] / scale for name in ("observations", "final_observations"))
    ended = names["terminations"] | names["truncations"]
    assert names["terminations"].any() and names["truncations"].any()
    values, final_values = torch.zeros_like(names["values"]), torch.zeros_like(names["final_values"])
    with torch.no_grad():
        for row in range(ended.shape[1]):
            state = tuple(part[row] for part in names["first_state"])
            for t in range(len(ended) + 1):
                state = agent.lstm(agent.encoder(inputs[t, row]), state)
                values[t, row] = agent.value(state[0])
                if t == len(ended):
                    break
                state = state if memory else (torch.zeros(64), torch.zeros(64))
                final_values[t, row] = agent.value(agent.lstm(agent.encoder(last_inputs[t, row]), state)[0])
                if ended[t, row]:
                    state = (torch.zeros(64), torch.zeros(64))
    torch.testing.assert_close(names["values"], values)
    torch.testing.assert_close(names["final_values"], final_values)
    expected = advantages_of(names, values, final_values)
    torch.testing.assert_close(names["advantages"], expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(names["ratio"], torch.ones_like(names["ratio"]))  # an update sees what the rollout saw


@pytest.mark.full
def test_the_discrete_one_learns(monkeypatch) -> None:
    agent = run(monkeypatch, "ppo_discrete.py")["agent"]
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=100)
    observations, _ = env.reset(seed=1000)
    returns, first = torch.zeros(100), torch.ones(100, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(500):
            observations, rewards, terminations, _, _ = env.step(agent.policy(observations).logits.argmax(-1))
            returns += rewards * first
            first &= ~terminations
    assert returns.mean() >= 475


LEARN = {  # steps, and the return that they exceed
    "ppo_masked.py": (300_000, 2),  # of 5 points; the mercy is over by then
    "ppo_lstm.py": (160_000, 80),  # below 45 without memory in three times as many steps: velocities are hidden
}


@pytest.mark.parametrize("script", of_today(LEARN, 1))
def test_the_others_learn(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, least = LEARN[script]
    assert run(monkeypatch, script, "--total-steps", str(steps))["mean_return"] > least


def test_the_loop_on_the_page_runs() -> None:
    names = run_script("CleanRL")
    assert names["obs"][1:].any() and (names["rewards"] == 1).all()
    assert names["episodes"] == names["dones"].sum() > 0

"""A policy in a file that torch runs without this package."""

import json
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
import torch
from environments.melee import Melee
from gymnasium import spaces
from torch_batchsim.train import PPOConfig, Trainer
from torch_batchsim.train.export import ABOUT, export, exported, main
from torch_batchsim.train.policies.networks import Player
from torch_batchsim.train.rollouts.rollout import map_leaves
from torch_batchsim.train.run_folder import checkpoint

from torch_batchsim import TorchVectorEnv
from torch_batchsim.command_line import UsageError

SMALL = {"num_steps": 4, "num_minibatches": 2, "total_steps": 10_000, "hidden_sizes": (8,)}


def trained(env, **settings):
    trainer = Trainer(env, PPOConfig(**SMALL | {"num_envs": env.num_envs} | settings))
    for _ in range(2):
        trainer.iterate()
    return trainer


def assert_same_actions(program, trainer, mask):
    """As the trainer's own player takes, for other numbers of rows and several steps of a memory."""
    env, agent = trainer.env, trainer.groups[0].agent
    module, random = program.module(), torch.Generator().manual_seed(1)
    for rows in (1, 2, 5):
        player, state = Player(agent, rows), agent.hidden(rows)
        for _ in range(3):
            observation = trainer.storage.obs
            pick = torch.randint(0, env.num_envs, (rows,), generator=random)
            seen = map_leaves(lambda leaf, pick=pick: leaf[0][pick], observation)
            others = [] if mask is None else [mask[pick]]
            with torch.no_grad():
                expected = agent.policy.empty_actions(rows)
                agent.policy.mode(player.outputs(seen, None), expected, others[0] if others else None)
                expected = agent.policy.to_env(expected)
                if agent.state_size:
                    found, state = module(seen, *others, state)
                    assert torch.allclose(state, player.hidden, atol=1e-6)
                else:
                    found = module(seen, *others)
            assert torch.equal(found, expected) or torch.allclose(found, expected, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize(
    ("masked", "space", "settings"),
    [
        (True, spaces.Discrete(4), {"norm_obs": True}),
        (False, spaces.MultiDiscrete([2, 3]), {"memory": "lstm", "memory_size": 4}),
        (False, spaces.Box(-2, 3, (2, 2)), {}),
        (True, spaces.Discrete(4), {"memory": "gru", "memory_size": 4}),
    ],
)
def test_it_acts_as_the_policy_does(toy_env, masked, space, settings):
    trainer = trained(toy_env(masked=masked, action_space=space), **settings)
    mask = trainer.storage.action_masks[0] if masked else None
    program = exported(trainer.groups[0].agent, trainer.storage.obs[0], mask)
    assert_same_actions(program, trainer, mask)


@pytest.mark.full
def test_parts_that_are_read_in_ways_of_their_own_are_exported_too(toy_env):
    shapes = {"others": (3, 2), "there": (3,), "grid": (5, 4, 2)}
    space = spaces.Dict({name: spaces.Box(-1, 1, shape) for name, shape in shapes.items()})
    trainer = trained(toy_env(observation_space=space), encoders=("others=attention:there", "grid=conv"))
    seen = {name: leaf[0] for name, leaf in trainer.storage.obs.items()}
    assert_same_actions(exported(trainer.groups[0].agent, seen, None), trainer, None)


PAGE = Path(__file__).parents[2] / "docs" / "training.md"
BEFORE = """
import sys
sys.modules["torch_batchsim"] = None  # an import of it fails
"""
BEHIND = """
assert actions.shape == (3,) and "gymnasium" not in sys.modules
observation = torch.load("observation.pt", weights_only=True)
torch.save({"actions": policy(observation), "env": about["env"]}, "answer.pt")
"""


@pytest.mark.full
def test_a_process_without_the_package_runs_it(tmp_path):
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=8)
    trainer = trained(env)
    contents = {"env": "torch_batchsim/CartPole-v0", "env_options": {}, "trainer": trainer.state_dict()}
    checkpoint.save(tmp_path / "checkpoint.pt", contents)
    main([str(tmp_path)])
    observation = torch.randn(50, 4)
    torch.save(observation, tmp_path / "observation.pt")
    (page,) = re.findall(r"```python title=elsewhere.py\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    command = [sys.executable, "-c", BEFORE + page + BEHIND]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    reported = torch.load(tmp_path / "answer.pt", weights_only=True)
    expected = trainer.groups[0].agent.policy.empty_actions(50)
    agent = trainer.groups[0].agent
    agent.policy.mode(agent.outputs(agent.encode(observation)), expected, None)
    assert torch.equal(reported["actions"], expected) and reported["env"] == "torch_batchsim/CartPole-v0"


@pytest.mark.full
def test_each_team_has_a_file(tmp_path, monkeypatch):
    def made(*_, num_worlds=4, **__):
        return TorchVectorEnv(Melee(), num_worlds=num_worlds)

    monkeypatch.setattr(gymnasium, "make_vec", made)
    trainer = trained(made(), policies="teams", memory="gru", memory_size=4)
    contents = {"env": "melee", "env_options": {}, "trainer": trainer.state_dict()}
    files = export(contents, tmp_path / "policy.pt2")
    assert [file.name for file in files] == ["policy-team0.pt2", "policy-team1.pt2"]
    for team, file in enumerate(files):
        extra = {ABOUT: ""}
        torch.export.load(file, extra_files=extra)
        about = json.loads(extra[ABOUT])
        assert (about["team"], about["state_size"]) == (team, 4)


def test_a_file_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    env = gymnasium.make_vec("torch_batchsim/CartPole-v0", num_envs=8)
    trainer = Trainer(env, PPOConfig(**SMALL, num_envs=8))
    contents = {"env": "torch_batchsim/CartPole-v0", "env_options": {}, "trainer": trainer.state_dict()}
    checkpoint.save(tmp_path / "checkpoint.pt", contents)
    module = torch.export.export(torch.nn.Linear(1, 1), (torch.zeros(1, 1),))  # the policy's takes long
    monkeypatch.setattr("torch_batchsim.train.export.exported", lambda *_: module)
    (tmp_path / "taken.pt2").mkdir()
    with pytest.raises(UsageError, match=r"taken.pt2 cannot be written: Is a directory"):
        main([str(tmp_path), "--output", str(tmp_path / "taken.pt2")])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing.pt"], "cannot be read"),
        (["latest"], "there is no checkpoint in"),
        (["checkpoint.pt", "--output", "policy.onnx"], "--output writes .pt2, but policy.onnx was given"),
    ],
)
def test_mistakes_are_reported(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=re.escape(says)) as raised:
        main(arguments)
    assert raised.value.code == 2

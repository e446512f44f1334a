"""rl-baselines3-zoo: its command finds an id by ``--gym-packages``, trains and evaluates, as docs/recipes.md says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from libraries_of_others import library

library(__file__, "stable_baselines3", "rl_zoo3")

ID = "torch_batchsim/CartPole-v0"
SETTINGS = f"""
{ID}:
  n_envs: 4
  n_timesteps: 512
  policy: MlpPolicy
  n_steps: 32
  batch_size: 64
  n_epochs: 1
  env_kwargs:
    force_mag: 9.0
"""


@pytest.mark.full
def test_its_command_trains(tmp_path: Path) -> None:
    (tmp_path / "ppo.yml").write_text(SETTINGS)
    command = [sys.executable, "-m", "rl_zoo3.train", "--algo", "ppo", "--env", ID, "--conf-file", "ppo.yml"]
    options = ["--device", "cpu", "--eval-freq", "256", "--eval-episodes", "2", "--seed", "1"]
    run = {"cwd": tmp_path, "env": {**os.environ, "OMP_NUM_THREADS": "1"}, "capture_output": True, "text": True}
    refused = subprocess.run([*command, *options], **run, check=False)
    assert refused.returncode and f"{ID} not found in gym registry" in refused.stderr
    options += ["--gym-packages", "torch_batchsim"]
    done = subprocess.run([*command, *options], **run, check=False)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "logs" / "ppo" / "torch_batchsim-CartPole-v0_1"
    assert len((folder / "0.monitor.csv").read_text().splitlines()) > 4 and (folder / "best_model.zip").is_file()
    assert "force_mag: 9.0" in (folder / "torch_batchsim-CartPole-v0" / "config.yml").read_text()

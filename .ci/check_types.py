"""mypy over an author's file and a user's calls: what annotations and the public API look like to a type checker."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = """
from __future__ import annotations

import gymnasium
import torch_batchsim
from torch_batchsim import Archetype, Component, Entity, Environment, Option, Parameters, TaskGraph, component
from torch_batchsim import between, f32, i32, quat, u8, vec3


class Ball(Component):
    x: f32
    speed: f32 = between(0, 1)
    marks: u8[2, 3]
    row: f32[4]
    heading: quat
    place: vec3
    owner: Entity


class Push(Component):
    direction: i32


class Balls(Environment):
    parameters = Parameters(gravity=Option(9.8, above=0.0))
    archetypes = [Archetype("Ball", Ball, Push, component("Extra", a=f32[3], b=f32), count=1)]
    step = TaskGraph("fall")
    observation, action = "Ball.Ball", "Ball.Push.direction"
    action_space = gymnasium.spaces.Discrete(2)


env = torch_batchsim.make_vec("cartpole", num_envs=4)
rows: int = env.num_envs
actions = env.sample_actions()
by_agent: torch_batchsim.AgentsVectorEnv = torch_batchsim.make_vec("overcooked", num_envs=4, by_agent=True)
single: gymnasium.Env = torch_batchsim.make("cartpole")
"""
WRONG = """
import torch_batchsim

env: torch_batchsim.AgentsVectorEnv = torch_batchsim.make_vec("cartpole", num_envs=4)
"""


def said(text: str) -> str:
    """mypy's output for a file; empty where it finds nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "author.py"
        path.write_text(text)
        command = [sys.executable, "-m", "mypy", "--python-executable", sys.executable, "--follow-imports=silent"]
        command += ["--no-error-summary", str(path)]
        environment = {**os.environ, "MYPYPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr


if __name__ == "__main__":
    told = said(FILE)
    if told:
        raise SystemExit(told)
    if "Incompatible types in assignment" not in said(WRONG):
        raise SystemExit("mypy does not see the types of the package: a wrong assignment passes")
    print("types: as they should be")

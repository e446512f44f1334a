"""Systems in a cell of a notebook, edited and run again.

IPython gives a cell a name by its content and its lines to ``linecache``, without a time of change; so does this.
"""

from __future__ import annotations

import hashlib
import linecache
from typing import Any

import pytest
import torch

import torch_batchsim
from torch_batchsim import SchemaError

CELL = """\
from gymnasium.spaces import Discrete
from torch_batchsim import *

class Act(Component):
    choice: i32

class Place(Component):
    x: f32

@function
def length_of(choice: int) -> float:
    return choice * 0.5

@system
def walk(world: World, act: Act, place: Place) -> None:
    place.x += length_of(act.choice)

class Walk(Environment):
    archetypes = [Archetype("Walker", Act, Place, Reward, count=1)]
    step = TaskGraph(walk)
    observation, action = "Walker.Place", "Walker.Act"
    action_space = Discrete(3)
"""


class Notebook:
    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}

    def run(self, text: str) -> None:
        name = f"<ipython-input-1-{hashlib.sha1(text.encode()).hexdigest()[:12]}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec", dont_inherit=True), self.names)

    def steps_to(self, executor: str) -> list[float]:
        env = torch_batchsim.make_vec(self.names["Walk"], num_envs=2, executor=executor)
        env.reset(seed=0)
        return env.step(torch.tensor([1, 2]))[0].flatten().tolist()


@pytest.mark.parametrize("executor", ["batch", pytest.param("python", marks=pytest.mark.full)])
def test_a_cell_is_edited_and_run_again(executor: str) -> None:
    notebook = Notebook()
    notebook.run(CELL)
    assert notebook.steps_to(executor) == [0.5, 1.0]
    notebook.run(CELL.replace("0.5", "2.0"))
    assert notebook.steps_to(executor) == [2.0, 4.0]
    notebook.run(CELL)  # as at first: from the same lines
    assert notebook.steps_to(executor) == [0.5, 1.0]
    # A cell with the function, without the system that calls it.
    notebook.run("@function\ndef length_of(choice: int) -> float:\n    return choice * 3.0\n")
    assert notebook.steps_to(executor) == [3.0, 6.0]


def test_a_message_names_the_cell_and_its_line() -> None:
    notebook = Notebook()
    notebook.run(CELL.replace("choice * 0.5", "choice ** 2"))
    with pytest.raises(SchemaError) as raised:
        notebook.steps_to("batch")
    first, *shown = str(raised.value).split("\n")
    assert first.startswith("<ipython-input-1-") and ">:12: ** is not in systems: write x * x" in first
    assert shown[0] == "   12 |     return choice ** 2"

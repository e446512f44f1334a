"""What a CUDA thread has in registers during a run, as the generated text says it."""

from __future__ import annotations

import re

from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.envs.hanabi import Hanabi
from torch_batchsim.envs.overcooked import Overcooked

from torch_batchsim import Environment
from torch_batchsim.build.cells import Cells
from torch_batchsim.resolve.program import Program
from torch_batchsim.resolve.schedule import fused, step_tasks


def structs(environment: Environment) -> dict[str, str]:
    """The cells of each run of flat nodes, by the name of its last task."""
    program = Program(environment)
    cells = Cells(program)
    runs = [run for run in fused(step_tasks(program)) if run[0].node.rows is not None]
    return {run[-1].node.name: "\n".join(cells.struct("Own", run)) for run in runs}


def loads(text: str) -> dict[str, str]:
    """Under which condition each field is read from memory; fields that never are do not appear."""
    found = re.findall(r"(?:if \((.*)\) )?(\w+)\.value = context\.", text.partition("note(")[0])
    return {field: condition for condition, field in found}


def test_rows_are_read_once_and_before_anything_is_computed() -> None:
    text = structs(CartPole())["ChooseBeginAfterStep"]
    assert loads(text) == {
        "column_Cart_CartState": "",
        "step": "",
        # A column that the step itself writes first is not read: actions that were given, the reward, flags, the phase.
        "column_Cart_Push": "!is_active(context, When::acts)",
        "ended": "is_active(context, When::apart)",
    }
    assert text.count("context.column_Cart_CartState[row] = column_Cart_CartState.value") == 1  # stored behind all


def test_what_world_tells_is_in_memory_at_once() -> None:
    text = structs(CartPole())["start_episode"]
    for field in ("step", "episode"):
        assert f"context.{field}[row] = {field}.value;" in text.partition("note(")[2].partition("store(")[0]


def test_what_world_reaches_and_what_has_an_index_stays_in_memory() -> None:
    acting = structs(Hanabi())["ChooseBeginAfterStep"]
    assert "Cell<tbs::fence::systems::Last>" in acting
    assert "column_Deck" not in acting  # u8[50], indexed at run time
    assert "Reward *const column_Player_Reward" in acting  # world.rows<Player, Reward>()
    assert "column_Layouts" not in "".join(structs(Overcooked()).values())  # once for all worlds

"""min, max, clamp and conversions to integers at the edges of their range: on CPU, and as emulated CUDA."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete
from support import declare

from torch_batchsim import Archetype, Component, Reward, Simulator, TaskGraph, component, f32, i32, u32
from torch_batchsim import math as engine
from torch_batchsim.build import emulation
from torch_batchsim.resolve.program import Program

F32 = np.float32
POSITIVE = [0, 1e-45, 2.0**-126, 0.5, 1 - 2.0**-24, 1, 1.5, 2.0**24 + 2, 2.0**31, 2.0**32, float(np.finfo(F32).max)]
POSITIVE += [float(np.nextafter(F32(edge), F32(way))) for edge in (2.0**31, 2.0**32) for way in (0, np.inf)]
POSITIVE += [np.inf, np.nan]
EDGES = np.array([*POSITIVE, *(-value for value in POSITIVE)], F32)
A, B = (grid.ravel() for grid in np.meshgrid(EDGES, EDGES))


def lesser(a, b):
    return np.where(b < a, b, a).astype(F32)


def greater(a, b):
    return np.where(a < b, b, a).astype(F32)


def whole(x, low, high):
    return np.array([0 if np.isnan(v) else int(min(max(v, F32(low)), F32(high))) for v in x]).clip(low, high)


ZERO, ONE = F32(0), F32(1)
# Of each result: its C++, and its values.
EXPRESSIONS = {
    "least": ("min(x.a, x.b)", lesser(A, B)),
    "most": ("max(x.a, x.b)", greater(A, B)),
    "zero_or_less": ("min(0.0f, x.a)", lesser(ZERO, A)),
    "less_or_zero": ("min(x.a, 0.0f)", lesser(A, ZERO)),
    "negative_zero_or_less": ("min(-0.0f, x.a)", lesser(-ZERO, A)),
    "zero_or_more": ("max(0.0f, x.a)", greater(ZERO, A)),
    "negative_zero_or_more": ("max(-0.0f, x.a)", greater(-ZERO, A)),
    "more_or_zero": ("max(x.a, 0.0f)", greater(A, ZERO)),
    "unit": ("clamp(x.a, 0.0f, 1.0f)", lesser(greater(A, ZERO), ONE)),
    "unit_of_numbers": ("min(1.0f, max(0.0f, x.a))", lesser(ONE, greater(ZERO, A))),
    "unit_or_one": ("max(0.0f, min(1.0f, x.a))", greater(ZERO, lesser(ONE, A))),
    "wide": ("f32(min(f64(x.a), f64(x.b)))", lesser(A, B)),
}
WHOLE = {
    "signed_number": ("to_i32(x.a)", i32, whole(A, -(2**31), 2**31 - 1)),
    "unsigned_number": ("to_u32(x.a)", u32, whole(A, 0, 2**32 - 1)),
}


class Pair(Component):
    a: f32
    b: f32


class Choice(Component):
    kind: i32


@pytest.mark.full
@pytest.mark.parametrize("device", ["cpu", pytest.param("graph", marks=pytest.mark.full)])
def test_systems_have_one_meaning_at_the_edges(device: str) -> None:
    lines = [f"    found.{name} = {text};\n" for name, (text, *_) in (EXPRESSIONS | WHOLE).items()]
    kinds = dict.fromkeys(EXPRESSIONS, f32) | {name: kind for name, (_, kind, _) in WHOLE.items()}
    environment = declare(
        f"TBS_SYSTEM void compute(World &world, const Pair &x, Found &found) {{\n{''.join(lines)}}}\n",
        archetypes=(
            Archetype("Case", Pair, component("Found", **kinds), count=len(A)),
            Archetype("Player", Choice, Reward, count=1),
        ),
        step=TaskGraph("compute"),
        observation="Player.Choice.kind",
        action="Player.Choice.kind",
        action_space=Discrete(2),
    )()
    library = None if device == "cpu" else emulation.load(Program(environment), device)
    sim = Simulator(environment, 1, _library=library)
    sim.reset(seed=0)
    for name, given in (("a", A), ("b", B)):
        sim.tensor(f"Case.Pair.{name}")[0] = torch.from_numpy(given)
    sim.step()
    for name, (text, wanted) in EXPRESSIONS.items():
        found = sim.tensor(f"Case.Found.{name}")[0].numpy()
        differs = (found.view(np.int32) != wanted.view(np.int32)) & ~(np.isnan(found) & np.isnan(wanted))
        assert not differs.any(), (text, A[differs][:3], B[differs][:3], found[differs][:3])
    for name, (text, _, wanted) in WHOLE.items():
        found = sim.tensor(f"Case.Found.{name}")[0].numpy().astype(np.int64)
        assert (found == wanted).all(), (text, A[found != wanted][:3], found[found != wanted][:3])


def test_arrays_have_it_too() -> None:
    signed, unsigned = engine.to_i32(EDGES), engine.to_u32(torch.from_numpy(EDGES))
    assert signed.dtype == np.int32 and unsigned.dtype == torch.uint32
    assert (signed == whole(EDGES, -(2**31), 2**31 - 1)).all()
    assert (unsigned.numpy() == whole(EDGES, 0, 2**32 - 1)).all()
    assert engine.to_i32(-2.75) == -2 and engine.to_u32(-2.75) == 0

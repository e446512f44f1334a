"""The grid: what is found beside brute force in numpy, on every executor, whatever the options; and refusals."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from environments.dust import Dust
from support import assert_same_bits, emulated_cuda, sampled, snapshot, spoil
from torch_batchsim.envs.swarm import Swarm

from torch_batchsim import SchemaError, Simulator, TaskGraph, TorchVectorEnv, WorldFault
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import random_actions

WORLDS = 5
# A grid that holds 96 rows, the choice of the environment; one of fine cells; none, since all rows are too few.
GRIDS: tuple[dict[str, Any], ...] = ({}, {"cell": 0.013, "rows": 200, "least": 0}, {"least": 1000})


def dust(grid: dict[str, Any] | None = None, worlds: int = WORLDS, grains: int = 80, **kwargs: Any) -> Simulator:
    """Worlds of ``grains`` each, less what is taken out by hand."""
    drift = kwargs.pop("drift", 0.1)
    sim = Simulator(Dust(grid=grid or {}, grains=grains, drift=drift), worlds, **kwargs)
    sim.reset(seed=7)
    return sim


def strange_places(sim: Simulator) -> None:
    """Some rows far away, on edges, or nowhere; each reach is the distance to the next row, as f32 has it."""
    special = torch.tensor([0.0, 3.0, 1.0, 2.0, -1e30, 1e30, float("inf"), -float("inf"), float("nan"), 0.3, 0.6])
    places, reaches = sim.tensor("Grain.Place"), sim.tensor("Grain.Search.reach")
    generator = torch.Generator().manual_seed(1)
    rows = torch.randint(len(places), (len(places) // 3,), generator=generator)
    places[rows, rows % 2] = special[torch.randint(len(special), (len(rows),), generator=generator)]
    reaches[:-1] = (places[1:, 0] - places[:-1, 0]).abs()
    reaches[::7] = (places[::7, 1] - places[::7, 1].roll(1)).abs()
    reaches[torch.randint(len(places), (12,), generator=generator)] = torch.tensor(
        [0.0, -1.0, 1e-30, 1e30, float("inf"), float("nan")] * 2
    )


def assert_all_are_found(sim: Simulator) -> int:
    """A step has found the rows that comparing each with each finds; returns the number of neighbours."""
    neighbours = 0
    with np.errstate(all="ignore"):
        for world in range(sim.num_worlds):
            x, y = sim.ragged("Grain.Place").world(world).numpy().T
            reach = sim.ragged("Grain.Search.reach").world(world).numpy()[:, None]
            dx, dy = x[None] - x[:, None], y[None] - y[:, None]
            in_circle = (dx * dx + dy * dy <= reach * reach) & ~np.eye(len(x), dtype=bool)
            in_square = (np.abs(dx) <= reach) & (np.abs(dy) <= reach)
            found = {name: sim.ragged(f"Grain.{name}").world(world).tolist() for name in ("Company", "Third")}
            last = [max(np.flatnonzero(row), default=-1) for row in in_circle]
            assert [row[:2] for row in found["Company"]] == list(map(list, zip(in_circle.sum(1), last, strict=True)))
            third = [([*np.flatnonzero(row), -1, -1, -1][2], row.sum()) for row in in_square]
            third = [(-1 if n < 3 else i, n) for i, n in third]
            assert found["Third"] == list(map(list, third))
            neighbours += int(in_circle.sum())
    return neighbours


@pytest.mark.parametrize("grid", sampled(GRIDS, 1), ids=["coarse", "fine", "none"])
def test_the_grid_finds_the_rows_that_brute_force_finds(grid: dict[str, Any]) -> None:
    for grains in (0, 1, 31, 32, 33, 96, 97, 200):
        sim = dust(grid, worlds=2, grains=grains)
        spoil(sim)
        sim.step()
        assert assert_all_are_found(sim) >= grains * (grains - 1) // 20
    sim = dust(grid, worlds=8, grains=200, drift=0.0)
    strange_places(sim)
    sim.step()
    assert assert_all_are_found(sim) > 1000


def test_rounding_hides_nobody() -> None:
    """Each second row is the first in its column of cells, and as far from the row before it as that reaches."""
    sim = dust(GRIDS[1], worlds=1, grains=200, drift=0.0)
    per_unit = np.float32(sim.environment.libraries.grid.constants.cells_per_unit)
    edge = (np.arange(1, 101) * 2 / per_unit).astype(np.float32)
    for _ in range(4):  # to the least number that belongs to the column
        below = np.nextafter(edge, np.float32(0))
        edge = np.where((below * per_unit).astype(int) == (edge * per_unit).astype(int), below, edge)
    start = -np.random.default_rng(3).uniform(0.0, 2.0, 100).astype(np.float32)
    reach = np.abs(edge - start)
    assert (start + reach < edge).sum() > 10
    x, y = sim.tensor("Grain.Place").unbind(-1)
    x[0::2], x[1::2], y[:] = torch.from_numpy(start), torch.from_numpy(edge), 1.5
    sim.tensor("Grain.Search.reach")[0::2] = torch.from_numpy(reach)
    sim.step()
    assert_all_are_found(sim)


@pytest.mark.full
def test_few_rows_are_looked_at() -> None:
    def looked(grid: dict[str, Any], grains: int) -> float:
        sim = dust(grid, grains=grains)
        sim.step()
        return sim.ragged("Grain.Company.looked").packed()[0].float().mean().item()

    assert looked(GRIDS[2], 150) == 150
    assert looked(GRIDS[0], 15) == 15  # fewer than it is worth
    # Squares with a side of 0.5 and up to two cells more, where rows lie in 3.4 by 1.4.
    assert looked(GRIDS[1], 150) < 1.3 * 150 * 0.53**2 / 4.76
    assert 104 < looked(GRIDS[0], 200) < 104 + 1.3 * 96 * 1.1**2 / 4.76  # the grid holds 96


@pytest.mark.full
def test_every_executor_gives_the_same_bits() -> None:
    def after(**kwargs: Any) -> dict[str, torch.Tensor]:
        sim = dust(grains=70, **kwargs)
        strange_places(sim)
        for _ in range(3):
            sim.step()
        sim.check_faults()
        return snapshot(sim)

    expected = after(num_threads=1)
    assert_same_bits(expected, after(num_threads=2))
    for executor in ("graph", "per_world"):
        assert_same_bits(expected, after(_library=emulated_cuda("dust", executor)))


@pytest.mark.full
def test_swarm_is_the_same_with_any_grid() -> None:
    def after(grid: dict[str, Any]) -> dict[str, torch.Tensor]:
        env = TorchVectorEnv(Swarm(ships=3, spawn_rate=3.0, hull=50, grid=grid), num_worlds=8, num_threads=1)
        env.reset(seed=2)
        for actions in random_actions(env, 60):
            env.step(actions)
        assert env.sim.entities("Drone").counts.max() > 40
        return snapshot(env.sim)

    expected = after({"least": 1000})
    assert_same_bits(expected, after({}))
    assert_same_bits(expected, after({"cell": 0.04, "right": 0.3, "rows": 32}))


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "grid.md").read_text()
    for name, text in re.findall(r"```\w+ title=(\S+)\n(.*?)```", page, re.DOTALL):
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        importlib.import_module("gnats")
        env = gymnasium.make_vec("my_project/Gnats-v0", num_envs=3, reach=0.2)
        env.reset(seed=0)
        for _ in range(3):
            _, rewards, *_ = env.step(torch.zeros(3, dtype=torch.int64))
        x, y = env.unwrapped.sim.tensor("Gnat.Place").unbind(-1)
        dx, dy, reach = x[:, None] - x[..., None], y[:, None] - y[..., None], torch.tensor(0.2)
        near = (dx * dx + dy * dy <= reach * reach).sum((1, 2)) - 300
        assert rewards.tolist() == (-near).tolist() and near.min() > 300
    finally:
        gymnasium.registry.pop("my_project/Gnats-v0", None)
        sys.modules.pop("gnats", None)


@pytest.mark.full
def test_rows_that_have_come_or_gone_since_are_a_fault() -> None:
    sim = dust(grains=40)
    sim.tensor("Cloth.Choice.early")[3] = 1
    with pytest.raises(WorldFault, match=r"world 3: system 'count' failed: near\(\) is given 39 rows.*\(grid\.stale\)"):
        sim.step()
    assert_all_are_found(sim)  # in the other worlds, and in this one too


def test_the_grid_is_built_before_it_is_asked() -> None:
    late = type("Late", (Dust,), {"step": TaskGraph("drift", "count", "sort"), "systems": str(Dust().sources[0])})
    with pytest.raises(SchemaError, match=r"grid\.Cells"):
        Program(late())


def test_constants_are_numbers_that_f32_has() -> None:
    """nvcc warns of others."""
    unit = generate(Program(Dust()), Target())
    written = dict(re.findall(r"f32 (\w+) = (\S+)f;", unit))
    assert np.float32(float.fromhex(written["cell"])) == np.float32(0.3)
    assert all(float(np.float32(float.fromhex(text))) == float.fromhex(text) for text in written.values())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cell": 0.0}, "option grid.cell must be greater than 0.0, got 0.0"),
        ({"cell": -0.1}, "option grid.cell must be greater than 0.0, got -0.1"),
        ({"cell": float("nan")}, "option grid.cell must be finite"),
        ({"left": 3.0}, "grid: left must be less than right, got left=3.0 and right=3.0"),
        ({"bottom": 2.5}, "grid: bottom must be less than top, got bottom=2.5 and top=2.0"),
        ({"cell": 0.01}, "300 cells of cell=0.01; at most 256"),
        ({"rows": 0}, "option grid.rows must be at least 1, got 0"),
        ({"rows": 5000}, "option grid.rows must be at most 4096, got 5000"),
    ],
)
def test_options_are_checked(options: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Dust(grid=options)

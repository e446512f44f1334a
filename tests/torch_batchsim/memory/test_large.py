"""Columns of more than 2^31 bytes, and actions whose bounds do not fit into the parameters of a kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
import support
import torch
from environments.vault import WIDTH, Vault, bounds

from torch_batchsim import SchemaError, TorchVectorEnv, WorldFault
from torch_batchsim.build.codegen import Target, generate
from torch_batchsim.build.context import MAX_KERNEL_PARAMETERS, context_structure
from torch_batchsim.memory import tables
from torch_batchsim.resolve.program import Program

WORLDS = 3  # the rows of the last one begin at 2^31 bytes or beyond


@pytest.fixture(autouse=True)
def lazy_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory of which only what is touched is there: torch and the engine write zeros to all of it."""
    torch_zeros, table_zeros = torch.zeros, tables._zeros

    def lazily(size: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        untouched = dtype is torch.uint8
        return torch.from_numpy(np.zeros(size, np.uint8)) if untouched else table_zeros(size, dtype, device)

    def zeros(*shape: object, **options: object) -> torch.Tensor:
        bytes_only = options.get("dtype") is torch.uint8 and len(shape) == 1 and isinstance(shape[0], int)
        return torch.from_numpy(np.zeros(shape, np.uint8)) if bytes_only else torch_zeros(*shape, **options)

    monkeypatch.setattr(torch, "zeros", zeros)
    monkeypatch.setattr(tables, "_zeros", lazily)


@pytest.fixture(params=support.full_but(["batch"], ["batch", "graph", "megakernel"]))
def env(request: pytest.FixtureRequest) -> Iterator[TorchVectorEnv]:
    options = {}
    if request.param != "batch":
        support.COMPILED["vault"] = Vault
        options["_library"] = support.emulated_cuda("vault", request.param)
    yield TorchVectorEnv(Vault(), num_worlds=WORLDS, **options)


@pytest.mark.full
def test_columns_beyond_two_gigabytes(env: TorchVectorEnv) -> None:
    columns = env.sim.memory.columns
    for name in ("column_Hoard", "column_Shelf_Book", "column_Crates_Crate"):
        assert columns[name].numel() > 2**31
    env.reset(seed=1)
    low, _ = bounds()
    for step in range(1, 4):
        seen = env.step(torch.from_numpy(np.stack([low, low + 1, low + 2])))[0].tolist()
        oldest = max(1, step - 1)  # crates are taken out in the third step
        assert seen == [
            [step, 10 * (w + 1) + step, 1 if step == 1 else 2, 100 * w + oldest, int(low[-1]) + w]
            for w in range(WORLDS)
        ], step
    crates = env.sim.ragged("Crates.Crate.number")
    assert int(crates.first[2]) * 4096 == 2**31 and crates.world(2)[:, 1023].tolist() == [202, 203]
    assert env.sim.tensor("Hoard.marks")[2, -1] == 3


def test_bounds_of_many_elements(env: TorchVectorEnv) -> None:
    """An illegal element anywhere is found by bounds of its own."""
    context = type(env.sim.memory.context)
    assert context.action_bounds.size == 8 and ctypes.sizeof(context) < 1024
    low, high = bounds()
    env.reset(seed=1)
    for element in (0, 17, WIDTH - 1):
        actions = torch.from_numpy(np.stack([low, high, low]))
        actions[1, element] += 1
        if env.sim.executor == "batch":
            with pytest.raises(ValueError, match=f"of world 1, element {element} is not in"):
                env.step(actions)
            continue
        env.step(actions)
        with pytest.raises(WorldFault, match=r"world 1.*bad_action"):
            env.check_faults()
        expected = actions.clone()
        expected[1, element] = float(low[element])
        assert torch.equal(env.sim.tensor("Pane.Dial.turns")[:, 0], expected)


def test_a_context_that_no_kernel_can_take(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(Vault())
    assert ctypes.sizeof(context_structure(program, True)) < MAX_KERNEL_PARAMETERS
    monkeypatch.setattr("torch_batchsim.build.codegen.MAX_KERNEL_PARAMETERS", 300)
    generate(program, Target())
    with pytest.raises(SchemaError, match=r"Vault has .* columns, 1 dynamic tables .* CUDA allows 300"):
        generate(program, Target("cuda"))

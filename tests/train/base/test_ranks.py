"""Several processes that train together learn what one does, and one goes on where several have stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from environments.melee import Melee
from rank_worker import CASES, LOADED_AFTER, ROLLOUTS, SMALL, of_several, trained, trainer
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.train import PPOConfig, Trainer
from torch_batchsim.train.base import ranks
from torch_batchsim.train.base.ranks import Ranks
from training import assert_close

from torch_batchsim import TorchVectorEnv

cases = pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.full) for case in CASES])


def without_worlds(found: dict[str, Any]) -> dict[str, Any]:
    """Their memory is bytes, of which the last bits of numbers may differ: what they show is in the metrics."""
    return {**found, "state": {name: part for name, part in found["state"].items() if name != "env"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """With what two processes have made of all cases that are asked for."""
    items = [item for item in request.session.items if "folder" in getattr(item, "fixturenames", ())]
    own = [item for item in items if item.path == request.path and hasattr(item, "callspec")]
    asked = {item.callspec.params["case"] for item in own}
    made = tmp_path_factory.mktemp("ranks")
    for case in asked:
        alone = trainer(case)
        torch.save(trained(alone, LOADED_AFTER)["state"], made / f"{case}-state.pt")
    of_several(2, made, [*sorted(asked), "nan"])
    return made


@cases
def test_two_processes_learn_what_one_does(case: str, folder: Path) -> None:
    alone, both = trained(trainer(case), ROLLOUTS), torch.load(folder / f"{case}.pt")
    assert_close(without_worlds(alone), without_worlds(both))


@cases
def test_another_number_of_processes_goes_on(case: str, folder: Path) -> None:
    alone, both = trained(trainer(case), ROLLOUTS), torch.load(folder / f"{case}-loaded.pt")
    assert_close(without_worlds(alone), without_worlds(both))
    one = trainer(case)
    one.load_state_dict(torch.load(folder / f"{case}.pt")["state"])
    whole = trainer(case)
    assert_close(without_worlds(trained(whole, ROLLOUTS + 2)), without_worlds(trained(one, 2)))


@pytest.mark.full
def test_all_processes_report_the_error_of_one(folder: Path) -> None:
    cause = "the reward of world 5 is nan in step 4 of update 1: correct the value that the environment writes there"
    assert (folder / "nan-1.txt").read_text() == f"NotFinite: {cause}"
    assert (folder / "nan-0.txt").read_text() == f"RankFailed: process 1 of 2: {cause}"


@pytest.mark.parametrize(
    ("environment", "first_world", "settings", "message"),
    [
        (Melee, 4, {"past_share": 0.5}, "past_share is 0.5, but with 2 processes it must be 0"),
        (CartPole, 0, {}, "first_world is 0, but of process 1 with 4 worlds it must be 4"),
        (CartPole, 4, {"num_minibatches": 5}, "must divide the rollout: 12 steps x 8 rows = 96"),
    ],
)
def test_what_cannot_be_divided_is_refused(
    environment: type, first_world: int, settings: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ranks, "same", lambda *_: True)
    env = TorchVectorEnv(environment(), num_worlds=4, first_world=first_world)
    with pytest.raises(ValueError, match=message):
        Trainer(env, PPOConfig(**SMALL | settings), Ranks(1, 2))


@pytest.fixture(params=["C++", "torch"])
def arithmetic(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(ranks, "library", lambda: None)
        monkeypatch.setattr(ranks, "can_compute", lambda *_: False)


@pytest.mark.usefixtures("arithmetic")
@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("shape", [(30,), (4, 30)])
def test_moments_of_all_minibatches_are_those_of_each(
    shape: tuple[int, ...], active: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ranks, "sum", lambda _, tensor: tensor)
    values, order, sizes = torch.randn(*shape) + 1, torch.randperm(30), [11, 0, 19]
    acts = torch.rand(shape) < 0.5 if active else None
    found = Ranks(1, 2).moments(values, acts, order, sizes)
    for own, some in zip(found, order.split(sizes), strict=True):
        part = values[..., some].double() if acts is None else values[..., some][acts[..., some]].double()
        wanted = torch.stack([torch.tensor(part.numel()).double(), part.sum(), part.square().sum()])
        torch.testing.assert_close(own, wanted)


@pytest.mark.usefixtures("arithmetic")
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("minibatches", [1, 4])
def test_processes_share_the_order_of_one(rows: int, minibatches: int) -> None:
    """Steps of `rows` rows in each of three processes: what they take of a minibatch are the samples of one process."""
    steps, count = 8, 3
    whole, size = Ranks().order(steps * rows * count, rows * count, minibatches, torch.Generator().manual_seed(1))
    taken: list[set[int]] = [set() for _ in range(minibatches)]
    for rank in range(count):
        own, sizes = Ranks(rank, count).order(steps * rows, rows, minibatches, torch.Generator().manual_seed(1))
        assert sorted(own.tolist()) == list(range(steps * rows))
        step, row = own // rows, own % rows + rank * rows
        for samples, part in zip(taken, (step * rows * count + row).split(sizes), strict=True):
            samples |= set(part.tolist())
    assert taken == [set(part.tolist()) for part in whole.split(size)]

"""torch_batchsim.testing: what authors' tests compare and draw."""

from __future__ import annotations

import pytest
import torch
from environments.duel import Duel
from environments.zoo import Zoo
from torch_batchsim.envs.cartpole import CartPole

from torch_batchsim import Simulator, TorchVectorEnv
from torch_batchsim.check.lockstep import first_difference
from torch_batchsim.testing import assert_same_bits, first_worlds, of_worlds, random_actions, snapshot


def test_a_snapshot_is_a_copy_of_all_that_a_world_holds() -> None:
    sim = Simulator(Zoo(), 6)
    sim.reset(seed=1)
    before = snapshot(sim)
    sim.step()
    after = snapshot(sim)
    with pytest.raises(AssertionError, match=r"^after a step: .*step differs in 6 of 24 bytes, first at \[0, 4,"):
        assert_same_bits(before, after, "after a step: ")
    assert before["step"].tolist() == [0] * 6 and after["step"].tolist() == [1] * 6
    assert {name for name in after if name not in snapshot(sim, final=False)} == {n for n in after if "final_" in n}
    few = Simulator(Zoo(), 2)
    few.reset(seed=1)
    few.step()
    assert_same_bits(snapshot(few), first_worlds(sim, 2))
    third = torch.arange(6) == 2
    assert len(of_worlds(after, third)["Animal birth"]) == int(after["Animal counts"][2])


def test_bits_are_compared_and_not_numbers() -> None:
    zero, nan = torch.zeros(2), torch.full((2,), float("nan"))
    assert_same_bits({"a": zero, "b": nan}, {"a": zero.clone(), "b": nan.clone()})
    with pytest.raises(AssertionError, match=r"a differs in 2 of 8 bytes, first at \[3, 7\]"):
        assert_same_bits({"a": zero}, {"a": -zero})
    with pytest.raises(AssertionError, match="a has 4 bytes for 8"):
        assert_same_bits({"a": zero}, {"a": zero[:1]})
    for sides in (({"a": zero}, {}), ({}, {"a": zero})):
        with pytest.raises(AssertionError, match="only one side has a"):
            assert_same_bits(*sides)


def nans(*bits: int) -> torch.Tensor:
    return torch.tensor(bits).to(torch.int32).view(torch.float32)


def test_all_nans_are_alike() -> None:
    """Their signs and payloads differ between processors."""
    one, other = nans(0x7FC00000, 0x7FFFFFFF), nans(-0x400000, 0x7FC00001)
    assert_same_bits({"a": one}, {"a": other})
    assert first_difference(one, other) is None
    assert first_difference(one, torch.zeros(2)) is not None
    states = []
    for given in (one, other):
        sim = Simulator(CartPole(), 2)
        sim.reset(seed=1)
        sim.tensor("Cart.CartState.theta").view(-1)[:] = given
        states.append(snapshot(sim))
        assert torch.equal(sim.tensor("Cart.CartState.theta").view(-1).view(torch.int32), given.view(torch.int32))
    assert_same_bits(*states)
    assert states[0]["column_Cart_CartState"].view(torch.float32).isnan().sum() == 2


def test_random_actions_keep_to_the_masks_of_the_moment() -> None:
    few, many = (TorchVectorEnv(Duel(), num_worlds=worlds) for worlds in (3, 9))
    for env in (few, many):
        env.reset(seed=0)
    drawn = [random_actions(env, 30, seed=5, most_worlds=9) for env in (few, many)]
    assert len(drawn[0]) == 30
    for mine, theirs in zip(*drawn, strict=True):
        assert torch.equal(mine, theirs[: few.num_envs])
        rows = torch.arange(many.num_envs)
        assert bool((many.action_mask[rows, theirs[:, 0]] & many.action_mask[rows, 3 + theirs[:, 1]]).all())
        few.step(mine)
        many.step(theirs)

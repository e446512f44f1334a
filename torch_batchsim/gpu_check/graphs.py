"""Steps and rollouts in CUDA graphs of the user's. ``make`` is CUDA's, ``reference`` the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from gymnasium.vector import AutoresetMode

from ..testing import assert_same_bits, random_actions
from ..vector.vector_env import TorchVectorEnv
from .playing import SEED, Make, copied, expect, fault_of, flat, snapshot

WARM_UPS = 3


def capture(
    function: Callable[[], Any], warm_ups: int = WARM_UPS, generators: Sequence[torch.Generator] = ()
) -> tuple[torch.cuda.CUDAGraph, Any]:
    """``function`` as a CUDA graph, and its result; it first runs on a side stream, as torch's notes ask.

    ``generators``: those that it draws random numbers from, beside the device's own; each replay draws others.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm_ups):
            function()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        returned = function()
    return graph, returned


def captured_step(reference: Make, make: Make, name: str, worlds: int, mode: AutoresetMode) -> str:
    """One step as a graph, replayed with other actions and among steps that are not captured; a fault in a replay."""
    # One set of outputs: every replay writes to the place of the captured step.
    env, other = make(name, worlds, autoreset_mode=mode, copy=False), reference(name, worlds, autoreset_mode=mode)
    env.reset(seed=SEED)
    other.reset(seed=SEED)
    batches, same_batches = random_actions(env, 30), random_actions(other, 30)
    actions = batches[0].clone()
    graph, results = capture(lambda: env.step(actions))
    for _ in range(WARM_UPS):
        other.step(same_batches[0])
    for step in range(1, 30):
        expected = other.step(same_batches[step])
        if step % 7 == 0:
            results_now = env.step(batches[step])
        else:
            actions.copy_(batches[step])
            graph.replay()
            results_now = results
        assert_same_bits(copied(expected), copied(results_now), f"step {step}: ")
        if mode is AutoresetMode.DISABLED and step % 4 == 0:
            for each in (other, env):  # not by flags: replays write them to the place of the captured step
                each.reset(options={"reset_mask": each.sim.memory.columns["ended"] != 0})
    env.check_faults()
    assert_same_bits(snapshot(other.sim), snapshot(env.sim), "at the end: ")
    active = env.sim.program.active
    world = worlds // 3 if active is None else int(env.sim.tensor(active.name)[:, 0].nonzero()[-1])
    actions.view(worlds, -1)[world, 0] = 99
    graph.replay()
    fault = fault_of(env).faults[0]
    expect(fault.world == world and fault.cause == "bad_action", str(fault))
    return f"{worlds} worlds, 29 steps, most of them replayed; {fault}"


def captured_rollout(reference: Make, make: Make, name: str, worlds: int, steps: int) -> str:
    """A whole rollout as one graph: policy, sampled actions, and results bound to slot ``t``. Three replays.

    The same actions, taken by the CPU, must lead to the same observations, rewards and flags in all slots.
    """
    env, other = make(name, worlds), reference(name, worlds)
    observations, _ = env.reset(seed=SEED)
    rollout = Rollout(env, observations, steps)
    graph, _ = capture(rollout.run, warm_ups=2)
    other.reset(seed=1)
    for replay in range(3):
        other.load_state_dict(env.state_dict())
        graph.replay()
        env.check_faults()
        for step in range(steps):
            results = other.step(rollout.actions[step].cpu())
            expected = dict(zip(("observations", "rewards", "terminations", "truncations"), results[:4], strict=True))
            assert_same_bits(dict(flat(expected)), dict(flat(rollout.results(step))), f"replay {replay}, step {step}: ")
        assert_same_bits(snapshot(other.sim), snapshot(env.sim), f"after replay {replay}: ")
    chosen = rollout.actions.double()
    expect(float(chosen.std()) > 0.1, "the policy always chooses the same action, so this check is void")
    ended = int(rollout.flags.sum())
    return f"{worlds} worlds, 3 replays of {steps} steps, {ended} episodes ended in the last"


class Rollout:
    """``steps`` steps of a policy with a network, in buffers as a trainer has them."""

    def __init__(self, env: TorchVectorEnv, observations: Any, steps: int) -> None:
        self._env, self._steps, rows = env, steps, env.num_envs
        seen = dict(flat(observations))
        self._observations = {
            key: torch.zeros(steps + 1, *tensor.shape, dtype=tensor.dtype, device=env.device)
            for key, tensor in seen.items()
        }
        action = env.sim.program.action
        self._discrete = not action.dtype.is_floating_point
        dtype = torch.int64 if self._discrete else action.dtype
        self.actions = torch.zeros(steps, rows, *action.value_shape, dtype=dtype, device=env.device)
        self._rewards = torch.zeros(steps, rows, device=env.device)
        self.flags = torch.zeros(2, steps, rows, dtype=torch.bool, device=env.device)
        inputs = sum(tensor[0].numel() for tensor in seen.values())
        torch.manual_seed(0)
        self._network = torch.nn.Sequential(
            torch.nn.Linear(inputs, 64), torch.nn.Tanh(), torch.nn.Linear(64, self.actions[0, 0].numel())
        ).to(env.device)

        for key, buffer in self._observations.items():
            buffer[steps].copy_(seen[key])
        after = {key: buffer[1:] for key, buffer in self._observations.items()}
        env.bind_slots(
            observations=after.get("", after),
            rewards=self._rewards,
            terminations=self.flags[0],
            truncations=self.flags[1],
        )

    def results(self, step: int) -> dict[str, Any]:
        """The results of a step, by name."""
        parts = {key: buffer[step + 1] for key, buffer in self._observations.items()}
        return {
            "observations": parts.get("", parts),
            "rewards": self._rewards[step],
            "terminations": self.flags[0, step],
            "truncations": self.flags[1, step],
        }

    @torch.no_grad()
    def run(self) -> None:
        """Play all steps, from the last observations of the previous run."""
        for buffer in self._observations.values():
            buffer[0].copy_(buffer[self._steps])
        for step in range(self._steps):
            parts = [buffer[step].flatten(1).float() for buffer in self._observations.values()]
            wanted = self._network(torch.cat(parts, dim=1))
            noise = torch.rand_like(wanted)
            chosen = (noise < wanted.sigmoid()).long() if self._discrete else (wanted.tanh() + noise - 0.5).clamp(-1, 1)
            self.actions[step].copy_(chosen.view(self.actions[step].shape))
            self._env.select_slot(step)
            self._env.step(self.actions[step])


def growth_in_capture(make: Make) -> str:
    """A step in which a table must grow refuses its capture, and the table grows afterwards."""
    env = make("garden", 20)
    env.reset(seed=SEED)
    batches = random_actions(env, 3)
    env.step(batches[0])
    env.check_faults()
    rows = int(env.sim.ragged("Plant.Stem.age").counts[4])
    env.sim.create("Plant", [4] * (14 - rows))  # of 16 for which there is room
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            env.step(batches[1])
    except RuntimeError as error:
        expect("captured" in str(error), str(error))
        torch.cuda.synchronize()
        before = env.sim.layout
        env.step(batches[2])
        env.check_faults()
        expect(env.sim.layout > before, "the table has not grown afterwards")
        return str(error)
    raise AssertionError("a step that has to grow a table was captured")

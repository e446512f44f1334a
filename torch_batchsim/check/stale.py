"""Checks that an observation belongs to its state: written wholly, by the right graph, without changing the state."""

from __future__ import annotations

import torch
from gymnasium.vector import AutoresetMode

from ..resolve.nodes import Node
from ..resolve.program import Program
from ..run.snapshots import assert_same_bits, snapshot
from ..vector.vector_env import TorchVectorEnv
from .lockstep import compared, first_difference, shown, state_difference
from .outcomes import Failed
from .plays import named
from .policies import Policy
from .spoiling import spoil
from .subject import Subject

_PURE = "'observe' computes from the state, writes its columns wholly every time, and changes nothing else"


def leftovers(subject: Subject) -> str:
    """Two runs agree where all memory that a step may not read holds random bytes."""
    first, second = subject.make(), subject.make()
    first.reset(seed=subject.seed)
    policy = Policy(first, first.num_worlds, seed=subject.seed)

    def before_step() -> None:
        spoil(first.sim)
        spoil(second.sim)

    compared(
        first,
        second,
        policy,
        min(subject.few_steps, 100),
        seed=subject.seed,
        sides=("once", "the next time, with other bytes in undefined memory"),
        remedy="a system reads memory that it has not written: 'observe' must write its columns wholly, every time; "
        "scratch must be written before it is read",
        before_step=before_step,
    )
    return "nothing depends on earlier contents of memory: scratch and outputs held random bytes"


def stale(subject: Subject) -> str:
    """Observations belong to the state that they are returned with."""
    _by_declaration(subject.program)
    env = subject.make(autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=subject.seed)
    policy = Policy(env, env.num_worlds, seed=subject.seed)
    ended = torch.zeros(env.num_worlds, dtype=torch.bool)
    for _ in range(subject.few_steps):
        env.step(policy(env))
        ended = env.ended_worlds()
        if bool(ended.any()):
            break
    notes = _observed_twice(env)
    if bool(ended.any()):
        _still(env, policy, ended)
        notes.append("a world that has ended does not change")
    return "; ".join(["observations belong to the state that they are returned with", *notes])


def _by_declaration(program: Program) -> None:
    """Raise Failed for an output that 'step' computes from a column which a later system of the step changes."""
    for column in program.outputs:
        writers = {graph: _writers(program, graph, column.name) for graph in program.graphs}
        nodes = program.graphs["step"]
        state = any(column.name in _only_read(node) for node in program.nodes)
        if writers["observe"] or not writers["step"] or state:
            continue
        last = writers["step"][-1]
        sources = {name for name in last.reads if name != column.name and name in program.columns}
        for node in nodes[nodes.index(last) + 1 :]:
            changed = sorted(sources & node.writes)
            if changed:
                raise Failed(
                    f"{column.name} is written by system '{last.system.name}' from {changed[0]}, which "
                    f"'{node.system.name}' changes later in the step: the output belongs to the earlier state",
                    f"put '{last.system.name}' into 'observe', or behind '{node.system.name}'",
                )
        if column in program.observations.values() and not writers["start"]:
            raise Failed(
                f"{column.name} is written by '{last.system.name}' in 'step' only: after a reset it is all zero",
                f"put '{last.system.name}' into 'observe', which runs after 'start' and after 'step'",
            )


def _writers(program: Program, graph: str, column: str) -> list[Node]:
    return [node for node in program.graphs[graph] if column in node.writes]


def _only_read(node: Node) -> frozenset[str]:
    return node.reads - node.writes


def _observed_twice(env: TorchVectorEnv) -> list[str]:
    observe = getattr(env.sim, "observe", None)
    if observe is None:
        return []
    observe()
    before = snapshot(env.sim, final=False)
    seen = {name: tensor.clone() for name, tensor in named("observation", env.observations).items()}
    observe()
    for name, tensor in named("observation", env.observations).items():
        difference = first_difference(seen[name], tensor)
        if difference is not None:
            raise Failed(f"{name} differs when it is observed twice: {difference[1]}, then {difference[2]}", _PURE)
    try:
        assert_same_bits(before, snapshot(env.sim, final=False))
    except AssertionError as error:
        raise Failed(f"observing a second time changes the state: {error}", _PURE) from None
    return ["observing twice gives the same"]


def _still(env: TorchVectorEnv, policy: Policy, ended: torch.Tensor) -> None:
    """Ended worlds, which are observed in the steps of others, stay as they were."""
    before = {name: tensor.clone() for name, tensor in shown(env.step(policy(env))).items()}
    state = env.state_dict()
    twin = TorchVectorEnv(env.environment, num_worlds=env.num_worlds, autoreset_mode=env.autoreset_mode)
    twin.load_state_dict(state)
    after = shown(env.step(policy(env)))
    action = f"{env.sim.program.action.name}."
    for world in ended.nonzero().flatten().tolist():
        for name, tensor in after.items():
            difference = first_difference(env.by_world(before[name])[world], env.by_world(tensor)[world])
            if difference is not None:
                raise Failed(
                    f"{name} of world {world}, which has ended and stands still, changed from {difference[1]} to "
                    f"{difference[2]}",
                    _PURE,
                )
        found = state_difference(env, world, twin, world)
        if found is not None and not found[0].startswith(action):
            raise Failed(
                f"{found[0]} of world {world}, which has ended and stands still, changed from {found[3]} to {found[2]}",
                _PURE,
            )

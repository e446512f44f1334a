"""Settings of joints that make no sense are faults of the step in which they are there; others do what they say."""

from __future__ import annotations

from dataclasses import replace
from math import cos, inf, nan, pi, sin
from typing import Any

import numpy as np
import pytest
import torch
from environments.heap import Heap
from physics_scenes import NO_GRAVITY, floor
from support import emulated_cuda

from torch_batchsim import TorchVectorEnv, WorldFault
from torch_batchsim.bench.physics_worlds import SceneRun, simulate
from torch_batchsim.bench.scenes import Body, Joint, Scene, box, rough, sphere, to_position
from torch_batchsim.physics import JointKind

# Of a hinge with a drive, Rope[1]: fields, and the sentence without the name of the row.
NEW = dict.fromkeys(("linear", "angular", "along"), 0.0)
Cases = list[tuple[dict[str, Any], str]]
WRONG: Cases = [
    ({"kind": 9}, "kind is not a JointKind, 0 to 3: physics::hinge(...) and others make a Joint; got 9"),
    ({"a": "b"}, "a and b are the same body; a joint holds two, or one and the world, which is Entity{}; got ("),
    ({"anchor_a": nan}, "anchor_a must be finite (metres), got (nan, nan, nan)"),
    ({"anchor_b": -inf}, "anchor_b must be finite (metres), got (-inf, -inf, -inf)"),
    ({"frame_a": 0.0}, "frame_a must be finite and not 0, which the frame of an axis of length 0 is; got (0, 0, 0, 0)"),
    ({"frame_b": nan}, "frame_b must be finite and not 0"),
    ({"lower": nan}, "lower must be finite (radians, or metres of a slider), got nan"),
    ({"upper": inf}, "upper must be finite (radians, or metres of a slider), got inf"),
    ({"limited": 1, "lower": 0.5, "upper": 0.25}, "lower must not be above upper (radians, or metres of a slider), "
     "got 0.5 and 0.25"),
    ({"limited": 1, "lower": -4.0}, "lower and upper of a hinge must be within -pi and pi (radians), got -4 and 0"),
    ({"limited": 1, "upper": 3.2}, "lower and upper of a hinge must be within -pi and pi (radians), got 0 and 3.2"),
    ({"kind": 3, "drive_damping": 0.0, "limited": 1, "cone": 4.0}, "cone must be finite, and within 0 and pi (radians) "
     "where a ball is limited; got 4"),
    ({"cone": nan}, "cone must be finite, and within 0 and pi (radians) where a ball is limited; got nan"),
    ({"torque": inf}, "torque must be finite (N m, or N of a slider), got inf"),
    ({"damping": -1.0}, "damping must be finite and not below 0 (N m s/rad, or N s/m of a slider), got -1"),
    ({"armature": inf}, "armature must be finite and not below 0 (kg m^2, or kg of a slider), got inf"),
    ({"friction": nan}, "friction must be finite and not below 0 (N m, or N of a slider), got nan"),
    ({"drive_stiffness": -2.0}, "drive_stiffness must be finite and not below 0 (N m/rad, or N/m of a slider), got -2"),
    ({"drive_damping": inf}, "drive_damping must be finite and not below 0 (N m s/rad, or N s/m of a slider), got inf"),
    ({"drive_target": nan}, "drive_target must be finite (radians, or metres of a slider), got nan"),
    ({"drive_stiffness": 1.0, "drive_target": 4.0}, "drive_target of a hinge with drive_stiffness must be within -pi "
     "and pi (radians), got 4"),
    ({"drive_rate": inf}, "drive_rate must be finite (rad/s, or m/s of a slider), got inf"),
    ({"drive_limit": nan}, "drive_limit must be a number that is not below 0 (N m, or N of a slider; 0: none), "
     "got nan"),
    ({"drive_limit": -1.0}, "drive_limit must be a number that is not below 0 (N m, or N of a slider; 0: none), "
     "got -1"),
    ({"break_force": nan}, "break_force must be a number that is not below 0 (N; 0: never), got nan"),
    ({"break_torque": -2.0}, "break_torque must be a number that is not below 0 (N m; 0: never), got -2"),
    ({"linear": nan}, "linear must be finite, 0 of a joint that is new (N s), got (nan, nan, nan)"),
    ({"angular": inf}, "angular must be finite, 0 of a joint that is new (N m s), got (inf, inf, inf)"),
    ({"along": nan}, "along must be finite, 0 of a joint that is new (N s or N m s), got nan"),
    ({"kind": 0, "drive_damping": 0.0, "limited": 1}, "limited needs the axis of a HINGE or SLIDER, or a BALL; got "
     "limited 1, kind 0"),
    *(({"kind": 3, "drive_damping": 0.0, name: 0.5}, "torque, damping, armature, friction and drives need the axis of "
       "a HINGE or SLIDER; got ")
      for name in ("torque", "damping", "armature", "friction", "drive_stiffness", "drive_damping")),
    (NEW | {"anchor_a": 2.0}, "anchor_a and anchor_b are more than 1.0 m (the option joint_gap) apart in the world "
     "when the joint is new; got (2, 2, 2) and (0, 0, 0.5), each in the frame of its body"),
]  # fmt: skip
SOUND: list[dict[str, Any]] = [
    {},
    {"limited": 1, "lower": -pi, "upper": pi},
    {"lower": 1.0, "upper": -1.0},  # without effect
    {"drive_limit": inf, "break_force": inf, "break_torque": inf},
    {"drive_stiffness": 0.5, "drive_target": -pi},
    {"drive_stiffness": 1e9, "drive_damping": 1e9, "friction": 1e9, "damping": 1e9, "armature": 1e9},
    {"drive_target": 7.0},  # without effect
    {"torque": -5.0, "limited": 1, "lower": 0.25, "upper": 0.25},
    {"kind": 3, "drive_damping": 0.0, "limited": 1, "cone": 0.0},
    {"kind": 3, "drive_damping": 0.0, "limited": 1, "cone": pi},
    {"frame_a": 3.0, "frame_b": 3.0},  # is made a rotation
    {"anchor_a": 2.0},  # of a joint that works: it may be torn apart
    NEW | {"anchor_a": 0.3},
    NEW | {"kind": int(JointKind.SLIDER), "anchor_a": torch.tensor([2.0, 0.0, -0.6])},  # along its axis
]


def hung(worlds: int, executor: str = "batch", **options: Any) -> TorchVectorEnv:
    own = {} if executor == "batch" else {"_library": emulated_cuda("heap", executor)}
    env = TorchVectorEnv(Heap(**options), num_worlds=worlds, **own)
    env.reset(seed=5)
    return env


def write(env: TorchVectorEnv, world: int, fields: dict[str, Any]) -> None:
    rope = {name: env.sim.ragged(f"Rope.physics.Joint.{name}").world(world)[1] for name in (*fields, "b")}
    for name, value in fields.items():
        rope[name].copy_(rope["b"] if isinstance(value, str) else torch.as_tensor(value))


def go(env: TorchVectorEnv) -> None:
    env.step(torch.zeros(env.num_envs, dtype=torch.int64))


@pytest.mark.parametrize("executor", ["batch", pytest.param("megakernel", marks=pytest.mark.full)])
@pytest.mark.parametrize("cases", [WRONG[:15], WRONG[15:30], WRONG[30:]], ids=["15", "30", "more"])  # a message has 16
def test_settings_of_joints_that_make_no_sense_are_faults(cases: Cases, executor: str) -> None:
    env, untouched = hung(len(cases) + 1, executor), hung(len(cases) + 1, executor)
    go(env)
    go(untouched)
    for world, (fields, _) in enumerate(cases):
        write(env, world, fields)
    before = env.sim.tensor("Player.physics.Pose.position").clone()
    with pytest.raises(WorldFault) as raised:
        go(env)
        env.sim.check_faults()
    go(untouched)
    assert raised.value.mask.tolist() == [True] * len(cases) + [False]
    for fault, (fields, sentence) in zip(raised.value.faults, cases, strict=True):
        assert fault.cause == "physics.bad_joint" and (fault.table, fault.value) == ("Rope", 1), fields
        assert fault.text.startswith(f"Rope[1].physics.Joint.{sentence}"), (fields, fault.text)
    for name in ("position", "rotation"):
        after = env.sim.tensor(f"Player.physics.Pose.{name}")
        assert torch.equal(after[-1], untouched.sim.tensor(f"Player.physics.Pose.{name}")[-1])
    assert torch.equal(env.sim.tensor("Player.physics.Pose.position")[:-1], before[:-1])  # they stand still


def test_settings_of_joints_that_make_sense_are_none() -> None:
    env = hung(len(SOUND))
    go(env)
    for world, fields in enumerate(SOUND):
        write(env, world, fields)
    for _ in range(5):
        go(env)
    assert torch.isfinite(env.sim.ragged("Thing.physics.Pose.position").packed()[0]).all()


def test_the_distance_of_anchors_that_is_too_far_is_an_option() -> None:
    env = hung(2, physics={"joint_gap": 0.25})
    go(env)
    for world, away in enumerate((0.3, 0.2)):
        write(env, world, NEW | {"anchor_a": torch.tensor([away, 0.0, -0.6])})
    with pytest.raises(WorldFault, match=r"more than 0\.25 m \(the option joint_gap\) apart") as raised:
        go(env)
    assert raised.value.mask.tolist() == [True, False]


@pytest.mark.parametrize("axis", [0.0, 1e-30])
def test_an_axis_without_length_is_a_fault_of_its_joint(axis: float) -> None:
    says = r"Rope\[1\]\.physics\.Joint\.frame_a must .* axis of length 0 is; got \(0, 0, 0, 0\)"
    with pytest.raises(WorldFault, match=says):
        go(hung(1, axis=axis))


@pytest.mark.full
@pytest.mark.parametrize(("field", "unit"), [("force", "newtons"), ("torque", "newton metres")])
@pytest.mark.parametrize("value", [nan, -inf])
def test_a_force_that_is_not_finite_is_a_fault_at_once(field: str, unit: str, value: float) -> None:
    run = SceneRun(Scene("forced", (Body("ball", sphere(0.2)),)), 2)
    run.step()
    run.sim.ragged(f"Mover.physics.Force.{field}").world(1)[0, 1] = value
    with pytest.raises(WorldFault, match=rf"Mover\[0\]\.physics\.Force\.{field} is not finite \({unit}\)") as raised:
        run.step()
    assert raised.value.mask.tolist() == [False, True] and np.isfinite(run.read()["positions"]).all()


@pytest.mark.full
def test_anchors_of_kinematic_bodies_may_move_apart() -> None:
    """Nothing pulls them together."""
    pair = [Body(n, sphere(0.2), (x, 0, 0), linear=(x, 0, 0), kind="kinematic") for n, x in (("a", -1.0), ("b", 1.0))]
    run = simulate(Scene("apart", tuple(pair), (Joint("ball", "a", "b", (0, 0, 0)),), gravity=NO_GRAVITY), 120)
    assert run.positions[-1, 1, 0] == pytest.approx(3.0, abs=1e-4)


@pytest.mark.full
@pytest.mark.parametrize(("speed", "bounces"), [(0.5, True), (3.0, False)])
def test_impacts_slower_than_restitution_speed_do_not_bounce(speed: float, bounces: bool) -> None:
    ball = Body("ball", sphere(0.2), (0.0, 0.0, 0.4), material=rough(0.5, 0.8))  # falls by 0.2 m: 2 m/s
    ground = replace(floor(), material=rough(0.5, 0.8))
    run = simulate(Scene("drop", (ball, ground), restitution_speed=speed), 60)
    landed = int(np.argmax(run.positions[:, 0, 2] < 0.21))
    rise = run.positions[landed:, 0, 2].max() - 0.2
    assert rise == pytest.approx(0.8**2 * 0.2, abs=0.01) if bounces else rise < 0.01


@pytest.mark.full
def test_a_drive_to_a_position_gets_there() -> None:
    rod = Body("rod", box(0.5, 0.05, 0.05), (0.5, 0, 0))
    joint = Joint("hinge", None, "rod", (0, 0, 0), (0, 0, 1), motor=to_position(1.0, 100.0))
    run = simulate(Scene("servo", (rod,), (joint,), gravity=NO_GRAVITY), 180)
    np.testing.assert_allclose(run.positions[-1, 0], (0.5 * cos(1), 0.5 * sin(1), 0), atol=0.005)

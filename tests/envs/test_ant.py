"""Ant: its columns beside NumPy, its starts, ends and options, and the body beside the same one in MuJoCo."""

from __future__ import annotations

import ast
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
import torch
from support import assert_same_bits, emulated_cuda, first_worlds, of_today, snapshot, spoil
from torch_batchsim.envs.ant import Ant
from torch_batchsim.train.commands.cli import main as train

import torch_batchsim
from torch_batchsim import TorchVectorEnv
from torch_batchsim.resolve.program import Program
from torch_batchsim.testing import random_actions

FEELING = partial(Ant, contact_forces=True)
SIDES = np.array([(1, 1, 0), (-1, 1, 0), (-1, -1, 0), (1, -1, 0)], float)
AXES = np.array([(-1, 1, 0), (1, 1, 0), (-1, 1, 0), (1, 1, 0)], float) / math.sqrt(2)
HALF_FOOT = 0.2 * math.sqrt(2)  # metres
BENDS = (1, -1, -1, 1)  # the sign of an ankle's angle
FOLDER = Path(gymnasium.__file__).parent / "envs" / "mujoco"
MOTORS = [2, 3, 4, 5, 6, 7, 0, 1]  # of the angles in their order: the place of each among the actions
DEFAULTS: dict[str, Any] = {name: option.default for name, option in Ant.parameters.options.items()}


def column(env: TorchVectorEnv, name: str) -> np.ndarray:
    return env.sim.tensor(name).numpy().astype(float)


def turned(rotation: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Vectors [..., 3] turned by quaternions (w, x, y, z)."""
    w, axis = rotation[..., :1], rotation[..., 1:]
    return vector + 2 * np.cross(axis, np.cross(axis, vector) + w * vector)


def back(rotation: np.ndarray) -> np.ndarray:
    return rotation * np.array([1, -1, -1, -1])


def lowest_points(env: TorchVectorEnv) -> np.ndarray:
    """Heights of the lower end of each foot, [worlds, 4]."""
    end = turned(column(env, "Foot.physics.Pose.rotation"), np.array([0, 0, HALF_FOOT]))
    return column(env, "Foot.physics.Pose.position")[..., 2] - np.abs(end[..., 2]) - 0.08


def beyond_limits(env: TorchVectorEnv) -> float:
    """By how many radians the worst angle is outside of its limits."""
    out = 0.0
    for table in ("Leg", "Foot"):
        angle, low, high = (column(env, f"{table}.physics.Joint.{name}") for name in ("angle", "lower", "upper"))
        out = max(out, (low - angle).max(), (angle - high).max())
    return out


def widest_gap(env: TorchVectorEnv) -> float:
    """The greatest separation of all hinges, metres."""
    return max(column(env, f"{table}.physics.Joint.separation").max() for table in ("Leg", "Foot"))


# ---- observation and reward ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Ant, pytest.param(FEELING, marks=pytest.mark.full)], ids=["blind", "feeling"])
def test_observation_reward_and_infos_follow_from_the_bodies(make: Any) -> None:
    options = {"forward_reward_weight": 0.7, "healthy_reward": 1.3, "ctrl_cost_weight": 0.2, "contact_cost_weight": 0.1}
    env = TorchVectorEnv(make(**options, contact_force_range=5.0), 40, autoreset_mode="NextStep")
    env.reset(seed=3)
    pushed = 0
    for actions in random_actions(env, 30):
        before = column(env, "Ant.physics.Pose.position")[:, 0]
        seen, rewards, terminations, truncations, infos = env.step(actions)
        seen, actions = seen.numpy(), np.asarray(actions, float)
        position, rotation = (column(env, f"Ant.physics.Pose.{name}")[:, 0] for name in ("position", "rotation"))
        linear, angular = (column(env, f"Ant.physics.Velocity.{name}")[:, 0] for name in ("linear", "angular"))
        joints = [
            np.stack([column(env, f"{table}.physics.Joint.{name}") for table in ("Leg", "Foot")], -1).reshape(40, 8)
            for name in ("angle", "rate")
        ]
        parts = [position[:, 2:], rotation, joints[0], linear, turned(back(rotation), angular), joints[1]]
        if make is FEELING:
            parts.append(np.clip(column(env, "Foot.physics.ContactForce.force"), -5, 5).reshape(40, 12))
            pushed += int((parts[-1] != 0).sum())
        np.testing.assert_allclose(seen, np.concatenate(parts, 1), atol=2e-5)
        facts = {
            "x_position": position[:, 0], "y_position": position[:, 1],
            "distance_from_origin": np.hypot(position[:, 0], position[:, 1]),
            "x_velocity": (position - before)[:, 0] / 0.05, "y_velocity": (position - before)[:, 1] / 0.05,
            "reward_forward": 0.7 * (position - before)[:, 0] / 0.05,
            "reward_survive": np.full(40, 1.3), "reward_ctrl": -0.2 * (actions**2).sum(1),
            "reward_contact": -0.1 * (parts[-1] ** 2).sum(1) if make is FEELING else np.zeros(40),
        }  # fmt: skip
        for name, fact in facts.items():
            np.testing.assert_allclose(infos[name].numpy(), fact, atol=1e-4, err_msg=name)
        total = sum(fact for name, fact in facts.items() if name.startswith("reward_"))
        np.testing.assert_allclose(rewards.numpy(), total, atol=1e-4)
        assert not terminations.any() and not truncations.any()
    assert make is Ant or pushed > 1000


def test_a_motor_turns_its_own_hinge() -> None:
    env = TorchVectorEnv(Ant(reset_noise_scale=0.0, start_height=5.0, healthy_z_high=9.0), 8)
    env.reset(seed=0)
    seen = env.step(0.1 * torch.eye(8))[0][:, 19:27].numpy()  # world i drives motor i
    assert [int(np.abs(seen[motor]).argmax()) for motor in MOTORS] == list(range(8))
    assert all(seen[motor, angle] > 0.1 for angle, motor in enumerate(MOTORS))


def test_ids_and_defaults_are_gymnasiums() -> None:
    """As its source has them: importing Gymnasium's Ant needs more than MuJoCo."""
    theirs, ours = gymnasium.spec("Ant-v5"), gymnasium.spec("torch_batchsim/Ant-v0")
    assert ours.max_episode_steps == theirs.max_episode_steps == DEFAULTS["max_episode_steps"]
    source = ast.parse((FOLDER / "ant_v5.py").read_text())
    makes = next(node for node in ast.walk(source) if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    names = [argument.arg for argument in makes.args.args]
    given = {
        name: ast.literal_eval(value)
        for name, value in zip(names[-len(makes.args.defaults) :], makes.args.defaults, strict=True)
        if not isinstance(value, ast.Name)
    }
    for name in ("forward_reward_weight", "contact_cost_weight", "healthy_reward", "terminate_when_unhealthy",
                 "reset_noise_scale"):  # fmt: skip
        assert DEFAULTS[name] == given[name], name
    assert (DEFAULTS["healthy_z_low"], DEFAULTS["healthy_z_high"]) == given["healthy_z_range"]
    assert DEFAULTS["contact_force_range"] == given["contact_force_range"][1]
    model = mujoco.MjModel.from_xml_path(str(FOLDER / "assets" / "ant.xml"))
    time = model.opt.timestep * given["frame_skip"]
    assert Ant().libraries.physics.parameters.time == pytest.approx(time)
    assert Ant.metadata["render_fps"] == round(1 / time)
    names = [model.joint(int(joint)).name for joint in model.actuator_trnid[:, 0]]
    order = [f"{kind}_{leg}" for leg in range(1, 5) for kind in ("hip", "ankle")]  # of the observation
    assert [names.index(name) for name in order] == MOTORS
    assert [model.joint(1 + i).name for i in range(8)] == order
    for i in range(4):
        hip, ankle = model.jnt_range[1 + 2 * i], model.jnt_range[2 + 2 * i]
        np.testing.assert_allclose(hip, (-DEFAULTS["hip_range"], DEFAULTS["hip_range"]))
        bends = sorted(BENDS[i] * DEFAULTS[name] for name in ("ankle_lower", "ankle_upper"))
        np.testing.assert_allclose(ankle, bends)
        np.testing.assert_allclose(model.jnt_axis[2 + 2 * i], AXES[i], atol=1e-6)
        np.testing.assert_allclose(model.body(f"aux_{i + 1}").pos, 0.2 * SIDES[i])


def test_spaces() -> None:
    env = TorchVectorEnv(Ant(), 2)
    assert env.single_action_space == gymnasium.spaces.Box(-1.0, 1.0, (8,), np.float32)
    assert env.single_observation_space == gymnasium.spaces.Box(-math.inf, math.inf, (27,), np.float32)
    assert Program(FEELING()).observation_space.shape == (39,)


# ---- starts, ends, options -------------------------------------------------------------------------------------------


def test_starts_are_of_a_body_that_holds_together() -> None:
    """Anchors coincide, and hinges have the angles and rates that their columns say, before the first step."""
    env = TorchVectorEnv(Ant(), 500)
    seen = env.reset(seed=5)[0].numpy().astype(float)
    for table, of in (("Leg", "Ant"), ("Foot", "Leg")):
        ends = {}
        for end, row in (("a", of), ("b", table)):
            position, rotation = (column(env, f"{row}.physics.Pose.{name}") for name in ("position", "rotation"))
            linear, angular = (column(env, f"{row}.physics.Velocity.{name}") for name in ("linear", "angular"))
            arm = turned(rotation, column(env, f"{table}.physics.Joint.anchor_{end}"))
            frame = column(env, f"{table}.physics.Joint.frame_{end}")
            axis = turned(np.broadcast_to(rotation, frame.shape), turned(frame, np.array([1.0, 0, 0])))
            ends[end] = position + arm, linear + np.cross(angular, arm), axis, np.broadcast_to(angular, axis.shape)
        np.testing.assert_allclose(ends["a"][0], ends["b"][0], atol=2e-6)
        np.testing.assert_allclose(ends["a"][1], ends["b"][1], atol=2e-5)
        np.testing.assert_allclose(ends["a"][2], ends["b"][2], atol=2e-6)
        rate = column(env, f"{table}.physics.Joint.rate")
        np.testing.assert_allclose(ends["b"][3] - ends["a"][3], rate[..., None] * ends["a"][2], atol=2e-5)
    quiet = TorchVectorEnv(Ant(start_height=5.0, healthy_z_high=9.0, physics={"time": 1e-4}), 500)
    angles = quiet.reset(seed=5)[0].numpy()[:, 5:13]
    np.testing.assert_allclose(quiet.step(torch.zeros(500, 8))[0].numpy()[:, 5:13], angles, atol=1e-3)
    # The noise.
    assert np.abs(seen[:, [5, 7, 9, 11]]).max() <= 0.1
    assert np.abs(np.abs(seen[:, [6, 8, 10, 12]]) - 1.0).max() <= 0.1 + 1e-6
    assert np.abs(seen[:, 13:27].std(0) - 0.1).max() < 0.015
    assert np.abs(seen[:, 13:27].mean(0)).max() < 0.02
    assert np.abs(column(env, "Ant.physics.Pose.position")[..., :2]).max() <= 0.1
    assert np.abs(np.linalg.norm(seen[:, 1:5], axis=1) - 1).max() < 1e-6


def test_nothing_begins_in_the_ground() -> None:
    env = TorchVectorEnv(Ant(start_height=0.3, reset_noise_scale=0.3), 500)
    env.reset(seed=5)
    lowest = lowest_points(env).min(1)
    assert lowest.min() > -1e-5
    assert (lowest < 1e-5).mean() > 0.9  # those are lifted onto it


def test_an_ant_that_leaves_the_healthy_heights_ends() -> None:
    for ends in (True, False):
        env = TorchVectorEnv(Ant(terminate_when_unhealthy=ends), 2, autoreset_mode="Disabled")
        env.reset(seed=0)
        for table in ("Ant", "Leg", "Foot"):
            env.sim.tensor(f"{table}.physics.Pose.position")[1, :, 2] += 0.6
        _, _, terminations, truncations, infos = env.step(torch.zeros(2, 8))
        assert terminations.tolist() == [False, ends]
        assert not truncations.any()
        assert infos["reward_survive"].tolist() == [1.0, 0.0]
    low = TorchVectorEnv(Ant(healthy_z_low=0.7, reset_noise_scale=0.0), 2)
    low.reset(seed=0)
    assert low.step(torch.zeros(2, 8))[2].all()


def test_numbers_that_are_not_finite_end_an_episode() -> None:
    env = TorchVectorEnv(Ant(), 2, autoreset_mode="Disabled")
    env.reset(seed=0)
    env.sim.tensor("Foot.physics.Velocity.angular")[1] = 1e30
    _, _, terminations, _, _ = env.step(torch.zeros(2, 8))
    assert not torch.isfinite(env.sim.tensor("Foot.physics.Pose.position")[1]).all()
    assert terminations.tolist() == [False, True]


def test_episodes_are_truncated() -> None:
    env = TorchVectorEnv(Ant(max_episode_steps=7), 3)
    env.reset(seed=0)
    ends = [env.step(torch.zeros(3, 8))[3].tolist() for _ in range(14)]
    assert [all(end) for end in ends] == [any(end) for end in ends] == 2 * (6 * [False] + [True])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"density": 0.0}, "option density must be greater than 0"),
        ({"hip_range": 2.0}, "option hip_range must be at most 1.5, got 2"),
        ({"ankle_lower": 1.0, "ankle_upper": 0.5}, "ankle_lower must be below ankle_upper, which is 0.5, got 1"),
        ({"healthy_z_low": 1.0}, "healthy_z_low must be below healthy_z_high, which is 1, got 1"),
        ({"start_height": -1.0}, "option start_height must be greater than 0"),
        ({"reset_noise_scale": 0.6}, "option reset_noise_scale must be at most 0.5, got 0.6"),
        ({"max_episode_steps": 0}, "option max_episode_steps must be at least 1, got 0"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_bad_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Ant(**options)


def test_actions_outside_of_the_box_are_rejected() -> None:
    env = TorchVectorEnv(Ant(), 2)
    env.reset(seed=0)
    for wrong in (1.5, math.nan):
        actions = torch.zeros(2, 8)
        actions[1, 3] = wrong
        with pytest.raises(ValueError, match=r"of world 1, element 3 is not in Box"):
            env.step(actions)


# ---- the body --------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_hinges_hold_in_the_air() -> None:
    env = TorchVectorEnv(Ant(start_height=3.0, healthy_z_high=50.0, physics={"gravity_z": 0.0}), 60)
    env.reset(seed=1)
    for actions in random_actions(env, 60):
        env.step(actions)
        assert widest_gap(env) < 0.004
        assert beyond_limits(env) < 0.02


@pytest.mark.full
def test_hinges_hold_on_the_ground() -> None:
    """Contacts and hinges are solved in turns, so that a foot that is hit gives way for a moment."""
    env = TorchVectorEnv(Ant(), 40)
    env.reset(seed=1)
    gaps, fastest, deepest = [], 0.0, 0.0
    for actions in random_actions(env, 50):
        env.step(torch.sign(torch.as_tensor(actions)))  # all that the motors can
        gaps.append(np.maximum(*(column(env, f"{table}.physics.Joint.separation") for table in ("Leg", "Foot"))))
        deepest = max(deepest, -lowest_points(env).min())
        fastest = max(fastest, np.abs(column(env, "Foot.physics.Velocity.linear")).max())
        assert beyond_limits(env) < 0.1
    assert np.max(gaps) < 0.03
    assert np.median(gaps) < 0.003
    assert deepest < 0.04
    assert fastest < 15


MODEL = """<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.001" gravity="0 0 {gravity}" cone="elliptic" impratio="100"/>
  <default>
    <joint armature="{armature}" damping="{damping}" limited="true"/>
    <geom contype="1" conaffinity="0" condim="3" density="{density}" friction="1 0 0"/>
    <motor gear="{gear}" ctrllimited="true" ctrlrange="-1 1"/>
  </default>
  <worldbody>
    <geom type="plane" size="40 40 1" conaffinity="1"/>
    <body name="torso" pos="0 0 {height}">
      <freejoint/>
      <geom type="sphere" size="0.25"/>
      {legs}
    </body>
  </worldbody>
  <actuator>{motors}</actuator>
</mujoco>"""


def mujoco_ant(gravity: float, height: float) -> mujoco.MjModel:
    """The same body, its motors in the order of the angles."""
    legs, motors = "", ""
    for i, ((x, y, _), (u, v, _)) in enumerate(zip(SIDES, AXES, strict=True)):
        low, high = sorted(BENDS[i] * DEFAULTS[name] for name in ("ankle_lower", "ankle_upper"))
        legs += f"""<body name="leg{i}" pos="{0.2 * x} {0.2 * y} 0">
          <joint name="hip{i}" axis="0 0 1" range="{-DEFAULTS["hip_range"]} {DEFAULTS["hip_range"]}"/>
          <geom type="capsule" size="0.08" fromto="0 0 0 {0.2 * x} {0.2 * y} 0"/>
          <body name="foot{i}" pos="{0.2 * x} {0.2 * y} 0">
            <joint name="ankle{i}" axis="{u} {v} 0" range="{low} {high}"/>
            <geom type="capsule" size="0.08" fromto="0 0 0 {0.4 * x} {0.4 * y} 0"/>
          </body></body>"""
        motors += f'<motor joint="hip{i}"/><motor joint="ankle{i}"/>'
    return mujoco.MjModel.from_xml_string(
        MODEL.format(legs=legs, motors=motors, gravity=gravity, height=height, **DEFAULTS)
    )


def beside_mujoco(gravity: float, height: float, torques: np.ndarray, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Places of torso and feet [steps, 5, 3], ours and theirs, with torques [steps, 8] in the order of the angles."""
    env = TorchVectorEnv(
        Ant(reset_noise_scale=0.0, start_height=height, healthy_z_high=50.0, **options), 1, autoreset_mode="Disabled"
    )
    env.reset(seed=0)
    model = mujoco_ant(gravity, height)
    data = mujoco.MjData(model)
    data.qpos[8::2] = BENDS
    names = ["torso", *(f"foot{i}" for i in range(4))]
    ours, theirs = [], []
    for torque in torques:
        action = np.zeros(8)
        action[MOTORS] = torque
        env.step(torch.as_tensor(action, dtype=torch.float32)[None])
        data.ctrl[:] = torque
        mujoco.mj_step(model, data, 50)
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        ours.append(
            np.concatenate([column(env, f"{table}.physics.Pose.position")[0] for table in ("Ant", "Foot")])
        )
        theirs.append([data.body(name).xipos.copy() for name in names])
    return np.array(ours), np.array(theirs)


def test_masses_are_mujocos() -> None:
    env = TorchVectorEnv(Ant(), 1)
    env.reset(seed=0)
    ours = [1 / column(env, f"{table}.physics.Mass.inverse")[0, 0] for table in ("Ant", "Leg", "Foot")]
    theirs = mujoco_ant(0.0, 1.0)
    np.testing.assert_allclose(ours, [theirs.body(name).mass[0] for name in ("torso", "leg0", "foot0")], rtol=1e-5)


def test_an_ant_in_the_air_moves_as_mujoco_has_it() -> None:
    """Torques that change, mild enough for angles to stay between their limits, where MuJoCo's limits are soft."""
    generator = np.random.default_rng(0)
    time = np.arange(20)[:, None] * 0.05
    torques = 0.1 * np.sin(generator.uniform(4, 9, 8) * time + generator.uniform(0, 6, 8))
    ours, theirs = beside_mujoco(0.0, 5.0, torques, physics={"gravity_z": 0.0})
    assert np.abs(theirs - theirs[0]).max() > 0.1
    assert np.linalg.norm(ours - theirs, axis=2).max() < 0.005


def test_an_ant_rests_as_high_as_in_mujoco() -> None:
    ours, theirs = beside_mujoco(-9.81, 0.6, np.zeros((60, 8)))
    assert abs(ours[-1, 0, 2] - theirs[-1, 0, 2]) < 0.003  # with impratio 1 MuJoCo's feet slide apart
    assert np.abs(ours[-1] - ours[-2]).max() < 2e-3


# ---- how steps are run -----------------------------------------------------------------------------------------------


def played(worlds: int, steps: int, **how: Any) -> TorchVectorEnv:
    env = TorchVectorEnv(Ant(max_episode_steps=4), worlds, **how)
    spoil(env.sim)
    env.reset(seed=7)
    for actions in random_actions(env, steps, most_worlds=70):
        spoil(env.sim)
        env.step(actions)
    return env


def test_threads_and_the_number_of_worlds_change_nothing() -> None:
    few, many = played(9, 10, num_threads=1), played(70, 10, num_threads=2)
    assert_same_bits(snapshot(few.sim), first_worlds(many.sim, 9))
    assert many.sim.tensor("World.episode").float().mean() > 1


@pytest.mark.parametrize("executor", of_today(["graph", "per_world"], 1))
def test_every_executor_gives_the_same_bits(executor: str) -> None:
    batch = snapshot(played(3, 6).sim)
    assert_same_bits(batch, snapshot(played(3, 6, executor="per_world", num_threads=2).sim))
    assert_same_bits(batch, snapshot(played(3, 6, _library=emulated_cuda("ant", executor)).sim))


# ---- pictures and training -------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_picture_goes_along() -> None:
    env = torch_batchsim.make_vec(Ant, 2, render_mode="rgb_array", reset_noise_scale=0.0)
    env.reset(seed=0)
    for table in ("Ant", "Leg", "Foot"):
        env.sim.tensor(f"{table}.physics.Pose.position")[1, :, 0] += 6.0
    here, there = env.render()
    assert here.shape == (300, 400, 3) and here.dtype == np.uint8
    body = (here[..., 0].astype(int) - here[..., 2]) > 60  # the torso's colour
    assert body.sum() > 500
    assert np.abs(np.argwhere(body).mean(0)[1] - 200) < 40
    below = slice(40, None)  # the text
    assert (np.abs(here[below].astype(int) - there[below]) > 8).mean() < 0.02  # tiles repeat
    assert (here[:30] != there[:30]).any()


@pytest.mark.full
def test_the_picture_survives_any_state() -> None:
    env = torch_batchsim.make_vec(Ant, 1, render_mode="rgb_array")
    env.reset(seed=0)
    for value in (math.nan, math.inf, 1e30):
        env.sim.tensor("Ant.physics.Pose.position").fill_(value)
        assert env.render()[0].shape == (300, 400, 3)


@pytest.mark.full
def test_a_training_begins(tmp_path: Path) -> None:
    arguments = ["ant", "--total-steps", "256", "--num-envs", "8", "--num-steps", "16", "--num-minibatches", "2"]
    arguments += ["--max-episode-steps", "12", "--eval-episodes", "4", "--track", "none"]
    assert train([*arguments, "--run-dir", str(tmp_path / "run"), "--summary", str(tmp_path / "summary.json")]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert math.isfinite(summary["eval_return_mean"]) and summary["eval_length_mean"] == 12

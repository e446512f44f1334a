"""A recording gives back every output to the bit, and says where it does not."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch_batchsim.envs.cartpole import CartPole

import torch_batchsim
from torch_batchsim import (
    BuildWarning,
    EpisodeStatistics,
    GroupedEnv,
    Recorder,
    Recording,
    RecordingError,
    TorchVectorEnv,
    WorldFault,
    record,
)
from torch_batchsim.replay import __main__ as replay
from torch_batchsim.replay import recording as recordings
from torch_batchsim.replay.file import FORMAT, MAGIC, read_blocks, write_block
from torch_batchsim.replay.outputs import checksums

WALK = '''
from torch_batchsim import (
    Archetype, Component, Environment, Episode, Option, Parameters, Reward, TaskGraph, World, between, f32, i32,
    register, system,
)


class Place(Component):
    x: f32


class Choice(Component):
    direction: i32 = between(0, 1)


@system
def place(world: World, place: Place):
    place.x = world.random.uniform(-1, 1)


@system
def walk(world: World, place: Place, choice: Choice, reward: Reward, episode: Episode):
    place.x += 0.1 if choice.direction == 1 else -0.1
    reward.value = place.x
    if place.x > 1.5:
        world.fail("far", 0)


class Walk(Environment):
    archetypes = [Archetype("Walker", Place, Choice, Reward, count=1)]
    start, step = TaskGraph(place), TaskGraph(walk)
    faults = ("far",)
    observation, action = "Walker.Place", "Walker.Choice.direction"


register("recorded/Walk-v0", Walk)
'''


def copied(results: tuple[Any, ...]) -> list[torch.Tensor]:
    observations, *others, infos = results
    parts = [*(observations.values() if isinstance(observations, dict) else [observations]), *others]
    parts += [infos["action_mask"]] if "action_mask" in infos else []
    return [part.clone() for part in parts]


def played(recorder: Recorder, steps: int, seed: int | None = 7) -> list[list[torch.Tensor]]:
    """The outputs of a run."""
    outputs = [copied(recorder.reset(seed=seed))]
    recorder.action_space.seed(3)
    outputs += [copied(recorder.step(recorder.sample_actions())) for _ in range(steps)]
    return outputs


def cartpole(path: Path, steps: int = 60, worlds: int = 3, **options: Any) -> list[list[torch.Tensor]]:
    with Recorder(TorchVectorEnv(CartPole(**options), worlds), path) as recorder:
        return played(recorder, steps)


def assert_replays(path: Path, outputs: list[list[torch.Tensor]], **run: Any) -> Recording:
    recording = Recording(path, **run)
    assert recording.moments == len(outputs)
    for moment in recording.play():
        here = copied(recording.env().step_results())
        here = here[:1] if recording.seed(moment) is not None else here  # a reset returns no rewards
        for one, other in zip(here, outputs[moment], strict=True):
            assert one.dtype == other.dtype
            assert np.array_equal(one.numpy().reshape(-1).view(np.uint8), other.numpy().reshape(-1).view(np.uint8))
    return recording


def changed_head(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    blocks = list(read_blocks(path))
    with path.open("wb") as file:
        file.write(MAGIC + str(FORMAT).encode() + b"\n")
        for kind, contents, data in blocks:
            if kind == b"HEAD":
                change(contents)
            write_block(file, kind, contents, data)


def test_a_run_is_computed_again_and_any_moment_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.tbs"
    outputs = cartpole(path, gravity=9.0)
    assert path.stat().st_size / 60 < 20  # bytes a step, of three worlds
    recording = assert_replays(path, outputs)
    assert recording.metadata["options"] == {"gravity": 9.0} and recording.seed(0) == 7 and recording.seed(1) is None
    for moment in (40, 3, 60, 0, 26):
        assert torch.equal(recording.seek(moment).observations, outputs[moment][0])
    assert torch.equal(recording.seek(-1).observations, outputs[60][0])
    assert recording.actions(0) is None and recording.actions(1).shape == (3,)
    with pytest.raises(IndexError, match="moment must be from 0 to 60, got 61"):
        recording.seek(61)


def test_keyframes_become_sparser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tbs"
    outputs = cartpole(path, 90)
    monkeypatch.setattr(recordings, "_MOST_KEYFRAMES", 3)
    recording = assert_replays(path, outputs)
    assert sorted(recording._keyframes) == [0, 50] and recording._every == 50
    assert torch.equal(recording.seek(60).observations, outputs[60][0])


def test_resets_of_some_worlds_and_writing_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.tbs"
    env = TorchVectorEnv(CartPole(max_episode_steps=20), 4, autoreset_mode="Disabled")
    env.reset(seed=1)
    env.step(torch.ones(4, dtype=torch.int64))  # before it is recorded
    outputs = []
    with Recorder(env, path) as recorder:
        for step in range(50):
            outputs.append(copied(recorder.step(torch.full((4,), step % 2))))
            if step == 10:
                recorder.sim.tensor("Cart.CartState.x")[2] = 0.5
            if step == 12:
                kept = recorder.state_dict()
            if step == 15:
                recorder.load_state_dict(kept)
            if step == 30:
                recorder.episode_steps = torch.tensor([3, 1, 2, 0])
            if recorder.ended_worlds().any():
                options = {"reset_mask": recorder.ended_worlds()}
                outputs.append([recorder.reset(seed=step, options=options)[0].clone()])
    assert len(outputs) > 52
    recording = assert_replays(path, outputs)
    assert sum(len(moment.states) for moment in recording._moments) == 4  # at first, and three times later


@pytest.mark.crossed
@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
@pytest.mark.parametrize("arguments", [{"output": "numpy"}, {"copy": True}, {"copy": False}], ids=str)
def test_recordings_do_not_depend_on_how_outputs_are_delivered(
    mode: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    path, observations = tmp_path / "a.tbs", []
    env = TorchVectorEnv(CartPole(max_episode_steps=9), 4, autoreset_mode=mode, **arguments)
    with Recorder(env, path) as recorder:
        observations.append(torch.as_tensor(recorder.reset(seed=1)[0]).clone())
        for step in range(24):
            observations.append(torch.as_tensor(recorder.step(np.full(4, step % 2))[0]).clone())
    recording = Recording(path)
    assert recording.metadata["autoreset_mode"] == mode
    assert all(recording.seek(moment).observations.equal(observations[moment]) for moment in recording.play())
    assert not any(moment.states for moment in recording._moments)


def test_options_that_a_file_cannot_hold_are_refused(tmp_path: Path) -> None:
    class Odd(CartPole):
        def __init__(self, thing: object = None, **options: Any) -> None:
            super().__init__(**options)

    with pytest.raises(RecordingError, match="cannot hold the option thing of Odd, of type set: give numbers, texts"):
        Recorder(TorchVectorEnv(Odd(thing={1, 2}), 1), tmp_path / "a.tbs")
    with pytest.raises(RecordingError, match="make Odd without positional arguments"):
        Recorder(TorchVectorEnv(Odd(3), 1), tmp_path / "a.tbs")
    assert not (tmp_path / "a.tbs").exists()


def test_a_seed_is_drawn_where_none_is_given_and_wrappers_go_around(tmp_path: Path) -> None:
    path = tmp_path / "a.tbs"
    with Recorder(torch_batchsim.make_vec("cartpole", num_envs=2), path) as recorder:
        outputs = played(recorder, 5, None)
        EpisodeStatistics(recorder).step(recorder.sample_actions())
    assert Recording(path).seed(0) is not None and Recording(path).moments == 7
    assert torch.equal(Recording(path).seek(5).observations, outputs[5][0])
    with pytest.raises(TypeError, match="Recorder needs a TorchVectorEnv without wrappers, got"):
        Recorder(EpisodeStatistics(torch_batchsim.make_vec("cartpole", num_envs=2)), path)


def test_final_values_are_compared(tmp_path: Path) -> None:
    path = tmp_path / "a.tbs"
    with Recorder(TorchVectorEnv(CartPole(max_episode_steps=9), 3), path) as recorder:
        played(recorder, 20)
    recording = Recording(path)
    with_final = [i for i, moment in enumerate(recording._moments) if moment.checksums.get("final_obs")]
    assert with_final == [9, 18]
    for _ in recording.play():
        pass
    recording = Recording(path)
    recording._moments[9].checksums["final_obs"] ^= 1
    with pytest.raises(RecordingError, match="step at moment 9: final_obs differ from what was recorded"):
        recording.seek(20)


def test_final_values_do_not_depend_on_how_they_are_delivered() -> None:
    """Infos of arrays, copies and completed ones have the same checksum; the caller's tensors stay as they are."""
    found = []
    for arguments in ({}, {"output": "numpy"}, {"copy": True}):
        env = TorchVectorEnv(CartPole(max_episode_steps=4), 3, **arguments)
        env.reset(seed=2)
        env.episode_steps = torch.tensor([0, 2, 0])
        for _ in range(2):
            results = env.step(np.ones(3, np.int64))
        before = checksums(results)["final_obs"]
        results[-1]["final_obs"]  # completes it
        found += [before, checksums(results)["final_obs"]]
    assert len(set(found)) == 1 and found[0]


@pytest.mark.parametrize("mode", ["SameStep", "NextStep"])
def test_a_group_is_recorded(mode: str, tmp_path: Path) -> None:
    """Beside groups that are not; with NEXT_STEP also steps of some of its worlds."""
    path, outputs = tmp_path / "a.tbs", []
    with GroupedEnv(CartPole(max_episode_steps=7), num_worlds=6, groups=2, autoreset_mode=mode) as env:
        with pytest.raises(TypeError, match=r"record one by Recorder.of_group\(env, group, path\)"):
            Recorder(env, path)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="group must be an integer from 0 to 1, got 2"):
            Recorder.of_group(env, 2, path)
        recorder = Recorder.of_group(env, 1, path)
        env.async_reset(seed=5)
        for step in range(24):
            for _ in range(2):
                batch = env.recv()
                if batch.group == 1:
                    outputs.append(batch.observations.clone())
                some = np.array([True, step % 3 > 0, True]) if mode == "NextStep" and step % 2 else None
                env.send(batch.group, np.full(3, step % 2), some)
        while env.busy_groups:
            batch = env.recv()
            if batch.group == 1:
                outputs.append(batch.observations.clone())
        recorder.end()
        env.step(1, np.ones(3, np.int64))  # unrecorded
        with Recorder.of_group(env, 1, tmp_path / "b.tbs"):
            env.step(1, np.ones(3, np.int64))
        assert isinstance(env.environments[1], TorchVectorEnv)
    assert Recording(tmp_path / "b.tbs").moments == 1
    recording = Recording(path)
    assert recording.metadata["first_world"] == 3
    if mode == "SameStep":
        assert recording.moments == len(outputs)
        assert all(recording.seek(i).observations.equal(outputs[i]) for i in recording.play())
    for _ in recording.play():
        pass
    assert torch.equal(recording.seek(-1).observations, outputs[-1])


@pytest.mark.full
def test_faults_are_played_again(tmp_path: Path) -> None:
    file, path = tmp_path / "walk_recorded.py", tmp_path / "a.tbs"
    file.write_text(WALK)
    with Recorder(torch_batchsim.make_vec(str(file), num_envs=3), path) as recorder:
        recorder.reset(seed=0)
        faults = 0
        for _ in range(30):
            try:
                recorder.step(np.array([1, 0, 1]))
            except WorldFault:
                faults += 1
    assert faults > 5
    sys.modules.pop("walk_recorded", None)
    with pytest.raises(RecordingError, match=r"a.tbs is of .*walk_recorded.*:Walk, which cannot be made here"):
        changed_head(path, lambda head: head.update(environment="nowhere.walk_recorded:Walk"))
        Recording(path).seek(0)
    assert Recording(path, str(file)).seek(30) is not None
    second = file.stat().st_mtime
    file.write_text(WALK.replace("0.1 if", "0.2 if"))
    os.utime(file, (second, second))  # an edit within a second, which byte code of Python does not notice
    code = f"import torch_batchsim as t; t.Recording({str(path)!r}, {str(file)!r}).seek(30)"
    ended = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    says = "step at moment 1: observations, rewards, state differ from what was recorded; it was recorded with other "
    assert f"{says}files of Walk" in ended.stderr


def test_a_difference_names_moment_and_output(tmp_path: Path) -> None:
    path = tmp_path / "a.tbs"
    cartpole(path, 5)
    changed_head(path, lambda head: head["options"].update(gravity=9.0))
    recording = Recording(path)
    with pytest.raises(RecordingError, match=r"a.tbs, step at moment 1: observations, state differ from what was rec"):
        recording.seek(5)
    changed_head(path, lambda head: head["versions"].update(torch="1.0"))
    said = r"a.tbs was recorded with torch 1.0, here .*; a difference in outputs will be an error"
    with pytest.warns(BuildWarning, match=said):
        Recording(path).seek(0)
    changed_head(path, lambda head: head.update(sources=1, versions=recordings.versions()))
    with pytest.warns(BuildWarning, match="with other files of CartPole"):
        Recording(path).seek(0)
    changed_head(path, lambda head: head["options"].update(gravitation=1))
    with pytest.raises(RecordingError, match=r"which cannot be made here: .*gravitation"):
        Recording(path).seek(0)


def test_files_that_are_not_whole_are_refused(tmp_path: Path) -> None:
    path, other = tmp_path / "a.tbs", tmp_path / "b.tbs"
    cartpole(path, 9)
    whole = path.read_bytes()
    cases = {
        "is not a recording of torch_batchsim": b"PK" + whole,
        "has format 9, and this version reads format 2": whole.replace(b"recording 2\n", b"recording 9\n"),
        "is truncated: it lacks its last block": whole[:-30],
        "is damaged: the block at byte ": whole[:300] + bytes([whole[300] ^ 1]) + whole[301:],
        "is damaged: 4 bytes follow its end": whole + b"more",
    }
    for says, data in cases.items():
        other.write_bytes(data)
        with pytest.raises(RecordingError, match=f"b.tbs {says}"):
            Recording(other)
    for cut in range(0, len(whole), 37):  # nothing else is ever raised
        other.write_bytes(whole[:cut])
        with pytest.raises(RecordingError):
            Recording(other)
        other.write_bytes(whole[:cut] + bytes([whole[cut] ^ 64]) + whole[cut + 1 :])
        with pytest.raises(RecordingError):
            Recording(other)
    with pytest.raises(RecordingError, match="cannot be read: No such file"):
        Recording(tmp_path / "c.tbs")
    Recorder(TorchVectorEnv(CartPole(), 1), other).end()
    with pytest.raises(RecordingError, match="holds no reset"):
        Recording(other)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page, gif = tmp_path / "a.tbs", tmp_path / "a.html", tmp_path / "a.gif"
    made = record.main(["cartpole", "--worlds", "2", "--steps", "12", "--gravity", "9", "--out", str(path)])
    assert made == 0 and f"{path}: 2 worlds, 12 steps, " in capsys.readouterr().out
    assert replay.main([str(path)]) == 0
    assert capsys.readouterr().out.endswith("CartPole, 2 worlds, 13 moments: all outputs are as recorded\n")
    shown = ["--html", str(page), "--gif", str(gif), "--world", "1", "--compare", str(path)]
    assert replay.main([str(path), *shown]) == 0 and page.is_file() and gif.is_file()
    said = capsys.readouterr().out
    assert f"{page}: {page.stat().st_size:,} bytes\n{gif}: " in said
    mistakes = {
        "world must be from 0 to 1 in": ["--world", "2", "--html", str(page)],
        "--compare needs --html": ["--compare", str(path)],
        "must be a file in an existing folder": ["--html", str(tmp_path)],
        "--gif must end in .gif": ["--gif", "x.mp4"],
    }
    for says, arguments in mistakes.items():
        assert replay.main([str(path), *arguments]) == 2 and says in capsys.readouterr().err
    mistakes = {
        "--steps must be": ["--steps", "-1"],
        "--out must be": ["--out", str(tmp_path)],
        "--policy must be random, balance, or a run of torch_batchsim.train, got best": ["--policy", "best"],
        "checkpoint runs/best cannot be read": ["--policy", "runs/best"],
    }
    for says, arguments in mistakes.items():
        assert record.main(["cartpole", *arguments]) == 2 and says in capsys.readouterr().err


def test_a_policy_of_the_environment_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.tbs"
    assert record.main(["cartpole", "--steps", "60", "--policy", "balance", "--seed", "3", "--out", str(path)]) == 0
    recording, env = Recording(path), TorchVectorEnv(CartPole(), 1)
    (observations, infos), act = env.reset(seed=3), env.environment.policies["balance"]
    for moment in range(1, 61):
        actions = act(observations, infos)
        assert torch.equal(recording.actions(moment), actions)  # type: ignore[arg-type]
        observations, *_, infos = env.step(actions)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).resolve().parents[3] / "docs" / "replays.md").read_text()
    exec(text.partition("```python\n")[2].partition("```")[0], {})
    assert Recording("run.tbs").moments == 101


@pytest.mark.full
def test_all_environments_are_played_again_in_a_fresh_process(tmp_path: Path) -> None:
    """With other threads, and against copies of the observations, not checksums alone."""
    names = []
    for env_id in torch_batchsim.environment_ids().values():
        name = env_id.split("/")[1]
        if name == "Atari-v0" and importlib.util.find_spec("ale_py") is None:
            continue  # no ROM
        recorder = Recorder(gymnasium.make_vec(env_id, num_worlds=3), tmp_path / f"{name}.tbs")
        recorder.reset(seed=11)
        recorder.action_space.seed(5)
        kept = []
        for _ in range(40):
            seen = recorder.step(recorder.sample_actions())[0]
            kept.append({key: part.clone() for key, part in (seen if isinstance(seen, dict) else {"": seen}).items()})
        recorder.end()
        names.append(name)
        torch.save(kept, tmp_path / f"{name}.pt")
        assert (tmp_path / f"{name}.tbs").stat().st_size / 40 < 250, name
    code = f"""
import glob, json, torch, torch_batchsim
torch.set_num_threads(1)
played = []
for path in sorted(glob.glob({str(tmp_path)!r} + "/*.tbs")):
    recording = torch_batchsim.Recording(path, executor="batch")
    kept = torch.load(path.replace(".tbs", ".pt"))
    for moment in recording.play(1):
        seen = recording.env().observations
        seen = seen if isinstance(seen, dict) else {{"": seen}}
        assert all(kept[moment - 1][key].equal(value) for key, value in seen.items()), (path, moment)
    assert moment == len(kept) == 40
    played.append(path)
print(json.dumps(played))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert len(json.loads(ended.stdout)) == len(names) >= 14

import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from PIL import Image
from torch_batchsim.train import ActorCritic, PPOConfig, evaluate
from torch_batchsim.train.run_folder import video
from torch_batchsim.train.run_folder.video import Recorder, write_animation

from torch_batchsim.errors import MissingExtra

GIF, WEBP, PNG = "animation.gif", "animation.webp", "animation.png"


def read(path):
    """Pictures and milliseconds of an animation."""
    with Image.open(path) as animation:
        pictures, durations = [], []
        for index in range(getattr(animation, "n_frames", 1)):
            animation.seek(index)
            pictures.append(np.asarray(animation.convert("RGB")))
            durations.append(animation.info["duration"])
        assert animation.info["loop"] == 0
        return pictures, durations


def squares(count):
    """A square that moves on a coloured ground."""
    pictures = np.zeros((count, 30, 40, 3), np.uint8)
    pictures[..., 1] = np.arange(40)
    for index, picture in enumerate(pictures):
        picture[5 : 5 + index, index : index + 8] = (250, 200, 10 * index)
    return list(pictures)


@pytest.mark.parametrize("name", [GIF, WEBP, PNG])
def test_few_colours_are_kept_exactly(name, tmp_path):
    pictures = squares(12)
    write_animation(tmp_path / name, pictures, fps=8)
    found, durations = read(tmp_path / name)
    assert np.array_equal(found, pictures)
    assert set(durations[:-1]) == {120, 130}  # hundredths of a second are the finest
    assert sum(durations) == 12 * 125 + 1000


@pytest.mark.parametrize("name", [GIF, WEBP, PNG])
def test_equal_pictures_are_one_that_stays(name, tmp_path):
    a, b = squares(2)
    write_animation(tmp_path / name, [a, a, a, b, b, a], fps=10)
    found, durations = read(tmp_path / name)
    assert np.array_equal(found, [a, b, a])
    assert durations == [300, 200, 1100]


@pytest.mark.parametrize("name", [GIF, WEBP, PNG])
def test_a_single_picture_will_do(name, tmp_path):
    (picture,) = squares(1)
    write_animation(tmp_path / name, [picture, picture], fps=10)
    with Image.open(tmp_path / name) as image:
        assert np.array_equal(image.convert("RGB"), picture)


@pytest.mark.parametrize("suffix", [".mp4", ".MP4"])
def test_an_mp4_has_every_picture_at_the_pace_of_the_environment(suffix, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    pictures = [picture[:29, :39] for picture in squares(12)]  # odd sides become even
    path = tmp_path / f"animation{suffix}"
    write_animation(path, pictures, fps=240)
    about, *found = ffmpeg.read_frames(str(path))
    assert (about["size"], about["fps"], about["codec"]) == ((40, 30), 240, "h264")
    found = np.array([np.frombuffer(picture, np.uint8).reshape(30, 40, 3) for picture in found])[:, :29, :39]
    assert len(found) == 12 and np.abs(found.astype(int) - np.array(pictures)).mean() < 20
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_an_mp4_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    (tmp_path / "game.mp4").write_text("before")
    monkeypatch.setattr(ffmpeg, "get_ffmpeg_exe", lambda: "/bin/false")
    with pytest.raises(OSError, match="ffmpeg ended with 1"):
        write_animation(tmp_path / "game.mp4", squares(12) * 1000, fps=8)
    with pytest.raises(OSError, match=r"nowhere/game\.mp4"):
        write_animation(tmp_path / "nowhere" / "game.mp4", squares(12), fps=8)
    assert (tmp_path / "game.mp4").read_text() == "before" and len(list(tmp_path.iterdir())) == 1


def test_an_mp4_needs_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    video.check_needs(Path(GIF))
    with pytest.raises(MissingExtra, match=r"needs imageio-ffmpeg, .*: pip install 'torch_batchsim\[video\]'"):
        video.check_needs(Path("game.mp4"))


def test_endings_may_be_capitals(tmp_path):
    write_animation(tmp_path / "A.GIF", squares(3), fps=10)
    assert len(read(tmp_path / "A.GIF")[0]) == 3


@pytest.mark.parametrize(("colours", "worst"), [(253, 0), (254, 1), (20_000, 20)])
def test_of_many_colours_the_frequent_ones_stay_and_the_others_come_near(colours, worst, tmp_path):
    random = np.random.default_rng(1)
    pictures = random.permuted(np.resize(np.arange(colours) * (2**24 // colours), (4, 100, 100)), axis=2)
    pictures[:, :50] = 0x123456
    pictures[:, 50:60] = 0xFEDCBA
    pictures = video._channels(pictures).astype(np.uint8)
    write_animation(tmp_path / GIF, pictures, fps=10)
    error = np.abs(np.array(read(tmp_path / GIF)[0]).astype(int) - pictures)
    assert error[:, :60].max() == 0
    assert error.mean() <= worst
    assert (error.max() > 0) == (worst > 0)


def test_a_fast_environment_is_shown_at_fifty_pictures_a_second(tmp_path):
    write_animation(tmp_path / GIF, squares(5), fps=240)
    assert read(tmp_path / GIF)[1] == [20, 20, 20, 20, 1020]


def test_a_long_standstill_fits_into_a_png(tmp_path):
    a, b = squares(2)
    write_animation(tmp_path / PNG, [a] * 100 + [b], fps=1)
    assert read(tmp_path / PNG)[1] == [60_000, 2000]


@pytest.fixture
def cartpole():
    """An environment, made so that worlds stand still at their end, and a policy that has learned nothing."""
    env = gymnasium.make_vec(
        "torch_batchsim/CartPole-v0", num_envs=5, render_mode="rgb_array", autoreset_mode="Disabled", num_threads=1
    )
    spaces = env.single_observation_space, env.single_action_space
    return env, ActorCritic(*spaces, PPOConfig(hidden_sizes=(8,)), env.device)


def test_the_first_episode_of_world_0_is_recorded_with_its_last_picture(cartpole, tmp_path):
    env, agent = cartpole
    recorder = Recorder(env)
    lengths = evaluate(env, agent, seed=3, watch=recorder).lengths
    assert lengths[0] < lengths.max()  # others went on
    pictures = list(recorder)
    assert len(pictures) == lengths[0] + 1
    assert np.array_equal(pictures[-1], env.render_world(0))
    recorder.write(tmp_path / GIF)
    found, durations = read(tmp_path / GIF)
    for theirs, ours in ((found[0], pictures[0]), (found[-1], pictures[-1])):
        assert np.abs(theirs.astype(int) - ours).mean() < 0.1
    assert sum(durations) == 20 * len(pictures) + 1000  # CartPole has 50 steps a second


def test_a_very_long_episode_is_cut(cartpole, monkeypatch):
    monkeypatch.setattr(video, "MAX_PICTURES", 4)
    env, agent = cartpole
    recorder = Recorder(env)
    evaluate(env, agent, seed=3, watch=recorder)
    assert len(list(recorder)) == 4


@pytest.mark.parametrize("wrong", [np.zeros((4, 5, 3)), np.zeros((4, 5), np.uint8), np.zeros((6, 5, 3), np.uint8)])
def test_pictures_of_other_kinds_are_refused(cartpole, wrong, monkeypatch):
    env, _ = cartpole
    pictures = iter([np.zeros((4, 5, 3), np.uint8), wrong])
    monkeypatch.setattr(env.unwrapped, "render_world", lambda world: next(pictures))
    recorder, running = Recorder(env), torch.ones(5, dtype=torch.bool)
    recorder(running)
    with pytest.raises(ValueError, match=r"render\(\) must return uint8 \[height, width, 3\] of the same size"):
        recorder(running)

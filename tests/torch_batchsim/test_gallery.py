"""The command that draws many worlds."""

import numpy as np
import pytest
from PIL import Image
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.train.commands import cli

import torch_batchsim
from torch_batchsim import gallery


def run(*arguments):
    try:
        return gallery.main([str(argument) for argument in arguments])
    except SystemExit as exit:  # how argparse ends
        return exit.code


def test_a_picture_shows_each_world(tmp_path, capsys):
    path = tmp_path / "many.png"
    assert run("cartpole", "--worlds", 6, "--columns", 3, "--width", 308, "--steps", 7, "--out", path) == 0
    assert f"{path}: 6 worlds, 308 x 138 pixels, " in capsys.readouterr().out
    with Image.open(path) as image:
        assert (image.size, image.mode) == ((308, 138), "P")
        pixels = np.asarray(image.convert("RGB"))
    tiles = [pixels[71 * (i // 3) :][:67, 104 * (i % 3) :][:, :100] for i in range(6)]
    assert len({tile.tobytes() for tile in tiles}) == 6
    assert all((tile < 128).any() for tile in tiles)  # carts
    assert (pixels[67:71] == 255).all() and (pixels[:, 100:104] == 255).all()  # gaps


def test_the_same_seed_gives_the_same_picture(tmp_path):
    pictures = []
    for name, seed, steps in (("a", 1, 5), ("b", 1, 5), ("c", 2, 5), ("d", 1, 0)):
        path = tmp_path / f"{name}.png"
        assert run("cartpole", "--worlds", 4, "--seed", seed, "--steps", steps, "--colours", 0, "--out", path) == 0
        pictures.append(path.read_bytes())
    assert pictures[0] == pictures[1] and len(set(pictures)) == 3


def test_an_animation_shows_the_steps_between(tmp_path):
    path = tmp_path / "many.gif"
    assert run("cartpole", "--worlds", 3, "--steps", 12, "--every", 4, "--width", 200, "--out", path) == 0
    with Image.open(path) as image:
        assert image.n_frames == 4
        assert image.info["duration"] == 80  # 4 steps of 0.02 s


def test_a_trained_policy_acts(tmp_path, capsys):
    small = "--num-envs 8 --num-steps 16 --num-minibatches 2 --total-steps 256 --eval-episodes 0".split()
    assert cli.main(["cartpole", *small, "--length", "0.7", "--run-dir", str(tmp_path / "run")]) == 0
    files = [tmp_path / "folder.png", tmp_path / "file.png", tmp_path / "random.png"]
    policies = [tmp_path / "run", tmp_path / "run" / "checkpoint.pt", "random"]
    for path, policy in zip(files, policies, strict=True):
        assert run("cartpole", "--worlds", 4, "--steps", 9, "--policy", policy, "--out", path) == 0
    folder, file, drawn = (path.read_bytes() for path in files)
    assert folder == file != drawn
    assert run("cartpole", "--policy", tmp_path / "run", "--length", 1, "--out", tmp_path / "x.png") == 2
    assert "whose checkpoint has the options" in capsys.readouterr().err
    assert run("swarm", "--policy", tmp_path / "run", "--out", tmp_path / "x.png") == 2
    assert "is of torch_batchsim/CartPole-v0, not of torch_batchsim/Swarm-v0" in capsys.readouterr().err


def test_a_policy_of_the_environment_acts(tmp_path):
    path, env = tmp_path / "one.png", torch_batchsim.make_vec("cartpole", num_envs=1)
    assert run("cartpole", "--worlds", 1, "--steps", 60, "--policy", "balance", "--colours", 0, "--out", path) == 0
    observations, infos = env.reset(seed=1)
    for _ in range(60):
        observations, *_, infos = env.step(env.environment.policies["balance"](observations, infos))
    with Image.open(path) as image:
        assert (np.asarray(image.convert("RGB")) == env.render_world(0)).all()


class Unseen(CartPole):
    scene = torch_batchsim.Environment.scene


torch_batchsim.register("tests/Unseen-v0", Unseen)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("pole", "there is no environment 'pole' (did you mean 'cartpole'?); known are: ant, atari, cartpole"),
        ("cartpole --worlds 0", "--worlds must be from 1 to 4096, got 0"),
        ("cartpole --columns 0", "--columns must be at least 1, got 0"),
        ("cartpole --steps -1", "--steps must be at least 0, got -1"),
        ("cartpole --colours 1", "--colours must be 0 or from 2 to 256, got 1"),
        ("cartpole --out game.avi", "--out must end in .png, .gif, .webp, .mp4, got game.avi"),
        ("cartpole --out nowhere/x.png", "existing folder, got nowhere/x.png"),
        ("cartpole --out x.gif --steps 5000", "at most 2,000 pictures, got 5,001"),
        ("cartpole --policy nothing.pt", "checkpoint nothing.pt cannot be read"),
        ("cartpole --policy best", "--policy must be random, balance, or a run of torch_batchsim.train, got best"),
        ("cartpole --env-option wheels=4", "wheels"),
        ("cartpole --env-option num_worlds=4", "num_worlds is not an option of the environment; use --worlds"),
        ("tests/Unseen-v0", "tests/Unseen-v0 does not define render()"),
        ("cartpole --no-such-option 3", "--no-such-option"),
        ("cartpole --world 3", "--worlds"),
        ("cartpole --lenght 1.0", "--length"),
        ("cartpole --length -1", "length"),
    ],
)
def test_mistakes_are_reported_in_a_sentence(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments.split()) == 2
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())

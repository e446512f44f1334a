import dataclasses
import json
import os
import re
import signal
import sys
from contextlib import contextmanager

import gymnasium
import pytest
import torch
from PIL import Image
from torch_batchsim.envs.cartpole import CartPole
from torch_batchsim.train import PPOConfig, Trainer
from torch_batchsim.train.commands import cli, environments, evaluating, options, training
from torch_batchsim.train.rollouts import evaluation
from torch_batchsim.train.run_folder import checkpoint, learning
from training import assert_same

import torch_batchsim
from torch_batchsim import Fault, StepInterrupted, StepTimeout, SystemCrash, WorldFault
from torch_batchsim.declare.options import RESERVED_OPTIONS
from torch_batchsim.run import tuning

ENV = "torch_batchsim/CartPole-v0"
SMALL = [
    *("--num-envs", 8),
    *("--num-steps", 16),
    *("--num-minibatches", 2),
    *("--total-steps", 1024),
    *("--eval-episodes", 10),
]


def run(*arguments):
    try:
        return cli.main([str(argument) for argument in arguments])
    except SystemExit as exit:  # how tyro ends
        return exit.code


@pytest.fixture
def trained(tmp_path):
    """The folder of a short training."""
    assert run("cartpole", *SMALL, "--run-dir", tmp_path / "run", "--summary", tmp_path / "summary.json") == 0
    return tmp_path / "run"


def test_a_training_leaves_its_files_and_a_summary(tmp_path, capsys):
    assert run("cartpole", *SMALL, "--run-dir", tmp_path, "--summary", tmp_path / "summary.json") == 0
    names = {path.name.partition(".out.")[0] for path in tmp_path.iterdir()}
    reported = {".lock", "config.toml", "run.json", "metrics.csv"}
    assert names == {"checkpoint.pt", "learning_curve.png", "summary.json", "events"} | reported
    assert str(tmp_path / "learning_curve.png") in capsys.readouterr().out
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["env"] == ENV
    assert summary["seed"] == 1
    assert summary["steps"] == 1024
    assert summary["train_seconds"] > 0
    assert 1 <= summary["eval_return_mean"] <= 500
    assert summary["eval_episodes"] == 10
    assert set(summary["versions"]) == {"python", "torch", "torch_batchsim", "gymnasium"}


@pytest.mark.parametrize(
    "arguments", [pytest.param(["--tune"], marks=pytest.mark.full), ["--executor", "per_world"]], ids=" ".join
)
def test_how_steps_are_run_changes_nothing_but_speed(arguments, trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tuning, "_path", lambda run: tmp_path / "choice.json")
    monkeypatch.setattr(tuning, "_ROUNDS", 1)
    monkeypatch.setattr(torch_batchsim.TorchVectorEnv, "tune", lambda env: env.sim.tune(0.2))  # not 5 s
    arguments = [*arguments, "--run-dir", tmp_path / "other", "--summary", tmp_path / "other.json"]
    assert run("cartpole", *SMALL, *arguments) == 0
    summaries = [json.loads((tmp_path / name).read_text()) for name in ("summary.json", "other.json")]
    for summary in summaries:
        summary.pop("train_seconds")
    assert summaries[0] == summaries[1]
    assert ("times the speed" in capsys.readouterr().out) == ("--tune" in arguments)


@pytest.mark.parametrize("policy", [[], pytest.param(["--eval-stochastic"], marks=pytest.mark.full)])
def test_a_video_shows_an_episode_and_changes_no_outcome(policy, trained, tmp_path, capsys):
    for name, arguments in (("plain", []), ("filmed", ["--video", tmp_path / "game.gif"])):
        arguments = [*policy, *arguments, "--eval-episodes", 10, "--summary", tmp_path / name]
        assert run("cartpole", "--eval", trained / "checkpoint.pt", *arguments) == 0
    assert (tmp_path / "plain").read_text() == (tmp_path / "filmed").read_text()
    assert f"video           {tmp_path / 'game.gif'}" in capsys.readouterr().out
    with Image.open(tmp_path / "game.gif") as game:
        assert game.n_frames > 1
        assert game.size == (600, 400)


@pytest.mark.parametrize("policy", [[], ["--eval-stochastic"]])
def test_a_recording_has_the_first_worlds_of_the_evaluation(policy, trained, tmp_path, capsys):
    for name, arguments in (("plain", []), ("taped", ["--record", tmp_path / "new" / "game.tbs"])):
        arguments = [*policy, *arguments, "--eval-episodes", 20, "--summary", tmp_path / name]
        assert run("cartpole", "--eval", trained / "checkpoint.pt", *arguments) == 0
    assert (tmp_path / "plain").read_text() == (tmp_path / "taped").read_text()
    file = tmp_path / "new" / "game.tbs"
    assert f"recording       {file}: 16 worlds, {file.stat().st_size:,} bytes" in capsys.readouterr().out
    recording = torch_batchsim.Recording(file)
    env, lengths = recording.seek(-1), torch.zeros(16)
    for _ in recording.play(1):
        lengths += ~env.ended_worlds()
    assert env.ended_worlds().all() and recording.moments == lengths.max() + 2  # the reset, and a step that ends
    summary = json.loads((tmp_path / "taped").read_text())
    few = ["--eval-episodes", 16, "--summary", tmp_path / "few"]
    assert run("cartpole", "--eval", trained / "checkpoint.pt", *policy, *few) == 0
    if not policy:  # drawn actions depend on the number of worlds
        assert json.loads((tmp_path / "few").read_text())["eval_length_mean"] == (lengths + 1).mean()
    assert summary["eval_episodes"] == 20


def test_a_recording_may_follow_a_training(tmp_path):
    files = ["--record", tmp_path / "game.tbs", "--video", tmp_path / "game.gif"]
    assert run("cartpole", *SMALL, "--run-dir", tmp_path / "run", *files) == 0
    recording, frames = torch_batchsim.Recording(tmp_path / "game.tbs"), Image.open(tmp_path / "game.gif").n_frames
    env = recording.seek(frames - 1)  # the video is of world 0
    assert env.ended_worlds()[0] and not recording.seek(frames - 2).ended_worlds()[0]
    assert "record" not in (tmp_path / "run" / "config.toml").read_text()


def test_a_video_may_follow_a_training(tmp_path):
    assert run("cartpole", *SMALL, "--run-dir", tmp_path / "run", "--video", tmp_path / "game.webp") == 0
    assert (tmp_path / "game.webp").stat().st_size > 1000


@pytest.mark.full
def test_videos_during_a_training_change_nothing_of_it(trained, tmp_path):
    given = ["--video", tmp_path / "films" / "game.gif", "--video-every", 3]
    assert run("cartpole", *SMALL, "--run-dir", tmp_path / "filmed", *given) == 0
    names = sorted(each.name for each in (tmp_path / "films").iterdir())
    assert names == ["game-000000384.gif", "game-000000768.gif", "game.gif"]
    ours, theirs = (
        checkpoint.load(folder / "checkpoint.pt", ENV) | {"train_seconds": 0}
        for folder in (tmp_path / "filmed", trained)
    )
    assert_same(ours, theirs)


def test_an_evaluation_may_be_an_mp4(trained, tmp_path, monkeypatch, capsys):
    pytest.importorskip("imageio_ffmpeg")
    given = ["cartpole", "--eval", trained, "--eval-episodes", 2, "--video", tmp_path / "game.mp4"]
    assert run(*given) == 0
    assert (tmp_path / "game.mp4").read_bytes()[4:8] == b"ftyp"
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert run(*given) == 2
    assert "pip install 'torch_batchsim[video]' brings it" in capsys.readouterr().err


def test_a_video_that_cannot_be_written_costs_nothing_else(trained, tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(evaluating.Recorder, "write", fail)
    arguments = ["--eval-episodes", 10, "--summary", tmp_path / "s.json", "--video", tmp_path / "game.gif"]
    assert run("cartpole", "--eval", trained / "checkpoint.pt", *arguments) == 1
    assert "error: video failed: " in capsys.readouterr().err
    assert json.loads((tmp_path / "s.json").read_text())["eval_return_mean"] > 0


def test_pictures_are_tried_before_the_training(tmp_path, monkeypatch, capsys):
    draw = torch_batchsim.TorchVectorEnv.render_world
    monkeypatch.setattr(torch_batchsim.TorchVectorEnv, "render_world", lambda env, world: draw(env, world) / 255)
    monkeypatch.chdir(tmp_path)
    assert run("cartpole", *SMALL, "--video", "game.gif") == 2
    assert "render() must return uint8 [height, width, 3]" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_a_video_needs_pictures(duel, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(duel, *SMALL, "--video", "game.gif") == 2
    message = "--video needs an environment that defines render(), and train_tests/Duel-v0 does not"
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
    assert run(duel, *SMALL, "--run-dir", "run") == 0
    assert run(duel, "--eval", "run/checkpoint.pt", "--video", "game.gif") == 2
    assert message in capsys.readouterr().err


def test_a_run_goes_to_a_folder_of_its_own_by_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("CartPole", *SMALL, "--seed", 3, "--eval-episodes", 0) == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("cartpole-seed3-")


def test_evaluating_a_checkpoint_repeats_the_evaluation_after_the_training(trained, tmp_path, capsys):
    assert run("cartpole", "--eval", trained / "checkpoint.pt", "--eval-episodes", 10) == 0
    assert "mean return" in capsys.readouterr().out
    assert json.loads((trained / "eval.json").read_text()) == json.loads((tmp_path / "summary.json").read_text())


def test_an_evaluation_may_start_elsewhere_and_draw_actions(trained, tmp_path):
    path = tmp_path / "eval.json"
    arguments = ("--eval-episodes", 10, "--seed", 9, "--eval-stochastic", "--summary", path)
    assert run("cartpole", "--eval", trained / "checkpoint.pt", *arguments) == 0
    assert json.loads(path.read_text())["eval_deterministic"] is False
    assert not (trained / "eval.json").exists()


def test_a_stopped_training_resumes_to_the_bit(trained, tmp_path, monkeypatch, capsys):
    calls = iter(range(100))

    @contextmanager
    def stop_after_three_iterations(_):
        yield lambda: next(calls) >= 3

    with monkeypatch.context() as patched:
        patched.setattr(learning, "stop_on_signal", stop_after_three_iterations)
        assert run("cartpole", *SMALL, "--run-dir", tmp_path / "stopped") == 130
    stopped = tmp_path / "stopped" / "checkpoint.pt"
    assert f"--resume {stopped}" in capsys.readouterr().out
    assert checkpoint.load(stopped, ENV)["steps"] == 3 * 128
    assert run("cartpole", "--resume", stopped, "--eval-episodes", 10) == 0
    a, b = checkpoint.load(trained / "checkpoint.pt", ENV), checkpoint.load(stopped, ENV)
    assert a["curve"] == b["curve"]
    for part in (lambda contents: contents["groups"][0]["agent"], lambda contents: contents["env"]["tensors"]):
        ours, theirs = part(a["trainer"]), part(b["trainer"])
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_signal_stops_after_an_iteration_and_handlers_come_back():
    before = signal.getsignal(signal.SIGINT)
    with learning.stop_on_signal() as stopped:
        assert not stopped()
        os.kill(os.getpid(), signal.SIGINT)
        assert stopped()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def duel():
    """An environment with two agents in each world, and a fault where one is too strong."""
    torch_batchsim.register("train_tests/Duel-v0", "environments.duel:Duel")
    yield "train_tests/Duel-v0"
    del gymnasium.registry["train_tests/Duel-v0"]


def test_a_fault_keeps_the_training_up_to_it(duel, tmp_path, monkeypatch, capsys):
    rollout = Trainer.rollout

    def with_a_fault(self):
        if self.iteration == 3:
            self.env.sim.Fighter.Place.strength[2, 1] = 140.5
        rollout(self)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "rollout", with_a_fault)
        assert run(duel, *SMALL, "--run-dir", tmp_path) == 1
    captured = capsys.readouterr()
    reported = "world 2: system 'move' failed at row 1: too_strong \\(value 140\\), in step 7 of its episode\n"
    assert re.fullmatch(rf"error: training failed after 384 steps: [\w.]+:\d+: {reported}", captured.err)
    assert f"--resume {tmp_path / 'checkpoint.pt'}" in captured.out
    assert (tmp_path / "learning_curve.png").exists()
    contents = checkpoint.load(tmp_path / "checkpoint.pt", duel)
    assert contents["steps"] == contents["curve"][-1][0] == 384
    assert not contents["trainer"]["running"].any()
    assert run(duel, "--resume", tmp_path / "checkpoint.pt", "--eval-episodes", 10) == 0


@pytest.mark.parametrize(("kind", "status"), [(StepTimeout, 1), (SystemCrash, 1), (StepInterrupted, 130)])
def test_a_step_that_is_stopped_keeps_the_training_up_to_it(tmp_path, monkeypatch, capsys, kind, status):
    rollout = Trainer.rollout

    def stopped(self):
        if self.iteration == 3:
            raise kind("the step was stopped in system 'spin' (spin.h:4), world 7, step 2")
        rollout(self)

    monkeypatch.setattr(Trainer, "rollout", stopped)
    assert run("cartpole", *SMALL, "--watchdog", "60", "--run-dir", tmp_path) == status
    captured = capsys.readouterr()
    assert "error: training failed after 384 steps: the step was stopped in system 'spin' (spin.h:4)" in captured.err
    assert checkpoint.load(tmp_path / "checkpoint.pt", "torch_batchsim/CartPole-v0")["steps"] == 384


def test_a_fault_before_the_training_is_no_mistake_of_the_command(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise WorldFault([Fault(2, "enter", 1, "too_strong", 140)], torch.ones(1, dtype=torch.bool))

    monkeypatch.setattr(training, "Trainer", fail)
    assert run("cartpole", *SMALL, "--run-dir", tmp_path) == 1
    assert capsys.readouterr().err.startswith("error: world 2: system 'enter' failed at row 1")


def test_a_fault_that_shows_only_at_the_end_is_reported(tmp_path, monkeypatch, capsys):
    def check_faults(env):
        raise WorldFault([Fault(2, "move", 1, "too_strong", 140)], torch.ones(1, dtype=torch.bool))

    monkeypatch.setattr(learning, "check_faults", check_faults)
    assert run("cartpole", *SMALL, "--run-dir", tmp_path) == 1
    captured = capsys.readouterr()
    assert "error: training failed after 1,024 steps: world 2: system 'move'" in captured.err
    assert "--resume" not in captured.out


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (None, "10 of 10 episodes did not end within 3 steps"),
        (WorldFault([Fault(2, "move", 1, "too_strong", 140)], torch.ones(1, dtype=torch.bool)), "world 2: system"),
    ],
)
def test_a_failed_evaluation_keeps_the_training(failure, message, tmp_path, monkeypatch, capsys):
    def fail(env):
        raise failure

    monkeypatch.setattr(evaluation, "MAX_EPISODE_STEPS", 3)
    if failure:
        monkeypatch.setattr(evaluation, "check_faults", fail)
    assert run("cartpole", *SMALL, "--run-dir", tmp_path, "--summary", tmp_path / "summary.json") == 1
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: evaluation failed: {message}")
    assert str(tmp_path / "learning_curve.png") in captured.out
    assert (tmp_path / "checkpoint.pt").exists()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["eval_return_mean"] is None
    assert summary["eval_error"].startswith(message)
    assert run("cartpole", "--eval", tmp_path / "checkpoint.pt", "--eval-episodes", 10) == 1
    assert json.loads((tmp_path / "eval.json").read_text())["eval_error"].startswith(message)


def test_an_evaluation_of_what_is_no_number_fails(trained, monkeypatch, capsys):
    def evaluate(*arguments):
        returns = torch.ones(10)
        returns[3] = torch.nan
        return evaluation.Evaluation(returns, torch.ones(10))

    monkeypatch.setattr(evaluating, "evaluate", evaluate)
    assert run("cartpole", "--eval", trained / "checkpoint.pt", "--eval-episodes", 10) == 1
    assert "evaluation failed: returns are not finite in 1 of 10 episodes" in capsys.readouterr().err
    assert json.loads((trained / "eval.json").read_text())["eval_return_mean"] is None


def test_curve_and_checkpoint_are_there_before_the_evaluation(tmp_path, monkeypatch):
    def evaluate(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluating, "evaluate", evaluate)
    assert run("cartpole", *SMALL, "--run-dir", tmp_path) == 130
    assert (tmp_path / "learning_curve.png").exists()
    assert (tmp_path / "checkpoint.pt").exists()


def test_the_evaluation_reports_the_return_of_each_agent(duel, tmp_path, capsys):
    assert run(duel, *SMALL, "--run-dir", tmp_path, "--summary", tmp_path / "summary.json") == 0
    assert "by agent  " in capsys.readouterr().out
    summary = json.loads((tmp_path / "summary.json").read_text())
    first, second = summary["eval_return_mean_by_agent"]
    assert (first + second) / 2 == pytest.approx(summary["eval_return_mean"])


def test_the_largest_seed_trains_and_evaluates(tmp_path):
    assert run("cartpole", *SMALL, "--seed", 2**63 - 1, "--run-dir", tmp_path) == 0


def test_checkpoints_are_written_on_the_way(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(checkpoint, "save", lambda path, contents, before: written.append(contents["steps"]))
    assert run("cartpole", *SMALL, "--checkpoint-every", 3, "--run-dir", tmp_path, "--eval-episodes", 0) == 0
    assert written == [3 * 128, 6 * 128, 8 * 128]


def test_env_options_reach_the_environment_and_the_checkpoint(tmp_path):
    options = ("--env-option", "max_episode_steps=7", "--env-option", "sutton_barto_reward=true")
    assert run("cartpole", *SMALL, *options, "--run-dir", tmp_path, "--summary", tmp_path / "s.json") == 0
    summary = json.loads((tmp_path / "s.json").read_text())
    assert summary["env_options"] == {"max_episode_steps": 7, "sutton_barto_reward": True}
    assert summary["eval_length_mean"] == 7
    assert run("cartpole", "--eval", tmp_path / "checkpoint.pt", "--eval-episodes", 10) == 0
    assert json.loads((tmp_path / "eval.json").read_text())["eval_length_mean"] == 7


@pytest.mark.full
def test_an_option_of_the_environment_may_go_by_its_own_name(tmp_path, capsys):
    options = ("--layout", "coordination_ring", "--horizon=20", "--random-start", "--shaping-factor", "0.5")
    assert run("overcooked", *SMALL, *options, "--run-dir", tmp_path) == 0
    contents = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert contents["env_options"] == {
        "layout": "coordination_ring", "horizon": 20, "random_start": True, "shaping_factor": 0.5
    }  # fmt: skip
    assert run("overcooked", "--eval", tmp_path / "checkpoint.pt", "--layout", "cramped_room") == 2
    assert "layout coordination_ring, and 'cramped_room' was given" in capsys.readouterr().err


def test_an_environment_of_ones_own_is_found_through_its_module(tmp_path, monkeypatch):
    (tmp_path / "my_project.py").write_text(
        "import torch_batchsim\n"
        "torch_batchsim.register('my_project/Pole-v0', 'torch_batchsim.envs.cartpole.env:CartPole')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert run("my_project:my_project/Pole-v0", *SMALL, "--run-dir", tmp_path / "run") == 0
    assert run("my_project/Pole-v0", "--eval", tmp_path / "run" / "checkpoint.pt", "--eval-episodes", 10) == 0


def test_help_lists_environments_and_tuned_defaults(capsys):
    assert run("--help") == 0
    assert "cartpole" in capsys.readouterr().out
    assert run("cartpole", "--help") == 0
    assert "--num-envs" in capsys.readouterr().out
    assert run("overcooked", "--help") == 0
    printed = capsys.readouterr().out
    assert "--obs-dtype {uint8,float32}" in printed and "--horizon INT >= 1" in printed and "default 400" in printed
    assert run("swarm", "--help") == 0
    printed = capsys.readouterr().out
    assert re.search(r"--ship-speed FLOAT > 0 <= 0.5 +default 0.03 +half widths per step", printed)
    assert "grid.rows=INT 1..4096" in printed and "--max-episode-steps INT >= 1" in printed


def test_few_rows_take_one_thread():
    config = PPOConfig()
    for rows, device, threads in ((1024, "cpu", 1), (2048, "cpu", None), (128, "cuda", None)):
        config = dataclasses.replace(config, num_envs=rows)
        assert options.default_threads(options.Options(config=config, device=device)) == threads
    assert options.default_threads(options.tuned("torch_batchsim/Swarm-v0")) == 1


def test_files_may_lie_in_folders_that_are_not_there_yet(tmp_path):
    assert run("cartpole", *SMALL, "--run-dir", tmp_path / "a", "--summary", tmp_path / "a" / "b" / "s.json") == 0
    assert (tmp_path / "a" / "b" / "s.json").is_file() and (tmp_path / "a" / "checkpoint.pt").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("pole", "there is no environment 'pole' (did you mean 'cartpole'?); known are: ant, atari, cartpole"),
        ("--seed 1", "the environment comes first"),
        ("cartpole --num-minibatches 7", "num_minibatches is 7, but must divide the rollout"),
        ("cartpole --gamma 2", "gamma is 2.0, but must be between 0 and 1"),
        ("cartpole --num-envs many", "many"),
        ("cartpole --threads 0", "threads is 0, but must be at least 1"),
        ("cartpole --watchdog 0", "watchdog must be a positive number of seconds, got 0"),
        ("cartpole --no-such-option", "--no-such-option"),
        ("cartpole --env-option force", "--env-option takes key=value, but 'force' was given"),
        ("cartpole --env-option a=1 --env-option a=2", "the option a of the environment was given twice"),
        ("cartpole --env-option wheels=4", "wheels"),
        ("cartpole --env-option num_envs=5", "num_envs is not an option of the environment; use --num-envs"),
        ("cartpole --env-option num_worlds=5", "num_worlds is not an option of the environment; use --num-envs"),
        ("cartpole --env-option device=cuda", "device is not an option of the environment; use --device"),
        ("cartpole --env-option num_threads=2", "num_threads is not an option of the environment; use --threads"),
        ("cartpole --env-option executor=batch", "executor is not an option of the environment; use --executor"),
        ("cartpole --executor batch --tune", "--tune chooses the executor"),
        ("cartpole --executor graph", "executor must be one of 'batch', 'per_world', 'python' on cpu, got 'graph'"),
        ("cartpole --env-option id=pole", "id is not an option of the environment; use the first argument"),
        *(
            (f"cartpole --env-option {name}=x", f"{name} is not an option of the environment, and cannot be chosen")
            for name in sorted(set(RESERVED_OPTIONS) - set(options.SAID_OTHERWISE))
        ),
        (f"cartpole --seed {2**63}", "seed is 9223372036854775808, but must be from 0 to 2**63 - 1"),
        (f"cartpole --seed {2**80}", "seed is 1208925819614629174706176, but must be from 0 to 2**63 - 1"),
        ("cartpole --device toaster", "toaster"),
        ("overcooked --layout cramped_rom", "(did you mean 'cramped_room'"),
        ("overcooked --layuot cramped_room", "--layuot"),
        ("overcooked --layout cramped_room --env-option layout=ring", "the option layout of the environment was given"),
        ("overcooked --layout nowhere.layout", "nowhere.layout"),
        ("overcooked --layout 3", "a layout must be a name"),
        ("overcooked --horizon 0", "option horizon must be at least 1, got 0"),
        ("overcooked --anneal Shaping.it", "anneal names 'Shaping.it', which is not a tensor"),
        ("cartpole --eval x.pt --resume x.pt", "exclude each other"),
        ("cartpole --eval nothing.pt", "checkpoint nothing.pt cannot be read"),
        ("cartpole --resume nothing.pt", "checkpoint nothing.pt cannot be read"),
        ("cartpole --summary /dev/null/s.json", "/dev/null/s.json cannot be written: /dev/null is not a folder"),
        ("cartpole --num-envs 1000000000", "1000000000 worlds need"),
        ("cartpole --force 3", "there is no option --force (did you mean --force-mag?)"),
        ("cartpole --anneal-lr false", "takes no value, but false was given: write --anneal-lr or --no-anneal-lr"),
        ("cartpole --norm-obs=True", "--norm-obs takes no value, but True was given"),
        ("cartpole --config", "missing value for argument '--config'"),
        ("cartpole --config --threads 1", "missing value for argument '--config'"),
        ("cartpole --summary .", ". cannot be written: it is a folder"),
        ("cartpole --eval x.pt --eval-episodes 0", "--eval-episodes is 0, but --eval needs at least 1"),
        ("cartpole --video game.gif --eval-episodes 0", "--eval-episodes is 0, but --video shows an episode of"),
        ("cartpole --record game.tbs --eval-episodes 0", "--eval-episodes is 0, but --record is of the evaluation"),
        ("cartpole --record /dev/null/game.tbs", "/dev/null/game.tbs cannot be written: /dev/null is not a folder"),
        ("cartpole --seeds 2 --record game.tbs", "--seeds and --record exclude each other"),
        ("cartpole --video game.avi", "--video writes .gif, .webp, .png, .mp4, but game.avi was given"),
        ("cartpole --video-every 3", "--video-every 3 needs --video, which names the files"),
        ("cartpole --video-every 3 --video a.gif --eval x", "--video-every and --eval exclude each other"),
        ("cartpole --memory-size 64", "--memory-size changes nothing without --memory"),
        ("cartpole --past-every=3", "--past-every changes nothing without --past-share"),
        ("cartpole --anneal-from 0.3", "--anneal-from changes nothing without --anneal"),
        ("cartpole --algorithm a2c --clip-coef 0.1", "--clip-coef is a setting of ppo, not of a2c"),
        ("cartpole --algorithm dqn", "--algorithm is one of ppo, a2c, got 'dqn'"),
        ("cartpole --video game", "--video writes .gif, .webp, .png, .mp4, but game was given"),
        ("cartpole --video /dev/null/game.gif", "/dev/null/game.gif cannot be written: /dev/null is not a folder"),
        ("nobody/Nothing-v0", "nobody"),
        ("nobody:nobody/Nothing-v0", "module 'nobody' of 'nobody:nobody/Nothing-v0' cannot be imported"),
    ],
)
def test_mistakes_are_one_sentence(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(*arguments.split()) == 2
    captured = capsys.readouterr()
    assert message in " ".join((captured.out + captured.err).replace("│", " ").split())
    assert not any(tmp_path.iterdir())


def test_a_new_training_does_not_overwrite_an_old_one(trained, capsys):
    assert run("cartpole", *SMALL, "--run-dir", trained) == 2
    assert "has the checkpoint of another run" in capsys.readouterr().err


def test_a_checkpoint_keeps_its_settings(trained, capsys):
    path = trained / "checkpoint.pt"
    for arguments, message in (
        (("--resume", path, "--gamma", 0.5), "was made with gamma 0.98 and keeps it, but 0.5 was given"),
        (("--eval", path, "--run-dir", "x"), "--run-dir changes nothing with --eval, which trains nothing"),
        (("--eval", path, "--gamma", 0.5), "was made with gamma 0.98 and keeps it, but 0.5 was given"),
        (("--resume", path, "--seed", 2), "was made with seed 1 and keeps it, but 2 was given"),
        (("--resume", path, "--length", "1"), "length as it is by default, and 1 was given"),
        (("--resume", path, "--env-option", "x=1"), "has no option 'x'; it has: continuous, gravity,"),
        (("--resume", path), "is the end of a training of 1,024 steps; raise --total-steps"),
    ):
        assert run("cartpole", *arguments) == 2
        assert message in capsys.readouterr().err


def test_networks_of_other_settings_and_damaged_checkpoints_are_refused(trained, tmp_path, capsys):
    path, damaged = trained / "checkpoint.pt", tmp_path / "damaged.pt"
    damaged.write_bytes(path.read_bytes()[:2000])
    for arguments, message in (
        (("--load", path, "--hidden-sizes", 5), "of these settings: they were made with hidden_sizes ("),
        (("--load", path, "--memory", "gru"), "they were made with memory none, not gru"),
        (("--resume", damaged), "damaged.pt is not a checkpoint of torch_batchsim.train, or is damaged"),
        (("--resume", path, "--gamma", 0.5, "--seed", 2), "seed 1 and keeps it, but 2 was given; with gamma 0.98 and"),
        (("--resume", path, "--algorithm", "a2c"), "was made with algorithm ppo and keeps it, got a2c"),
        (("--track", "none", "tensorboard"), "--track none excludes others"),
    ):
        assert run("cartpole", "--run-dir", tmp_path / "run", *arguments) == 2
        assert message in capsys.readouterr().err


def test_an_option_that_makes_another_task_has_settings_of_its_own(capsys):
    full = options.tuned("torch_batchsim/Hanabi-v0")
    small = options.tuned("torch_batchsim/Hanabi-v0", ["players=3", "preset=Hanabi-Very-Small"])
    assert (small.config.total_steps, full.config.total_steps) == (3_000_000, 64_000_000)
    assert options.tuned("torch_batchsim/Hanabi-v0", ["preset=Hanabi-Small"]) == full
    assert run("hanabi", "--preset", "Hanabi-Very-Small", "--help") == 0
    shown = re.sub(r"[\s│]+", " ", capsys.readouterr().out)  # of lines in a frame
    assert f"(default: {small.config.total_steps})" in shown


@pytest.mark.parametrize("env_id", torch_batchsim.environment_ids().values())
def test_every_environment_says_how_it_is_learned(env_id):
    training = torch_batchsim.training_settings(env_id)
    assert "" in training
    for option, settings in training.items():
        name, _, value = option.partition("=")
        assert name in ("", "algorithm", *torch_batchsim.option_names(env_id))
        found = options.tuned(env_id, algorithm=value) if name == "algorithm" else options.tuned(env_id, [option])
        for name, value in settings.items():
            wanted = min(value, torch.get_num_threads()) if name == "threads" else value
            assert getattr(found.config if hasattr(found.config, name) else found, name) == wanted


def test_an_algorithm_has_settings_of_its_own_unless_an_option_has(monkeypatch, capsys):
    known = {"": {"gamma": 0.5, "threads": 1}, "algorithm=a2c": {"gamma": 0.6, "eval_stochastic": True}}
    monkeypatch.setattr(CartPole, "training", known | {"length=2.0": {"gamma": 0.7}})
    assert [options.tuned(ENV, algorithm=name).config.gamma for name in (None, "ppo", "a2c")] == [0.5, 0.5, 0.6]
    assert options.tuned(ENV, algorithm="a2c").eval_stochastic and not options.tuned(ENV).eval_stochastic
    assert options.tuned(ENV, ["length=2.0"], "a2c").config.gamma == 0.7
    assert run("cartpole", "--algorithm", "a2c", "--help") == 0
    assert "(default: 0.6)" in re.sub(r"[\s│]+", " ", capsys.readouterr().out)


def test_no_more_threads_are_taken_than_torch_would(monkeypatch):
    for cores, taken in ((1, 1), (2, 2), (8, 2)):
        monkeypatch.setattr(torch, "get_num_threads", lambda cores=cores: cores)
        assert options.tuned("torch_batchsim/Hanabi-v0").threads == taken


def test_settings_that_there_are_not_are_refused(monkeypatch, capsys):
    near = "unknown setting 'learning_rat' (did you mean 'learning_rate'?)"
    for settings, message in (({"learning_rat": 1.0}, near), ({"gamma": 2.0}, "gamma is 2.0")):
        monkeypatch.setattr(CartPole, "training", {"": settings})
        assert run("cartpole", "--help") == 2
        assert f"{ENV} declares settings of its training that cannot be used: " in (said := capsys.readouterr().err)
        assert message in said


@pytest.mark.full
def test_the_default_number_of_rows_makes_whole_worlds(duel):
    whole = environments.with_whole_worlds(duel, options.Options(), {"fighters": 3})
    assert whole.config.num_envs == 1023
    room = "XPXXXXX\nO*****X\nXDXSXXX"
    kitchen = options.tuned("torch_batchsim/Overcooked-v0")
    for agents, rows in ((1, 128), (3, 126), (5, 120)):  # of 100 steps each, in 8 minibatches
        own = {"layout": room, "agents": agents}
        found = environments.with_whole_worlds("torch_batchsim/Overcooked-v0", kitchen, own)
        assert found.config.num_envs == rows
    asked = options.Options(PPOConfig(num_envs=64))
    assert environments.with_whole_worlds(duel, asked, {"fighters": 3}) is asked  # and refused later

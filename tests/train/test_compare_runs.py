"""Learning curves of several runs in one picture."""

import re

import numpy as np
import pytest
from torch_batchsim.train.commands import cli
from torch_batchsim.train.compare import main
from torch_batchsim.train.run_folder.curves import Run, bands

from torch_batchsim.command_line import UsageError

SMALL = "--num-envs 8 --num-steps 32 --num-minibatches 2 --total-steps 2048 --eval-episodes 0 --track none".split()


def run(folder, values, steps=(10, 20, 30, 40), **settings):
    columns = {"step": np.array(steps, float), "charts/episodic_return": np.array(values, float)}
    return Run(folder, {"env": "e", "gamma": 0.9, **settings}, columns)


def test_runs_of_the_same_settings_are_a_mean_and_a_band(tmp_path):
    nan = np.nan
    runs = [
        run(tmp_path / "a", [nan, 1, 2, 3]),
        run(tmp_path / "b", [2, 3, 4, 5]),
        run(tmp_path / "c", [0, 0, 0, 0], gamma=0.5, norm_obs=True),
        run(tmp_path / "d", [10, 20], steps=(15, 35)),
    ]
    same, other = bands(runs, "charts/episodic_return")
    assert (same.runs, same.label, same.steps.tolist()) == (3, "gamma=0.9", [20, 30])
    assert same.mean.tolist() == pytest.approx([(1 + 3 + 12.5) / 3, (2 + 4 + 17.5) / 3])
    assert same.low.tolist() == [1, 2] and same.high.tolist() == [12.5, 17.5]
    assert (other.runs, other.label) == (1, "gamma=0.5, norm_obs=True")
    (alone,) = bands(runs[2:3], "charts/episodic_return")
    assert alone.label == "c"


def test_the_command_draws_runs(tmp_path, capsys):
    for name, options in (("a", "--seed 1"), ("b", "--seed 2 --checkpoint-every 9"), ("c", "--gamma 0.5")):
        assert cli.main(["cartpole", *SMALL, "--run-dir", str(tmp_path / name), *options.split()]) == 0
    capsys.readouterr()
    runs, picture = [str(tmp_path / name) for name in "abc"], tmp_path / "curves.png"
    main([*runs, "--output", str(picture)])
    first, second, last = capsys.readouterr().out.splitlines()
    assert "of 2 runs) after 2,048 steps  gamma=0.98" in first and "after 2,048 steps  gamma=0.5" in second
    assert last == f"curves  {picture}" and picture.read_bytes()[1:4] == b"PNG"
    main([*runs, "--measure", "losses/entropy", "--output", str(tmp_path / "pictures" / "curves.png")])
    assert (tmp_path / "pictures" / "curves.png").exists()
    capsys.readouterr()
    for arguments, says in (
        ([*runs, "--measure", "charts/score"], "not all runs have charts/score; they share charts/"),
        ([str(tmp_path)], "is not the folder of a run: settings"),
        ([*runs, "--output", str(picture / "curves.png")], "curves.png cannot be written: File exists"),
        ([*runs, str(tmp_path / "b" / ".." / "a")], "b/../a would count twice: give each run once"),
        ([*runs, "--output", str(tmp_path / "curves.xyz")], "cannot be written"),
    ):
        with pytest.raises(UsageError, match=re.escape(says)) as raised:
            main(arguments)
        assert raised.value.code == 2


def test_a_run_without_a_finished_episode_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a has no charts/episodic_return: no world, or not every one"):
        bands([run(tmp_path / "a", [np.nan] * 4)], "charts/episodic_return")

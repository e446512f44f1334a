"""``examples/train_ray.py``: seeds as tasks of Ray, which begin again where a worker is lost."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from libraries_of_others import library

(ray,) = library(__file__, "ray")

ROOT = Path(__file__).parents[2]
SMALL = "--num-envs 8 --num-steps 16 --num-minibatches 2 --eval-episodes 4 --track none --checkpoint-every 4".split()


@pytest.fixture(scope="module")
def train_ray() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "examples"))
    paths = os.pathsep.join([str(ROOT / "examples"), *(path or "." for path in sys.path)])
    ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": paths}})
    import train_ray

    yield train_ray
    ray.shutdown()
    sys.path.remove(str(ROOT / "examples"))


def runs(folder: Path) -> list[int]:
    """The steps from which a training began, each time."""
    return [run["from_step"] for run in json.loads((folder / "run.json").read_text())["runs"]]


def test_a_training_goes_on_when_its_worker_is_killed_and_a_signal_stops_it(
    train_ray: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def disturb() -> None:
        for number, of_worker in ((signal.SIGKILL, True), (signal.SIGTERM, False)):
            begun = len(runs(folder)) if folder.exists() else 0
            while not (folder / "checkpoint.pt").exists() or len(runs(folder)) <= begun:
                time.sleep(0.05)
            process = int((folder / ".lock").read_text().split()[1])
            status = Path(f"/proc/{process}/status").read_text()
            os.kill(int(status.split("PPid:")[1].split()[0]) if of_worker else process, number)

    folder = tmp_path / "seed1"
    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    arguments = ["cartpole", "--seeds", "2", "--folder", tmp_path, *SMALL, "--total-steps", 200_000]
    assert train_ray.main([str(argument) for argument in arguments]) == 0
    disturbing.join()
    assert len(runs(folder)) == 3 and runs(folder) == sorted(runs(folder)) and runs(folder)[1] > 0
    summaries = json.loads((tmp_path / "summaries.json").read_text())
    assert sorted(each["seed"] for each in summaries) == [1, 2] and summaries[0]["steps"] == 199_936
    assert "2 seeds: least " in capsys.readouterr().out


def test_a_mistake_is_reported_and_not_tried_again(
    train_ray: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_ray.main(["cartpole", "--seeds", "1", "--folder", str(tmp_path), "--gama", "0.9"]) == 1
    assert "seed 1 failed" in (said := capsys.readouterr().err) and "there is no option --gama" in said

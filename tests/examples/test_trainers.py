"""``examples/experiments/trainers.py``: our trainer beside other PPOs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trainers
from torch_batchsim.train import PPOConfig
from trainers import TRAINERS

from torch_batchsim.command_line import UsageError

SMALL = PPOConfig(num_envs=8, num_steps=4, num_minibatches=2, update_epochs=1, hidden_sizes=(8, 8))
NEEDED = {"jax": "gymnax", "sb3": "stable_baselines3"}


@pytest.mark.parametrize("name", TRAINERS)
def test_each_iterates_again_and_again(name: str) -> None:
    pytest.importorskip(NEEDED.get(name, "torch"))
    iterate = TRAINERS[name](SMALL, 1)
    for _ in range(2):
        iterate()


def test_the_table_has_medians_of_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = {"ours": iter([30.0, 10.0, 20.0]), "torch": iter([4.0, 5.0, 3.0])}
    turns = []

    def measured(name: str, config: PPOConfig, seconds: float, cores: list[int]) -> tuple[float, str]:
        assert (config.num_envs, config.hidden_sizes, seconds, len(cores)) == (8, (64, 64), 0.5, 1)
        turns.append(name)
        return (next(rates[name]), "") if name in rates else (0.0, "No module named 'gymnax'")

    monkeypatch.setattr(trainers, "_measured", measured)
    path = tmp_path / "rates.json"
    options = "--num-envs 8 --seconds 0.5 --trainers ours torch jax --json"
    trainers.main([*options.split(), str(path)])
    assert turns == ["ours", "torch", "jax", "ours", "torch", "ours", "torch"]
    rows = {row["trainer"]: row for row in json.loads(path.read_text())["rows"]}
    assert rows["ours"]["steps_per_second"] == 20 and rows["torch"]["ours_is_faster_by"] == "5.00"
    assert "jax: left out (No module named 'gymnax')" in capsys.readouterr().out


@pytest.mark.full
def test_a_trainer_is_measured_in_a_process_of_its_own() -> None:
    rate, why = trainers._measured("ours", SMALL, 0.01, [0])
    assert rate > 0 and not why


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("--trainers ours theirs", "--trainers takes ours, ours_bfloat16, torch, jax, sb3, got theirs"),
        ("--num-envs 0", "all numbers must be positive"),
        ("--num-envs 3 --num-steps 3 --num-minibatches 2", "--num-minibatches must divide --num-envs times"),
        ("--threads 4096", "--threads is 4096, but this process may use"),
    ],
)
def test_bad_options(given: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError) as ended:
        trainers.main(given.split())
    assert ended.value.code == 2 and says in capsys.readouterr().err

"""One world through ``gymnasium.make``."""

from __future__ import annotations

from torch_batchsim.bench import adapters


def test_the_benchmark_measures_it(tmp_path, capsys) -> None:
    adapters.main(["Gymnasium", "--seconds", "0.01", "--runs", "1", "--json", str(tmp_path / "figures.json")])
    assert "Gymnasium" in capsys.readouterr().out

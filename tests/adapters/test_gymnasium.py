"""One world through ``gymnasium.make``."""

from __future__ import annotations

from libraries_of_others import run_script

from torch_batchsim.bench import adapters


def test_the_script_on_the_page_plays_an_episode() -> None:
    names = run_script("Gymnasium, one environment")
    assert names["truncated"] and names["info"]["shaped_return"].shape == ()


def test_the_benchmark_measures_it(tmp_path, capsys) -> None:
    short = ["--num-envs", "8", "--seconds", "0.01", "--runs", "1", "--json", str(tmp_path / "figures.json")]
    adapters.main(["Gymnasium", "by_agent", *short])
    out = capsys.readouterr().out
    assert "Gymnasium" in out and "by_agent" in out

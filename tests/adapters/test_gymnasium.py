"""One world through ``gymnasium.make``."""

from __future__ import annotations

from libraries_of_others import run_script


def test_the_script_on_the_page_plays_an_episode() -> None:
    names = run_script("Gymnasium, one environment")
    assert names["truncated"] and names["info"]["shaped_return"].shape == ()

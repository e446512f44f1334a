"""Which combinations of parameters the fast run takes, which the full one, and that none is left out for ever."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import of_today


class Item:
    """As much of a test with parameters as the hook looks at."""

    def __init__(self, full: bool, **params: object) -> None:
        self.nodeid, self.callspec = f"test_it.py::test_it[{params}]", SimpleNamespace(params=params)
        self.marks = {"crossed", *(["full"] if full else [])}

    def get_closest_marker(self, name: str) -> bool | None:
        return True if name in self.marks else None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.add(mark.name)


def sampled(request: pytest.FixtureRequest, full: bool) -> tuple[list[Item], list[Item]]:
    """All twenty combinations of five and four values, and what a run has of them."""
    made = [Item(full, name=name, mode=mode) for name, mode in product("abcde", range(4))]
    config: Any = SimpleNamespace(args=[], hook=SimpleNamespace(pytest_deselected=lambda items: None))
    kept = list(made)
    conftest = request.config.pluginmanager.get_plugin(str(Path(__file__).with_name("conftest.py")))
    conftest._sample_crossed(config, kept)
    return made, kept


def values(items: list[Item]) -> set[object]:
    return {value for item in items for value in item.callspec.params.values()}


def test_the_fast_run_has_each_value_and_leaves_the_rest_to_the_full_one(request: pytest.FixtureRequest) -> None:
    made, kept = sampled(request, full=False)
    fast = [item for item in made if "full" not in item.marks]
    assert kept == made and 5 <= len(fast) <= 8 and values(fast) == values(made)
    again, _ = sampled(request, full=False)
    assert [item.marks for item in again] == [item.marks for item in made]


def test_the_full_run_has_each_value_and_all_combinations_on_some_day(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for day in range(40):
        monkeypatch.setenv("TBS_TESTS_SEED", str(day))
        made, kept = sampled(request, full=True)
        assert len(kept) <= 8 and values(kept) == values(made)
        seen |= {item.nodeid for item in kept}
    assert len(seen) == 20
    monkeypatch.setenv("TBS_TESTS_SEED", "all")
    assert len(sampled(request, full=True)[1]) == 20


def test_parameters_of_today_are_all_in_as_many_days_as_that_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    for first in (0, 739_000):
        seen = []
        for day in range(first, first + 4):
            monkeypatch.setenv("TBS_TESTS_SEED", str(day))
            seen.append([parameter.values[0] for parameter in of_today(range(10), 3)])
            assert all(parameter.marks[0].name == "full" for parameter in of_today(range(10), 3))
        assert all(len(set(few)) == 3 for few in seen) and {value for few in seen for value in few} == {*range(10)}
    monkeypatch.setenv("TBS_TESTS_SEED", "all")
    assert [parameter.values[0] for parameter in of_today("abc", 2)] == ["a", "b", "c"]

"""Records of adapters agree with what stands beside them: extras, pages, and the error for a missing library."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from torch_batchsim.adapters.records import ADAPTERS, Adapter
from torch_batchsim.errors import MissingExtra

ROOT = Path(__file__).parents[2]
of_all = pytest.mark.parametrize("record", ADAPTERS.values(), ids=str)


def test_each_module_with_a_player_has_a_record() -> None:
    folder = ROOT / "torch_batchsim" / "adapters"
    assert {path.stem for path in folder.glob("*.py") if "\ndef play(" in path.read_text()} == {*ADAPTERS}


@of_all
def test_the_extra_brings_the_library(record: Adapter) -> None:
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    brought = {re.match(r"[\w-]+(\[\w+\])?", entry)[0] for entry in extras.get(record.extra, ())}
    needed = {*record.imports.values()} - {"tensordict"}  # which libraries of torch bring
    assert needed <= brought
    assert {name for name in record.imports.values() if "[" not in name} - {"tensordict"} <= {*record.tested}


@of_all
def test_the_pages_have_it(record: Adapter) -> None:
    versions = (ROOT / "docs" / "ecosystem.md").read_text()
    entry = re.search(rf"^- \*\*{re.escape(record.library)}\*\* .*$", versions, re.MULTILINE)
    assert entry and next(iter(record.tested.values())) in entry[0]
    page = (ROOT / "docs" / "use_with.md").read_text()
    assert f"\n## {record.library}\n" in page
    assert f"`{record.extra}`" in page or f"[{record.extra}]" in page or not record.extra


@pytest.mark.parametrize("record", [record for record in ADAPTERS.values() if record.imports], ids=str)
def test_a_missing_library_is_named(record: Adapter, monkeypatch: pytest.MonkeyPatch) -> None:
    module, package = next(iter(record.imports.items()))
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"torch_batchsim.adapters.{record.module}", raising=False)
    with pytest.raises(MissingExtra, match=rf"needs {re.escape(package)}, .*torch_batchsim\[{record.extra}\]"):
        record.load()

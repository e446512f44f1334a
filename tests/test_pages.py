"""Pages are short, have short lines, and name files and modules that exist."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "notes").glob("*.md")]
PAGES = [*ROOT.glob("*.md"), *DOCS, *(ROOT / "examples").rglob("*.md")]
MOST_WORDS = 45_000  # of all in docs/, by `cat docs/*.md docs/notes/*.md | wc -w`
LONGEST_LINE = 120
ONE_LINE = "python3 -m venv "  # commands of the README that are to be copied as one line
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+\.(?:py|pyi|h|cpp|cu|cuh|md|toml|txt)|(?:[\w.-]+/)+")
FOLDERS = ("", "torch_batchsim", "tests/torch_batchsim", "csrc")  # to which pages give paths
WRITTEN = {"runs/", "seed1/", "league/", "later/", "runs/gpu_slot/", "site/"}  # by a training, .ci/gpu_slot, MkDocs

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def code(page: Path) -> list[str]:
    """What stands in backticks, outside of blocks."""
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [each.replace("\n", " ") for each in re.findall(r"`([^`]+)`", prose)]


def test_all_pages_have_at_most_so_many_words() -> None:
    assert sum(len(page.read_text().split()) for page in DOCS) <= MOST_WORDS


@by_page
def test_lines_are_short(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert [line for line in lines if len(line) > LONGEST_LINE and not line.startswith(ONE_LINE)] == []


@by_page
def test_paths_exist(page: Path) -> None:
    paths = {text for text in code(page) if PATH.fullmatch(text)} - WRITTEN
    assert [path for path in sorted(paths) if not any((ROOT / folder / path).exists() for folder in FOLDERS)] == []


@by_page
def test_modules_and_names_exist(page: Path) -> None:
    names = {name for text in code(page) for name in re.findall(r"\btorch_batchsim(?:\.\w+)+", text)}
    assert [name for name in sorted(names) if not exists(name)] == []


def exists(name: str) -> bool:
    """Whether a dotted name is that of a module, which need not be installable here, or of something in one."""
    parts = name.split(".")
    for place in (Path(*parts), Path(*parts[1:])):
        if (ROOT / f"{place}.py").is_file() or (ROOT / place / "__init__.py").is_file():
            return True
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@by_page
def test_links_lead_to_pages_and_headings(page: Path) -> None:
    wrong = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()):
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (heading and heading not in anchors(target)):
            wrong.append(link)
    assert wrong == []


def anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

"""The pages as a site: what is on it, and that it leads nowhere else. Building it needs the extra `docs`."""

from __future__ import annotations

import html
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pytest
from libraries_of_others import NOT_BUILT

import torch_batchsim
from torch_batchsim.vector.registration import environment_class

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / ".ci" / "site"


@pytest.fixture(scope="module")
def names() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("names_of_the_site", SOURCES / "names.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # for its dataclass
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


# ---- what is to be shown, which needs no build -----------------------------------------------------------------------


@pytest.mark.full
def test_every_public_name_is_in_the_reference(names: ModuleType) -> None:
    """``__all__`` of the package and of modules, as Python has it; elsewhere what they define or import."""
    missing = []
    for module in ("", ".testing", ".check", ".train", ".math.numbers", ".math.vectors"):
        place = f"torch_batchsim{module}".removesuffix(".numbers").removesuffix(".vectors")
        for name in importlib.import_module(f"torch_batchsim{module}").__all__:
            missing += [f"{place}.{name}"] if f"{place}.{name}" not in names.public_names() else []
    assert missing == []
    for module in ("math", "grid", "physics", "rays", "draw"):
        loaded = importlib.import_module(f"torch_batchsim.{module}")
        own = {name for name, value in vars(loaded).items() if is_public(name, value, loaded.__name__)}
        assert own - set(names.public(module)) == set()


def is_public(name: str, value: Any, module: str) -> bool:
    return not name.startswith("_") and (getattr(value, "__module__", None) or "").startswith(module)


def test_every_name_that_pages_import_is_in_the_reference(names: ModuleType) -> None:
    """But for those of environments. A module may be imported whole."""
    public, wanted = names.public_names(), set()
    statement = re.compile(r"^ *from (torch_batchsim[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")):
        for module, listed in statement.findall(page.read_text()):
            imported = {each.split()[0] for each in re.findall(r"\w[\w ]*", listed.partition("#")[0])}
            if not module.startswith("torch_batchsim.envs"):
                wanted |= {f"{module}.{each}" for each in imported}
    assert len(wanted) > 40
    assert wanted - public - {name.rpartition(".")[0] for name in public} == set()


def test_the_index_has_the_sections_of_the_site() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "docs" / "README.md").read_text(), re.MULTILINE)
    assert headings == ["Tutorial", "How-to", "Environments", "Reference", "Explanation", "Notes"]


# ---- the built site --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built, with links and anchors that MkDocs has checked."""
    if any(importlib.util.find_spec(module) is None for module in ("mkdocs", "material", "mkdocstrings_handlers")):
        pytest.skip(f"{NOT_BUILT}: pip install -c constraints.txt -e '.[docs]' brings MkDocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    told = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def pages(site: Path) -> dict[str, str]:
    return {path.relative_to(site).as_posix(): path.read_text() for path in sorted(site.rglob("*.html"))}


@pytest.mark.full
def test_the_reference_has_every_public_name(site: Path, names: ModuleType) -> None:
    text = "".join(text for place, text in pages(site).items() if place.startswith("python/"))
    assert {name for name in names.public_names() if f'id="{name}"' not in text} == set()
    assert "&gt;&gt;&gt; " in text and "::</p>" not in text  # docstrings are Markdown


@pytest.mark.full
def test_environments_are_shown_with_spaces_options_and_pictures(site: Path) -> None:
    text = (site / "environments.html").read_text()
    said = html.unescape(re.sub(r"<[^>]+>", "", text))
    for env_id in torch_batchsim.environment_ids().values():
        cls = environment_class(env_id)
        assert env_id in said
        for name, option in cls.described_options().items():
            if isinstance(option, torch_batchsim.Option):
                assert name in said and option.takes in said and option.help in said, (env_id, name)
    cards = re.findall(r'<div class="card">(.*?)</div>', text, re.DOTALL)
    classes = map(environment_class, torch_batchsim.environment_ids().values())
    folders = {cls.__module__.split(".")[2] for cls in classes}
    assert len(cards) == len(folders)
    for card in cards:
        shown = re.search(r'src="([^"]+)"', card)
        assert (site / shown[1]).is_file() if shown else "atari" in card  # pictures of games are others'
        assert re.search(r"<code>(Box|Discrete|MultiDiscrete)\(", card) or "needs ale" in card


@pytest.mark.full
def test_every_page_is_on_the_site_and_in_its_navigation(site: Path) -> None:
    shown = pages(site)
    primary = re.compile(r'<nav class="md-nav md-nav--primary.*?(?=<div class="md-sidebar)', re.DOTALL)
    navigation = primary.search(shown["index.html"])
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        place = "pages.html" if place == "README.html" else place
        assert place in shown and f'href="{place}"' in navigation[0], page


@pytest.mark.full
def test_links_lead_to_places_of_the_site(site: Path) -> None:
    shown = pages(site)
    ids = {place: set(re.findall(r'\bid="?([^"\s>]+)', text)) for place, text in shown.items()}
    wrong = []
    for place, text in shown.items():
        if place == "404.html":
            continue  # its links begin at the server's root
        for link in re.findall(r'<(?:a|img|link|script)\b[^>]*?\s(?:href|src)="?([^"\s>]+)', text):
            if re.match(r"https?:|data:|javascript:", link):
                continue
            name, _, anchor = unquote(html.unescape(link)).partition("#")
            target = (site / place).parent / name if name else site / place
            inside = os.path.relpath(target, site)
            if not target.is_file() or (anchor and anchor not in {"__codelineno", *ids.get(inside, ())}):
                wrong.append((place, link))
    assert wrong == []


@pytest.mark.full
def test_nothing_is_asked_of_other_hosts(site: Path) -> None:
    for place, text in pages(site).items():
        parts = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", text)
        assert [part for part in parts if re.search(r'(?:src|href)="?(?:https?:)?//', part)] == [], place
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert not re.search(r"url\(\"?(?:https?:)?//|@import", styles)


@pytest.mark.full
def test_search_finds_names_and_pages_without_a_server(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    places = {each["location"] for each in index["docs"]}
    assert {"python/declare.html#torch_batchsim.Archetype", "tag.html#speed", "tutorial.html"} <= places
    assert not [place for place in places if place.startswith("source/")]
    as_script = (site / "search" / "search_index.js").read_text()  # what a page that is opened as a file reads
    assert json.loads(as_script.partition("=")[2].rstrip().rstrip(";")) == index
    assert 'src="search.js"' in (site / "index.html").read_text()

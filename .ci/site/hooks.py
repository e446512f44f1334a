"""Hooks of MkDocs: pages and navigation that follow from the tree, so that nothing is written twice or committed.

- The README is the home page; docs/README.md gives the navigation. Pages outside of docs/ are shown under _PAGES.
- A link to another file of the repository leads to a page that shows this file.
- The pages of Python name what docstrings describe (names.py); the page of environments shows what is registered.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

import cards
import names

ROOT = Path(__file__).resolve().parents[2]
_PAGES = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples.md",
    "examples/experiments/README.md": "experiments.md",
}
"""Pages of the repository outside of docs/, or of another name, and what they are in the site."""

_LANGUAGES = {".py": "python", ".h": "cpp", ".sh": "bash", ".toml": "toml"}
_LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)")
_FENCE = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)
_made: dict[str, Callable[[], str]] = {}  # the text of generated pages, by place in the site
_folder = tempfile.TemporaryDirectory(prefix="torch_batchsim_site")


@event_priority(100)  # before mkdocstrings reads its settings
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Navigation, and where docstrings are read."""
    sys.path.insert(0, str(ROOT))
    _made.clear()
    _made.update({place: (ROOT / page).read_text for page, place in _PAGES.items()})
    _made["environments.md"] = lambda: cards.page(ROOT / "docs")
    for page in names.python_pages():
        _made[f"python/{page.file}.md"] = partial(_python, page)
    for source in sorted(set(_linked_sources())):
        _made[f"source/{source}.md"] = partial(_shown, source)
    config.nav = _navigation()
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [str(_package())]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for place, text in _made.items():
        files.append(File.generated(config, place, content=text()))
    for name in ("site.css", "search.js"):
        files.append(File.generated(config, name, abs_src_path=str(Path(__file__).parent / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as the site has its pages, and titles of blocks as its Markdown takes them."""
    place = page.file.src_uri
    parts = _FENCE.split(markdown)
    if not place.startswith(("source/", "python/")) and place != "environments.md":
        parts[::2] = [_LINK.sub(lambda found: found[1] + _target(place, found[2]), part) for part in parts[::2]]
    parts[1::2] = [re.sub(r"^( *```\w+) title=(\S+)$", r'\1 title="\2"', part, flags=re.M) for part in parts[1::2]]
    return "".join(parts)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    return _own_search(output, posixpath.dirname(page.file.dest_uri))


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    return _own_search(output, "")


def _own_search(output: str, folder: str) -> str:
    """The plugin `offline` has pages ask another host for what lets files search; search.js does it."""
    return output.replace("https://unpkg.com/iframe-worker/shim", posixpath.relpath("search.js", folder or "."))


def _navigation() -> list[Any]:
    """The sections of docs/README.md; pages of the README's own, of environments and of Python come first in theirs."""
    sections: dict[str, list[Any]] = {}
    for part in re.split(r"^## ", (ROOT / "docs" / "README.md").read_text(), flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        links = re.findall(r"\[([^\]]+)\]\(([^)#]+\.md)\)", text)
        sections[heading] = [{title[0].upper() + title[1:]: _site_place(f"docs/{link}")} for title, link in links]
    sections["Environments"].insert(0, {"All environments": "environments.md"})
    python = [{page.title: f"python/{page.file}.md"} for page in names.python_pages()]
    sections["Reference"] = [{"Python": python}, {"C++": sections["Reference"]}]
    sections["Notes"] += [
        {"Experiments": "experiments.md"},
        {"Working on torch_batchsim": "contributing.md"},
        {"Changes": "changelog.md"},
        {"All pages": "pages.md"},
    ]
    return [{"Home": "index.md"}, *({heading: pages} for heading, pages in sections.items())]


def _site_place(path: str) -> str:
    """Where the site has a file of the repository."""
    path = posixpath.normpath(path)
    if path in _PAGES:
        return _PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"source/{path}.md"


def _repository_place(place: str) -> str:
    """The file of the repository that is a page of the site."""
    return next((page for page, shown in _PAGES.items() if shown == place), f"docs/{place}")


def _target(place: str, link: str) -> str:
    """A link of the page at ``place``, as the site needs it."""
    path = posixpath.join(posixpath.dirname(_repository_place(place)), link)
    return posixpath.relpath(_site_place(path), posixpath.dirname(place) or ".")


def _linked_sources() -> Iterator[str]:
    """The files and folders outside of docs/ to which pages link."""
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "notes").glob("*.md"), *(ROOT / page for page in _PAGES)]
    for page in pages:
        for part in _FENCE.split(page.read_text())[::2]:
            for _, link in _LINK.findall(part):
                path = posixpath.normpath(posixpath.join(page.parent.relative_to(ROOT).as_posix(), link))
                if not path.startswith("docs/") and path not in _PAGES and (ROOT / path).exists():
                    yield path


def _shown(source: str) -> str:
    """A page with a file, or all files of a folder."""
    path = ROOT / source
    files = [path] if path.is_file() else sorted(each for each in path.iterdir() if each.is_file())
    shown = [f"---\nsearch: {{exclude: true}}\n---\n# {source}\n"]
    for file in files:
        title = [] if path.is_file() else [f"## {file.name}"]
        language = _LANGUAGES.get(file.suffix, "text")
        shown += [*title, f"``````{language}\n{file.read_text().rstrip()}\n``````\n"]
    return "\n".join(shown)


def _python(page: names.PythonPage) -> str:
    """A page of the reference of Python."""
    shown = [f"# {page.title}\n"]
    for module, public in page.names.items():
        if page.file == "types":
            shown.append(_field_types(public))
            continue
        if module != names.PACKAGE and module in (f"{names.PACKAGE}.{page.file}", *_adapters(page)):
            level = 2 if _adapters(page) else 1
            title = f"## {module.rpartition('.')[2]}\n" if level == 2 else ""
            options = "    options: {members: [], show_root_heading: false, show_root_toc_entry: false}\n"
            shown.append(f"{title}\n::: {module}\n{options}")
        level = 3 if _adapters(page) else 2
        shown += [f"::: {module}.{name}\n    options: {{heading_level: {level}}}\n" for name in public]
    return "\n".join(shown)


def _adapters(page: names.PythonPage) -> list[str]:
    return list(page.names) if page.file == "adapters" else []


def _field_types(public: list[str]) -> str:
    """A table of types, which are values without docstrings."""
    from torch_batchsim import types

    lines = ["## The types\n", "| type | C++ | tensor | its last dimension |", "|---|---|---|---|"]
    for name in sorted(public, key=list(types.FIELD_TYPES).index):
        kind = types.FIELD_TYPES[name]
        shape = "".join(map(str, kind.element_shape))
        anchor = f'<a id="{names.PACKAGE}.{name}"></a>'
        lines.append(f"| {anchor}`{name}` | `{kind.c_type}` | `{kind.dtype}` | {shape} |")
    return "\n".join([*lines, "\n::: torch_batchsim.types.FieldType\n"])


def _package() -> Path:
    """A folder with a copy of the package as it is installed: envs/ and train/ lie in it."""
    package = Path(_folder.name) / names.PACKAGE
    only_python = shutil.ignore_patterns("__pycache__", "*.[!p]*", "template")
    for source, target in ((names.PACKAGE, package), ("envs", package / "envs"), ("train", package / "train")):
        shutil.copytree(ROOT / source, target, ignore=only_python, dirs_exist_ok=True)
    return package.parent

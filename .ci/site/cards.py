"""The page of environments: a card and a section for each page in docs/ that has registered environments."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.spaces import Box, Dict

import torch_batchsim
from torch_batchsim.declare.options import Option
from torch_batchsim.resolve.program import Program
from torch_batchsim.vector.registration import environment_class

_HEAD = """---
hide: [toc]
---
# Environments

What comes with torch_batchsim, as it is registered. Spaces are those of `torch_batchsim.make_vec(id, num_envs=1024)`;
options are its further arguments.
"""
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


def page(docs: Path) -> str:
    """The text of the page."""
    groups: dict[str, list[str]] = {}
    for env_id in torch_batchsim.environment_ids().values():
        folder = environment_class(env_id).__module__.split(".envs.")[1].split(".")[0]
        groups.setdefault(folder, []).append(env_id)
    index = (docs / "README.md").read_text()
    shown, sections = [], []
    for name, ids in groups.items():
        ((title, said),) = re.findall(rf"^- \[([^\]]+)\]\({name}\.md\): (.*(?:\n  .*)*)", index, re.MULTILINE)
        text = (docs / f"{name}.md").read_text()
        pictures = _PICTURE.findall(text)
        picture = "[![{}]({})](#{})".format(*pictures[0], _anchor(title)) if pictures else ""
        shown.append(_card(name, title, " ".join(said.split()), picture, ids))
        sections.append(_section(name, title, ids, pictures[1:], text))
    return "\n".join([_HEAD, '<div class="cards" markdown>', *shown, "</div>\n", *sections])


def _card(name: str, title: str, said: str, picture: str, ids: list[str]) -> str:
    actions, observations = _spaces(ids[0], short=True)[:2]
    others = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f"""
<div class="card" markdown>
{picture}

**{title}** · {said[0].upper()}{said[1:]}

`{ids[0]}`{others}

Action {actions}<br>Observation {observations}

[Options and figures](#{_anchor(title)}) · [Page]({name}.md)
</div>
"""


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _section(name: str, title: str, ids: list[str], pictures: list[tuple[str, str]], text: str) -> str:
    lines = [f"## {title}\n", f"[The page of {title}]({name}.md)\n"]
    lines += ["| id | action | observation | rows of a world | steps of an episode | solved at |", "|---" * 6 + "|"]
    for env_id in ids:
        spec = gymnasium.spec(env_id)
        figures = (*_spaces(env_id), spec.max_episode_steps or "", spec.reward_threshold or "")
        lines.append(f"| `{env_id}` | {' | '.join(map(str, figures))} |")
    lines += ["", *_options(ids)]
    curves = [each for each in pictures if "curve" in each[1]]
    lines += [f"![{alt}]({file}){{ .figure }}\n" for alt, file in curves]
    parts = re.findall(r"^## (.*(?:fast|[Ss]peed|learned|Training|checked|Proof|Beside).*)$", text, re.MULTILINE)
    links = [f"[{part}]({name}.md#{_anchor(part)})" for part in parts]
    lines += [f"Figures: {', '.join(links)}\n"] if links else []
    return "\n".join(lines)


def _spaces(env_id: str, short: bool = False) -> tuple[str, str, str]:
    """Actions, observations, and the rows of a world; unknown where ROMs are missing."""
    try:
        program = Program(environment_class(env_id)())
    except ImportError as error:
        return (f"needs {error.name or 'ale-py'}", "likewise", "")
    space = program.observation_space
    as_arrays = short and isinstance(space, Dict)
    observations = f"a dict of {len(space)} arrays" if as_arrays else _space(space)  # type: ignore[arg-type]
    return _space(program.action_space), observations, str(program.agents.count)


def _space(space: gymnasium.Space[Any]) -> str:
    """A space in a line or some; the bounds of many numbers only where all are the same."""
    if isinstance(space, Dict):
        return "<br>".join(f"`{key}`: {_space(part)}" for key, part in space.items())
    text = str(space)
    if isinstance(space, Box):
        low, high = space.low.min(), space.high.max()
        same = (space.low == low).all() and (space.high == high).all()
        shape = list(space.shape)
        text = f"Box({low:g}, {high:g}, {shape}, {space.dtype})" if same else f"Box({shape}, {space.dtype})"
    return f"`{text}`"


def _options(ids: list[str]) -> list[str]:
    """A table for all ids that have the same options."""
    tables: dict[str, list[str]] = {}
    for env_id in ids:
        tables.setdefault(_table(environment_class(env_id).described_options()), []).append(env_id)
    lines = []
    for table, owners in tables.items():
        whose = "" if len(tables) == 1 else f" of {', '.join(owners)}"
        lines += [f"<details markdown><summary>Options{whose}</summary>\n", table, "</details>\n"]
    return lines


def _table(described: dict[str, Any]) -> str:
    lines = ["| option | default | takes | |", "|---|---|---|---|"]
    flat = {name: value for name, value in described.items() if not isinstance(value, dict)}
    for library, options in described.items():
        if isinstance(options, dict):
            flat |= {f"{library}={{{name}: …}}": value for name, value in options.items()}
    for name, option in flat.items():
        if isinstance(option, Option):
            default = f"`{option.default:.6g}`" if isinstance(option.default, float) else f"`{option.default!r}`"
            takes, says = f"`{option.takes}`", html.escape(option.help)
        else:
            default, takes, says = "", "", html.escape(str(option))
        lines.append(f"| `{name}` | {default} | {takes} | {says} |")
    return "\n".join([*lines, ""])

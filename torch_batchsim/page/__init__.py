"""What pages of worlds are made of, the recorded ones and the live one: scenes as integers, pictures, JavaScript."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent


def whole(template: Path) -> str:
    """A page with the style and the drawing that all pages share."""
    text = template.read_text()
    for mark, name in (("/*STYLE*/", "page.css"), ("/*DRAWING*/", "drawing.js")):
        text = text.replace(mark, (_FOLDER / name).read_text())
    return text

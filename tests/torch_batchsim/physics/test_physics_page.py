"""The example of docs/physics.md runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import folder_of, write

PAGE = Path(__file__).resolve().parents[3] / "docs" / "physics.md"


@pytest.mark.full
def test_the_tower_of_the_page_falls() -> None:
    found = dict(re.findall(r"```\w+ title=(\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert set(found) == {"tower.py", "tower.h", "play_tower.py"}
    folder = folder_of(found["tower.h"])  # test_picture.py builds it too
    for name, text in found.items():
        write(folder / name, text)
    done = subprocess.run([sys.executable, "play_tower.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

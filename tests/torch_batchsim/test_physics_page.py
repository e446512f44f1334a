"""The example of docs/physics.md runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "physics.md"


@pytest.mark.full
def test_the_tower_of_the_page_falls(tmp_path: Path) -> None:
    found = dict(re.findall(r"```\w+ title=(\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert set(found) == {"tower.py", "tower.h", "play_tower.py"}
    for name, text in found.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, "play_tower.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

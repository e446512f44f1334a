"""The example of docs/authoring.md runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "authoring.md"


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    files = dict(re.findall(r"```\w+ title=(\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert set(files) == {"catch.py", "catch.h", "play.py"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, "play.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "caught 40960 of 40960" in done.stdout

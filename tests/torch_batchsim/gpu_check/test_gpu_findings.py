"""The GPU check's findings: who may end a process. The check itself is tested in ``test_gpu_check.py``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from torch_batchsim.gpu_check import findings

HANGING = """
import time
from torch_batchsim.gpu_check.findings import Stage

def hang():
    time.sleep(600)

def stage(found):
    found.check_seconds = 0.2
    found.check("good", lambda: "a remark")
    found.check("the long one", hang)

STAGES = [Stage("stuck", "A check hangs.", stage, 60, 1)]
"""


def test_a_check_that_hangs_ends_the_process_of_its_stage_and_says_where(tmp_path: Path) -> None:
    (tmp_path / "made_up_stage.py").write_text(HANGING)
    path = tmp_path / "found"
    command = [sys.executable, "-m", findings.__name__, "made_up_stage", "stuck", str(path), str(time.time() + 500)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1 and "in hang" in done.stderr, done.stderr
    found = json.loads(path.read_text())
    assert [check["name"] for check in found["checks"]] == ["good"] and found["running"] == "the long one"

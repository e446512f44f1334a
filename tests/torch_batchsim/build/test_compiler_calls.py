"""The script that stands between torch's builder and the compiler."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from torch_batchsim.build import compiler


def test_the_compiler_gets_and_the_log_has_all_words_but_torchs_libraries(tmp_path: Path) -> None:
    stub = tmp_path / "stub"
    stub.write_text('#!/bin/sh\nfor word; do echo "<$word>" >&2; done\nexit 3\n')
    stub.chmod(0o755)
    changes = compiler.logged("CXX", str(stub), tmp_path)
    torchs = ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    command = [changes["CXX"], "a file.o", "-shared", "-L/some/folder", *torchs, "-lcudart", "-o", "made.so"]
    done = subprocess.run(command, env={**os.environ, **changes}, capture_output=True, text=True, check=False)
    words = ["a file.o", "-shared", "-L/some/folder", "-lcudart", "-o", "made.so"]
    assert done.returncode == 3 and done.stderr == "".join(f"<{word}>\n" for word in words)
    log = compiler.read_log(tmp_path)
    assert log.startswith(f"$ {stub} a file.o -shared") and compiler.messages(log) == done.stderr.strip()

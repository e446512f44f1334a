"""mypy and pyright over code of authors and users: that of pages and of tests/types, against an installed package.

It is installed as the README says, so that an editable install is found by both. tests/types/wrong.py is to be
refused, a line each. Arguments: the checkers to run; without, both. pyright brings its own node (pyright[nodejs]).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MYPY = ["mypy", "--strict", "--no-incremental", "--cache-dir", "/dev/null", "--allow-untyped-calls"]
PYRIGHT = ["pyright", "--pythonpath", sys.executable]
# Environments whose systems are in Python; @system is taken without "-> None".
OF_ENVIRONMENTS = [*MYPY, "--allow-incomplete-defs", "--allow-untyped-defs", "--no-warn-return-any"]
ENVIRONMENTS = [ROOT / "envs" / name for name in ("minatar", "tag")]


def page_files(folder: Path) -> list[Path]:
    """The files of Python that the page about writing an environment has, written as it names them."""
    blocks = {"ships.py": (ROOT / "tests" / "types" / "ships.py").read_text()}
    page = (ROOT / "docs" / "authoring.md").read_text()
    for name, text in re.findall(r"```\w+ title=(\S+\.py)\n(.*?)```", page, re.DOTALL):
        blocks[name] = blocks.get(name, "") + text + "\n"
    for name, text in blocks.items():
        (folder / name).write_text(text)
    return [folder / name for name in blocks]


def check(command: list[str], folder: Path, files: list[Path]) -> str:
    call = [sys.executable, "-m", *command, *map(str, files)]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def main() -> None:
    checkers = {"mypy": MYPY, "pyright": PYRIGHT}
    chosen = sys.argv[1:] or list(checkers)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in ("author.py", "wrong.py"):
            (folder / source).write_text((ROOT / "tests" / "types" / source).read_text())
        right, wrong = [folder / "author.py", *page_files(folder)], folder / "wrong.py"
        lines = [i for i, line in enumerate(wrong.read_text().splitlines(), 1) if "tbs.make" in line]
        calls = []  # of each checker three: each is one process on one core
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for checker in chosen:
                of_environments = OF_ENVIRONMENTS if checker == "mypy" else checkers[checker]
                calls.append(
                    [
                        pool.submit(check, checkers[checker], folder, right),
                        pool.submit(check, of_environments, ROOT, ENVIRONMENTS),
                        pool.submit(check, checkers[checker], folder, [wrong]),
                    ]
                )
        for checker, three in zip(chosen, calls, strict=True):
            of_users, of_ours, of_wrong = (call.result() for call in three)
            if of_users:
                sys.exit(f"{checker} refuses what users write:\n{of_users}")
            if of_ours:
                sys.exit(f"{checker} refuses environments:\n{of_ours}")
            missing = [line for line in lines if not re.search(rf"wrong\.py:{line}\b", of_wrong)]
            if missing:
                sys.exit(
                    f"{checker} does not see the mistakes in lines {missing} of tests/types/wrong.py:\n{of_wrong}"
                )
            print(f"{checker}: {len(right)} files accepted, {len(lines)} mistakes seen")


if __name__ == "__main__":
    main()

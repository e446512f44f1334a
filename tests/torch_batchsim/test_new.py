"""``python -m torch_batchsim.new``: what it writes, what it refuses, and that what it writes passes its own tests."""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from torch_batchsim import new, testing

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("arguments", [[], ["--cpp"]], ids=["python", "cpp"])
def test_it_writes_an_environment_that_its_model_agrees_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "duck_pond"))
    monkeypatch.delitem(sys.modules, "duck_pond", raising=False)
    assert new.main(["duck_pond", *arguments]) == 0
    printed = capsys.readouterr().out
    names = {"duck_pond.py", "model.py", "test_duck_pond.py", "duck_pond.png", "README.md"}
    names |= {"duck_pond.h"} if arguments else set()
    assert ("@system" in (tmp_path / "duck_pond" / "duck_pond.py").read_text()) == (not arguments)
    assert ("`duck_pond.h`" in (tmp_path / "duck_pond" / "README.md").read_text()) == bool(arguments)
    assert {path.name for path in (tmp_path / "duck_pond").iterdir()} == names
    assert all(f"duck_pond/{name}" in printed for name in names)
    assert "  cd duck_pond\n  python -m pytest\n" in printed
    assert "  python -m torch_batchsim.train duck_pond:duck_pond/DuckPond-v0\n" in printed
    for path in (tmp_path / "duck_pond").glob("*[!g]"):
        assert "my_env" not in path.read_text().lower() and "myenv" not in path.read_text().lower(), path
    importlib.invalidate_caches()
    importlib.import_module("duck_pond")
    spec = importlib.util.spec_from_file_location("duck_pond_model", tmp_path / "duck_pond" / "model.py")
    model = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    env = gymnasium.make_vec("duck_pond/DuckPond-v0", num_envs=4, autoreset_mode="NextStep")
    reference = gymnasium.vector.SyncVectorEnv([model.Model] * 4)

    def put(reference: gymnasium.vector.VectorEnv, world: int, values: dict[str, np.ndarray]) -> None:
        reference.envs[world].unwrapped.put(values)

    assert testing.compare(env, reference, state=put, steps=150).episodes > 4


@pytest.mark.full
@pytest.mark.parametrize("arguments", [[], ["--cpp"]], ids=["python", "cpp"])
def test_the_new_folder_passes_its_own_tests_and_makes_its_picture(tmp_path: Path, arguments: list[str]) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = {"cwd": tmp_path, "env": environment, "check": True, "capture_output": True, "text": True}
    subprocess.run([sys.executable, "-m", "torch_batchsim.new", "hill", "--folder", "a b/hill", *arguments], **run)
    folder = run["cwd"] = tmp_path / "a b" / "hill"
    picture = (folder / "hill.png").read_bytes()
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], **run)
    assert "6 passed" in done.stdout
    command = next(line for line in (folder / "README.md").read_text().splitlines() if "gallery" in line)
    subprocess.run([sys.executable, *command.split()[1:]], **run)
    assert (folder / "hill.png").read_bytes() == picture


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("My-Env", "such as my_env, got 'My-Env'"),
        ("1st", "got '1st'"),
        ("a__b", "got 'a__b'"),
        ("../up", "got '../up'"),
        ("", "got ''"),
        ("class", "cannot be named 'class'"),
        ("random", "another module; give another name, such as random_env"),
        ("model", "'model' is the name of another module"),
        ("numpy", "'numpy' is the name of an existing module"),
    ],
)
def test_bad_names_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, says: str) -> None:
    assert new.main([name, "--folder", str(tmp_path / "made")]) == 2
    assert says in capsys.readouterr().err and not (tmp_path / "made").exists()


def test_a_folder_that_holds_something_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "note").write_text("mine")
    for folder, says in ((tmp_path, "is not empty"), (tmp_path / "note", "is a file")):
        assert new.main(["pond", "--folder", str(folder)]) == 2
        assert says in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["note"]
    with pytest.raises(SystemExit) as ended:
        new.main([])
    assert ended.value.code == 2


def test_all_files_of_the_template_are_written_and_shipped() -> None:
    there = {path.name for path in new.TEMPLATE.iterdir() if path.is_file()}
    assert there == {*new.FILES, new.CPP_FILE}
    assert '"torch_batchsim.template": ["*"]' in (ROOT / "setup.py").read_text()

import io
import random
import re

import pytest
import torch
from torch_batchsim.train.run_folder import checkpoint

ENV = "torch_batchsim/CartPole-v0"
OF_A_RUN = {"env": ENV, "env_options": {}, "trainer": {}}


def test_what_was_saved_is_loaded(tmp_path):
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {**OF_A_RUN, "x": torch.arange(3)})
    checkpoint.save(path, {**OF_A_RUN, "x": torch.arange(4)})
    contents = checkpoint.load(path, ENV)
    assert contents["x"].tolist() == [0, 1, 2, 3]
    checkpoint.require_same_version(path, contents)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_a_failed_save_leaves_the_old_checkpoint(tmp_path):
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {**OF_A_RUN, "x": 1})
    with pytest.raises(Exception, match="pickle"):
        checkpoint.save(path, {**OF_A_RUN, "x": lambda: None})
    assert checkpoint.load(path, ENV)["x"] == 1
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


def write(path, **contents):
    checkpoint.save(path, {"torch_batchsim": "0.0.0", **OF_A_RUN, **contents})


class Harmful:
    def __reduce__(self):
        return print, ("code in a checkpoint was run",)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: None, "cannot be read: No such file"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (lambda path: path.write_bytes(b""), "is not a checkpoint"),
        (lambda path: path.write_bytes(b"no checkpoint at all"), "is not a checkpoint"),
        (lambda path: (write(path), path.write_bytes(path.read_bytes()[:-100])), "or is damaged"),
        (lambda path: torch.save(torch.zeros(3), path), "is not a checkpoint"),
        (lambda path: write(path, harmful=Harmful()), "or is damaged"),
        (lambda path: torch.save({"format": checkpoint.FORMAT}, path), "damaged at its end: its checksums are missing"),
        (lambda path: torch.save({"format": 2}, path), "has format 2, but this version reads format 3"),
        (lambda path: checkpoint.save(path, {}), "is not a checkpoint"),
        (lambda path: write(path, trainer={"config": {"seed": 1, "warmth": 2}}), "not know: warmth; .* 0.0.0 wrote"),
        (lambda path: write(path, format=99), "has format 99, but this version reads format 3"),
        (lambda path: write(path, env="torch_batchsim/Other-v0"), "is of torch_batchsim/Other-v0, not of"),
    ],
)
def test_what_cannot_be_used_is_refused(tmp_path, capsys, damage, message):
    path = tmp_path / "checkpoint.pt"
    damage(path)
    with pytest.raises(checkpoint.CheckpointError, match=message):
        checkpoint.load(path, ENV)
    assert "was run" not in capsys.readouterr().out


def test_another_version_is_refused(tmp_path):
    path = tmp_path / "checkpoint.pt"
    write(path)
    with pytest.raises(checkpoint.CheckpointError, match=r"was written by torch_batchsim 0\.0\.0 and only"):
        checkpoint.require_same_version(path, checkpoint.load(path, ENV))


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.mark.parametrize("flips", [40, pytest.param(300, marks=pytest.mark.full)])
def test_every_bit_that_changes_is_found_and_its_place_reported(tmp_path, flips):
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {**OF_A_RUN, "x": torch.zeros(50_000), "y": torch.arange(3)})
    assert checkpoint.load(path, ENV)["y"].tolist() == [0, 1, 2] == torch.load(path, weights_only=True)["y"].tolist()
    size, chosen = path.stat().st_size, random.Random(1)
    assert size > 3 * checkpoint.BLOCK
    for bit in [*(chosen.randrange(8 * size) for _ in range(flips)), *range(8 * size - flips, 8 * size)]:
        flip(path, bit)
        with pytest.raises(checkpoint.Damaged, match=f"{path} is damaged") as error:
            checkpoint.load(path, ENV)
        if place := re.search(r"in bytes ([\d,]+) to ([\d,]+) of", str(error.value)):
            first, last = (int(number.replace(",", "")) for number in place.groups())
            assert first <= bit // 8 <= last < first + checkpoint.BLOCK
        else:
            assert bit // 8 >= size - 40  # which its checksums and mark take
        flip(path, bit)
    checkpoint.load(path, ENV)


@pytest.mark.parametrize("size", [0, 1, checkpoint.BLOCK - 1, checkpoint.BLOCK, 2 * checkpoint.BLOCK + 1])
def test_checksums_do_not_depend_on_how_the_bytes_are_written(size):
    data, parts = random.Random(size).randbytes(size), random.Random(1)
    once, often = (checkpoint._Summed(io.BytesIO()) for _ in range(2))
    once.write(data)
    while often.size < size:
        often.write(data[often.size : often.size + parts.randrange(1, 70_000)])
    assert once.end() == often.end() and once.file.getvalue() == data == often.file.getvalue()
    checkpoint._require_whole(None, data + once.end())


def test_what_a_killed_process_has_left_is_written_over(tmp_path):
    (tmp_path / "checkpoint.pt.tmp").write_bytes(bytes(10**6))
    checkpoint.save(tmp_path / "checkpoint.pt", OF_A_RUN)
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


def steps_in(folder):
    return {path.name: checkpoint.load(path, ENV)["steps"] for path in folder.glob("*.pt")}


@pytest.mark.parametrize("links", [True, False])
def test_the_last_ones_are_kept(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(checkpoint.os, "link", no_links)
    keeper = checkpoint.Keeper(tmp_path, 3, None)
    for steps in (128, 256, 384, 512):
        keeper.save({**OF_A_RUN, "steps": steps})
    names = {"checkpoint.pt": 512, "checkpoint-000000000384.pt": 384, "checkpoint-000000000256.pt": 256}
    assert steps_in(tmp_path) == names
    keeper = checkpoint.Keeper(tmp_path, 3, None)  # goes on from an earlier one: later ones are of another course
    keeper.save({**OF_A_RUN, "steps": 300})
    assert steps_in(tmp_path) == {"checkpoint.pt": 300, "checkpoint-000000000256.pt": 256}
    checkpoint.Keeper(tmp_path, 1, 300).save({**OF_A_RUN, "steps": 400})
    assert steps_in(tmp_path) == {"checkpoint.pt": 400}


def no_links(*_):
    raise OSError(95, "Operation not supported")


def test_the_last_good_one_is_found(tmp_path, capsys):
    assert checkpoint.last_good(tmp_path, ENV) is None
    keeper = checkpoint.Keeper(tmp_path, 2, None)
    for steps in (128, 256):
        keeper.save({**OF_A_RUN, "steps": steps})
    keeper.save_best({**OF_A_RUN, "steps": 64})
    newest, before, best = (tmp_path / name for name in ("checkpoint.pt", "checkpoint-000000000128.pt", "best.pt"))
    for path, steps in ((newest, 256), (before, 128), (best, 64)):
        found, contents = checkpoint.last_good(tmp_path, ENV)
        assert (found, contents["steps"]) == (path, steps)
        flip(path, 1000)
    assert capsys.readouterr().out.count("is damaged in bytes 0 to") == 3
    with pytest.raises(checkpoint.Damaged, match=r"no checkpoint in .* is whole; checkpoint .*best.pt is damaged in"):
        checkpoint.last_good(tmp_path, ENV)
    checkpoint.save(newest, {**OF_A_RUN, "env": "torch_batchsim/Other-v0"})
    with pytest.raises(checkpoint.CheckpointError, match="is of torch_batchsim/Other-v0"):
        checkpoint.last_good(tmp_path, ENV)


def test_a_folder_of_several_runs_names_them(tmp_path):
    for seed in range(4):
        (tmp_path / f"seed{seed}").mkdir()
        checkpoint.save(tmp_path / f"seed{seed}" / checkpoint.NAME, OF_A_RUN)
    with pytest.raises(checkpoint.CheckpointError, match=r"has no checkpoint of its own, .*seed2, \.\.\.: name"):
        checkpoint.find(tmp_path, ENV)
    assert checkpoint.find(tmp_path / "seed1", ENV) == tmp_path / "seed1" / checkpoint.NAME
    assert checkpoint.find(tmp_path / "seed1" / "league", ENV) == tmp_path / "seed1" / "league"

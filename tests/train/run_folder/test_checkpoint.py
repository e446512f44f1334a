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
    torch.save({"format": checkpoint.FORMAT, "torch_batchsim": "0.0.0", **OF_A_RUN, **contents}, path)


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
        (lambda path: torch.save({"format": checkpoint.FORMAT}, path), "is not a checkpoint"),
        (lambda path: write(path, trainer={"config": {"seed": 1, "warmth": 2}}), "not know: warmth; .* 0.0.0 wrote"),
        (lambda path: write(path, format=99), "has format 99, but this version reads format 2"),
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


def test_a_folder_of_several_runs_names_them(tmp_path):
    for seed in range(4):
        (tmp_path / f"seed{seed}").mkdir()
        checkpoint.save(tmp_path / f"seed{seed}" / checkpoint.NAME, OF_A_RUN)
    with pytest.raises(checkpoint.CheckpointError, match=r"has no checkpoint of its own, .*seed2, \.\.\.: name"):
        checkpoint.find(tmp_path, ENV)
    assert checkpoint.find(tmp_path / "seed1", ENV) == tmp_path / "seed1" / checkpoint.NAME
    assert checkpoint.find(tmp_path / "seed1" / "league", ENV) == tmp_path / "seed1" / "league"

"""Where the numbers of a run go: TensorBoard, a table, Weights & Biases, MLflow, or a class of the user's."""

from __future__ import annotations

import csv
import importlib
import importlib.util
import math
import os
import time
from collections.abc import Mapping, Sequence
from io import StringIO
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

from ..base.errors import UsageError
from . import disk

KNOWN = ("tensorboard", "wandb", "mlflow", "none")


class Tracker(Protocol):
    """The protocol of a class that `--track` names."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], start_step: int) -> None:
        """Args: the folder of the run; all settings, numbers and texts by name; steps taken before, if it continues."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers by name, such as `charts/episodic_return`, after so many steps of all rows; NaN where undefined."""

    def close(self, outcome: Mapping[str, float]) -> None:
        """At the end, with the results of the evaluation."""


def _known(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if not math.isnan(value)}


class TensorBoard:
    """Scalars, and the settings as hyper-parameters."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], start_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.settings = settings
        self.writer = SummaryWriter(str(folder), purge_step=start_step or None)

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in _known(values).items():
            self.writer.add_scalar(name, value, step)

    def close(self, outcome: Mapping[str, float]) -> None:
        from torch.utils.tensorboard.summary import hparams

        plain = {n: v if isinstance(v, (bool, int, float, str)) else str(v) for n, v in self.settings.items()}
        for summary in hparams(plain, {f"hparam/{name}": value for name, value in outcome.items()}):
            self.writer.file_writer.add_summary(summary)
        for name, value in outcome.items():
            self.writer.add_scalar(f"hparam/{name}", value)
        self.writer.close()


class Table:
    """`metrics.csv`: a row for each iteration, a column for each number; empty where undefined."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], start_step: int) -> None:
        self.path = folder / "metrics.csv"
        self.columns: list[str] = []
        if start_step and self.path.exists():
            self._keep_until(start_step)
        else:
            self.path.write_text("")

    def _keep_until(self, step: int) -> None:
        """A run that continues from a checkpoint repeats steps that its table has already."""
        with open(self.path, newline="") as file:
            rows = list(csv.reader(file))
        if not rows:
            return
        self.columns = rows[0]
        whole = [row for row in rows[1:] if len(row) == len(self.columns)]  # a full disk leaves a part of one
        kept = [row for row in whole if int(row[0]) <= step]
        text = StringIO(newline="")
        csv.writer(text).writerows([self.columns, *kept])
        disk.write_text(self.path, text.getvalue())

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        with open(self.path, "a", newline="") as file:
            writer = csv.writer(file)
            if not self.columns:
                self.columns = ["step", *values]
                writer.writerow(self.columns)
            known = {"step": step, **values}
            writer.writerow([_cell(known.get(name)) for name in self.columns])

    def close(self, outcome: Mapping[str, float]) -> None:
        """The file is whole after each row."""


def _cell(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else repr(value)


class WandB:
    """A run of Weights & Biases, in the project that WANDB_PROJECT names, or `torch_batchsim`."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], start_step: int) -> None:
        import wandb

        self.run = wandb.init(
            dir=str(folder), config=dict(settings), name=folder.name, id=folder.name, resume="allow",
            project=wandb.Settings().project or "torch_batchsim",
        )  # fmt: skip

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(_known(values), step=step)

    def close(self, outcome: Mapping[str, float]) -> None:
        self.run.summary.update(dict(outcome))
        self.run.finish()


class MLflow:
    """A run of MLflow, in the experiment that MLFLOW_EXPERIMENT_NAME names, or `torch_batchsim`.

    MLFLOW_TRACKING_URI says where. A run that continues goes on in that of its folder's name, if it is there.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], start_step: int) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self.client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "torch_batchsim")
        known = self.client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else self.client.create_experiment(name)
        own = f"attributes.run_name = '{folder.name}'"
        found = self.client.search_runs([experiment], own, max_results=1) if start_step else []
        run = found[0] if found else self.client.create_run(experiment, run_name=folder.name)
        self.run = run.info.run_id
        self.client.update_run(self.run, status="RUNNING")
        if not found:  # settings of a run cannot change
            self.client.log_batch(self.run, params=[Param(key, str(value)) for key, value in settings.items()])

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self.client.log_batch(self.run, [Metric(name, value, now, step) for name, value in _known(values).items()])

    def close(self, outcome: Mapping[str, float]) -> None:
        self.scalars(0, outcome)
        self.client.set_terminated(self.run)


_SERVICES: dict[str, type[Tracker]] = {"wandb": WandB, "mlflow": MLflow}


def trackers(names: Sequence[str]) -> list[type[Tracker]]:
    """The classes that `--track` names, and always the table. Raises UsageError for an unknown or missing one."""
    found: list[type[Tracker]] = [Table]
    if "none" in names and len(names) > 1:
        raise UsageError(f"--track none excludes others, but {' '.join(names)} was given")
    for name in names:
        if name == "none":
            continue
        if name == "tensorboard":
            found.append(TensorBoard)
        elif name in _SERVICES:
            if importlib.util.find_spec(name) is None:
                raise UsageError(f"--track {name} needs the package {name}: pip install {name}")
            found.append(_SERVICES[name])
        elif ":" in name:
            found.append(_imported(name))
        else:
            raise UsageError(f"--track takes {', '.join(KNOWN)} or module:Class, got {name!r}")
    return found


def _imported(name: str) -> type[Tracker]:
    module, _, path = name.partition(":")
    try:
        cls = attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise UsageError(f"--track {name} cannot be imported: {error}") from error
    missing = [method for method in ("scalars", "close") if not callable(getattr(cls, method, None))]
    if missing:
        raise UsageError(f"--track {name} lacks {' and '.join(missing)}: see Tracker in train/run_folder/tracking.py")
    return cls

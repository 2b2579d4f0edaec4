"""Weights & Biases: an experiment logger on a server. With WANDB_MODE=offline it writes files for `wandb sync`.

Curves of the search are drawn over candidates, those of the learner over updates. The other axes are figures of each
record. Sent are figures, settings and completions, and neither code nor what is printed.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from pace_async.errors import UsageError
from pace_async.observe.watchers.base import Completion, LoggedRun, Record
from pace_async.observe.watchers.process import SeparateWatcher
from pace_async.observe.watchers.trackio import PROJECT, axes

_COLUMNS = [field.name for field in fields(Completion)]


def wandb(argument: str | None = None) -> SeparateWatcher:
    """The watcher in a separate process. `argument` is PROJECT or ENTITY/PROJECT."""
    return SeparateWatcher("wandb", f"{__name__}:WeightsAndBiases", argument)


class WeightsAndBiases:
    """Writes into the project `argument`, by default WANDB_PROJECT or `pace`."""

    def __init__(self, argument: str | None = None) -> None:
        entity, slash, project = (argument or "").rpartition("/")
        self._entity = entity if slash else None
        self._project = project or os.environ.get("WANDB_PROJECT") or PROJECT
        self._wandb: Any = None
        self._run: Any = None

    def begin(self, logged: LoggedRun, *, replay: bool) -> None:
        self._wandb = import_module("wandb")
        folder = os.environ.get("WANDB_DIR") or logged.folder
        if replay and os.environ.get("WANDB_MODE") == "offline":  # a server refuses by itself
            _refuse_files(Path(folder or "."), logged)
        self._run = self._wandb.init(
            entity=self._entity,
            project=self._project,
            id=logged.id,
            name=logged.run,
            group=logged.task,
            resume="never" if replay else "allow",
            config=dict(logged.settings),
            dir=None if folder is None else str(folder),
            settings=self._wandb.Settings(
                console="off",
                disable_code=True,
                disable_git=True,
                silent=True,
                x_disable_stats=True,
                x_save_requirements=False,
                x_transaction_log_flush_interval=1.0,
            ),
        )
        for name in axes(Record("update", 0.0, 0, 0, 0.0, 0.0, {})):
            self._run.define_metric(name, hidden=True)
        for room, axis in (("search", "candidates"), ("cost", "candidates"), ("learner", "update"), ("run", "update")):
            self._run.define_metric(f"{room}/*", step_metric=f"axis/{axis}")

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            values: dict[str, Any] = {**record.values, **axes(record)}
            if record.completions:
                rows = [list(asdict(completion).values()) for completion in record.completions]
                values["completions"] = self._wandb.Table(columns=_COLUMNS, data=rows, allow_mixed_types=True)
            self._run.log(values)

    def close(self) -> None:
        self._run.finish()


def _refuse_files(folder: Path, logged: LoggedRun) -> None:
    if any((folder / "wandb").glob(f"offline-run-*-{logged.id}")):
        raise UsageError(
            f"Weights & Biases has this run already, as {logged.id} in {folder / 'wandb'}: remove it there, or name "
            "another folder in WANDB_DIR."
        )

"""TensorBoard's event files, written by its own writer. No TensorFlow.

The step of a figure is the number of candidates or the learner's update. The best score is there against seconds and
against cents, too.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pace_async.errors import UsageError
from pace_async.observe.watchers.base import LoggedRun, Record

FOLDER = "tensorboard"
_ODD = re.compile(r"[^\w.-]+")


class TensorBoard:
    """Writes into `argument`/RUN, or into a folder of the run's own."""

    def __init__(self, argument: str | None = None) -> None:
        self._argument = argument
        self._writer: Any = None

    def begin(self, logged: LoggedRun, *, replay: bool) -> None:
        """A log that exists gets another file: TensorBoard shows both as one."""
        folder = self._folder(logged)
        if replay and any(folder.glob("events.out.tfevents.*")):
            raise UsageError(
                f"TensorBoard has this run already, in {folder}: remove that folder, or name another with "
                "--to tensorboard=FOLDER."
            )
        from tensorboard.summary import Writer

        self._writer = Writer(str(folder))

    def write(self, records: Sequence[Record]) -> None:
        """A killed run loses no record that was written."""
        for record in records:
            for name, step, value in _scalars(record):
                self._writer.add_scalar(name, value, step, wall_time=record.at)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def _folder(self, logged: LoggedRun) -> Path:
        name = _ODD.sub("_", logged.run).strip(".") or "run"
        if self._argument is not None:
            return Path(self._argument) / name
        if logged.folder is None:
            raise UsageError("This run has no folder here: name one with --to tensorboard=FOLDER.")
        return logged.folder / FOLDER / name


def _scalars(record: Record) -> Iterator[tuple[str, int, float]]:
    """Name, step, value."""
    step = record.candidates if record.kind == "candidate" else record.update
    for name, value in record.values.items():
        yield name, step, value
        if name == "search/best_score":
            yield "best_score/by_seconds", round(record.seconds), value
            yield "best_score/by_cents", round(100 * record.usd), value

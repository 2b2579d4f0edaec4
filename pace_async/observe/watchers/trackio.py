"""trackio: an experiment logger that keeps runs in a database of its own, on this machine or on a Hugging Face Space.

The step of a record is the number of complete candidates, so all curves have one axis. The other axes are figures of
each record. trackio itself decides where the records go: TRACKIO_DIR, TRACKIO_SPACE_ID, TRACKIO_SERVER_URL.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any

from pace_async.errors import UsageError
from pace_async.observe.watchers.base import LoggedRun, Record
from pace_async.observe.watchers.process import SeparateWatcher

PROJECT = "pace"


def trackio(argument: str | None = None) -> SeparateWatcher:
    """The watcher in a separate process. `argument` is the project."""
    return SeparateWatcher("trackio", f"{__name__}:Trackio", argument)


class Trackio:
    """Writes into the project `argument`. The name of the run there is its id."""

    def __init__(self, argument: str | None = None) -> None:
        self._project = argument or PROJECT
        self._trackio: Any = None
        self._run: Any = None
        self._failed = ""

    def begin(self, logged: LoggedRun, *, replay: bool) -> None:
        self._trackio = import_module("trackio")
        if replay:
            try:
                self._init(logged, resume="must")
            except ValueError:  # there is none
                pass
            else:
                raise UsageError(
                    f"trackio has this run already, as {logged.id} in its project {self._project}: delete it there, or "
                    "name another project with --to trackio=PROJECT."
                )
        self._run = self._init(logged, resume="allow")
        self._run.config["pace_run"] = logged.run
        if not (os.environ.get("TRACKIO_SPACE_ID") or os.environ.get("TRACKIO_SERVER_URL")):
            warnings.showwarning = self._lost  # away from here it keeps what it cannot send, and sends it later

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            values: dict[str, Any] = {**record.values, **axes(record)}
            if record.completions:
                values["completions"] = self._trackio.Table(
                    data=[asdict(completion) for completion in record.completions]
                )
            self._run.log(values, step=record.candidates)
        self._refuse_loss()

    def close(self) -> None:
        self._run.finish()
        self._refuse_loss()

    def _init(self, logged: LoggedRun, resume: str) -> Any:
        return self._trackio.init(
            self._project,
            name=logged.id,
            group=logged.task,
            config=dict(logged.settings),
            resume=resume,
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def _lost(self, message: Warning | str, *_: object, **__: object) -> None:
        """trackio warns where it could not write its database, and goes on."""
        self._failed = self._failed or str(message)

    def _refuse_loss(self) -> None:
        if self._failed:
            raise OSError(self._failed)


def axes(record: Record) -> dict[str, float]:
    """Every axis of a record, as figures."""
    return {
        "axis/candidates": record.candidates,
        "axis/update": record.update,
        "axis/seconds": record.seconds,
        "axis/usd": record.usd,
    }

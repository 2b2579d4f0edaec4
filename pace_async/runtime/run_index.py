"""The index of this machine's runs: where each was begun or last resumed.

Invariant: the index fails no run and delays none by more than WAIT_S. If a write takes longer or fails, the run goes on
without it. The file holds folders and times, nothing else, and of at most KEPT runs. Writers take turns by a lock that
the kernel frees when its holder dies.
"""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, cast

from pace_async.durable import write_whole
from pace_async.errors import InfrastructureFault

HOME = "PACE_HOME"
"""Names the folder of the index."""
KEPT = 1000
WAIT_S = 0.5


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """A run's folder, absolute, and when it was last begun or resumed (seconds since the epoch)."""

    folder: Path
    at: float


def index_file() -> Path:
    """`runs.jsonl` under PACE_HOME, else under `pace` in the user's folder for data (XDG_DATA_HOME, ~/.local/share, or
    ~/Library/Application Support). Raises RuntimeError if there is no home."""
    if folder := os.environ.get(HOME):
        return Path(folder).expanduser() / "runs.jsonl"
    if folder := os.environ.get("XDG_DATA_HOME"):
        return Path(folder) / "pace" / "runs.jsonl"
    data = "~/Library/Application Support" if sys.platform == "darwin" else "~/.local/share"
    return Path(data).expanduser() / "pace" / "runs.jsonl"


def indexed_runs() -> list[IndexedRun]:
    """The runs, the last begun or resumed at the end. Empty if there is no index or it cannot be read."""
    try:
        return _runs_in(index_file())
    except (OSError, RuntimeError):
        return []


def remember_run(folder: Path) -> None:
    """Put the run at the end of the index."""
    place = _place(folder)
    _beside(lambda: _change(lambda runs: [*_without(runs, place), IndexedRun(place, time.time())]))


def forget_run(folder: Path) -> None:
    """Take the run out of the index."""
    place = _place(folder)
    _beside(lambda: _change(lambda runs: _without(runs, place)))


def _place(folder: Path) -> Path:
    """The absolute path without `..`. Unlike `Path.resolve` it keeps the name of a link, which the user knows."""
    return Path(os.path.abspath(folder))  # noqa: PTH100 (a link stays a link)


def _without(runs: list[IndexedRun], folder: Path) -> list[IndexedRun]:
    return [run for run in runs if run.folder != folder]


def _beside(change: Callable[[], None]) -> None:
    """Make the change in a thread that is left alone after WAIT_S: a home on a server that hangs holds nobody."""
    thread = Thread(target=change, name="run index", daemon=True)
    thread.start()
    thread.join(WAIT_S)


def _change(change: Callable[[list[IndexedRun]], list[IndexedRun]]) -> None:
    with suppress(OSError, RuntimeError, InfrastructureFault):
        file = index_file()
        file.parent.mkdir(parents=True, exist_ok=True)
        with _locked(file.with_suffix(".lock")):
            runs = change(_runs_in(file))[-KEPT:]
            lines = (json.dumps({"folder": str(run.folder), "at": run.at}) for run in runs)
            write_whole(file, "".join(f"{line}\n" for line in lines))


@contextmanager
def _locked(file: Path) -> Generator[None]:
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _runs_in(file: Path) -> list[IndexedRun]:
    """The runs of the file, without lines that are none."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [run for line in lines if (run := _parsed(line)) is not None]


def _parsed(line: str) -> IndexedRun | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict):
        return None
    folder, at = (cast("dict[str, Any]", entry).get(name) for name in ("folder", "at"))
    return IndexedRun(Path(folder), float(at)) if isinstance(folder, str) and isinstance(at, int | float) else None

"""Every fact of a run as one JSON line, for other programs.

    {"event": "RunHeader", "name": …, "stop": {…}, …}     first, and again at each resume
    {"event": "Evaluated", "at": 1763700000.1, "lease": 7, …}
    {"event": "StageChanged", "at": …, …}                 transient events too, with the time of their display

The fields are those of `events`. Large values are replaced by their size: an advisor call has purpose, prompt_tokens,
completion_tokens, oldest_version and seconds, a program has `program_chars`, a receipt has `receipt_tensors`. Numbers
that JSON cannot hold are the strings "nan", "inf" and "-inf".

A log, not the record: after a crash its last lines may be missing or torn, while the population has every fact. While
the disk is full, the last PENDING lines wait in memory, and one warning is logged.
"""

import json
import logging
import math
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from io import FileIO
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from pace_async.config import StopConfig
from pace_async.durable import disk_fault
from pace_async.events import (
    Advised,
    CascadeStageEnded,
    Claimed,
    Evaluated,
    ImplementerCalled,
    RunHeader,
    VersionPublished,
)
from pace_async.observe.base import Event
from pace_async.observe.model import RunView

FILE_NAME = "events.jsonl"
PENDING = 10_000
"""The most lines that wait for a full disk. Beyond that the oldest are lost."""

log = logging.getLogger(__name__)


class JsonlDisplay:
    """Appends to `path`. Writes in a worker thread, so that a slow disk delays nothing."""

    name = "jsonl"

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._stream: FileIO | None = None
        self._lines = deque[str](maxlen=PENDING)
        self._told = False

    def take(self, event: Event, view: RunView) -> None:
        self._lines.append(event_line(event, self._clock()))

    async def refresh(self, view: RunView, now: float) -> None:
        if self._lines or self._stream is None:
            lines = list(self._lines)
            self._lines.clear()
            try:
                await anyio.to_thread.run_sync(self._write, view, lines, abandon_on_cancel=True)
            except OSError as error:
                self._lines = deque([*lines, *self._lines], PENDING)
                self._tell(error)

    async def close(self, view: RunView, now: float) -> None:
        await self.refresh(view, now)
        self._let_go()

    def _tell(self, error: OSError) -> None:
        if not self._told:
            log.warning("%s cannot be written (%s): its lines wait, the run goes on", self._path, error.strerror)
        self._told = True

    def _let_go(self) -> None:
        """Close the file without another try to write the waiting lines."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError):
                stream.close()

    def _write(self, view: RunView, lines: list[str]) -> None:
        try:
            if self._stream is None:
                torn = _ends_torn(self._path)
                self._stream = self._path.open("ab", buffering=0)
                self._append(("\n" if torn else "") + header_line(view.header, view.stop) + "\n")
            self._append("".join(line + "\n" for line in lines))
        except OSError:
            self._let_go()
            raise

    def _append(self, text: str) -> None:
        """All of it, or nothing."""
        if self._stream is None:
            return
        data, before = text.encode(), os.fstat(self._stream.fileno()).st_size
        try:
            while data:
                data = data[self._stream.write(data) :]
        except OSError:
            self._stream.truncate(before)
            raise


def header_line(header: RunHeader, stop: StopConfig) -> str:
    """The line that opens the log."""
    return _dumps({"event": "RunHeader", **asdict(header), "stop": stop.model_dump(mode="json")})


def append_event(path: Path, event: Event, seen_at: float) -> None:
    """Add one event to a log that nobody else writes. Raises InfrastructureFault if the disk fails."""
    try:
        torn = _ends_torn(path)
        with path.open("ab") as stream:
            stream.write((("\n" if torn else "") + event_line(event, seen_at) + "\n").encode())
    except OSError as error:
        raise disk_fault(error, path) from error


def event_line(event: Event, seen_at: float) -> str:
    """One event as a JSON object. `seen_at` is used as the time of a transient event."""
    tree: dict[str, Any] = {"event": type(event).__name__, "at": seen_at}
    for item in fields(event):
        value: Any = getattr(event, item.name)
        match event, item.name:
            case Advised(), "calls":
                tree["calls"] = [
                    {
                        "purpose": call.purpose,
                        "prompt_tokens": len(call.prompt_ids),
                        "completion_tokens": len(call.completion_ids),
                        "oldest_version": min((span.version for span in call.spans), default=None),
                        "seconds": call.seconds,
                    }
                    for call in event.calls
                ]
            case Advised(), "ideas":
                tree["ideas"] = [asdict(idea) for idea in event.ideas]
            case ((Evaluated() | CascadeStageEnded()), "program"):
                tree["program_chars"] = None if event.program is None else len(event.program)
            case Claimed(), "program":
                tree["program_chars"] = len(event.program)
            case (Evaluated(), "fresh") | (Claimed(), "tries"):
                tree[item.name] = [asdict(attempt) for attempt in value]
            case ImplementerCalled(), "tried":
                tree["try"] = None if event.tried is None else event.tried.number
            case ImplementerCalled(), "answered":
                tree["answer_to"] = None if event.answered is None else event.answered.purpose
            case ImplementerCalled(), "notes":
                tree["notes"] = None if event.notes is None else asdict(event.notes)
            case ImplementerCalled(), "left":
                tree["left"] = None if event.left is None else asdict(event.left)
            case CascadeStageEnded(), "score":
                tree["score"] = asdict(event.score)
            case VersionPublished(), "receipt":
                tree["receipt_tensors"] = len(event.receipt)
            case _:
                tree[item.name] = value
    return _dumps(tree)


def _ends_torn(path: Path) -> bool:
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as stream:
        stream.seek(-1, 2)
        return stream.read(1) != b"\n"


def _dumps(tree: Mapping[str, Any]) -> str:
    return json.dumps(_finite(tree), ensure_ascii=True, allow_nan=False, default=str, separators=(",", ":"))


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {str(key): _finite(each) for key, each in cast("Mapping[Any, Any]", value).items()}
        case list() | tuple():
            return [_finite(each) for each in cast("list[Any]", value)]
        case _:
            return value

"""A watcher in a separate process, for loggers that print, catch signals, start threads and take time to load.

Invariant: nothing of the logger is loaded into the process of the run. The child gets one line of JSON for each batch
and need not have written it before the next. Its queue and the pipe are bounded: when both are full, `write` waits, and
the log falls behind. When the run ends, or is killed, the child's input ends. It then writes what it has and finishes
the log by itself (`child.LAST_S`).
"""

import json
import os
import select
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, cast

from pace_async.children import clean_environment, leave_own_limits, python_module
from pace_async.errors import UsageError
from pace_async.observe.watchers.base import LogFailed, LoggedRun, Record

CHILD = "pace_async.observe.watchers.child"
CLOSE_S = 1.5
"""How long the end of a run waits for the log to be finished. The child goes on by itself."""
_FAMILIES = ("WANDB_", "TRACKIO_", "HF_")
_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_left: list[subprocess.Popen[bytes]] = []
"""Children that finish a log after their run. Nothing waits for them."""


class SeparateWatcher:
    """Runs the watcher that `code` (`module:attribute`) makes from `argument` in a child. `name` is that of its log."""

    def __init__(self, name: str, code: str, argument: str | None) -> None:
        self._name, self._code, self._argument = name, code, argument
        self._process: subprocess.Popen[bytes] | None = None
        self._replay = False

    def begin(self, logged: LoggedRun, *, replay: bool) -> None:
        """Start the child. With `replay`, wait until its log is open. Raises UsageError if that is not empty."""
        self._replay = replay
        with _errors_of(logged.folder, self._name) as errors:
            self._process = subprocess.Popen(
                python_module(CHILD),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
                env=_environment(),
                start_new_session=True,  # Ctrl-C drains the run, and must not end the log before
            )
        leave_own_limits(self._process.pid)
        fields = {**asdict(logged), "folder": None if logged.folder is None else str(logged.folder)}
        self._send({"code": self._code, "argument": self._argument, "replay": replay, "logged": fields})
        if replay:
            self._answer(None)

    def write(self, records: Sequence[Record]) -> None:
        if self._readable(0):
            self._answer(None)  # it answers before the end only if it fails
        self._send({"records": [asdict(record) for record in records]})

    def close(self) -> None:
        """Let the child finish. A run waits CLOSE_S seconds for it, a replay as long as it takes."""
        process = self._running()
        _input_of(process).close()
        if self._answer(None if self._replay else CLOSE_S):
            process.wait()
            _output_of(process).close()
        else:
            _left.append(process)

    def _send(self, message: object) -> None:
        line = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while line:
                line = line[_input_of(self._running()).write(line) :]
        except OSError:  # it has ended, and its last line says why
            self._answer(None)
            raise LogFailed("its process has ended") from None

    def _answer(self, seconds: float | None) -> bool:
        """Read an answer, at most so long. Returns whether one came. Raises the error that it reports."""
        if not self._readable(seconds):
            return False
        process = self._running()
        line = _output_of(process).readline()
        try:
            answer = cast("dict[str, Any]", json.loads(line))
        except ValueError:
            answer = {"error": "its process has ended"}
        if "error" not in answer:
            return True
        with suppress(OSError):
            _input_of(process).close()
        process.wait()
        _output_of(process).close()
        if answer.get("usage"):
            raise UsageError(str(answer["error"]))
        raise LogFailed(str(answer["error"]))

    def _readable(self, seconds: float | None) -> bool:
        return bool(select.select([_output_of(self._running())], [], [], seconds)[0])

    def _running(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "begin comes first"
        return self._process


def _environment() -> dict[str, str]:
    """What a child of ours gets, and what loggers and connections are set up with. No provider's key."""
    settings = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_FAMILIES) or name.upper() in _NAMES or name in ("NETRC", "USER", "LOGNAME")
    }
    environment = clean_environment()
    environment.pop("HF_HUB_OFFLINE", None)
    return {**environment, **settings}


def _errors_of(folder: Path | None, name: str) -> IO[bytes]:
    """What the logger prints: logs/NAME.log in the run's folder, nowhere if it cannot be written."""
    if folder is not None:
        with suppress(OSError):
            (folder / "logs").mkdir(exist_ok=True)
            return (folder / "logs" / f"{name}.log").open("ab")
    return Path(os.devnull).open("ab")


def _input_of(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _output_of(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout

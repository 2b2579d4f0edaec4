"""The process of a logger: reads batches from its standard input, and writes them until the input ends.

It answers with a line of JSON when a replay's log is open, and at its end, with `error` if it failed. What the logger
prints goes to standard error.

Invariant: it ends within LAST_S seconds after its input has ended, whatever the logger does, and its process group with
it. A replay may take REPLAY_S. Of the children of one log only one writes: that of a resume waits until the
one before has finished.
"""

import fcntl
import json
import os
import queue
import stat
import sys
import threading
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

from pace_async.children import kill_group
from pace_async.errors import UsageError
from pace_async.observe.watchers.base import Completion, LoggedRun, Record, Watcher, WatcherFactory

LAST_S, REPLAY_S = 120.0, 1800.0
WAITING = 64
"""Batches that wait to be written."""

Message = dict[str, Any]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    first = sys.stdin.buffer.readline()
    if not first:
        return
    begun = cast("Message", json.loads(first))
    waiting: queue.Queue[Message | None] = queue.Queue(WAITING)
    patience = REPLAY_S if begun["replay"] else LAST_S
    threading.Thread(target=_queue_batches, args=(waiting, patience), daemon=True).start()

    def answer(**told: object) -> None:
        answers.write(json.dumps(told) + "\n")
        answers.flush()

    try:
        if stat.S_ISREG(os.fstat(2).st_mode):
            fcntl.flock(2, fcntl.LOCK_EX)  # held by what is printed into, so it ends with this process
        watcher = _open(begun)
        if begun["replay"]:
            answer()
        while (message := waiting.get()) is not None:
            watcher.write([_record(record) for record in message["records"]])
        watcher.close()
    except Exception as error:
        usage = isinstance(error, UsageError)
        answer(error=str(error) if usage else f"{type(error).__name__}: {error}", usage=usage)
        sys.stderr.flush()
        kill_group(os.getpid())  # with what the logger has started
    answer()


def _queue_batches(waiting: "queue.Queue[Message | None]", patience: float) -> None:
    """Queue the batches. After the last one the process has so many seconds."""
    for line in sys.stdin.buffer:
        if not line.endswith(b"\n"):
            break  # the run was killed within it
        waiting.put(cast("Message", json.loads(line)))
    end = threading.Timer(patience, kill_group, (os.getpid(),))
    end.daemon = True
    end.start()
    waiting.put(None)


def _open(begun: Message) -> Watcher:
    logged_run = begun["logged"]
    folder = None if logged_run["folder"] is None else Path(logged_run["folder"])
    factory = cast("WatcherFactory", resolve_name(begun["code"]))
    watcher = factory(begun["argument"])
    watcher.begin(
        LoggedRun(logged_run["run"], logged_run["task"], logged_run["began"], folder, logged_run["settings"]),
        replay=begun["replay"],
    )
    return watcher


def _record(message: Message) -> Record:
    message["completions"] = tuple(Completion(**completion) for completion in message["completions"])
    return Record(**message)


if __name__ == "__main__":
    main()

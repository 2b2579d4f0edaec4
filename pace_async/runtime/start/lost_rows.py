"""Rows that a run committed and its population no longer holds, found by the log of events.

Invariant: an event of a fact is written after its commit. So what the end of the log tells stands in the rows, unless
rows were lost: population.db-wal was removed after a crash, or an older backup was put back. The lost rows are the last
ones, so the end of the log shows them. An event may be missing, so a loss without events after it stays unnoticed.

A resume that goes on all the same writes the fault ROWS_LOST into rows and log: what stands before it in the log no
longer counts.
"""

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from pace_async.errors import UsageError
from pace_async.events import FaultSeen
from pace_async.observe.jsonl import append_event
from pace_async.population.reading.lost import ROWS_LOST, without_row
from pace_async.population.store import Store
from pace_async.runtime.run_paths import RunPaths
from pace_async.runtime.start.rebuilding import lacks_for_rebuild

END_BYTES = 1 << 24
"""How much of the log's end is read: some thousand candidates."""

_TOLD = {
    "LeaseOpened": ("leases", "lease"),
    "Evaluated": ("candidates", "lease"),
    "ImplementerReserved": ("reservations", "number"),
    "GroupShipped": ("groups", "number"),
    "VersionPublished": ("versions", "version"),
}
"""The events that count, with the table of their rows and the field that numbers them."""
_COUNTED = re.compile(rb'\{"event":"(?:' + "|".join((*_TOLD, "FaultSeen")).encode() + rb')",')


@dataclass(frozen=True, slots=True)
class MissingRows:
    """Numbers that the log tells of and the rows lack, by table."""

    numbers: Mapping[str, frozenset[int]]

    def __str__(self) -> str:
        """As in "12 candidates and 1 version"."""
        counts = {table: len(numbers) for table, numbers in self.numbers.items() if numbers}
        words = [f"{count} {table if count > 1 else table[:-1]}" for table, count in counts.items()]
        return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def numbers_in_log(log: Path) -> dict[str, set[int]]:
    """The numbers at the end of the log, by table, after the last loss that a resume accepted. Empty without a log."""
    numbers: dict[str, set[int]] = {table: set() for table, _ in _TOLD.values()}
    for line in _end_of(log).splitlines():
        if _COUNTED.match(line) is None:
            continue
        try:
            event = cast("dict[str, Any]", json.loads(line))
        except (ValueError, RecursionError):
            continue  # torn, or of another program
        if event["event"] == "FaultSeen":
            if event.get("kind") == ROWS_LOST:
                numbers = {table: set() for table in numbers}
            continue
        table, field = _TOLD[event["event"]]
        number = event.get(field)
        if isinstance(number, int) and number > 0:
            numbers[table].add(number)
    return numbers


async def lost_rows(store: Store, log: Path) -> MissingRows | None:
    """What the log tells of and the rows of the chosen run lack, or None."""
    logged_numbers = numbers_in_log(log)
    run_id = store.run_id
    lost = await store.read(
        lambda connection: {
            table: without_row(connection, run_id, table, numbers) for table, numbers in logged_numbers.items()
        }
    )
    return MissingRows(lost) if any(lost.values()) else None


async def refuse_if_lost(store: Store, paths: RunPaths, objective: str) -> None:
    """Raises UsageError, with what to do, if rows of the chosen run were lost. `objective` is that of its learner."""
    if (lost := await lost_rows(store, paths.events)) is None:
        return
    lacks = await lacks_for_rebuild(store, objective, paths)
    instead = (
        f"or give them up for good with `pace resume {paths.folder} --despite-loss`"
        if lacks is None
        else f"because they cannot be given up: {lacks}"
    )
    raise UsageError(
        f"{store.place} lacks {lost} that its run committed (events.jsonl tells of them), as when population.db-wal"
        f" is removed after a crash or an older backup is put back: put the newer files back, {instead}."
    )


async def accept_loss(store: Store, paths: RunPaths) -> None:
    """Go on without the lost rows of the chosen run, if there are any: recorded in the rows, then in the log. Raises
    InfrastructureFault if the disk fails."""
    if (lost := await lost_rows(store, paths.events)) is not None:
        now = time.time()
        fault = FaultSeen("database", ROWS_LOST, f"gone on without {lost} that had been committed", None, now)
        await store.commit(fault)
        await anyio.to_thread.run_sync(append_event, paths.events, fault, now)


def _end_of(log: Path) -> bytes:
    """From the start of a line on."""
    try:
        with log.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - END_BYTES))
            text = stream.read()
    except OSError:
        return b""
    return text if size <= END_BYTES else text.partition(b"\n")[2]

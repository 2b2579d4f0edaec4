"""Writes a run that has ended into a logger."""

from collections.abc import Iterable

from pace_async.events import RunHeader
from pace_async.observe.fold import fold
from pace_async.observe.model import RunView
from pace_async.observe.watchers.base import LoggedRun, Record, Watcher
from pace_async.observe.watchers.records import nothing_said, record_of
from pace_async.observe.watchers.texts import SaidFor
from pace_async.population.journal.bodies import Recorded

BATCH = 1000


def replay(
    watcher: Watcher, logged: LoggedRun, header: RunHeader, facts: Iterable[Recorded], said: SaidFor = nothing_said
) -> int:
    """Write the records of the facts, which are in the order of their commits. Returns their number. Raises what the
    watcher raises."""
    watcher.begin(logged, replay=True)
    view, batch, written = RunView(header), list[Record](), 0
    for fact in facts:
        if isinstance(fact, RunHeader):
            continue
        view = fold(view, fact)
        if (record := record_of(fact, view, logged.began, said)) is not None:
            batch.append(record)
        if len(batch) == BATCH:
            watcher.write(batch)
            written, batch = written + len(batch), []
    if batch:
        watcher.write(batch)
    watcher.close()
    return written + len(batch)

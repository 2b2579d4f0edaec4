"""What a process that takes up a run knows of what was there before: the view folded from the run's facts, those after
its newest snapshot on top of that.

Invariant: with a snapshot and without, the view is the same (`check_views`).
"""

from dataclasses import replace
from typing import Any

from pace_async.baseline import BaselineComparison
from pace_async.config import StopConfig
from pace_async.errors import UsageError
from pace_async.events import RunHeader
from pace_async.observe.followed import Followed
from pace_async.observe.model import RunView
from pace_async.population.base import Population
from pace_async.population.reading import following
from pace_async.population.reading.audit import Check
from pace_async.population.reading.following import ResumedFollower
from pace_async.population.reading.reader import Reader
from pace_async.population.reading.record import RunRecord

OF_A_PROCESS = (
    *("state", "reason", "begun_at", "started_at", "last_at", "ended_at", "best_known", "beside"),
    *("finished_here", "times", "threads", "reserved", "unaffordable", "given_up", "given_up_usd", "unanswered"),
    *("models_down", "paused", "held", "stalled", "failing", "nodes", "notes", "latest"),
)
"""The fields of a view that begin anew with a process that goes on with the run. All others are kept."""


async def taken_up(run_id: int, population: Population) -> ResumedFollower[Followed]:
    """The run as of its last fact. Raises UsageError if its journal is damaged."""
    return await population.read(lambda connection: following.taken_up(connection, run_id, as_followed))


def begin_following(
    reader: Reader, best_known: float | None, beside: BaselineComparison | None
) -> tuple[Followed, int]:
    """A follower of the run as of its newest snapshot, and the number of the last fact in it, 0 before the first."""

    def begin(header: RunHeader, view: bytes | None) -> Followed:
        return Followed(header, best_known, beside) if view is None else Followed.of(view, best_known, beside)

    return reader.ask(following.begin_at_snapshot, begin)


def as_followed(header: RunHeader, view: bytes | None) -> Followed:
    """The follower that was encoded, or one before the first fact. Raises ValueError if it does not read."""
    return Followed(header) if view is None else Followed.of(view)


def resumed_view(view: RunView, header: RunHeader, stop: StopConfig) -> RunView:
    """The view before the first event of a process that goes on with the run."""
    empty = RunView(header, stop)
    anew: dict[str, Any] = {name: getattr(empty, name) for name in OF_A_PROCESS}
    learner, ledger = replace(view.learner, stage="waiting"), view.ledger.resumed(view.last_at)
    return replace(view, header=header, stop=stop, learner=learner, ledger=ledger, **anew)


async def view_of(record: RunRecord, stop: StopConfig, population: Population) -> RunView:
    """The same, read. For a fresh run it holds at most the seed program."""
    reading = await taken_up(record.run_id, population)
    return resumed_view(reading.follower.view, record.header, stop)


def check_views(reader: Reader) -> tuple[Check, ...]:
    """The check of each run that the view in its newest snapshot is the one that the facts up to it come to."""
    return tuple(_check_view(reader, name) for name in reader.runs())


def _check_view(reader: Reader, run: str) -> Check:
    name = f"view ({run})"
    try:
        both = reader.both_views(as_followed, run)
    except (ValueError, UsageError) as error:
        return Check(name, "a snapshot", (f"the view in the snapshot does not read: {error}",))
    if both is None:
        return Check(name, "no snapshot")
    seq, snapshot, folded = both
    wrong = () if snapshot.plain() == folded.plain() else (f"the view in the snapshot of {seq} facts is not theirs",)
    return Check(name, f"of {seq} facts", wrong)

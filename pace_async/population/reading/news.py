"""The latest facts of a run that a screen names, read from its rows.

They are the written facts without what no sentence and no curve needs: programs, a candidate's metrics, weights.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from pace_async.events import (
    Evaluated,
    FaultSeen,
    GroupEnded,
    GroupShipped,
    LeaseAborted,
    RunStateChanged,
)
from pace_async.population.fields import NAMED_METRICS
from pace_async.population.models import CandidateRow, FaultRow, GroupRow, LeaseRow, RunStateRow, VersionRow

News = Evaluated | FaultSeen | GroupEnded | LeaseAborted | RunStateChanged


def news_of(connection: Connection, run_id: int, kept: int, improvements: Collection[int]) -> tuple[News, ...]:
    """The last `kept` facts of each kind, oldest first. Of the candidates also `improvements`, by number."""
    states = select(RunStateRow).where(RunStateRow.run_id == run_id).order_by(RunStateRow.number.desc())
    faults = select(FaultRow).where(FaultRow.run_id == run_id).order_by(FaultRow.number.desc())
    aborted = select(LeaseRow).where(LeaseRow.run_id == run_id, LeaseRow.state == "aborted")
    ended = select(GroupRow).where(GroupRow.run_id == run_id, GroupRow.state != "shipped")
    newest = ended.order_by(GroupRow.group_number.desc())
    found: list[News] = [
        *(RunStateChanged(row.state, row.reason, row.at) for row in connection.execute(states.limit(kept))),
        *(
            FaultSeen(row.stage, row.kind, row.detail, row.lease, row.at)
            for row in connection.execute(faults.limit(kept))
        ),
        *(_aborted(row) for row in connection.execute(aborted.order_by(LeaseRow.closed_at.desc()).limit(kept))),
        *groups_of(connection, run_id, connection.execute(newest.limit(kept)).all()),
        *candidates_of(connection, run_id, kept, improvements),
    ]
    return tuple(sorted(found, key=lambda fact: fact.at))


def _aborted(row: Any) -> LeaseAborted:
    kind, _, detail = (row.reason or "").partition(": ")
    return LeaseAborted(row.lease, row.island, kind, detail, row.closed_at)


def candidates_of(
    connection: Connection, run_id: int, kept: int | None, also: Collection[int] = ()
) -> Iterator[Evaluated]:
    """The last `kept` candidates, all if None, and `also` these. In no order."""
    row = CandidateRow
    columns: tuple[Any, ...] = (
        row.candidate,
        row.island,
        row.parent,
        row.outcome,
        row.detail,
        row.score,
        row.reward,
        row.seconds,
    )
    of_run = select(*columns, row.memoised, row.mechanism, row.at).where(row.run_id == run_id)
    latest: Sequence[Any] = connection.execute(of_run.order_by(row.at.desc(), row.candidate.desc()).limit(kept)).all()
    missing = set(also) - {found.candidate for found in latest}
    older: Sequence[Any] = connection.execute(of_run.where(row.candidate.in_(missing))).all() if missing else []
    for found in (*latest, *older):
        yield Evaluated(
            lease=found.candidate,
            island=found.island or 0,
            parent=found.parent,
            program=None,
            program_hash=None,
            outcome=found.outcome,
            detail=found.detail,
            score=found.score,
            reward=found.reward,
            metrics={},
            seconds=found.seconds,
            memoised=found.memoised,
            mechanism=found.mechanism,
            at=found.at,
        )


def groups_of(connection: Connection, run_id: int, groups: Collection[Row[Any]]) -> Iterator[GroupEnded]:
    """The ends of the groups of these rows."""
    numbers = [row.group_number for row in groups]
    made = {
        row.group_number: row.version
        for row in connection.execute(
            select(VersionRow.group_number, VersionRow.version).where(
                VersionRow.run_id == run_id, VersionRow.group_number.in_(numbers)
            )
        )
    }
    for row in groups:
        yield GroupEnded(
            number=row.group_number,
            update=row.update_number,
            leases=(),
            closing=row.state,
            reason=row.reason,
            version=made.get(row.group_number, row.update_number),
            weights=None,
            metrics={**row.metrics, **_named(row)},
            seconds=row.seconds or 0.0,
            at=row.ended_at,
        )


def _named(row: Any) -> dict[str, float]:
    """The figures with columns of their own."""
    figures = {name: getattr(row, name) for name in NAMED_METRICS}
    return {name: value for name, value in figures.items() if value is not None}


def shipped_of(connection: Connection, run_id: int, numbers: Collection[int]) -> dict[int, GroupShipped]:
    """What was shipped, by the number of the group."""
    leases: dict[int, list[Any]] = {number: [] for number in numbers}
    for row in connection.execute(
        select(LeaseRow.group_number, LeaseRow.lease, LeaseRow.staleness, LeaseRow.group_reward, LeaseRow.advantage)
        .where(LeaseRow.run_id == run_id, LeaseRow.group_number.in_(numbers))
        .order_by(LeaseRow.lease)
    ):
        leases[row.group_number].append(row)
    rows = connection.execute(select(GroupRow).where(GroupRow.run_id == run_id, GroupRow.group_number.in_(numbers)))
    return {row.group_number: _shipped(row, leases[row.group_number]) for row in rows}


def _shipped(row: Any, leases: list[Any]) -> GroupShipped:
    advantages = tuple(lease.advantage for lease in leases)
    return GroupShipped(
        number=row.group_number,
        update=row.update_number,
        leases=tuple(lease.lease for lease in leases),
        staleness=tuple(lease.staleness or 0 for lease in leases),
        rewards=tuple(lease.group_reward for lease in leases),
        advantages=None if None in advantages else advantages,
        alpha=row.alpha,
        digest=row.digest,
        at=row.shipped_at,
        restores=row.restores,
        rate=row.rate,
    )

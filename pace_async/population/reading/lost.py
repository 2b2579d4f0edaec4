"""Which numbers of a run have no row, of those that ought to have one, and what a resume went on without."""

import time
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, func, select

from pace_async.population.models import CandidateRow, FaultRow, GroupRow, LeaseRow, ReservationRow, VersionRow

NUMBERED: Mapping[str, tuple[Any, Any]] = {
    "leases": (LeaseRow.run_id, LeaseRow.lease),
    "candidates": (CandidateRow.run_id, CandidateRow.candidate),
    "reservations": (ReservationRow.run_id, ReservationRow.number),
    "groups": (GroupRow.run_id, GroupRow.group_number),
    "versions": (VersionRow.run_id, VersionRow.version),
}
"""What tells the run, and the number of a row, by what the rows are."""
ROWS_LOST = "rows_lost"
"""The kind of fault that records a loss that was accepted."""
ASKED_AT_ONCE = 500


def without_row(connection: Connection, run_id: int, table: str, numbers: Collection[int]) -> frozenset[int]:
    """The `numbers` of `table`, a key of NUMBERED, that the run has no row of."""
    run, number = NUMBERED[table]
    highest = connection.execute(select(func.max(number)).where(run == run_id)).scalar_one() or 0
    missing = {each for each in numbers if each > highest}
    rest = sorted(set(numbers) - missing)
    for begin in range(0, len(rest), ASKED_AT_ONCE):
        batch = rest[begin : begin + ASKED_AT_ONCE]
        existing = connection.execute(select(number).where(run == run_id, number.in_(batch))).scalars()
        missing |= set(batch) - set(existing)
    return frozenset(missing)


def rows_given_up(connection: Connection, run_id: int) -> str | None:
    """What resumes with --despite-loss went on without, and when, in one sentence. None if nothing was lost."""
    faults = select(FaultRow.detail, FaultRow.at).where(FaultRow.run_id == run_id, FaultRow.kind == ROWS_LOST)
    losses = [
        f"{detail} ({time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}, --despite-loss)"
        for detail, at in connection.execute(faults.order_by(FaultRow.number)).all()
    ]
    return "; ".join(losses) or None

"""When faults happened, as typed rows."""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from pace_async.population.models import CandidateRow, FaultRow, RunRow, RunStateRow


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure of a service or the machine, in seconds since the epoch."""

    stage: str
    kind: str
    at: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """The faults of a run, oldest first, between its beginning and the last thing that happened in it."""

    began: float
    ended: float
    faults: tuple[Fault, ...]


def timeline_of(connection: Connection, run_id: int) -> Timeline:
    """The timeline of one run."""
    began = connection.execute(select(RunRow.created_at).where(RunRow.run_id == run_id)).scalar_one()
    rows = connection.execute(
        select(FaultRow.stage, FaultRow.kind, FaultRow.at).where(FaultRow.run_id == run_id).order_by(FaultRow.number)
    )
    faults = tuple(Fault(*row) for row in rows)
    last = (
        connection.execute(select(func.coalesce(func.max(table.at), began)).where(table.run_id == run_id)).scalar_one()
        for table in (CandidateRow, RunStateRow, FaultRow)
    )
    return Timeline(began, max(began, *last), faults)

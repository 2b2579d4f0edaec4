"""One short summary for each run of a population."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, case, func, select

from pace_async.fitness import fitness_of
from pace_async.population.models import (
    CandidateRow,
    GroupRow,
    ImplementerCallRow,
    ImplementerCheckRow,
    RunRow,
    RunStateRow,
)
from pace_async.population.reading.read_spending import unpriced_by_run


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How far a run is. `candidates` counts evaluated rollouts without the task's own program, `updates` ended groups.
    `best_score` is None before the first score. `spend_usd` is None if the price of some calls is not known, and
    `spend_known_usd` is the cost of the others. `made_at` and `last_at` (the last candidate or change of state) are in
    seconds since the epoch."""

    run: str
    task: str
    state: str
    reason: str
    candidates: int
    updates: int
    best_score: float | None
    direction: str
    spend_usd: float | None
    spend_known_usd: float
    made_at: float
    last_at: float


def summaries_of(connection: Connection) -> tuple[RunSummary, ...]:
    """Every run, oldest first. Each table is read once, whatever the number of runs."""
    candidates = _by_run(
        connection,
        select(
            CandidateRow.run_id,
            func.sum(case((CandidateRow.candidate > 0, 1), else_=0)),
            func.max(CandidateRow.merit),
            func.max(CandidateRow.at),
        ).group_by(CandidateRow.run_id),
    )
    groups = _by_run(
        connection,
        select(GroupRow.run_id, func.count()).where(GroupRow.state != "shipped").group_by(GroupRow.run_id),
    )
    states = _states(connection)
    spent: dict[int, float] = {}
    for table in (ImplementerCallRow, ImplementerCheckRow):
        sums = _by_run(connection, select(table.run_id, func.sum(table.cost_usd)).group_by(table.run_id))
        for run_id, (usd,) in sums.items():
            spent[run_id] = spent.get(run_id, 0.0) + float(usd or 0.0)
    unpriced = unpriced_by_run(connection)
    columns = (
        *(RunRow.run_id, RunRow.name, RunRow.task, RunRow.direction, RunRow.lower, RunRow.upper),
        RunRow.created_at,
    )
    summaries: list[RunSummary] = []
    for row in connection.execute(select(*columns).order_by(RunRow.run_id)):
        complete, merit, last = candidates.get(row.run_id, (0, None, None))
        state, reason, changed = states.get(row.run_id, ("created", "", row.created_at))
        summaries.append(
            RunSummary(
                run=row.name,
                task=row.task,
                state=state,
                reason=reason,
                candidates=int(complete or 0),
                updates=groups.get(row.run_id, (0,))[0],
                best_score=None if merit is None else fitness_of(row.direction, row.lower, row.upper).merit(merit),
                direction=row.direction,
                spend_usd=None if row.run_id in unpriced else spent.get(row.run_id, 0.0),
                spend_known_usd=spent.get(row.run_id, 0.0),
                made_at=row.created_at,
                last_at=max(at for at in (row.created_at, changed, last) if at is not None),
            )
        )
    return tuple(summaries)


def made_at(connection: Connection, run_id: int) -> float:
    """When the run was made, in seconds since the epoch."""
    return connection.execute(select(RunRow.created_at).where(RunRow.run_id == run_id)).scalar_one()


def _states(connection: Connection) -> dict[int, tuple[Any, ...]]:
    """The last (state, reason, time) of each run that has one."""
    last = (
        select(RunStateRow.run_id, func.max(RunStateRow.number).label("number")).group_by(RunStateRow.run_id).subquery()
    )
    newest = and_(last.c.run_id == RunStateRow.run_id, last.c.number == RunStateRow.number)
    columns = (RunStateRow.run_id, RunStateRow.state, RunStateRow.reason, RunStateRow.at)
    return _by_run(connection, select(*columns).join(last, newest))


def _by_run(connection: Connection, statement: Any) -> dict[int, tuple[Any, ...]]:
    """The other columns by the first, which is the run."""
    return {row[0]: tuple(row[1:]) for row in connection.execute(statement)}

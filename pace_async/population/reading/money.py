"""How candidates ended, what failed and what was paid, each as typed rows.

Invariant: the database counts and sums. No row of a candidate or of a call is read, however long the run is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, Float, column, func, literal, select, text, union_all, values

from pace_async.population.models import ImplementerCallRow, ImplementerCheckRow, RunRow
from pace_async.population.reading.progress import Improvement, improvements_of, outcomes_of
from pace_async.population.reading.read_spending import cost_nothing, unpriced_of

AT_A_TIME = 10_000
"""Moments in one statement."""


@dataclass(frozen=True, slots=True)
class FaultCount:
    """Faults of one kind at one stage, and the newest one's detail."""

    stage: str
    kind: str
    times: int
    detail: str


@dataclass(frozen=True, slots=True)
class Spend:
    """Calls of one model in one role. `usd` is None if the price of some is not known, and `known_usd` is the cost of
    the others."""

    role: str
    model: str
    calls: int
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float | None
    usd: float | None
    known_usd: float = 0.0


class PaidImprovement(NamedTuple):
    """A candidate that was better than all before it, and the USD of all calls up to its completion, None in a run with
    calls whose price is not known."""

    candidate: Improvement
    usd: float | None


@dataclass(frozen=True, slots=True)
class Money:
    """`outcomes` counts candidates without the task's own program. `faults` are the most frequent first, `improvements`
    the oldest first."""

    outcomes: dict[str, int]
    faults: tuple[FaultCount, ...]
    spend: tuple[Spend, ...]
    improvements: tuple[PaidImprovement, ...]


def money_of(connection: Connection, run_id: int) -> Money:
    """The money of one run."""
    better = improvements_of(connection, run_id)
    paid: Sequence[float | None] = paid_until(connection, run_id, [improvement.at for improvement in better])
    if unpriced_of(connection, run_id):
        paid = [None] * len(better)
    return Money(
        outcomes=outcomes_of(connection, run_id),
        faults=_faults(connection, run_id),
        spend=_spend(connection, run_id),
        improvements=tuple(PaidImprovement(improvement, usd) for improvement, usd in zip(better, paid, strict=True)),
    )


def paid_until(connection: Connection, run_id: int, times: Sequence[float]) -> list[float]:
    """USD of all calls up to each of the times. Calls and times are put in one order, and summed up along it."""
    call = ImplementerCallRow
    totals: dict[float, float] = {}
    for first in range(0, len(times), AT_A_TIME):
        moments = [(at,) for at in times[first : first + AT_A_TIME]]
        cutoffs = values(column("at", Float), name="asked").data(moments).cte("asked")
        calls = select(call.at, call.cost_usd, literal(False).label("wanted")).where(call.run_id == run_id)
        every = union_all(calls, select(cutoffs.c.at, literal(0.0), literal(True))).subquery()
        paid = func.sum(every.c.cost_usd).over(order_by=every.c.at).label("paid")
        summed = select(every.c.at, every.c.wanted, paid).subquery()
        rows = connection.execute(select(summed.c.at, summed.c.paid).where(summed.c.wanted))
        totals |= {row.at: float(row.paid) for row in rows}
    return [totals[at] for at in times]


def _faults(connection: Connection, run_id: int) -> tuple[FaultCount, ...]:
    rows = connection.execute(
        text(
            """SELECT f.stage, f.kind, COUNT(*) AS times,
                      (SELECT x.detail FROM faults x WHERE x.run_id = f.run_id AND x.stage = f.stage
                       AND x.kind = f.kind ORDER BY x.number DESC LIMIT 1) AS detail
               FROM faults f WHERE f.run_id = :run_id
               GROUP BY f.run_id, f.stage, f.kind ORDER BY times DESC, f.stage, f.kind"""
        ),
        {"run_id": run_id},
    )
    return tuple(FaultCount(*row) for row in rows)


def _spend(connection: Connection, run_id: int) -> tuple[Spend, ...]:
    run = connection.execute(select(RunRow.name).where(RunRow.run_id == run_id)).scalar_one()
    columns_of_view = "role, model, calls, prompt_tokens, completion_tokens, seconds, usd"
    rows = connection.execute(text(f"SELECT {columns_of_view} FROM spend WHERE run = :run"), {"run": run})
    unpriced = _unpriced_models(connection, run_id)
    return tuple(
        Spend(*row[:-1], usd=None if (row.role, row.model) in unpriced else row.usd, known_usd=row.usd or 0.0)
        for row in rows
    )


def _unpriced_models(connection: Connection, run_id: int) -> set[tuple[str, str]]:
    """(role, model) of the rows of the view `spend` whose cost is not known."""
    roles = unpriced_of(connection, run_id)
    models: set[tuple[str, str]] = set()
    for table, role in ((ImplementerCallRow, ImplementerCallRow.role), (ImplementerCheckRow, literal("check"))):
        free = select(role.label("role"), table.model).where(table.run_id == run_id, table.role.in_(roles))
        models |= {(row.role, row.model) for row in connection.execute(free.where(cost_nothing(table)).distinct())}
    return models

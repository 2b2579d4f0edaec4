"""The steps of calls to models over the network, and of the money for them."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, select

from pace_async.events import ImplementerCalled, ImplementerChecked, ImplementerReserved, TryEvaluated
from pace_async.population.fields import fact_of
from pace_async.population.models import (
    AdvisorCallRow,
    ExperimentRow,
    IdeasLeftRow,
    ImplementerCallRow,
    ImplementerCheckRow,
    ImplementerTryRow,
    NotesPageRow,
    ReservationRow,
)
from pace_async.population.reading.importing.order import Key, Step


def steps_of_calls(connection: Connection, run_id: int, ends_after: dict[int, list[Key]]) -> Iterator[Step]:
    """All of them, in no order. Adds to `ends_after` those that come before the end of a lease. A try has no time of
    its own: its evaluation ends so long after its call as it took, and before the next call."""
    closed: dict[tuple[int, int], int] = {}
    reservations = select(ReservationRow).where(ReservationRow.run_id == run_id).order_by(ReservationRow.number)
    for row in connection.execute(reservations):
        reserved = fact_of(ImplementerReserved, ReservationRow, row)
        yield Step(("reserved", row.lease, row.number), row.at, row.lease, reserved, _begins(row.lease, row.role))
        if row.ordinal is not None:
            closed[row.lease, row.ordinal] = row.number
    evaluated = _evaluated_tries(connection, run_id)
    long = _with_texts(connection, run_id)
    last_try: tuple[int, Key] | None = None
    calls = select(ImplementerCallRow).where(ImplementerCallRow.run_id == run_id)
    for row in connection.execute(calls.order_by(ImplementerCallRow.lease, ImplementerCallRow.ordinal)).all():
        lease, ordinal, number = row.lease, row.ordinal, closed.get((row.lease, row.ordinal))
        called = fact_of(ImplementerCalled, ImplementerCallRow, row, reservation=number)
        key: Key = ("called", lease, ordinal)
        after: list[Key] = [*_begins(lease, row.role), ("called", lease, ordinal - 1)]
        if number is not None:
            after.append(("reserved", lease, number))
        if row.role == "implementer":
            ends_after.setdefault(lease, []).append(key)
            if last_try is not None and last_try[0] == lease:
                after.append(last_try[1])
        yield Step(key, row.at, lease, called, tuple(after), texts=(lease, ordinal) in long)
        if (fact := evaluated.get((lease, ordinal))) is not None:
            last_try = lease, ("tried", lease, ordinal)
            ends_after.setdefault(lease, []).append(last_try[1])
            yield Step(last_try[1], fact.at, lease, fact, (key,))
    checks = select(ImplementerCheckRow).where(ImplementerCheckRow.run_id == run_id)
    for row in connection.execute(checks.order_by(ImplementerCheckRow.number)):
        checked = fact_of(ImplementerChecked, ImplementerCheckRow, row)
        yield Step(("checked", row.number, 0), row.at, 0, checked, (("checked", row.number - 1, 0),))


def _begins(lease: int, role: str) -> tuple[Key, ...]:
    """What a call of this role comes after."""
    return (("advised" if role == "implementer" else "opened", lease, 0), ("opened", lease, 0))


def _evaluated_tries(connection: Connection, run_id: int) -> dict[tuple[int, int], TryEvaluated]:
    """By the call that brought the program."""
    row, call = ImplementerTryRow, ImplementerCallRow
    same_call = (call.run_id == row.run_id) & (call.lease == row.lease) & (call.ordinal == row.ordinal)
    columns = (row.evaluation, row.evaluation_detail, row.evaluation_seconds, row.evaluation_feedback)
    statement = select(row.lease, row.ordinal, row.number, *columns, call.at).join(call, same_call)
    facts: dict[tuple[int, int], TryEvaluated] = {}
    rows: Any = connection.execute(statement.where(row.run_id == run_id, row.evaluation.is_not(None)))
    for lease, ordinal, number, outcome, detail, seconds, feedback, at in rows:
        took = seconds or 0.0
        facts[lease, ordinal] = TryEvaluated(lease, number, outcome, detail or "", took, at + took, feedback)
    return facts


def _with_texts(connection: Connection, run_id: int) -> set[tuple[int, int]]:
    """The calls, by lease and number, that brought something to keep: a try, a page, ideas that left, or perhaps an
    answer of the advisor to a rollout that is not decided."""
    calls: set[tuple[int, int]] = set()
    for table in (ImplementerTryRow, NotesPageRow, IdeasLeftRow):
        rows = connection.execute(select(table.lease, table.ordinal).where(table.run_id == run_id))
        calls.update((row.lease, row.ordinal) for row in rows)
    return calls | set(answering_calls(connection, run_id))


def answering_calls(connection: Connection, run_id: int) -> dict[tuple[int, int], int]:
    """The calls that brought the advisor's answers to rollouts that are not decided, by lease and number, and the place
    of the answer among those of its lease. Which call brought which is not kept: the last ones did, in their order."""
    paid, answer = ImplementerCallRow, AdvisorCallRow
    statement = select(paid.lease, paid.ordinal).where(paid.run_id == run_id, paid.role == "advisor")
    calls: dict[int, list[int]] = {}
    for row in connection.execute(statement.where(paid.outcome == "ok").order_by(paid.lease, paid.ordinal)):
        calls.setdefault(row.lease, []).append(row.ordinal)
    answers: dict[int, int] = {}
    decided = select(ExperimentRow.lease).where(ExperimentRow.run_id == run_id)
    undecided = select(answer.lease).where(answer.run_id == run_id, answer.lease.not_in(decided))
    for lease in connection.execute(undecided).scalars():
        answers[lease] = answers.get(lease, 0) + 1
    return {
        (lease, ordinal): place
        for lease, count in answers.items()
        for place, ordinal in enumerate(calls.get(lease, [])[-count:])
    }

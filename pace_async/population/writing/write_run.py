"""Writes rows of the run as a whole: its header, its states, outside faults."""

from typing import Any, cast

from sqlalchemy import Connection, Double, bindparam, case, insert, update

from pace_async.events import FaultSeen, LoopMeasured, RunHeader, RunStateChanged
from pace_async.population.fields import row_of
from pace_async.population.models import FaultRow, RunRow, RunStateRow, SecretRow, VersionRow
from pace_async.population.prepared import Prepared
from pace_async.population.writing.scope import OF_RUN, Scope, next_number
from pace_async.population.writing.write_journal import journal_begun


def _greater(column: Any, name: str) -> Any:
    """The greater of the parameter of that name and the column."""
    parameter: Any = bindparam(name, type_=cast("Any", Double()))
    return case((column > parameter, column), else_=parameter)


NEXT_STATE, NEXT_FAULT = next_number(RunStateRow), next_number(FaultRow)
MEASURED = Prepared(
    update(RunRow)
    .where(RunRow.run_id == OF_RUN)
    .values(
        longest_stall_ms=_greater(RunRow.longest_stall_ms, "stall"),
        longest_turn_cpu_ms=_greater(RunRow.longest_turn_cpu_ms, "turn"),
    )
)


def run_created(connection: Connection, header: RunHeader, secret: str, at: float, *, with_journal: bool = True) -> int:
    """The run's row, its `secret`, version 0, which is the advisor as given, and the first row of its journal. Returns
    run_id."""
    values = row_of(RunRow, header, config=dict(header.config), created_at=at)
    created = connection.execute(insert(RunRow).values(**values).returning(RunRow.run_id)).scalar_one()
    connection.execute(insert(SecretRow).values(run_id=created, fresh=secret))
    connection.execute(insert(VersionRow).values(run_id=created, version=0, state="written", written_at=at))
    if with_journal:
        journal_begun(connection, created, header, at)
    return created


def run_state_changed(scope: Scope, fact: RunStateChanged) -> None:
    """One more state in the history."""
    scope.record(RunStateRow, fact, number=scope.value(NEXT_STATE))


def loop_measured(scope: Scope, fact: LoopMeasured) -> None:
    """Replaces shorter measurements."""
    scope.one(MEASURED, lambda: "there is no such run", stall=fact.longest_stall_ms, turn=fact.longest_turn_cpu_ms)


def fault_seen(scope: Scope, fact: FaultSeen) -> None:
    """One more fault. A named lease must exist, except 0, the task's own program."""
    number = scope.value(NEXT_FAULT)
    scope.record(FaultRow, fact, number=number, stage=fact.where, lease=fact.lease or None)

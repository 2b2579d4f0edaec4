"""Reads a RunRecord in one transaction, so that it shows one moment of the run."""

from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from pace_async.errors import UsageError
from pace_async.events import RunHeader
from pace_async.population.fields import fact_of
from pace_async.population.models import (
    CandidateRow,
    GroupRow,
    LeaseRow,
    RunRow,
    RunStateRow,
)
from pace_async.population.reading.confirmed import best_candidate
from pace_async.population.reading.epochs import in_force_of
from pace_async.population.reading.programs import whole
from pace_async.population.reading.read_facts import (
    own_scores_of,
    secret_of,
)
from pace_async.population.reading.read_spending import (
    changes_of,
    reserved_of,
    spend_of,
)
from pace_async.population.reading.record import RunRecord, Standing
from pace_async.population.reading.replay import state_of
from pace_async.search.state import Member


class NoRun(UsageError):
    """The population holds no run, or not the requested one."""


def find_run(connection: Connection, name: str | None) -> int:
    """run_id of the run called `name`, or of the only run. Raises UsageError that names the runs there."""
    names = select(RunRow.name, RunRow.run_id).order_by(RunRow.run_id)
    runs = {row.name: row.run_id for row in connection.execute(names)}
    if name in runs:
        return runs[name]
    if not runs:
        raise NoRun("This population holds no run.")
    if name is None:
        if len(runs) == 1:
            return next(iter(runs.values()))
        raise UsageError(f"This population holds several runs ({', '.join(runs)}): say which.")
    near = get_close_matches(name, runs, n=1) or list(runs)[:1]
    raise NoRun(f"This population holds no run {name!r}; did you mean {near[0]!r}?")


def header_of(connection: Connection, run_id: int) -> RunHeader:
    """The run's row as a value, with the task's digest of the evaluator whose scores are in force."""
    row = connection.execute(select(RunRow).where(RunRow.run_id == run_id)).one()
    header, epoch = fact_of(RunHeader, RunRow, row), in_force_of(connection, run_id)
    return header if epoch is None else replace(header, task_digest=epoch.task_digest)


GOES_ON = ("created", "running", "draining")
"""States of a run that has not ended."""


def state_of_run(connection: Connection, run_id: int) -> tuple[str, str]:
    """The last committed (state, reason), or ("created", "") before the first."""
    row = connection.execute(
        select(RunStateRow.state, RunStateRow.reason)
        .where(RunStateRow.run_id == run_id)
        .order_by(RunStateRow.number.desc())
        .limit(1)
    ).one_or_none()
    return ("created", "") if row is None else (row.state, row.reason)


def closings_of(connection: Connection, run_id: int) -> dict[str, int]:
    """Counts of leases in every state: open, trained, skipped, aborted, expired."""
    counts = dict.fromkeys(("open", "trained", "skipped", "aborted", "expired"), 0)
    rows = connection.execute(
        select(LeaseRow.state, func.count().label("leases")).where(LeaseRow.run_id == run_id).group_by(LeaseRow.state)
    )
    return counts | {row.state: row.leases for row in rows}


def load_standing(connection: Connection, name: str | None) -> Standing:
    """How far the run is. Raises UsageError if there is no such run."""
    return Standing(**_standing(connection, find_run(connection, name)))


def _standing(connection: Connection, run_id: int) -> dict[str, Any]:
    state, reason = state_of_run(connection, run_id)
    candidates = select(func.count()).where(CandidateRow.run_id == run_id, CandidateRow.candidate > 0)
    ended = select(func.count()).where(GroupRow.run_id == run_id, GroupRow.state != "shipped")
    return {
        "run_id": run_id,
        "header": header_of(connection, run_id),
        "state": state,
        "reason": reason,
        "best": _member(connection, run_id, CandidateRow.candidate == best_candidate(connection, run_id)),
        "groups": connection.execute(ended).scalar_one(),
        "candidates": connection.execute(candidates).scalar_one(),
        "spend_usd": spend_of(connection, run_id),
        "reserved": reserved_of(connection, run_id),
        "changes": changes_of(connection, run_id),
    }


def load_record(connection: Connection, name: str | None) -> RunRecord:
    """The present record of the run. Raises UsageError if there is no such run."""
    run_id = find_run(connection, name)
    header = header_of(connection, run_id)
    counts = closings_of(connection, run_id)
    own_scores, own_metrics = own_scores_of(connection, run_id)
    return RunRecord(
        **_standing(connection, run_id),
        run_state=state_of(connection, run_id, header),
        admitted=sum(counts.values()),
        closings={way: counts[way] for way in ("trained", "skipped", "aborted", "expired")},
        secret=secret_of(connection, run_id),
        own_scores=own_scores,
        own_metrics=own_metrics,
    )


def _member(connection: Connection, run_id: int, which: ColumnElement[bool]) -> Member | None:
    row = connection.execute(
        select(CandidateRow.candidate, CandidateRow.program, CandidateRow.score, CandidateRow.feedback)
        .where(CandidateRow.run_id == run_id, CandidateRow.merit.is_not(None), which)
        .order_by(CandidateRow.merit.desc(), CandidateRow.candidate)
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    return Member(row.candidate, whole(connection, run_id, row.program), row.score, row.feedback)

"""Where and when the programs of a run were evaluated: one value for each attempt."""

from typing import NamedTuple

from sqlalchemy import Connection, select

from pace_async.population.models import EvaluationAttemptRow

LOCAL = "this machine"
"""The name of the machine in rows that name none."""


class Attempted(NamedTuple):
    """One attempt of an evaluation, in seconds since the epoch. `queue_seconds` were spent waiting for a slot. A `lost`
    attempt ended with the machine, not with the program."""

    machine: str
    began: float
    ended: float
    queue_seconds: float
    lost: bool


def attempts_of(connection: Connection, run_id: int) -> tuple[Attempted, ...]:
    """Every attempt of a run, in the order of their beginnings."""
    row = EvaluationAttemptRow
    found = connection.execute(
        select(row.started_at, row.ended_at, row.queue_seconds, row.outcome).where(row.run_id == run_id)
    )
    return tuple(
        sorted(
            Attempted(LOCAL, began, ended, waited, outcome == "infrastructure_error")
            for began, ended, waited, outcome in found
        )
    )

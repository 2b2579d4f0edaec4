"""Where and when the programs of a run were evaluated: each attempt, and the sums of each machine of a cluster."""

from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, case, func, select

from pace_async.population.models import EvaluationAttemptRow

LOCAL = "this machine"
"""The name of the machine in rows that name none."""


class MachineAttempt(NamedTuple):
    """One attempt of an evaluation, in seconds since the epoch. `queue_seconds` were spent waiting for a slot. A `lost`
    attempt ended with the machine, not with the program."""

    machine: str
    began: float
    ended: float
    queue_seconds: float
    lost: bool


def attempts_of(connection: Connection, run_id: int) -> tuple[MachineAttempt, ...]:
    """Every attempt of a run, in the order of their beginnings."""
    row = EvaluationAttemptRow
    rows = connection.execute(
        select(row.started_at, row.ended_at, row.queue_seconds, row.outcome, row.node).where(row.run_id == run_id)
    )
    return tuple(
        sorted(
            MachineAttempt(node or LOCAL, began, ended, waited, outcome == "infrastructure_error")
            for began, ended, waited, outcome, node in rows
        )
    )


def machines_of(connection: Connection, run_id: int) -> list[dict[str, Any]]:
    """Each node by its name, with the class of its machine. `attempts` counts those that ran there, `lost` those among
    them that failed by the machine. `seconds` is their time in slots, `queue_seconds` their wait for one. Empty for a
    run on one machine."""
    row = EvaluationAttemptRow
    lost = func.sum(case((row.outcome == "infrastructure_error", 1), else_=0))
    nodes = connection.execute(
        select(
            row.node,
            func.max(row.machine).label("machine"),
            func.count().label("attempts"),
            lost.label("lost"),
            func.sum(row.seconds).label("seconds"),
            func.sum(row.queue_seconds).label("queue_seconds"),
            func.max(row.ended_at).label("last_at"),
        )
        .where(and_(row.run_id == run_id, row.node.is_not(None)))
        .group_by(row.node)
        .order_by(row.node)
    )
    return [dict(node) for node in nodes.mappings()]

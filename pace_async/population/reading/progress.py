"""What became of the candidates of a run, read from the rows."""

from dataclasses import dataclass

from sqlalchemy import Connection, Subquery, and_, func, select

from pace_async.events.causes import FEW_SCORED, CandidateAnswers, Cause, answers_of, cause_of
from pace_async.population.models import (
    CandidateRow,
    ExperimentRow,
    FreshScoreRow,
    GroupRow,
    VersionRow,
)
from pace_async.population.reading.candidates import OWN_IDEA
from pace_async.population.reading.epochs import last_lease_before
from pace_async.search.results import headline

RECENT = 32
"""Candidates whose answers count as the last ones."""
DETAIL = func.substr(CandidateRow.detail, 1, 200).label("detail")


@dataclass(frozen=True, slots=True)
class Improvement:
    """A candidate better than all before it. `place` counts the candidates before it. `fresh` is its score on the fresh
    instances that confirmed it, None if it was not tried on any."""

    place: int
    candidate: int
    score: float
    island: int | None
    at: float
    experiment: str
    fresh: float | None


def recent_answers(connection: Connection, run_id: int) -> tuple[CandidateAnswers, ...]:
    """What became of the answers of the last RECENT candidates, oldest first."""
    rows = connection.execute(
        select(CandidateRow.candidate, CandidateRow.outcome, DETAIL)
        .where(CandidateRow.run_id == run_id, CandidateRow.candidate > 0)
        .order_by(CandidateRow.at.desc(), CandidateRow.candidate.desc())
        .limit(RECENT)
    ).all()
    return tuple(
        CandidateAnswers(number, answers_of(outcome, detail or "")) for number, outcome, detail in reversed(rows)
    )


def outcomes_of(connection: Connection, run_id: int) -> dict[str, int]:
    """The number of candidates of each outcome, without the task's own program."""
    rows = connection.execute(
        select(CandidateRow.outcome, func.count())
        .where(CandidateRow.run_id == run_id, CandidateRow.candidate > 0)
        .group_by(CandidateRow.outcome)
    )
    return {row[0]: row[1] for row in rows}


def causes_of(connection: Connection, run_id: int, scored: int) -> dict[Cause, int]:
    """Why candidates have no score, empty from FEW_SCORED candidates with a score on."""
    if scored >= FEW_SCORED:
        return {}
    rows = connection.execute(
        select(CandidateRow.outcome, DETAIL, func.count())
        .where(CandidateRow.run_id == run_id, CandidateRow.candidate > 0)
        .group_by(CandidateRow.outcome, DETAIL)
    )
    causes: dict[Cause, int] = {}
    for outcome, detail, amount in rows:
        if (cause := cause_of(outcome, detail or "")) is not None:
            causes[cause] = causes.get(cause, 0) + amount
    return causes


def placed_of(run_id: int) -> Subquery:
    """Candidates with `place`, the number of candidates before them, and `before`, the greatest merit before them."""
    order = (CandidateRow.at, CandidateRow.candidate)
    before = func.max(CandidateRow.merit).over(order_by=order, rows=(None, -1)).label("before")
    return (
        select(
            *(CandidateRow.run_id, CandidateRow.candidate, CandidateRow.island, CandidateRow.score),
            *(CandidateRow.merit, CandidateRow.at, before),
            (func.row_number().over(order_by=order) - 1).label("place"),
        )
        .where(CandidateRow.run_id == run_id)
        .subquery()
    )


def improvements_of(connection: Connection, run_id: int) -> tuple[Improvement, ...]:
    """The candidates that were better than all before them, oldest first."""
    placed = placed_of(run_id)
    fresh = (
        select(func.min(FreshScoreRow.score))
        .where(
            FreshScoreRow.run_id == placed.c.run_id,
            FreshScoreRow.candidate == placed.c.candidate,
            FreshScoreRow.candidate > last_lease_before(connection, run_id),
            FreshScoreRow.held,
        )
        .scalar_subquery()
    )
    experiment = and_(ExperimentRow.run_id == placed.c.run_id, ExperimentRow.lease == placed.c.candidate)
    rows = connection.execute(
        select(
            *(placed.c.place, placed.c.candidate, placed.c.score, placed.c.island, placed.c.at),
            *(ExperimentRow.description, OWN_IDEA, fresh),
        )
        .select_from(placed)
        .outerjoin(ExperimentRow, experiment)
        .where(placed.c.merit.is_not(None), placed.c.before.is_(None) | (placed.c.merit > placed.c.before))
        .order_by(placed.c.place)
    )
    return tuple(
        Improvement(place, candidate, score, island, at, headline(experiment, idea), confirmed)
        for place, candidate, score, island, at, experiment, idea, confirmed in rows
    )


def versions_made(connection: Connection, run_id: int) -> list[int]:
    """The versions that groups have made, oldest first."""
    versions = select(VersionRow.version).where(VersionRow.run_id == run_id, VersionRow.version > 0)
    return list(connection.execute(versions.order_by(VersionRow.version)).scalars())


def groups_of_versions(connection: Connection, run_id: int) -> list[tuple[int, str]]:
    """The groups that produced the versions so far, with their digests, in the order of the versions."""
    of_group = and_(GroupRow.run_id == VersionRow.run_id, GroupRow.group_number == VersionRow.group_number)
    groups = (
        select(GroupRow.group_number, GroupRow.digest).join(VersionRow, of_group).where(VersionRow.run_id == run_id)
    )
    return [(number, digest) for number, digest in connection.execute(groups.order_by(VersionRow.version))]

"""The progress of a run as its screen shows it, read from the rows by a resumed process."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Subquery, and_, case, func, select

from pace_async.events import Role
from pace_async.events.causes import FEW_SCORED, Answers, Cause, answers_of, cause_of
from pace_async.population.models import (
    CandidateRow,
    ExperimentRow,
    FaultRow,
    FreshScoreRow,
    GroupRow,
    ImplementerCallRow,
    LeaseRow,
    VersionRow,
)
from pace_async.population.reading.candidates import OWN_IDEA, same_rollout
from pace_async.population.reading.epochs import last_lease_before
from pace_async.population.reading.read_spending import spend_by_role, unpriced_of
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


@dataclass(frozen=True, slots=True)
class LastStep:
    """The learner's figures for the last trained group."""

    loss: float | None
    entropy: float | None
    grad_norm: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts of a run. `outcomes` counts candidates, `causes` those without a score while hardly
    any has one, `leases` counts by (state, stage), `staleness` counts trained
    leases by age, `groups` counts by state with `rollbacks` among them, `shortened` and `undone` count steps.
    `improvements` and `rewards` (the mean of each ended group) are oldest first. `experiments` are those of leases that
    wait for their score. `recent_answers` says what became of the answers of the last candidates, oldest first."""

    outcomes: Mapping[str, int]
    recent_answers: tuple[Answers, ...]
    memoised: int
    causes: Mapping[Cause, int]
    improvements: tuple[Improvement, ...]
    leases: Mapping[tuple[str, str], int]
    staleness: Mapping[int, int]
    experiments: Mapping[int, str]
    groups: Mapping[str, int]
    rewards: tuple[float, ...]
    alpha: float | None
    last_step: LastStep | None
    rollbacks: int
    shortened: int
    undone: int
    faults: int
    calls: Mapping[str, int]
    spent: Mapping[str, float]
    unpriced: frozenset[Role]


def progress_of(connection: Connection, run_id: int, kept: int) -> Progress:
    """The progress, with the rewards of the last `kept` groups."""
    outcomes = connection.execute(
        select(CandidateRow.outcome, func.count(), func.sum(case((CandidateRow.memoised, 1), else_=0)))
        .where(CandidateRow.run_id == run_id, CandidateRow.candidate > 0)
        .group_by(CandidateRow.outcome)
    ).all()
    leases = connection.execute(
        select(LeaseRow.state, LeaseRow.stage, func.count())
        .where(LeaseRow.run_id == run_id)
        .group_by(LeaseRow.state, LeaseRow.stage)
    )
    ages = connection.execute(
        select(LeaseRow.staleness, func.count())
        .where(LeaseRow.run_id == run_id, LeaseRow.state == "trained")
        .group_by(LeaseRow.staleness)
    )
    experiments = connection.execute(
        select(ExperimentRow.lease, ExperimentRow.description, OWN_IDEA)
        .join(LeaseRow, same_rollout(LeaseRow, ExperimentRow))
        .where(ExperimentRow.run_id == run_id, LeaseRow.state == "open", LeaseRow.stage == "advised")
    )
    groups = connection.execute(
        select(GroupRow.state, func.count()).where(GroupRow.run_id == run_id).group_by(GroupRow.state)
    )
    latest = select(GroupRow.alpha).where(GroupRow.run_id == run_id).order_by(GroupRow.group_number.desc()).limit(1)
    rollbacks, shortened, undone = connection.execute(
        select(
            func.sum(case((and_(GroupRow.state == "skipped", GroupRow.restores.is_not(None)), 1), else_=0)),
            func.sum(case((and_(GroupRow.step_scale > 0, GroupRow.step_scale < 1), 1), else_=0)),
            func.sum(case((GroupRow.step_scale == 0, 1), else_=0)),
        ).where(GroupRow.run_id == run_id)
    ).one()
    counts = {row[0]: row[1] for row in outcomes}
    return Progress(
        outcomes=counts,
        recent_answers=recent_answers(connection, run_id),
        memoised=sum(int(row[2]) for row in outcomes),
        causes=causes_of(connection, run_id, counts.get("ok", 0)),
        improvements=improvements_of(connection, run_id),
        leases={(row[0], row[1]): row[2] for row in leases},
        staleness={age: rollouts for age, rollouts in ages if age is not None},
        experiments={lease: headline(experiment, idea) for lease, experiment, idea in experiments},
        groups={row[0]: row[1] for row in groups},
        rewards=_rewards(connection, run_id, kept),
        alpha=connection.execute(latest).scalar(),
        last_step=_last_step(connection, run_id),
        rollbacks=int(rollbacks or 0),
        shortened=int(shortened or 0),
        undone=int(undone or 0),
        faults=connection.execute(select(func.count()).where(FaultRow.run_id == run_id)).scalar_one(),
        spent=spend_by_role(connection, run_id),
        unpriced=unpriced_of(connection, run_id),
        calls=_calls_by_role(connection, run_id),
    )


def _calls_by_role(connection: Connection, run_id: int) -> dict[str, int]:
    rows = connection.execute(
        select(ImplementerCallRow.role, func.count())
        .where(ImplementerCallRow.run_id == run_id)
        .group_by(ImplementerCallRow.role)
    )
    return {row[0]: row[1] for row in rows}


def recent_answers(connection: Connection, run_id: int) -> tuple[Answers, ...]:
    """What became of the answers of the last RECENT candidates, oldest first."""
    rows = connection.execute(
        select(CandidateRow.outcome, DETAIL)
        .where(CandidateRow.run_id == run_id, CandidateRow.candidate > 0)
        .order_by(CandidateRow.at.desc(), CandidateRow.candidate.desc())
        .limit(RECENT)
    ).all()
    return tuple(answers_of(outcome, detail or "") for outcome, detail in reversed(rows))


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
    found: dict[Cause, int] = {}
    for outcome, said, amount in rows:
        if (cause := cause_of(outcome, said or "")) is not None:
            found[cause] = found.get(cause, 0) + amount
    return found


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


def _rewards(connection: Connection, run_id: int, kept: int) -> tuple[float, ...]:
    of_group = and_(LeaseRow.run_id == GroupRow.run_id, LeaseRow.group_number == GroupRow.group_number)
    rows = connection.execute(
        select(func.avg(LeaseRow.group_reward))
        .select_from(GroupRow)
        .join(LeaseRow, of_group)
        .where(GroupRow.run_id == run_id, GroupRow.state != "shipped")
        .group_by(GroupRow.group_number)
        .order_by(GroupRow.group_number.desc())
        .limit(kept)
    ).all()
    return tuple(float(row[0]) for row in reversed(rows))


def _last_step(connection: Connection, run_id: int) -> LastStep | None:
    row = connection.execute(
        select(GroupRow.loss, GroupRow.entropy, GroupRow.grad_norm, GroupRow.seconds)
        .where(GroupRow.run_id == run_id, GroupRow.state == "trained")
        .order_by(GroupRow.group_number.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else LastStep(*row)


def groups_of_versions(connection: Connection, run_id: int) -> list[tuple[int, str]]:
    """The groups that produced the versions so far, with their digests, in the order of the versions."""
    of_group = and_(GroupRow.run_id == VersionRow.run_id, GroupRow.group_number == VersionRow.group_number)
    made = select(GroupRow.group_number, GroupRow.digest).join(VersionRow, of_group).where(VersionRow.run_id == run_id)
    return [(number, digest) for number, digest in connection.execute(made.order_by(VersionRow.version))]

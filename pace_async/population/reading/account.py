"""A report's data: the candidates and groups of a run, each as a list of typed rows. Its money is `money`.

Invariant: each table is read once, without a join. The rewards of a group are summed up by the database.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, case, select

from pace_async.population.models import CandidateRow, GroupRow, RunRow
from pace_async.population.reading.candidates import OUTCOME, candidates_with_experiments, columns
from pace_async.population.reading.load import header_of
from pace_async.population.reading.rewards import RewardsOfGroup, ages_of, rewards_of
from pace_async.population.reading.timings import driven_seconds
from pace_async.population.reading.worth_telling import worth_telling

TOLD = 20_000
"""Candidates of which every idea and experiment is read. Of a longer run only those of the candidates worth showing."""
AT_A_TIME = 500
_SCORE: Any = case((CandidateRow.merit.is_not(None), CandidateRow.score))


class CompletedCandidate(NamedTuple):
    """A candidate in the order of completion. `completed` counts from 1, and is 0 for the task's own program. A banned
    one has no score here. `best_so_far` is the best score up to then, None before the first. `at` is in seconds since
    the epoch. Of a run of more than TOLD candidates the idea and the experiment are None except for those worth
    showing."""

    completed: int
    candidate: int
    outcome: str
    score: float | None
    best_so_far: float | None
    parent: int | None
    island: int | None
    idea: str | None
    experiment: str | None
    at: float = 0.0


class ShippedGroup(NamedTuple):
    """A group and the learner's figures for it. `by_age` are those of the tokens of one age, such as `ess_age_0`."""

    group_number: int
    state: str
    reason: str
    alpha: float | None
    loss: float | None
    entropy: float | None
    grad_norm: float | None
    clip_fraction: float | None
    ess: float | None
    k3: float | None
    ended_at: float | None
    by_age: dict[str, float]


@dataclass(frozen=True, slots=True)
class Account:
    """`candidates` are in the order of completion, `groups` and `rewards` by group. `ages` counts the trained rollouts
    by staleness. `began` is when the run was made, in seconds since the epoch, `driven` the seconds in which a process
    drove it."""

    candidates: tuple[CompletedCandidate, ...]
    groups: tuple[ShippedGroup, ...]
    rewards: tuple[RewardsOfGroup, ...]
    ages: dict[int, int]
    began: float
    driven: float


def account_of(connection: Connection, run_id: int, *, learning: bool = True) -> Account:
    """The account of one run, without groups, rewards and ages if `learning` is not asked for."""
    return Account(
        candidates=_candidates(connection, run_id),
        groups=_groups(connection, run_id) if learning else (),
        rewards=rewards_of(connection, run_id) if learning else (),
        ages=ages_of(connection, run_id) if learning else {},
        began=connection.execute(select(RunRow.created_at).where(RunRow.run_id == run_id)).scalar_one(),
        driven=driven_seconds(connection, run_id),
    )


def _candidates(connection: Connection, run_id: int) -> tuple[CompletedCandidate, ...]:
    fitness = header_of(connection, run_id).fitness
    rows = connection.execute(
        select(
            *(CandidateRow.candidate, OUTCOME, _SCORE, CandidateRow.parent),
            *(CandidateRow.island, CandidateRow.at),
        )
        .where(CandidateRow.run_id == run_id)
        .order_by(CandidateRow.at, CandidateRow.candidate)
    ).all()
    texts = _ideas_and_experiments(connection, run_id, None if len(rows) <= TOLD else worth_telling(rows, fitness))
    best: float | None = None
    candidates: list[CompletedCandidate] = []
    for place, (candidate, outcome, score, parent, island, at) in enumerate(rows):
        if score is not None and (best is None or fitness.better(score, best)):
            best = score
        idea, experiment = texts.get(candidate, (None, None))
        candidates.append(
            CompletedCandidate(place, candidate, outcome, score, best, parent, island, idea, experiment, at)
        )
    return tuple(candidates)


def _ideas_and_experiments(
    connection: Connection, run_id: int, chosen: Collection[int] | None
) -> dict[int, tuple[str | None, str | None]]:
    """Idea and experiment of the chosen candidates, or of all."""
    statement = candidates_with_experiments(*columns("candidate", "idea", "experiment")).where(
        CandidateRow.run_id == run_id
    )
    if chosen is None:
        return {row.candidate: (row.idea, row.experiment) for row in connection.execute(statement)}
    listed = sorted(chosen)
    return {
        row.candidate: (row.idea, row.experiment)
        for first in range(0, len(listed), AT_A_TIME)
        for row in connection.execute(statement.where(CandidateRow.candidate.in_(listed[first : first + AT_A_TIME])))
    }


def _groups(connection: Connection, run_id: int) -> tuple[ShippedGroup, ...]:
    rows: Any = connection.execute(
        select(
            *(GroupRow.group_number, GroupRow.state, GroupRow.reason, GroupRow.alpha, GroupRow.loss, GroupRow.entropy),
            *(GroupRow.grad_norm, GroupRow.clip_fraction, GroupRow.ess, GroupRow.k3, GroupRow.ended_at),
            GroupRow.metrics,
        )
        .where(GroupRow.run_id == run_id)
        .order_by(GroupRow.group_number)
    )
    return tuple(
        ShippedGroup(
            *row[:-1],
            by_age={name: value for name, value in row.metrics.items() if "_age_" in name and value is not None},
        )
        for row in rows
    )

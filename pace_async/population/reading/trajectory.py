"""What a comparison of runs asks of each: its improvements with their places in time and money, what the best programs
scored on fresh instances, and the figures of its groups. No row of a candidate that improved nothing is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from pace_async.fitness import Fitness
from pace_async.population.models import CandidateRow, FreshScoreRow, GroupRow
from pace_async.population.reading.confirmed import tried_of
from pace_async.population.reading.front import hypervolumes_of
from pace_async.population.reading.load import load_standing
from pace_async.population.reading.money import paid_until
from pace_async.population.reading.progress import improvements_of, placed_of
from pace_async.population.reading.read_spending import unpriced_of
from pace_async.population.reading.record import Standing
from pace_async.population.reading.rewards import RewardsOfGroup, rewards_of
from pace_async.population.reading.timings import driven_spans


class Place(NamedTuple):
    """Where in a run something was complete: candidates before it, hours in which a process drove the run, and USD of
    all calls until then."""

    candidates: int
    hours: float
    usd: float


class BestScore(NamedTuple):
    """A score of the best program from `place` on. None if that program was not tried on fresh instances."""

    place: Place
    score: float | None


@dataclass(frozen=True, slots=True)
class Trajectory:
    """How a run went. `scores` are the improvements, oldest first. `fresh` are the scores of the best program on the
    fresh instances that confirmed it: the one that `pace best` names where the best is chosen by them, else the one
    with the best score. `fronts` are the hypervolumes of its front, empty without objectives. `end` is the place of the
    last candidate. `entropy` and `grad_norm` have a value for each
    trained group, and `rewards` those of each group. `unpriced`: the price of some calls is not known."""

    standing: Standing
    scores: tuple[BestScore, ...]
    fresh: tuple[BestScore, ...]
    end: Place
    entropy: tuple[float, ...]
    grad_norm: tuple[float, ...]
    rewards: tuple[RewardsOfGroup, ...]
    unpriced: bool = False
    fronts: tuple[BestScore, ...] = ()


def trajectory_of(connection: Connection, run: str | None) -> Trajectory:
    """One run. Raises UsageError if there is no such run."""
    standing = load_standing(connection, run)
    run_id, fitness = standing.run_id, standing.header.fitness
    improvements = improvements_of(connection, run_id)
    scores: list[_At] = [(row.place, row.at, row.score) for row in improvements]
    fresh: list[_At] = [(row.place, row.at, row.fresh) for row in improvements]
    if standing.header.by_confirmed:
        fresh = _confirmed(connection, run_id, fitness)
    fronts: list[_At] = [*hypervolumes_of(connection, run_id, fitness)]
    last = connection.execute(select(func.max(CandidateRow.at)).where(CandidateRow.run_id == run_id)).scalar()
    ends = [] if last is None else [(standing.candidates, last, None)]
    *placed, end = (
        _points(connection, run_id, [*scores, *fresh, *fronts, *ends])
        if ends
        else [BestScore(Place(0, 0.0, 0.0), None)]
    )
    trained = connection.execute(
        select(GroupRow.entropy, GroupRow.grad_norm)
        .where(GroupRow.run_id == run_id, GroupRow.state == "trained")
        .order_by(GroupRow.group_number)
    ).all()
    return Trajectory(
        standing=standing,
        scores=tuple(placed[: len(scores)]),
        fresh=tuple(placed[len(scores) : len(scores) + len(fresh)]),
        fronts=tuple(placed[len(scores) + len(fresh) :]),
        end=end.place,
        entropy=tuple(row.entropy for row in trained if row.entropy is not None),
        grad_norm=tuple(row.grad_norm for row in trained if row.grad_norm is not None),
        rewards=rewards_of(connection, run_id),
        unpriced=bool(unpriced_of(connection, run_id)),
    )


_At = tuple[int, float, float | None]
"""Candidates before it, seconds since the epoch, a score."""


def _confirmed(connection: Connection, run_id: int, fitness: Fitness) -> list[_At]:
    """The confirmed scores that were better than all before them."""
    scores = {program.candidate: program.confirmed for program in tried_of(connection, run_id)}
    placed = placed_of(run_id)
    confirmed = select(FreshScoreRow.candidate).where(FreshScoreRow.run_id == run_id, FreshScoreRow.held)
    rows = connection.execute(
        select(placed.c.place, placed.c.at, placed.c.candidate)
        .where(placed.c.candidate.in_(confirmed))
        .order_by(placed.c.place)
    )
    records: list[_At] = []
    best: float | None = None
    for place, at, candidate in rows:
        score = scores.get(candidate)
        if score is not None and (best is None or fitness.better(score, best)):
            best = score
            records.append((place, at, score))
    return records


def _points(connection: Connection, run_id: int, rows: Sequence[_At]) -> list[BestScore]:
    spans = driven_spans(connection, run_id)
    paid = paid_until(connection, run_id, [at for _, at, _ in rows])
    return [
        BestScore(Place(place, sum(max(0.0, min(at, until) - since) for since, until in spans) / 3600, usd), score)
        for (place, at, score), usd in zip(rows, paid, strict=True)
    ]

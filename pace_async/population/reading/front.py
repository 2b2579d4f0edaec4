"""The programs of a run with several objectives that no other one surpasses."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from pace_async.aims import Aim, Costs
from pace_async.errors import UsageError
from pace_async.fitness import Fitness
from pace_async.population.models import CandidateRow
from pace_async.population.reading.load import header_of
from pace_async.population.reading.progress import placed_of
from pace_async.search.front import hypervolume, with_point

BATCH = 1_000


@dataclass(frozen=True, slots=True)
class OnFront:
    """A program of the front. `metrics` are its objectives."""

    candidate: int
    score: float
    metrics: Mapping[str, float]
    costs: Costs


@dataclass(frozen=True, slots=True)
class Front:
    """The front, the best score first. `hypervolume` is the share of the box between the bounds that it dominates."""

    aims: tuple[Aim, ...]
    programs: tuple[OnFront, ...]
    hypervolume: float


NO_FRONT = Front((), (), 0.0)


def front_of_run(connection: Connection, run_id: int) -> Front:
    """By the evaluator in force. Empty in a run without objectives. The task's own program may stand on it."""
    fitness, row = header_of(connection, run_id).fitness, CandidateRow
    aims, front = tuple(fitness.aims), tuple[OnFront, ...]()
    if not aims:
        return NO_FRONT
    scored = select(row.candidate, row.score, row.metrics).where(row.run_id == run_id, row.merit.is_not(None))
    for each in connection.execute(scored.order_by(row.candidate).execution_options(yield_per=BATCH)):
        if costs := fitness.costs(each.metrics):
            metrics = {aim.metric: each.metrics[aim.metric] for aim in aims}
            front = with_point(front, OnFront(each.candidate, each.score, metrics, costs))
    ranked = fitness.ranked(front)
    return Front(aims, tuple(ranked), hypervolume([each.costs for each in ranked]))


def hypervolumes_of(connection: Connection, run_id: int, fitness: Fitness) -> list[tuple[int, float, float]]:
    """Wherever the hypervolume of the front grows: the candidates before it, seconds since the epoch, and what it is
    from there on. Empty without objectives."""
    placed, row = placed_of(run_id), CandidateRow
    of_run = (row.run_id == run_id, row.candidate == placed.c.candidate, row.merit.is_not(None))
    scored = select(placed.c.place, placed.c.at, row.candidate, row.score, row.metrics).where(*of_run)
    increases, front = list[tuple[int, float, float]](), tuple[OnFront, ...]()
    if not fitness.aims:
        return increases
    for each in connection.execute(scored.order_by(placed.c.place).execution_options(yield_per=BATCH)):
        if costs := fitness.costs(each.metrics):
            before, front = front, with_point(front, OnFront(each.candidate, each.score, {}, costs))
            if front != before and (volume := hypervolume([program.costs for program in front])) > (
                increases[-1][2] if increases else -1
            ):
                increases.append((each.place, each.at, volume))
    return increases


def refuse_unless_several(front: Front, run: str) -> None:
    """Raises UsageError if the task has one number, or no program has a score."""
    if not front.aims:
        raise UsageError(f"Run {run!r} has one score and no objectives, so it has no front: leave out the front.")
    if not front.programs:
        raise UsageError(f"Run {run!r} has no candidate with a score yet.")

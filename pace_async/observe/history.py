"""The view of a resumed run, built from its rows: what an uninterrupted process would show.

Invariant: committing facts and reading them back here gives the same view as folding them. Excepted is what no row
keeps: the last notes, the threads' present stages, the last learner step's pause. Reads only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pace_async.config import StopConfig
from pace_async.observe.fold import EXPERIMENT_CELLS
from pace_async.observe.formatting import clean
from pace_async.observe.ledger import ledger_of
from pace_async.observe.model import GROUPS_KEPT, Best, LearnerView, Leases, RunView, thin
from pace_async.population.base import Population
from pace_async.population.reading.progress import Improvement, Progress, progress_of
from pace_async.population.reading.record import RunRecord
from pace_async.population.reading.timings import timings_of


async def view_of(record: RunRecord, stop: StopConfig, population: Population) -> RunView:
    """The view before the first event of this process. For a fresh run it holds at most the seed program."""
    progress = await population.read(lambda connection: progress_of(connection, record.run_id, GROUPS_KEPT))
    view = RunView(
        header=record.header,
        stop=stop,
        seed_score=record.seed_program.score if record.seed_program is not None else None,
        candidates=record.candidates,
        shipped=record.shipped,
        learner=LearnerView(version=record.version, published=record.published),
        spend_usd=record.spend_usd,
    )
    timings = await population.read(lambda connection: timings_of(connection, record.run_id))
    return replace(with_progress(view, progress), ledger=ledger_of(timings))


def with_progress(view: RunView, progress: Progress) -> RunView:
    """The view with all that the progress counts."""
    return replace(
        view,
        best=_best(progress.improvements),
        improvements=thin(tuple((better.place, better.score) for better in progress.improvements)),
        outcomes=progress.outcomes,
        recent_answers=progress.recent_answers,
        memoised=progress.memoised,
        causes=progress.causes,
        experiments={lease: clean(said, EXPERIMENT_CELLS) for lease, said in progress.experiments.items()},
        leases=_leases(progress.leases),
        staleness=progress.staleness,
        learner=_learner(view.learner, progress),
        calls=progress.calls,
        spent=progress.spent,
        unpriced=progress.unpriced,
        faults=progress.faults,
    )


def _best(improvements: Sequence[Improvement]) -> Best | None:
    if not improvements:
        return None
    last = improvements[-1]
    return Best(
        candidate=last.candidate,
        score=last.score,
        island=last.island or 0,
        experiment=clean(last.experiment, EXPERIMENT_CELLS),
        after=last.place,
        at=last.at,
        fresh=last.fresh,
    )


def _leases(amounts: Mapping[tuple[str, str], int]) -> Leases:
    def closed(state: str) -> int:
        return sum(amount for (named, _), amount in amounts.items() if named == state)

    return Leases(
        admitted=sum(amounts.values()),
        buffered=amounts.get(("open", "complete"), 0),
        training=amounts.get(("open", "shipped"), 0),
        trained=closed("trained"),
        skipped=closed("skipped"),
        aborted=closed("aborted"),
        expired=closed("expired"),
    )


def _learner(side: LearnerView, progress: Progress) -> LearnerView:
    side = replace(
        side,
        trained=progress.groups.get("trained", 0),
        skipped=progress.groups.get("skipped", 0),
        alpha=progress.alpha,
        rewards=progress.rewards,
        rollbacks=progress.rollbacks,
        shortened=progress.shortened,
        undone=progress.undone,
    )
    step = progress.last_step
    if step is None:
        return side
    metrics = {"loss": step.loss, "entropy": step.entropy, "grad_norm": step.grad_norm}
    named = {name: value for name, value in metrics.items() if value is not None}
    return replace(side, step_seconds=step.seconds, metrics=named)

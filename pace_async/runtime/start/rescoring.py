"""Scores the programs of a run again, after its evaluator was corrected: an evaluation epoch beside the earlier ones.

Each score is committed when it is there, under its epoch and candidate, so an interrupted rescore continues where it
stopped. The scores come into force together, in one transaction, once every program was evaluated. Until then the run
reads as before.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from pace_async.config import Config
from pace_async.errors import GaveUp, Interrupted, PaceError, SeedProgramFails, UsageError
from pace_async.evaluate.assemble import open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest, Evaluator
from pace_async.evaluate.cascade import cascaded
from pace_async.evaluate.sandbox.selfcheck import pick_tier
from pace_async.events import EpochInForce, LeaseAborted, RescoreBegan, Rescored
from pace_async.population.lock import RunLock
from pace_async.population.reading import epochs
from pace_async.population.reading.record import Standing
from pace_async.population.store import Store
from pace_async.reward import STOPPED, RewardRule
from pace_async.runtime.run_paths import RunPaths, find_run_paths
from pace_async.runtime.start.assemble import keep_best, waiting
from pace_async.runtime.start.lost_rows import refuse_if_lost
from pace_async.runtime.start.refusals import limits_of
from pace_async.runtime.start.resuming import cut_off, resumed_config
from pace_async.runtime.start.signals import run_until_signal
from pace_async.search.state import Member
from pace_async.task import Task, task_of_run

Show = Callable[[int, int, float], None]
"""Called with the number of programs that are scored, of all, and the seconds since this process began."""

AGAIN = "`pace rescore` continues where it stopped"


@dataclass(frozen=True, slots=True)
class Rescore:
    """What a rescore does or did. `scored` of `programs` were scored before, or are now. `expected_s` is how long the
    rest may take, by the mean time so far. `before` and `best` are the best program before and afterwards, `best` None
    for a plan. `known`: the scores in force are of this evaluator already, so there is nothing to do."""

    epoch: int
    programs: int
    scored: int
    expected_s: float
    known: bool
    before: Member | None
    best: Member | None = None


def rescore(run: str | None, best: int | None, show: Show, *, dry: bool = False) -> Rescore:
    """Score the programs of a run again, or with `dry` say what that would be. `best` limits it to so many of the best.
    Raises PaceError, RunLocked if a process drives the run."""
    paths = find_run_paths(run)
    try:
        return run_until_signal(_rescore, paths, best, show, dry)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted: `pace rescore {paths.folder}` continues where it stopped.") from None


async def _rescore(paths: RunPaths, best: int | None, show: Show, dry: bool) -> Rescore:
    where, name = paths.population
    with RunLock(paths.folder) as lock:
        async with Store.open(where, create=False) as store:
            standing = await store.standing(name)
            await refuse_if_lost(store, paths, standing.header.objective)
            config = resumed_config(standing, {})
            _refuse_relative(config)
            store.be_patient(config.faults.patience_s, waiting(lock), AGAIN)
            task = limits_of(config, task_of_run(standing.header))
            todo, plan, begun = await _planned(store, standing, task, config, best)
            if dry or plan.known:
                return plan
            if not begun:
                await store.commit(RescoreBegan(plan.epoch, task.digest, best, time.time()))
            work = _Work(store, standing, config, task, plan, show)
            await work.score(todo, paths.logs / "scorer.log")
            await _come_into_force(store, standing, plan.epoch)
            best_member = (await store.standing(name)).best
            keep_best(paths, task.suffix, best_member, task.program)
            return replace(plan, scored=plan.programs, expected_s=0.0, best=best_member)


def _refuse_relative(config: Config) -> None:
    """Raises UsageError for a run whose rewards depend on more than one score."""
    if config.reward.relative_to != "bounds":
        raise UsageError(
            f"This run's rewards are relative to the {config.reward.relative_to} (reward.relative_to), whose score "
            "would change too: such a run cannot be scored again."
        )


async def _planned(
    store: Store, standing: Standing, task: Task, config: Config, best: int | None
) -> tuple[list[int], Rescore, bool]:
    """The candidates to score, the plan, and whether its epoch was begun by an earlier process."""
    run_id = standing.run_id
    known = await store.read(lambda connection: epochs.epochs_of(connection, run_id))
    now = max((epoch for epoch in known if epoch.in_force), default=None, key=lambda epoch: epoch.number)
    same = task.scores_as(standing.header.task_digest) and (now is None or now.best in (None, best))
    last = known[-1] if known else None
    begun = last is not None and not last.in_force and (last.task_digest, last.best) == (task.digest, best)
    number = 1 if last is None else last.number if begun else last.number + 1
    programs = await store.read(lambda connection: epochs.programs_of(connection, run_id, best))
    done = await store.read(lambda connection: epochs.rescored_of(connection, run_id, number))
    seconds = await store.read(lambda connection: epochs.mean_seconds_of(connection, run_id))
    todo = [candidate for candidate in programs if candidate not in done]
    expected = len(todo) * seconds / max(1, config.evaluation.slots)
    plan = Rescore(number, len(programs), len(programs) - len(todo), expected, same and not begun, standing.best)
    return todo, plan, begun


@dataclass(slots=True)
class _Work:
    """The evaluations of one rescore."""

    store: Store
    standing: Standing
    config: Config
    task: Task
    plan: Rescore
    show: Show
    began: float = 0.0
    done: int = 0
    lost: str = ""

    async def score(self, todo: Sequence[int], log: Path) -> None:
        """Score these candidates, the task's own program first and alone. Raises SeedProgramFails, and GaveUp if the
        machine failed some."""
        self.began, self.done = time.monotonic(), self.plan.scored
        tier = await pick_tier(self.config.evaluation.unsafe_no_sandbox)
        settings = self.config.evaluation.model_copy(update={"practice": "none"})
        async with open_evaluator(self.task, settings, tier=tier, log=log) as evaluator:
            rest = list(todo)
            if rest and rest[0] == 0:
                await self._rescore_one(evaluator, rest.pop(0))
            queue, failed = iter(rest), list[PaceError]()

            async def worker() -> None:
                for candidate in queue:
                    await self._rescore_one(evaluator, candidate)

            try:
                async with anyio.create_task_group() as tasks:
                    for _ in range(min(len(rest), self.config.evaluation.slots)):
                        tasks.start_soon(worker)
            except* PaceError as errors:
                failed = [error for error in errors.exceptions if isinstance(error, PaceError)]
        if failed:
            raise failed[0]
        if self.lost:
            raise GaveUp(
                f"Some programs could not be scored on this machine ({self.lost}), see `pace doctor`: no score has "
                "changed, and `pace rescore` goes on with those."
            )

    async def _rescore_one(self, evaluator: Evaluator, candidate: int) -> None:
        run_id, epoch = self.standing.run_id, self.plan.epoch
        program = await self.store.read(lambda connection: epochs.program_of(connection, run_id, candidate))
        identity = EvaluationId(f"{self.standing.header.name}, epoch {epoch}", candidate)
        request = EvaluationRequest.of(self.task.spec, identity, program, self.config.evaluation.seed)
        result = await cascaded(evaluator, self.task.spec, request)
        if result.outcome == "infrastructure_error":
            self.lost = result.detail
            return
        if candidate == 0 and result.score is None:
            raise SeedProgramFails(
                f"The seed program {self.task.folder / self.task.spec.program} fails the evaluator ({result.outcome}"
                f"{f': {result.detail}' if result.detail else ''}), so no score has changed: fix the evaluator, then "
                "`pace rescore` again."
            )
        await self.store.commit(self._fact(candidate, result))
        self.done += 1
        self.show(self.done, self.plan.programs, time.monotonic() - self.began)

    def _fact(self, candidate: int, evaluation: Evaluation) -> Rescored:
        rule, spec = RewardRule.of(self.config.reward, self.task.spec), self.task.spec
        value = rule.of_score(evaluation.score, parent=0.0, seed=0.0)
        if spec.aims and candidate:
            costs = spec.fitness.costs(evaluation.metrics) if evaluation.score is not None else ()
            value = rule.of_costs(costs, parent=(), seed=(), lease=candidate)
        return Rescored(
            epoch=self.plan.epoch,
            candidate=candidate,
            outcome=evaluation.outcome,
            detail=evaluation.detail,
            score=evaluation.score,
            reward=STOPPED if evaluation.outcome == "below_threshold" else value,
            seconds=evaluation.seconds,
            memoised=evaluation.memoised,
            at=time.time(),
            queue_seconds=evaluation.queue_seconds,
            metrics=evaluation.metrics,
        )


async def _come_into_force(store: Store, standing: Standing, epoch: int) -> None:
    """Put the scores in force, and abort the leases that were begun under the evaluator before, in one transaction."""
    run_id, now = standing.run_id, time.time()
    unfinished = await store.read(lambda connection: epochs.open_leases_of(connection, run_id))
    last = await store.read(lambda connection: epochs.last_lease_of(connection, run_id))
    reason = "the evaluator was corrected while the lease was open"
    await store.commit(
        *cut_off(standing),
        *(LeaseAborted(lease, island, "rescored", reason, now) for lease, island in unfinished),
        EpochInForce(epoch, last, now),
    )


def refuse_unless_in_force(standing: Standing, task: Task, folder: Path) -> None:
    """Raises UsageError if the scores in force are of another evaluator than the task has now."""
    if not task.scores_as(standing.header.task_digest):
        raise UsageError(
            f"Task {task.name!r} has changed since the run's programs were scored, some file in {task.folder}: scores "
            f"would not compare. Put it back, score them again with `pace rescore {folder}`, or start a new run."
        )

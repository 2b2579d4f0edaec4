"""A score that would be a new best is confirmed on fresh instances before its program may be a parent, the best, or
training data.

The seeds follow from a secret that is drawn when the run begins, so no author of programs can make the instances
beforehand. No row, event or message names a seed: outside this file and the evaluator a seed is its number. The seeds
belong to the run, so the task's own program is scored only once for each. No score of the run comes from them, and a
program's messages and failures there reach no author of programs. The cost is low, because a claim ends with the first
try that confirms it, and new bests are rare. A resume repeats no recorded try.

Scores come from one hidden set of instances, so a program can reach a best score because it is good at the task or
because it knows that set. So the gain over the task's own program is compared, on the same instances, because one set
may be harder than another:

    gain claimed  g = ±(score − own score) on the hidden instances
    gain kept     k = ±(score − own score) on fresh ones
    the claim holds there if k ≥ SHARE · g − SLACK · (upper − lower)

One set of fresh instances that confirms a claim is enough. An honest program may have had luck with the hidden set, but
a program that has memorised it gains nothing on other instances. SHARE and SLACK are tolerant for the same reason.
Scores of the bundled tasks' catalogue programs vary by up to half of their gain from seed to seed, and hardly one of
them fails three times. The rule accepts a gain that is half real.

In a task with several objectives each one in which a gain is claimed has to hold so too, in shares of the distance
between its bounds: the score alone would confirm a metric that it hardly depends on.
"""

import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio

from pace_async.aims import Costs
from pace_async.evaluate.base import (
    SECRET_SEEDS,
    Evaluation,
    EvaluationId,
    EvaluationLost,
    EvaluationRequest,
    Evaluator,
    evaluate,
)
from pace_async.events import Claimed, EvaluationAttempted, FreshScore
from pace_async.fitness import Fitness
from pace_async.search.state import Member
from pace_async.task import FULL, Task

SHARE = 0.5
SLACK = 0.05


def claims_best(
    score: float, members: Iterable[Member], fitness: Fitness, again: Mapping[int, float] | None = None
) -> bool:
    """Whether the score is strictly better than the bar of every member. `again` are the scores of second evaluations,
    by candidate, in a task whose scores are noisy: a member with luck in its first evaluation does not keep others from
    being confirmed, so its bar is the mean of both. It is never above the first score, which any new best exceeds."""
    known = again or {}
    return all(fitness.better(score, _bar(member, known, fitness)) for member in members)


def _bar(member: Member, again: Mapping[int, float], fitness: Fitness) -> float:
    mean = (member.score + again.get(member.candidate, member.score)) / 2
    return mean if fitness.better(member.score, mean) else member.score


def bears_out(claimed: float, own: float, fresh: float, own_fresh: float | None, fitness: Fitness) -> bool:
    """Whether a `fresh` score confirms the `claimed` one, given the scores of the task's own program on the hidden and
    on the fresh instances. Without a score on the fresh ones, they count as no harder than the hidden ones."""
    fresh_gain = fitness.gain(fresh, own if own_fresh is None else own_fresh)
    return fresh_gain >= SHARE * fitness.gain(claimed, own) - SLACK * fitness.gain(fitness.goal, fitness.worse_bound)


def each_bears_out(claimed: Costs, own: Costs, fresh: Costs, own_fresh: Costs) -> bool:
    """The same of every objective in which the claimed costs are lower than the own ones. Without `own_fresh` ones the
    fresh instances count as no harder. True without objectives."""
    sides = zip(claimed[1:], own[1:], fresh[1:], (own_fresh or own)[1:], strict=True)
    return all(baseline - new >= SHARE * (before - now) - SLACK for now, before, new, baseline in sides if now < before)


AttemptFacts = tuple[EvaluationAttempted, ...]
Remember = Callable[[tuple[FreshScore, ...], AttemptFacts], Awaitable[None]]
"""Commits the tries so far, and attempts that are not recorded yet."""


async def _nothing(tries: tuple[FreshScore, ...], attempts: AttemptFacts) -> None:
    """Record no tries. A resume then repeats them."""


def claimed_evaluation(claim: Claimed, attempts: AttemptFacts = ()) -> Evaluation:
    """The evaluation on the hidden instances from which a claim was made. `attempts` are not recorded yet."""
    return Evaluation(
        "ok",
        claim.score,
        claim.seconds,
        metrics=claim.metrics,
        memoised=claim.memoised,
        queue_seconds=claim.queue_seconds,
        attempts=attempts,
        feedback=claim.feedback or "",
    )


def fresh_seeds(secret: str, count: int) -> tuple[int, ...]:
    """The first `count` seeds of the run with this secret. Each has 128 bits that follow only from the secret, and no
    user setting can equal one."""
    return tuple(
        SECRET_SEEDS + int.from_bytes(hmac.digest(secret.encode(), f"fresh {number}".encode(), "sha256")[:16])
        for number in range(1, count + 1)
    )


@dataclass(slots=True)
class FreshInstances:
    """Tries claims for one run. `own` is the task's own program with its score on the hidden instances. `known` are its
    scores on fresh instances so far, by the number of the seed, from 1, and `measured` its metrics there. `run` is the
    run's name. `attempts` are the
    numbers of the newest attempts by (lease, stage, fresh), which the run keeps. `_made` are those of this process,
    also before they are recorded."""

    evaluator: Evaluator
    task: Task
    own: Member
    seeds: Sequence[int] = field(repr=False)
    known: dict[int, float | None] = field(default_factory=dict[int, float | None])
    run: str = "run"
    attempts: Mapping[tuple[int, str, int], int] = field(default_factory=dict[tuple[int, str, int], int])
    measured: dict[int, Mapping[str, float]] = field(default_factory=dict[int, Mapping[str, float]])
    _made: dict[tuple[int, str, int], int] = field(default_factory=dict[tuple[int, str, int], int])
    _one: anyio.Lock = field(default_factory=anyio.Lock)

    async def confirmed(
        self, claim: Claimed, attempts: AttemptFacts = (), remember: Remember = _nothing
    ) -> tuple[Evaluation, tuple[FreshScore, ...]]:
        """The final evaluation, and the tries. If one try holds, it is the claim's evaluation, else "suspicious",
        without a score. The claim's own tries, none of which held, are not repeated. `attempts` are those of its
        evaluation, not recorded yet. Before each try `remember` receives those so far. The attempts of the result are
        those that it did not receive. Raises EvaluationLost."""
        tries, unrecorded = list(claim.tries), attempts
        for number in range(len(tries) + 1, len(self.seeds) + 1):
            await remember(tuple(tries), unrecorded)
            trial, unrecorded = await self._try(claim, number)
            tries.append(trial)
            if trial.held:
                break
        evaluation = claimed_evaluation(claim, unrecorded)
        if tries and not tries[-1].held:
            evaluation = replace(
                evaluation, outcome="suspicious", score=None, detail=_words(tries), metrics={}, memoised=False
            )
        return evaluation, tuple(tries)

    async def _try(self, claim: Claimed, number: int) -> tuple[FreshScore, AttemptFacts]:
        own, before = await self._own_score(number)
        try:
            evaluation = await self._evaluate(claim.lease, claim.program, number)
        except EvaluationLost as lost:
            raise EvaluationLost(lost.detail, (*before, *lost.attempts)) from None
        fitness, measured = self.task.spec.fitness, self.measured.get(number)
        is_confirmed = evaluation.score is not None and bears_out(
            claim.score, self.own.score, evaluation.score, own, fitness
        )
        if is_confirmed and fitness.aims:
            costs = (fitness.costs(metrics) for metrics in (claim.metrics, evaluation.metrics, measured or {}))
            claimed, fresh, own_fresh = costs
            is_confirmed = each_bears_out(claimed, self.own.costs, fresh, own_fresh)
        metrics = (evaluation.metrics, measured) if fitness.aims else (None, None)
        trial = FreshScore(
            number, claim.score, evaluation.outcome, evaluation.score, own, is_confirmed, evaluation.seconds, *metrics
        )
        return trial, (*before, *evaluation.attempts)

    async def _own_score(self, number: int) -> tuple[float | None, AttemptFacts]:
        """The score of the task's own program, and the attempts that were made now."""
        async with self._one:
            if number in self.known:
                return self.known[number], ()
            evaluation = await self._evaluate(0, self.task.program, number)
            self.known[number] = evaluation.score
            if evaluation.score is not None and self.task.spec.aims:
                self.measured[number] = evaluation.metrics
            return evaluation.score, evaluation.attempts

    async def _evaluate(self, lease: int, program: str, number: int) -> Evaluation:
        """Raises EvaluationLost. The attempts keep no detail, because a program's message about secret instances must
        not be in a row."""
        series = (lease, FULL, number)
        newest = max(self.attempts.get(series, 0), self._made.get(series, 0))
        identity = EvaluationId(self.run, lease, FULL, newest + 1, number)
        request = EvaluationRequest.of(self.task.spec, identity, program, self.seeds[number - 1])
        evaluation = await evaluate(self.evaluator, request)
        self._made[series] = newest + len(evaluation.attempts)
        attempts = tuple(replace(attempt, detail="") for attempt in evaluation.attempts)
        if evaluation.outcome == "infrastructure_error":
            raise EvaluationLost(evaluation.detail, attempts)
        return replace(evaluation, attempts=attempts)


def _words(tries: Sequence[FreshScore]) -> str:
    """One line for the row. The advisor is shown outcomes and never these numbers."""
    scores = ", ".join(trial.outcome if trial.score is None else f"{trial.score:.6g}" for trial in tries)
    return f"claimed {tries[0].claimed:.6g}, which fresh instances do not confirm: {scores}"

"""Cheap stages first: a program pays for the full evaluation only where every cheap stage has let it through.

Invariant: a score of a cheap stage is never the program's score. A program that a stage stops has none, and the outcome
"below_threshold"; one that fails there has the outcome of its failure. The scores of the stages stand beside it. Not
where a stage is run: that is the evaluator's part; nor where it is remembered: a stage that was passed is told to
`passed` before the next begins, and what comes back as `done` is not run again.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pace_async.evaluate.base import Evaluation, Evaluator
from pace_async.events import CascadeScore
from pace_async.task import CascadeStage, TaskSpec, better


async def cascaded(
    evaluator: Evaluator,
    spec: TaskSpec,
    program: str,
    seed: int,
    *,
    done: Sequence[CascadeScore] = (),
    passed: Callable[[CascadeScore], Awaitable[None]] | None = None,
) -> Evaluation:
    """The evaluation of a program of this task; `seconds` are those of all its stages, and `memoised` says that none of
    them was run. `done` are the first stages, passed already."""
    scores = list(done)
    for stage in spec.cascade[len(done) :]:
        found = await evaluator.evaluate(program, seed, stage.name)
        if found.outcome == "infrastructure_error":
            return found
        score = _score(stage, found, spec.direction)
        scores.append(score)
        if not score.passed:
            return _summed(_stopped(stage, found), scores[:-1], scores)
        if passed is not None:
            await passed(score)
    return _summed(await evaluator.evaluate(program, seed), scores, scores)


def _score(stage: CascadeStage, found: Evaluation, direction: str) -> CascadeScore:
    return CascadeScore(
        stage=stage.name,
        outcome=found.outcome,
        score=found.score,
        threshold=stage.threshold,
        passed=found.score is not None and not better(direction, stage.threshold, found.score),
        seconds=found.seconds,
        memoised=found.memoised,
    )


def _stopped(stage: CascadeStage, found: Evaluation) -> Evaluation:
    if found.score is None:
        return found
    detail = f"stage {stage.name}: {found.score:.6g}, and {stage.threshold:g} is asked for"
    return Evaluation("below_threshold", None, found.seconds, detail, memoised=found.memoised)


def _summed(last: Evaluation, before: Sequence[CascadeScore], scores: Sequence[CascadeScore]) -> Evaluation:
    """`last` with what the stages before it took, and all scores. A machine's fault stays as it is."""
    if last.outcome == "infrastructure_error" or not scores:
        return last
    return replace(
        last,
        seconds=last.seconds + sum(score.seconds for score in before),
        memoised=last.memoised and all(score.memoised for score in before),
        cascade=tuple(scores),
    )

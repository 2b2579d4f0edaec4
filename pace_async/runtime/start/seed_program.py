"""Scores the task's own program, candidate 0, before a run is written."""

import time

from pace_async.config import Config
from pace_async.errors import SeedProgramFails
from pace_async.evaluate.assemble import of_this_machine, open_evaluator
from pace_async.evaluate.base import Evaluation, EvaluationId, EvaluationRequest
from pace_async.evaluate.cascade import cascaded
from pace_async.evaluate.pruning import bar_of, rules_of
from pace_async.evaluate.resources import OfRun
from pace_async.evaluate.sandbox.tiers import Tier
from pace_async.evaluate.scorer.scorer_log import scorer_log
from pace_async.events import Evaluated, EvaluationAttempted, Practised
from pace_async.programs.compiled import program_hash
from pace_async.reward import RewardRule
from pace_async.runtime.children.cards import taken_cards
from pace_async.runtime.run.practising import fact_of, practised
from pace_async.task import PRACTICE, Task


async def score_seed_program(
    config: Config, task: Task, tier: Tier
) -> tuple[Evaluated | EvaluationAttempted | Practised, ...]:
    """Candidate 0, the attempts to evaluate it, and its practice. Raises SeedProgramFails, and UsageError if no new
    best could be confirmed. Nothing is written before that."""
    cold = of_this_machine(config.evaluation).model_copy(update={"warm": False})  # for one program
    rules = rules_of(config.evaluation)
    bar = bar_of(rules, (), task.spec.fitness) if rules is not None else None  # its curve counts for the others
    request = EvaluationRequest.of(task.spec, EvaluationId("seed", 0), task.program, config.evaluation.seed, bar)
    practice: tuple[EvaluationAttempted | Practised, ...] = ()
    with scorer_log() as log:
        run = OfRun(taken=taken_cards(config))
        async with open_evaluator(task, cold, tier=tier, log=log, run=run) as evaluator:
            if cold.practice != "none":
                identity = EvaluationId("seed", 0, PRACTICE)
                practice_run = await practised(evaluator, task.spec, cold, identity, task.program)
                practice = *practice_run.attempts, fact_of(0, task.program, practice_run, cold, time.time())
            evaluation = await cascaded(evaluator, task.spec, request)
            if config.evaluation.fresh_seeds and evaluation.outcome == "ok":
                await evaluator.refuse_unless_fresh()
        if evaluation.outcome != "ok" or evaluation.score is None:
            raise SeedProgramFails(_why_it_fails(task, evaluation))
    ended = Evaluated(
        lease=0,
        island=0,
        parent=None,
        program=task.program,
        program_hash=program_hash(task.program, task.spec.language),
        outcome="ok",
        detail="",
        score=evaluation.score,
        reward=RewardRule.of(config.reward, task.spec).of_score(
            evaluation.score, parent=evaluation.score, seed=evaluation.score
        ),
        metrics=evaluation.metrics,
        seconds=evaluation.seconds,
        memoised=evaluation.memoised,
        mechanism=None,
        at=time.time(),
        feedback=evaluation.feedback or None,
    )
    return ended, *evaluation.attempts, *practice


def _why_it_fails(task: Task, evaluation: Evaluation) -> str:
    """The reason why the seed program has no score, and what to do."""
    program = task.folder / task.spec.program
    if evaluation.evaluator_error:
        return (
            f"The evaluator {task.folder / task.spec.evaluator} failed while it scored the seed program "
            f"({evaluation.evaluator_error}); fix the evaluator, then `pace task check {task.reference}` should pass."
        )
    if evaluation.outcome == "below_threshold":
        return (
            f"The seed program {program} is stopped before its full evaluation ({evaluation.detail}), as most programs "
            f"would be; `pace task check {task.reference}` says what threshold lets it pass."
        )
    detail = f": {evaluation.detail}" if evaluation.detail else ""
    if evaluation.outcome == "infrastructure_error":
        return (
            f"The seed program {program} could not be scored on this machine ({evaluation.detail}); see `pace doctor`."
        )
    return (
        f"The seed program {program} fails its own evaluator ({evaluation.outcome}{detail}); fix it, then `pace eval "
        f"{task.reference} {program}` should say ok."
    )

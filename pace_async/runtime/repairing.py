"""One experiment from its first answer to the program that counts: a model whose program fails sees why, and goes on.

Invariant: what an answer was, and how its program failed before the next is asked for, is committed; so a process that
goes on after a crash pays for no recorded answer twice. The reward is that of what comes last.
"""

from dataclasses import replace

from pace_async.errors import InfrastructureFault
from pace_async.evaluate.base import Evaluation
from pace_async.evaluate.cascade import cascaded
from pace_async.events import CascadeScore, CascadeStageEnded, ImplementerTry, StageChanged, TryEvaluated
from pace_async.implement.base import Experiment, Implemented, Unusable
from pace_async.implement.repair import asks_again
from pace_async.runtime.core import Core
from pace_async.runtime.state import Decision
from pace_async.search.state import Member


async def implemented_and_evaluated(
    core: Core, island: int, decision: Decision, experiment: Experiment
) -> tuple[Implemented, Evaluation]:
    """The last program and its evaluation on the hidden instances; `experiment` may have tries of an earlier process.
    Raises CandidateFault if the last answer is no program, InfrastructureFault, BudgetReached."""
    limits, begun, passed = core.config.implementer.repair, decision.implemented, decision.passed
    while True:
        if begun is not None and not experiment.tries:  # of an implementer that leaves none, the catalogue
            made, tries = begun, ()
        else:
            made, tries = await _implemented(core, island, decision.parent, experiment)
        if begun is None or made.program != begun.program:
            passed = ()
        core.show(StageChanged(island, experiment.lease, "evaluate"))
        evaluation = await _evaluated(core, experiment.lease, made, passed)
        if evaluation.outcome == "infrastructure_error":
            raise InfrastructureFault("evaluation", evaluation.detail)
        if made.tried is None:
            return made, evaluation
        tried = replace(made.tried, evaluation=evaluation.outcome, evaluation_detail=evaluation.detail)
        tries = (*tries, tried)
        if not asks_again(tries, limits):
            return made, evaluation
        await core.record(_failed(experiment.lease, tried, evaluation, core.stages.clock.now()))
        experiment, begun = replace(experiment, tries=tries), None


async def _implemented(
    core: Core, island: int, parent: Member, experiment: Experiment
) -> tuple[Implemented, tuple[ImplementerTry, ...]]:
    """A program, and the tries before it. Raises CandidateFault if the last answer that may be asked for is none."""
    tries, limits = experiment.tries, core.config.implementer.repair
    if tries and tries[-1].evaluation is None:
        last = tries[-1]
        if last.outcome == "ok" and last.program is not None:
            return Implemented(last.program, tried=last), tries[:-1]
        if not asks_again(tries, limits):
            raise Unusable(last)
    core.show(StageChanged(island, experiment.lease, "implement"))
    while True:
        try:
            return await core.stages.implementer.implement(core.task, parent, experiment), tries
        except Unusable as fault:
            tries = (*tries, fault.tried)
            if not asks_again(tries, limits):
                raise
            experiment = replace(experiment, tries=tries)


async def _evaluated(core: Core, lease: int, made: Implemented, passed: tuple[CascadeScore, ...]) -> Evaluation:
    """Through the task's cascade. Each stage that is passed is committed with the program that passed it, so that a
    resume pays for neither again."""
    number = len(passed)

    async def keep(score: CascadeScore) -> None:
        nonlocal number
        number += 1
        now = core.stages.clock.now()
        await core.record(CascadeStageEnded(lease, number, score, made.program, made.mechanism, now))

    seed = core.config.evaluation.seed
    return await cascaded(core.stages.evaluator, core.task.spec, made.program, seed, done=passed, passed=keep)


def _failed(lease: int, tried: ImplementerTry, evaluation: Evaluation, now: float) -> TryEvaluated:
    return TryEvaluated(lease, tried.number, evaluation.outcome, evaluation.detail, evaluation.seconds, now)

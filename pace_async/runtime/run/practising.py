"""A program practises before it is scored: it runs on instances that score nothing, and models are told of it.

Invariants: what it did is committed before its first scored evaluation is submitted, so a resume neither repeats it nor
makes up for it later. Whatever happens there, the scored evaluation follows. A failure of the machine is not retried
beyond what the evaluator does itself.
"""

from itertools import islice

from pace_async.config import EvaluationConfig
from pace_async.errors import InfrastructureFault
from pace_async.evaluate.base import HIDDEN, Evaluation, EvaluationId, EvaluationRequest, Evaluator, evaluate
from pace_async.events import Practised
from pace_async.programs.compiled import digest_as_it_is
from pace_async.runtime.run.core import Core
from pace_async.task import PRACTICE, TaskSpec

MOST_METRICS = 30
"""Metrics of practice that are kept."""


async def practise(core: Core, lease: int, program: str) -> None:
    """Run a program that was not scored yet on practice instances, if this run has them and the lease's last practice
    was not its own. Raises GaveUp."""
    settings, known = core.config.evaluation, core.state.running[lease].practice
    if settings.practice == "none" or (known is not None and known.program_digest == digest_as_it_is(program)):
        return
    attempt = core.state.next_attempt((lease, PRACTICE, HIDDEN))
    identity = EvaluationId(core.run, lease, PRACTICE, attempt)
    evaluation = await practised(core.stages.evaluator, core.task.spec, settings, identity, program)
    fact = fact_of(lease, program, evaluation, settings, core.stages.clock.now())
    await core.record(*evaluation.attempts, fact)


async def practised(
    evaluator: Evaluator, spec: TaskSpec, settings: EvaluationConfig, identity: EvaluationId, program: str
) -> Evaluation:
    """The evaluation of a program on practice instances. An InfrastructureFault becomes its outcome."""
    try:
        return await evaluate(evaluator, EvaluationRequest.of(spec, identity, program, settings.seed))
    except InfrastructureFault as fault:
        return Evaluation("infrastructure_error", None, 0.0, str(fault))


def fact_of(lease: int, program: str, evaluation: Evaluation, settings: EvaluationConfig, now: float) -> Practised:
    """What is kept of practice."""
    return Practised(
        lease=lease,
        program_digest=digest_as_it_is(program),
        outcome=evaluation.outcome,
        detail=evaluation.detail,
        score=evaluation.score,
        metrics=dict(islice(evaluation.metrics.items(), MOST_METRICS)),
        printed=evaluation.feedback if settings.practice == "output" else "",
        seconds=evaluation.seconds,
        memoised=evaluation.memoised,
        at=now,
    )

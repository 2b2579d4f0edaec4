"""One experiment from its first answer to its final program. A model whose program fails is shown the error.

Invariant: each answer, and the failure of its program, is committed before the next answer is requested. So a resume
pays for no recorded answer twice. Nor does a retry after a failed service: the tries so far are always those of the
run's state, which has them as soon as they are committed. The reward is that of the last outcome.

Where a bandit chooses among several models, the choice is committed together with the experiment. It rests on the
rollouts whose lease is closed, so under `--sync` on those up to the last group. A resumed run chooses as the
uninterrupted one would have.
"""

from dataclasses import dataclass, replace
from functools import partial

from pace_async.config import Config
from pace_async.context.practice import practice_text
from pace_async.evaluate.base import HIDDEN, Evaluation, EvaluationId, EvaluationLost, EvaluationRequest, evaluate
from pace_async.evaluate.cascade import cascaded
from pace_async.evaluate.pruning import Bar, bar_of, rules_of
from pace_async.events import (
    CascadeScore,
    CascadeStageEnded,
    EvaluationAttempted,
    ImplementerChosen,
    ImplementerTry,
    StageChanged,
    TryEvaluated,
)
from pace_async.implement.base import Experiment, ImplementedProgram, Unusable
from pace_async.implement.repair import asks_again
from pace_async.implement.shares import parse_shares
from pace_async.population.reading.curves import curves_before
from pace_async.runtime.run.core import Core
from pace_async.runtime.run.patience import EVALUATE, IMPLEMENT, Patience
from pace_async.runtime.run.practising import practise
from pace_async.runtime.run.work import Decision
from pace_async.search.bandit import choose_arm, kind_of
from pace_async.search.draws import generator
from pace_async.search.state import Idea, Member
from pace_async.state.apply import practice_with, shows_at_once
from pace_async.state.run_state import RunState
from pace_async.task import FULL


def chosen_implementer(
    config: Config, state: RunState, lease: int, experiment: str | None, idea: Idea | None, now: float
) -> ImplementerChosen | None:
    """The bandit's choice, or None without one: no experiment, a single model, or a draw by weight."""
    if experiment is None or config.implementer.choice == "weights":
        return None
    models = [share.model for share in parse_shares(config.implementer.model)]
    if len(models) == 1:
        return None
    kind = kind_of(experiment, len(idea.trials) if idea is not None else 0)
    draw = generator(config.seed, lease, "bandit")
    arm = choose_arm(models, state.seen.results.values(), kind, draw, config.implementer.cost_weight)
    return ImplementerChosen(lease, kind, arm.model, arm.rate, arm.usd, now)


async def implemented_and_evaluated(
    core: Core, patience: Patience, island: int, decision: Decision, experiment: Experiment
) -> tuple[ImplementedProgram, Evaluation]:
    """The last program and its evaluation on the hidden instances. If the machine failed the evaluation, the same
    program is evaluated again. Raises CandidateFault if the last answer is not a program, LeaseLost, LeftOpen,
    BudgetReached, GaveUp."""
    limits, begun, passed = core.config.implementer.repair, decision.implemented, decision.passed
    underway = core.state.running[experiment.lease]
    while True:
        if begun is not None and not underway.tries:  # of an implementer that leaves none, the catalogue
            implementation = begun
        else:
            ask = partial(_implemented, core, island, decision.parent, experiment)
            implementation = await patience.tried(IMPLEMENT, experiment.lease, ask)
        if begun is None or implementation.program != begun.program:
            passed = ()
        core.show(StageChanged(island, experiment.lease, "evaluate"))
        if not passed:
            await practise(core, experiment.lease, implementation.program)
        evaluating = _Evaluating(core, experiment.lease, implementation, list(passed))
        evaluation = await patience.tried(EVALUATE, experiment.lease, evaluating.evaluated, ran=_ran)
        if implementation.tried is None:
            return implementation, evaluation
        feedback = evaluation.feedback or practice_text(practice_with(implementation.program, underway.practice))
        last_try = replace(
            implementation.tried,
            evaluation=evaluation.outcome,
            evaluation_detail=evaluation.detail,
            evaluation_feedback=feedback or None,
        )
        if not asks_again((*underway.tries[:-1], last_try), limits):
            return implementation, evaluation
        await core.record(
            _failed(experiment.lease, last_try, evaluation, core.stages.clock.now()), *evaluation.attempts
        )
        begun = None


async def _implemented(core: Core, island: int, parent: Member, experiment: Experiment) -> ImplementedProgram:
    """A program. Raises CandidateFault if the last allowed answer gives none."""
    underway, limits = core.state.running[experiment.lease], core.config.implementer.repair
    while True:
        tries = underway.tries
        if tries and tries[-1].evaluation is None:
            last = tries[-1]
            if last.outcome == "ok" and last.program is not None:
                return ImplementedProgram(last.program, tried=last)
            if not asks_again(tries, limits):
                raise Unusable(last)
        core.show(StageChanged(island, experiment.lease, "implement"))
        try:
            return await core.stages.implementer.implement(core.task, parent, replace(experiment, tries=tries))
        except Unusable:
            if underway.tries == tries:  # no call committed the answer
                raise


@dataclass(slots=True)
class _Evaluating:
    """One program, in the task's cascade if it has cheap stages. Each passed stage is committed with its program, so
    that neither a resume nor another try repeats it."""

    core: Core
    lease: int
    made: ImplementedProgram
    passed: list[CascadeScore]

    async def evaluated(self) -> Evaluation:
        """Evaluate from the first stage that is not passed yet. Raises EvaluationLost."""
        attempt = self.core.state.next_attempt((self.lease, FULL, HIDDEN))
        identity = EvaluationId(self.core.run, self.lease, attempt=attempt)
        program, seed = self.made.program, self.core.config.evaluation.seed
        request = EvaluationRequest.of(self.core.task.spec, identity, program, seed, await _bar(self.core))
        evaluation = await self._evaluation(request)
        if evaluation.outcome == "infrastructure_error":
            raise EvaluationLost(evaluation.detail, evaluation.attempts)
        return evaluation

    async def _evaluation(self, request: EvaluationRequest) -> Evaluation:
        evaluator, spec = self.core.stages.evaluator, self.core.task.spec
        if not spec.cascade:
            return await evaluate(evaluator, request)
        done = tuple(self.passed)
        return await cascaded(evaluator, spec, request, done=done, passed=self._keep, number=self._number)

    def _number(self, identity: EvaluationId) -> int:
        """The number of the next attempt."""
        return self.core.state.next_attempt(identity.series)

    async def _keep(self, score: CascadeScore, attempts: tuple[EvaluationAttempted, ...]) -> None:
        self.passed.append(score)
        number, implementation, now = len(self.passed), self.made, self.core.stages.clock.now()
        ended = CascadeStageEnded(self.lease, number, score, implementation.program, implementation.mechanism, now)
        await self.core.record(ended, *attempts)


async def _bar(core: Core) -> Bar | None:
    """What the evaluation must keep up with, None where none ends early. It rests on the evaluations that ended before,
    behind a barrier on those of closed leases."""
    rules = rules_of(core.config.evaluation)
    if rules is None:
        return None
    earlier = await curves_before(core.recorder.population, core.run, closed=not shows_at_once(core.state))
    return bar_of(rules, earlier, core.task.spec.fitness)


def _ran(evaluation: Evaluation) -> bool:
    """Whether a program was run at all. A refused program or a remembered score tells nothing about the machine."""
    return evaluation.seconds > 0 and not evaluation.memoised


def _failed(lease: int, last_try: ImplementerTry, evaluation: Evaluation, now: float) -> TryEvaluated:
    return TryEvaluated(
        lease=lease,
        number=last_try.number,
        outcome=evaluation.outcome,
        detail=evaluation.detail,
        seconds=evaluation.seconds,
        at=now,
        feedback=last_try.evaluation_feedback,
    )

"""One search thread: lease, advise, implement, evaluate, reward, again. One thread is one island.

A fault of the candidate is a complete rollout with reward -1. A fault of the infrastructure is retried with the results
that the lease has already (`patience`). If it stays, the lease closes as aborted, and never gets a reward. Every stage
is committed when it ends, those of a cascade too. A lease whose call would not fit into the budget stays open for a
resume.
"""

import asyncio
from dataclasses import dataclass, replace
from functools import partial

from pace_async.advise.advisor import Advice, PaidAnswers, advise
from pace_async.advise.base import PromptTooLong
from pace_async.advise.in_context import advise_in_context, reasoning_of
from pace_async.advise.prompts import ProseWording
from pace_async.context.briefing import Briefing, briefing_of
from pace_async.context.questions import Questions
from pace_async.context.value import base_of
from pace_async.errors import BudgetReached, CandidateFault, InfrastructureFault, PaceBug
from pace_async.evaluate.base import Evaluation
from pace_async.events import (
    Advised,
    CallUnaffordable,
    CascadeStageEnded,
    Claimed,
    Evaluated,
    EvaluationAttempted,
    FaultSeen,
    FreshScore,
    LeaseAborted,
    LeaseReleased,
    Outcome,
    StageChanged,
    deviation_of,
)
from pace_async.implement.advisor_edit import read_edit
from pace_async.implement.base import Experiment, ImplementedProgram
from pace_async.programs.compiled import hash_off_loop
from pace_async.runtime.run.core import Core
from pace_async.runtime.run.fresh import claimed_evaluation, claims_best
from pace_async.runtime.run.patience import ADVISE, ASK, EVALUATE, LeaseLost, LeftOpen, Patience
from pace_async.runtime.run.recorder import ClaimedPlace
from pace_async.runtime.run.repairing import chosen_implementer, implemented_and_evaluated
from pace_async.runtime.run.repeating import measured_again, measured_as_parent, scores_of
from pace_async.runtime.run.work import Decision, LeaseWork
from pace_async.search.draws import generator
from pace_async.search.islands import context_of
from pace_async.search.parents import parent_of
from pace_async.search.state import SearchContext
from pace_async.state.apply import member_of, rollout_of, shows_at_once


@dataclass(frozen=True, slots=True)
class LeaseResult:
    """The result of a lease: the program, if one was made, its evaluation, and its tries on fresh instances."""

    implemented: ImplementedProgram | None
    evaluation: Evaluation
    fresh: tuple[FreshScore, ...] = ()


async def search_thread(core: Core, patience: Patience, island: int) -> None:
    """Make rollouts on one island until the run ends. Raises GaveUp."""
    while True:
        core.show(StageChanged(island, None, "waiting"))
        work = await core.admit(island)
        if work is None:
            return
        try:
            await _try_out(core, patience, work, work.decision or await _decision(core, patience, work))
            patience.aborted = 0
        except LeaseLost as lost:
            lease, fault, now = work.lease.lease, lost.fault, core.stages.clock.now()
            await core.record(*lost.facts, LeaseAborted(lease, island, fault.kind, fault.detail, now))
            patience.aborts(fault)
        except LeftOpen:
            core.park(work.lease.lease)
        except BudgetReached as reached:
            core.park(work.lease.lease)
            core.show(CallUnaffordable(reached.usd, reached.left_usd))
            core.stop("budget")
        core.changed()


async def _decision(core: Core, patience: Patience, work: LeaseWork) -> Decision:
    """What is tried out: a given program, as a change of candidate 0, or what the advisor decides."""
    fact, seed = work.given, core.state.seed_program
    if fact is None or seed is None:
        return await _decide(core, patience, work)
    now = core.stages.clock.now()
    await core.record(Advised(fact.lease, work.island, seed.candidate, (), (), None, fact.experiment, now))
    return Decision(seed, "", fact.experiment, implemented=ImplementedProgram(fact.program))


async def _decide(core: Core, patience: Patience, work: LeaseWork) -> Decision:
    """Choose a parent and ask the advisor for an experiment, on it or on a base that the answer names."""
    lease, island = work.lease.lease, core.state.islands[work.island]
    search, spec = core.config.search, core.task.spec
    core.show(StageChanged(work.island, lease, "advise"))
    parent = work.migrant or parent_of(
        island, search, generator(core.config.seed, lease, "parent"), spec.fitness, lease, core.state.repeated
    )
    parent = await measured_as_parent(core, patience, lease, parent)
    context = context_of(island, parent, spec.fitness)
    questions = core.prompts.questions(core.state, island, parent) if core.prompts is not None else None
    advice = await _advice(core, patience, lease, context, questions)
    if core.state.running[lease].pinned is None:
        base = base_of(core.state, spec, core.state.islands[work.island], parent, advice.base)
        parent = base if base == parent else await measured_as_parent(core, patience, lease, base)
    idea, now = next((idea for idea in advice.pool if idea.number == advice.idea), None), core.stages.clock.now()
    chosen = chosen_implementer(core.config, core.state, lease, advice.experiment, idea, now)
    await core.record(
        Advised(
            lease=lease,
            island=work.island,
            parent=parent.candidate,
            calls=advice.calls,
            ideas=advice.notes,
            idea=advice.idea,
            experiment=advice.experiment,
            at=now,
            covers=advice.covers,
        ),
        *([chosen] if chosen is not None else []),
    )
    return Decision(
        parent=parent,
        idea_text=idea.description if idea is not None else "",
        experiment=advice.experiment,
        detail=advice.unparsed or "",
        chosen=chosen,
    )


async def _advice(
    core: Core, patience: Patience, lease: int, context: SearchContext, questions: Questions | None
) -> Advice:
    chooser = core.stages.chooser
    if chooser is not None:
        return chooser.choose(context, core.state.seen.edits, lease=lease, sampling=core.sampling)
    stage = ASK if core.stages.asked is not None else ADVISE
    return await patience.tried(stage, lease, lambda: _ask(core, lease, context, questions))


async def _ask(core: Core, lease: int, context: SearchContext, questions: Questions | None) -> Advice:
    """The advisor's answer, once the engine is up. Raises InfrastructureFault, and LeaseLost for a prompt that is too
    long in its shortest form, because a retry would fail again."""
    if not core.engine_up:
        await core.wait_until(lambda: core.engine_up)
    served, answers = core.state.served, core.state.running[lease].answers
    advisor, now = core.stages.advisor, asyncio.get_running_loop().time
    try:
        if questions is not None:
            read = read_edit if questions.prompts.end_to_end else None
            asking = advise_in_context(
                advisor,
                questions,
                lease=lease,
                sampling=core.sampling,
                answers=answers,
                now=now,
                read=read,
                mends=core.stages.asked is not None and core.stages.learner is None,
            )
        else:
            asking = advise(
                PaidAnswers(advisor, answers) if answers else advisor,
                core.stages.wording or ProseWording(core.task),
                context,
                lease=lease,
                sampling=core.sampling,
                now=now,
            )
        advice = await asking
    except PromptTooLong as fault:
        no_room = InfrastructureFault(fault.kind, _no_room(fault))
        fact = FaultSeen(ADVISE.name, no_room.kind, no_room.detail, lease, core.stages.clock.now())
        raise LeaseLost(no_room, (fact,)) from None
    oldest = advice.oldest_version
    if oldest < served:
        raise InfrastructureFault("old_weights", f"version {oldest} answered after {served} was published")
    return advice


def _no_room(fault: PromptTooLong) -> str:
    return (
        f"{fault.detail}, all left out and cut that can be: raise "
        "advisor.max_prompt_tokens if that is the limit, else take an advisor with a longer context"
    )


async def _try_out(core: Core, patience: Patience, work: LeaseWork, decision: Decision) -> None:
    """Implement and evaluate the decided experiment. The rollout is complete afterwards."""
    lease = work.lease.lease
    implemented: ImplementedProgram | None = None
    fresh: tuple[FreshScore, ...] = ()
    if work.claim is not None:
        core.show(StageChanged(work.island, lease, "evaluate"))
        implemented, evaluation, fresh = await _confirm(core, patience, work.claim)
        await _complete(core, work, decision, LeaseResult(implemented, evaluation, fresh))
        return
    try:
        if decision.experiment is None:
            raise CandidateFault("unparsed", decision.detail)
        model = decision.chosen.model if decision.chosen is not None else None
        briefing = _briefing(core, work, decision, decision.experiment)
        experiment = Experiment(lease, decision.idea_text, decision.experiment, model=model, briefing=briefing)
        implemented, evaluation = await implemented_and_evaluated(core, patience, work.island, decision, experiment)
        evaluation = await measured_again(
            core, patience, lease, implemented.program, evaluation, partial(_claims_best, core, work.island)
        )
        if evaluation.score is not None and _claims_best(core, work.island, evaluation.score):
            claim = _claim(core, work, implemented, evaluation, evaluation.score)
            implemented, evaluation, fresh = await _confirm(core, patience, claim, evaluation.attempts)
    except CandidateFault as fault:
        outcome = _outcome(fault)
        detail = fault.detail if outcome == fault.kind else str(fault)
        evaluation = Evaluation(outcome=outcome, score=None, seconds=0.0, detail=detail)
    await _complete(core, work, decision, LeaseResult(implemented, evaluation, fresh))


def _briefing(core: Core, work: LeaseWork, decision: Decision, experiment: str) -> Briefing | None:
    """What the implementer is told besides, where the run has a context."""
    underway = core.state.running.get(work.lease.lease)
    if core.prompts is None or underway is None or underway.advice is None:
        return None
    island, advice = core.state.islands[work.island], underway.advice
    reasoning = reasoning_of(advice.calls, core.sampling.one_call, decision.idea_text)
    return briefing_of(core.prompts, core.state, island, decision.parent, experiment, reasoning, decision.idea_text)


def _stopped_by(lease: int, evaluation: Evaluation, now: float) -> tuple[CascadeStageEnded, ...]:
    """The cheap stage with which the rollout ends, if it does."""
    scores = evaluation.cascade
    if not scores or scores[-1].passed:
        return ()
    return (CascadeStageEnded(lease, len(scores), scores[-1], None, None, now),)


def _claim(
    core: Core, work: LeaseWork, implemented: ImplementedProgram, evaluation: Evaluation, score: float
) -> Claimed:
    return Claimed(
        lease=work.lease.lease,
        island=work.island,
        program=implemented.program,
        mechanism=implemented.mechanism,
        score=score,
        metrics=evaluation.metrics,
        seconds=evaluation.seconds,
        memoised=evaluation.memoised,
        at=core.stages.clock.now(),
        queue_seconds=evaluation.queue_seconds,
        feedback=evaluation.feedback or None,
    )


async def _confirm(
    core: Core, patience: Patience, claim: Claimed, attempts: tuple[EvaluationAttempted, ...] = ()
) -> tuple[ImplementedProgram, Evaluation, tuple[FreshScore, ...]]:
    """The result of a claim after its tries, from the first try that is not recorded yet. `attempts` are those of the
    claim itself, not recorded yet."""
    implemented = ImplementedProgram(claim.program, claim.mechanism)
    fresh = core.fresh
    if fresh is None:
        return implemented, claimed_evaluation(claim, attempts), claim.tries

    untold = attempts

    async def remember(tries: tuple[FreshScore, ...], attempts: tuple[EvaluationAttempted, ...]) -> None:
        nonlocal claim, untold
        claim = replace(claim, tries=tries, at=core.stages.clock.now())
        await core.record(claim, *attempts)
        untold = ()

    async def tried() -> tuple[Evaluation, tuple[FreshScore, ...]]:
        return await fresh.confirmed(claim, untold, remember)

    evaluation, tries = await patience.tried(EVALUATE, claim.lease, tried)
    return implemented, evaluation, tries


def _claims_best(core: Core, island: int, score: float) -> bool:
    """Whether a score of an island would be a new best among the programs that the island sees. So under `--sync` it
    does not depend on which rollout ends first, and no best of the whole run is missed."""
    state, spec = core.state, core.task.spec
    members = (*state.islands[island].members, *state.seen.elites.values())
    return claims_best(score, members, spec.fitness, None if spec.repeats else state.confirmed)


async def _complete(core: Core, work: LeaseWork, decision: Decision, result: LeaseResult) -> None:
    """Record the end of the rollout. Other islands see it from the request of its commit on."""
    state, lease, now = core.state, work.lease.lease, core.stages.clock.now()
    ended = await _evaluation_fact(core, work, decision, result, now)
    facts = *result.evaluation.attempts, *_stopped_by(lease, result.evaluation, now), ended
    if core.stages.learner is None or work.given is not None:
        _, rollout = rollout_of(state, ended)
        with ClaimedPlace.rollouts(state, rollout):
            await core.record(*facts, LeaseReleased(lease, "skipped", now))
        return
    member = member_of(ended, core.task.spec.fitness, state.running[lease].practice) if shows_at_once(state) else None
    with ClaimedPlace.program(state, lease, work.island, member):
        await core.record(*facts)


async def _evaluation_fact(
    core: Core, work: LeaseWork, decision: Decision, result: LeaseResult, now: float
) -> Evaluated:
    spec, evaluation, implemented = core.task.spec, result.evaluation, result.implemented
    state, lease, rule, seed = core.state, work.lease.lease, core.reward, core.state.seed_program
    if seed is None:
        raise PaceBug("a candidate was scored before the seed program")
    score, parent = evaluation.score, decision.parent
    counts = evaluation.curve[-1][1] if evaluation.outcome == "pruned" and evaluation.curve else score
    value = rule.of_score(counts, parent=parent.score, seed=seed.score)
    if spec.aims and score is not None:
        costs = spec.fitness.costs(evaluation.metrics)
        value = rule.of_costs(costs, parent=parent.costs, seed=seed.costs, lease=lease)
    program = implemented.program if implemented else None
    return Evaluated(
        lease=lease,
        island=work.island,
        parent=parent.candidate,
        program=program,
        program_hash=await hash_off_loop(program, spec.language) if program is not None else None,
        outcome=evaluation.outcome,
        detail=evaluation.detail,
        score=score,
        reward=rule.stopped if evaluation.outcome == "below_threshold" else value,
        metrics=evaluation.metrics,
        seconds=evaluation.seconds,
        memoised=evaluation.memoised,
        mechanism=implemented.mechanism if implemented else None,
        at=now,
        fresh=result.fresh,
        queue_seconds=evaluation.queue_seconds,
        feedback=evaluation.feedback or None,
        gained=score is not None and spec.fitness.better(score, parent.score),
        deviation=deviation_of(state.running[lease].tries),
        repeated=(*state.repeated.get(lease, ()), *scores_of(evaluation.attempts)),
    )


def _outcome(fault: CandidateFault) -> Outcome:
    known: dict[str, Outcome] = {"unparsed": "unparsed", "unchanged": "unchanged"}  # other kinds are in the detail
    return known.get(fault.kind, "not_implemented")

"""One search thread: lease, advise, implement, evaluate, reward, again. One thread is one island.

A fault of the candidate is a complete rollout with reward -1. A fault of the infrastructure is retried with what the
lease has already (`patience`) and, when it stays, closes the lease as aborted: it is never a reward. Every stage is
committed when it ends, those of a cascade too. A lease whose call would not fit into the budget stays open for a
resume.
"""

import asyncio
from dataclasses import replace

from pace_async.advise.advisor import Advice, Sampling, advise
from pace_async.advise.base import PromptTooLong
from pace_async.compiling import program_hash
from pace_async.errors import BudgetReached, CandidateFault, InfrastructureFault, UsageError
from pace_async.evaluate.base import Evaluation
from pace_async.events import (
    Advised,
    CallUnaffordable,
    CascadeStageEnded,
    Claimed,
    Evaluated,
    FreshScore,
    LeaseAborted,
    LeaseReleased,
    Outcome,
    StageChanged,
)
from pace_async.implement.base import Experiment, Implemented
from pace_async.reward import reward
from pace_async.runtime.choose_implementer import chosen_implementer, result_of
from pace_async.runtime.core import Core
from pace_async.runtime.patience import ADVISE, EVALUATE, LeftOpen, Lost, Patience
from pace_async.runtime.repairing import implemented_and_evaluated
from pace_async.runtime.state import Decision, Rollout, Work, member_of
from pace_async.search.choice import parent_of
from pace_async.search.draws import generator
from pace_async.search.fresh import claims_best
from pace_async.search.islands import after_advice, after_evaluation, context_of
from pace_async.search.state import SearchContext, Trial
from pace_async.task import better


async def search_thread(core: Core, patience: Patience, island: int) -> None:
    """Make rollouts on one island until the run ends. Raises GaveUp."""
    while True:
        core.show(StageChanged(island, None, "waiting"))
        work = await core.admit(island)
        if work is None:
            return
        try:
            await _try_out(core, patience, work, work.decision or await _decide(core, patience, work))
            patience.aborted = 0
        except Lost as lost:
            lease, fault, now = work.lease.lease, lost.fault, core.stages.clock.now()
            await core.record(*lost.facts, LeaseAborted(lease, island, fault.kind, fault.detail, now))
            core.state.abort(lease, island)
            patience.aborts(fault)
        except LeftOpen:
            core.state.park(work.lease.lease)
        except BudgetReached as reached:
            core.state.park(work.lease.lease)
            core.show(CallUnaffordable(reached.usd, reached.left_usd))
            core.stop("budget")
        core.changed()


async def _decide(core: Core, patience: Patience, work: Work) -> Decision:
    """Choose a parent and ask the advisor what to do to it."""
    lease, island = work.lease.lease, core.state.islands[work.island]
    search, spec = core.config.search, core.task.spec
    core.show(StageChanged(work.island, lease, "advise"))
    draw = generator(core.config.seed, lease, "parent")
    parent = work.migrant or parent_of(island, search, spec.direction, draw)
    context = context_of(island, parent, spec.direction)
    advice = await patience.tried(ADVISE, lease, lambda: _ask(core, lease, context, island.next_idea))
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
        ),
        *([chosen] if chosen is not None else []),
    )
    core.state.islands[work.island] = after_advice(island, advice.pool, advice.next_idea)
    return Decision(
        parent=parent,
        calls=advice.calls,
        idea=advice.idea,
        idea_text=idea.description if idea is not None else "",
        experiment=advice.experiment,
        detail=advice.unparsed or "",
        chosen=chosen,
    )


async def _ask(core: Core, lease: int, context: SearchContext, next_idea: int) -> Advice:
    """The advisor's answer, once the engine is up. Raises InfrastructureFault, and UsageError for a prompt that the
    advisor cannot take: the same island would ask the same again."""
    config = core.config
    sampling = Sampling(
        seed=config.seed,
        max_tokens=config.advisor.max_tokens,
        temperature=config.advisor.temperature,
        ideas_kept=config.search.ideas_kept,
        trials_shown=config.search.trials_shown,
        summary_from=config.search.summary_from,
        max_prompt_tokens=config.advisor.max_prompt_tokens,
    )
    await core.wait_until(lambda: core.engine_up)
    served = core.state.served
    try:
        advice = await advise(
            core.stages.engine,
            core.task,
            context,
            lease=lease,
            next_idea=next_idea,
            sampling=sampling,
            now=asyncio.get_running_loop().time,
        )
    except PromptTooLong as fault:
        await core.fault("advise", fault, lease)
        raise UsageError(_no_room(lease, fault)) from None
    oldest = min(call.oldest_version for call in advice.calls)
    if oldest < served:
        raise InfrastructureFault("old_weights", f"version {oldest} answered after {served} was published")
    return advice


def _no_room(lease: int, fault: PromptTooLong) -> str:
    return (
        f"The advisor's prompt of lease {lease} has {fault.tokens} tokens, all left out that can be, and its context "
        f"of {fault.context} leaves no room for the answer: raise advisor.max_prompt_tokens if that is the limit; else "
        "start a new run with a shorter program or background, or an advisor with a longer context."
    )


async def _try_out(core: Core, patience: Patience, work: Work, decision: Decision) -> None:
    """Implement and evaluate what was decided; the rollout is complete afterwards."""
    lease, spec = work.lease.lease, core.task.spec
    implemented: Implemented | None = None
    fresh: tuple[FreshScore, ...] = ()
    if work.claim is not None:
        core.show(StageChanged(work.island, lease, "evaluate"))
        implemented, evaluation, fresh = await _confirm(core, patience, work.claim)
        await _complete(core, work, decision, implemented, evaluation, fresh, spec.direction)
        return
    try:
        if decision.experiment is None:
            raise CandidateFault("unparsed", decision.detail)
        model = decision.chosen.model if decision.chosen is not None else None
        experiment = Experiment(lease, decision.idea_text, decision.experiment, decision.tries, model)
        implemented, evaluation = await implemented_and_evaluated(core, patience, work.island, decision, experiment)
        if evaluation.score is not None and _claims_best(core, work.island, evaluation.score):
            claim = _claim(core, work, implemented, evaluation, evaluation.score)
            implemented, evaluation, fresh = await _confirm(core, patience, claim)
    except CandidateFault as fault:
        outcome = _outcome(fault)
        detail = fault.detail if outcome == fault.kind else str(fault)
        evaluation = Evaluation(outcome=outcome, score=None, seconds=0.0, detail=detail)
    await _complete(core, work, decision, implemented, evaluation, fresh, spec.direction)


def _stopped_by(lease: int, evaluation: Evaluation, now: float) -> tuple[CascadeStageEnded, ...]:
    """The cheap stage with which the rollout ends, if it does."""
    scores = evaluation.cascade
    if not scores or scores[-1].passed:
        return ()
    return (CascadeStageEnded(lease, len(scores), scores[-1], None, None, now),)


def _claim(core: Core, work: Work, implemented: Implemented, found: Evaluation, score: float) -> Claimed:
    return Claimed(
        lease=work.lease.lease,
        island=work.island,
        program=implemented.program,
        mechanism=implemented.mechanism,
        score=score,
        metrics=found.metrics,
        seconds=found.seconds,
        memoised=found.memoised,
        at=core.stages.clock.now(),
    )


async def _confirm(
    core: Core, patience: Patience, claim: Claimed
) -> tuple[Implemented, Evaluation, tuple[FreshScore, ...]]:
    """What a claim is worth once it was tried, from the first try that is not known yet."""
    implemented = Implemented(claim.program, claim.mechanism)
    claimed = Evaluation("ok", claim.score, claim.seconds, "", claim.metrics, claim.memoised)
    fresh, earlier = core.fresh, claim.tries
    if fresh is None:
        return implemented, claimed, earlier

    async def remember(tries: tuple[FreshScore, ...]) -> None:
        nonlocal earlier
        earlier = tries
        await core.record(replace(claim, tries=tries, at=core.stages.clock.now()))

    async def tried() -> tuple[Evaluation, tuple[FreshScore, ...]]:
        return await fresh.confirmed(claim.program, claimed, earlier=earlier, remember=remember)

    found, tries = await patience.tried(EVALUATE, claim.lease, tried)
    return implemented, found, tries


def _claims_best(core: Core, island: int, score: float) -> bool:
    """Whether a score of an island would be a new best, as far as islands see one another: so under `--sync` it does
    not hang on which rollout ends first, and no best of the whole run is missed."""
    members = (*core.state.islands[island].members, *core.state.elites.values())
    return claims_best(score, members, core.task.spec.direction)


async def _complete(
    core: Core,
    work: Work,
    decision: Decision,
    implemented: Implemented | None,
    evaluation: Evaluation,
    fresh: tuple[FreshScore, ...],
    direction: str,
) -> None:
    lease, state, config = work.lease.lease, core.state, core.config
    bounds = core.task.spec.bounds
    value = reward(
        evaluation.score,
        direction=direction,
        lower=bounds.lower,
        upper=bounds.upper,
        scale=config.reward.scale,
        exponent=config.reward.exponent,
        stopped=evaluation.outcome == "below_threshold",
    )
    program = implemented.program if implemented else None
    now = core.stages.clock.now()
    ended = Evaluated(
        lease=lease,
        island=work.island,
        parent=decision.parent.candidate,
        program=program,
        program_hash=await program_hash(program) if program is not None else None,
        outcome=evaluation.outcome,
        detail=evaluation.detail,
        score=evaluation.score,
        reward=value,
        metrics=evaluation.metrics,
        seconds=evaluation.seconds,
        memoised=evaluation.memoised,
        mechanism=implemented.mechanism if implemented else None,
        at=now,
        fresh=fresh,
    )
    member = member_of(ended)
    trial = None
    if decision.experiment is not None:
        trial = Trial(lease, decision.experiment, evaluation.outcome, evaluation.score)
    island = after_evaluation(
        state.islands[work.island],
        parent=decision.parent.candidate,
        idea=decision.idea,
        trial=trial,
        member=member,
        rules=core.rules,
    )
    gained = member is not None and better(direction, member.score, decision.parent.score)
    result = result_of(decision.chosen, gained, state.paid.get(lease, {}))
    parsed = evaluation.outcome != "unparsed"
    rollout = Rollout(work.lease, decision.calls, value, work.island, member, island.ideas, result, parsed)
    untrained = () if core.stages.learner else (LeaseReleased(lease, "skipped", now),)
    if untrained:
        state.reveal(rollout)
    elif state.bound > 0:  # behind a barrier, what others see must not hang on which rollout ends first
        state.reveal_program(rollout)
    await core.record(*_stopped_by(lease, evaluation, now), ended, *untrained)
    state.evaluated += 1
    if member is not None and (state.best is None or better(direction, member.score, state.best.score)):
        state.best = member
    state.islands[work.island] = island
    state.finish(rollout)
    if core.stages.learner is None:
        state.release(lease)


def _outcome(fault: CandidateFault) -> Outcome:
    known: dict[str, Outcome] = {"unparsed": "unparsed", "unchanged": "unchanged"}  # the rest stands in the detail
    return known.get(fault.kind, "not_implemented")

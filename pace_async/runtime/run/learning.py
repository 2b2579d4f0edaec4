"""The learning side: choose a group, train one step, publish, again. The only place that moves L and V.

A group ends in one of two ways: trained (L + 1) or skipped (L stays, or if the advisor has collapsed, L + 1 is made
of its last good version). A learner or a push that fails is tried again until the configured patience is over. The same
group given twice is trained once, by its digest.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pace_async.errors import BudgetReached, InfrastructureFault, PaceBug
from pace_async.events import (
    CallUnaffordable,
    GroupEnded,
    GroupShipped,
    LearnerStageChanged,
    LeaseReleased,
    VersionPublished,
)
from pace_async.learn.base import GROUP_UNREADABLE, RESTORED, Learner, Step
from pace_async.objectives import Advantages, Collapsed, advantages, alpha_at
from pace_async.publish.base import Publisher
from pace_async.registry.objectives import ALPHA_SCHEDULES
from pace_async.registry.staleness_policies import STALENESS_POLICIES
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.replay.groupfile import forget_before, group_path, write_group
from pace_async.runtime.run.core import Core, trains_leftovers
from pace_async.runtime.run.outages import Outage
from pace_async.runtime.run.recorder import ClaimedPlace
from pace_async.search.draws import derive
from pace_async.staleness.policies import NOTHING
from pace_async.staleness.rollback import NO_GROUPS, Health
from pace_async.state.run_state import Rollout, counts_of

NOT_WRITTEN = "The next group could not be written"


async def learn_while_searching(core: Core, learner: Learner, publisher: Publisher) -> None:
    """Run until no further group will come. A group that an earlier process left unfinished comes first. A step that
    does not fit the budget ends the search: the group stays shipped, and a resume with a larger budget trains it."""
    try:
        await _learn(core, learner, publisher)
    except BudgetReached as reached:
        core.show(CallUnaffordable(reached.usd, reached.left_usd))
        core.stop("budget")


async def _learn(core: Core, learner: Learner, publisher: Publisher) -> None:
    if core.state.shipped is not None:
        await finish_group(core, learner, core.state.shipped)
    if core.state.served < core.state.learner:
        await push(core, publisher)
    core.changed()
    while True:
        core.show(LearnerStageChanged("waiting"))
        await core.wait_until(lambda: core.state.choose() != NOTHING or _is_over(core))
        if _ends_now(core):
            return
        choice = core.state.choose()
        if choice.expired:
            now = core.stages.clock.now()
            await core.record(*(LeaseReleased(lease, "expired", now) for lease in choice.expired))
            core.changed()
            continue
        if not choice.group:
            return
        group = tuple(core.state.complete[lease] for lease in choice.group)
        trained = await _consume(core, learner, group)
        core.untrained = 0 if trained or any(rollout.member is not None for rollout in group) else core.untrained + 1
        core.changed()
        if trained:
            await push(core, publisher)
            core.changed()


async def push(core: Core, publisher: Publisher) -> None:
    """Publish the learner's version. Tries again until it is served or patience ends. Raises GaveUp."""
    if core.state.weights is None:
        raise PaceBug(f"version {core.state.learner} has no weights to publish")
    core.show(LearnerStageChanged("publish"))
    outage = Outage(core, "publish", "The advisor's new weights could not be published")
    while True:
        try:
            await core.wait_until(lambda: core.engine_up)
            receipt = await publisher.publish(core.state.learner, Path(core.state.weights))
            break
        except InfrastructureFault as fault:
            await outage.failed(fault)
    await outage.over()
    served = receipt.version, receipt.seconds, receipt.paused_seconds, receipt.digests
    await core.record(VersionPublished(*served, core.stages.clock.now(), receipt.k3))


async def _consume(core: Core, learner: Learner, group: tuple[Rollout, ...]) -> bool:
    """Ship one group and finish it. Returns whether it made a new version."""
    config, state = core.config, core.state
    update, chosen = state.learner, config.learner
    staleness = tuple(update - rollout.oldest_version for rollout in group)
    if STALENESS_POLICIES[state.terms.policy].bounds_maximum and max(staleness) > state.bound:
        raise PaceBug(f"a rollout {max(staleness)} versions old was chosen for update {update}, bound {state.bound}")
    alpha = alpha_at(chosen.alpha_schedule, state.groups, core.horizon, start=chosen.alpha_start, spreads=state.spreads)
    rewards = rewards_for_training(core, group)
    result = advantages(
        chosen.objective,
        rewards,
        k=chosen.k,
        alpha=alpha,
        restandardise=ALPHA_SCHEDULES[chosen.alpha_schedule].restandardises,
        collapsed=chosen.collapsed,
    )
    verdict = _verdict(core, group, result)
    untrained = bool(verdict.useless) or verdict.restores is not None
    shipped = GroupShipped(
        number=state.groups + 1,
        update=update,
        leases=tuple(rollout.lease.lease for rollout in group),
        staleness=staleness,
        rewards=tuple(rewards),
        advantages=None if untrained or isinstance(result, Collapsed) else tuple(result),
        alpha=alpha,
        digest="",
        at=core.stages.clock.now(),
        restores=verdict.restores,
        rate=verdict.health.rate,
    )
    if verdict.useless:
        with ClaimedPlace.rollouts(state, *group):
            await core.record(shipped, _skipped(core, shipped, verdict.useless))
        return False
    shipped = replace(shipped, digest=await _write(core, shipped, group, verdict.health))
    await core.record(shipped)
    return await finish_group(core, learner, shipped)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """Why a group is not for the learner, empty if it is. The version to go back to instead of training on it. The
    advisor's health with the group."""

    useless: str
    restores: int | None
    health: Health


def _verdict(core: Core, group: tuple[Rollout, ...], result: Advantages) -> _Verdict:
    state, update = core.state, core.state.learner
    useless = f"{result.branch} branch collapsed" if isinstance(result, Collapsed) else ""
    if not isinstance(result, Collapsed) and core.config.learner.mask_cut_off:
        left = [advantage for rollout, advantage in zip(group, result, strict=True) if not rollout.cut_off]
        useless = "" if any(left) else "all answers that could teach were cut off by length"
    if not core.config.learner.rollback:
        return _Verdict(useless, None, NO_GROUPS)
    if any(state.health.is_void(rollout.oldest_version) for rollout in group):
        useless = "sampled by a version that the advisor went back from"
    health = state.health.after(update, counts_of((rollout.oldest_version, rollout) for rollout in group))
    if not health.collapsed:
        return _Verdict(useless, None, health)
    return _Verdict("", health.good, health.back(update))


async def _write(core: Core, shipped: GroupShipped, group: Sequence[Rollout], health: Health) -> str:
    """Write the group's file. Returns its digest. Tries again while the disk fails. Raises GaveUp."""
    path, outage = group_path(core.groups_folder, shipped.number), Outage(core, "learn", NOT_WRITTEN)
    while True:
        try:
            digest = await core.apart(lambda: write_group(path, _group_of(core, shipped, group, health)))
            break
        except InfrastructureFault as fault:
            await outage.failed(fault)
    await outage.over()
    return digest


def _group_of(core: Core, shipped: GroupShipped, group: Sequence[Rollout], health: Health) -> Group:
    """The learner's input for a group that has not collapsed. `health` is the advisor's with the group. May run in a
    thread."""
    if shipped.advantages is None and shipped.restores is None:
        raise PaceBug(f"group {shipped.number} has no advantages and is not for the learner")
    weights = shipped.advantages or (0.0,) * len(shipped.leases)
    masked = core.config.learner.mask_cut_off and shipped.restores is None
    rollouts = tuple(
        TrainedRollout(
            rollout.lease.lease,
            advantage,
            value,
            tuple(TrainedCall.of(call) for call in rollout.calls),
        )
        for rollout, advantage, value in zip(group, weights, shipped.rewards, strict=True)
        if not masked or not rollout.cut_off
    )
    bound = max(core.state.bound, *shipped.staleness)
    needed = health.needed if core.config.learner.rollback else ()
    return Group(
        shipped.number,
        shipped.update,
        core.config.learner.objective,
        shipped.alpha,
        bound,
        rollouts,
        restores=shipped.restores,
        rate=shipped.rate,
        keeps=(*needed, shipped.restores) if shipped.restores else needed,
    )


async def finish_group(core: Core, learner: Learner, shipped: GroupShipped) -> bool:
    """Finish a shipped group. Returns whether it made a new version. A file that the disk changed or lost meanwhile is
    written again from the rows. Raises GaveUp."""
    core.show(LearnerStageChanged("learn"))
    outage = Outage(core, "learn", "The learner could not train")
    while True:
        try:
            step: Step = await learner.train(group_path(core.groups_folder, shipped.number))
            break
        except InfrastructureFault as fault:
            await outage.failed(fault)
            if fault.kind == GROUP_UNREADABLE:
                await _write(core, shipped, core.state.training, core.state.health)
    await outage.over()
    ended = _group_end(core, shipped, step)
    with ClaimedPlace.rollouts(core.state, *core.state.training):
        await core.record(ended)
    if step.oldest_group is not None:
        forget_before(step.oldest_group)  # no rebuild will read them again
    return ended.version > shipped.update


def _group_end(core: Core, shipped: GroupShipped, step: Step) -> GroupEnded:
    """The end of the group, from the learner's step."""
    update, goes_back = shipped.update, shipped.restores is not None
    if step.version == update:
        return replace(_skipped(core, shipped, step.reason or "step discarded"), metrics=step.metrics)
    if step.version != update + 1 or step.weights is None:
        raise PaceBug(f"update {update} came back as version {step.version} with weights {step.weights}")
    return GroupEnded(
        number=shipped.number,
        update=update,
        leases=shipped.leases,
        closing="skipped" if goes_back else "trained",
        reason=_went_back(core, step) if goes_back else "",
        version=step.version,
        weights=str(step.weights),
        metrics=step.metrics,
        seconds=step.seconds,
        at=core.stages.clock.now(),
        restored=int(step.metrics[RESTORED]) if goes_back else None,
    )


def _went_back(core: Core, step: Step) -> str:
    group = core.state.training
    unparsed = sum(not rollout.parsed for rollout in group)
    return (
        f"{unparsed} of its {len(group)} answers cannot be parsed, clearly more than before: the advisor went back to "
        f"version {step.metrics[RESTORED]:.0f}, as version {step.version}"
    )


def rewards_for_training(core: Core, group: tuple[Rollout, ...]) -> list[float]:
    """The group's rewards, as floats. They are permuted within the group if the configuration sets that control."""
    rewards = [float(rollout.reward) for rollout in group]
    if core.config.learner.shuffle_rewards:
        random.Random(derive(core.config.seed, core.state.groups, "shuffle")).shuffle(rewards)
    return rewards


def _skipped(core: Core, shipped: GroupShipped, reason: str) -> GroupEnded:
    return GroupEnded(
        number=shipped.number,
        update=shipped.update,
        leases=shipped.leases,
        closing="skipped",
        reason=reason,
        version=shipped.update,
        weights=None,
        metrics={},
        seconds=0.0,
        at=core.stages.clock.now(),
    )


def _is_over(core: Core) -> bool:
    """No further group can come: the run is ending and nothing is in flight."""
    return _ends_now(core) or (core.stopping is not None and not core.at_work)


def _ends_now(core: Core) -> bool:
    return core.stopping is not None and not trains_leftovers(core.stopping)

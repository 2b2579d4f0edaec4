"""The learning side: choose a group, train one step, publish, again. The only place that moves L and V.

A group ends in one of two ways: trained (L + 1) or skipped (L stays, or where the advisor has collapsed, L + 1 is made
out of its last good version). A learner or a push that fails is tried again on its own until the patience set is over;
the same group given twice is trained once, by its digest.
"""

import random
from dataclasses import replace
from pathlib import Path

from pace_async.errors import InfrastructureFault, PaceBug
from pace_async.events import GroupEnded, GroupShipped, LearnerStageChanged, LeaseReleased, VersionPublished
from pace_async.learn.base import GROUP_UNREADABLE, RESTORED, Learner, Step
from pace_async.objectives import Advantages, Collapsed, advantages, alpha_at
from pace_async.publish.base import Publisher
from pace_async.replay.group import Group, TrainedCall, TrainedRollout
from pace_async.replay.groupfile import forget_before, group_path, write_group
from pace_async.runtime.core import Core
from pace_async.runtime.outages import Outage
from pace_async.runtime.state import Rollout, counts_of
from pace_async.runtime.stopping import trains_leftovers
from pace_async.search.draws import derive
from pace_async.staleness.policies import NOTHING

NOT_WRITTEN = "The next group could not be written"


async def learn_while_searching(core: Core, learner: Learner, publisher: Publisher) -> None:
    """Run until no group will come any more. What an earlier process left half done comes first."""
    if core.shipped is not None:
        left, core.shipped = core.shipped, None
        await finish_group(core, learner, left)
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
            await _expire(core, choice.expired)
            continue
        if not choice.group:
            return
        trained = await _consume(core, learner, tuple(core.state.complete[lease] for lease in choice.group))
        core.changed()
        if trained:
            await push(core, publisher)
            core.changed()


async def push(core: Core, publisher: Publisher) -> None:
    """Publish the learner's version; tried again until it is served or patience ends. Raises GaveUp."""
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
    await core.record(
        VersionPublished(
            receipt.version,
            receipt.seconds,
            receipt.paused_seconds,
            receipt.digests,
            core.stages.clock.now(),
            receipt.k3,
        )
    )
    core.state.served = receipt.version


async def _expire(core: Core, leases: tuple[int, ...]) -> None:
    """Discard rollouts that have become too old. Only the policy `drop` has any."""
    now = core.stages.clock.now()
    await core.record(*(LeaseReleased(lease, "expired", now) for lease in leases))
    for lease in leases:
        core.state.release(lease)
    core.changed()


async def _consume(core: Core, learner: Learner, group: tuple[Rollout, ...]) -> bool:
    """Ship one group and see it to its end; whether it made a new version."""
    config, state, now = core.config, core.state, core.stages.clock.now()
    update = state.learner
    staleness = tuple(update - rollout.oldest_version for rollout in group)
    hard = state.policy != "soft"
    if hard and max(staleness) > state.bound:
        raise PaceBug(f"a rollout {max(staleness)} versions old was chosen for update {update}, bound {state.bound}")
    chosen = config.learner
    alpha = alpha_at(chosen.alpha_schedule, state.groups, core.horizon, start=chosen.alpha_start, spreads=state.spreads)
    rewards = rewards_for_training(core, group)
    restandardise = chosen.alpha_schedule == "code"
    result = advantages(chosen.objective, rewards, k=chosen.k, alpha=alpha, restandardise=restandardise)
    state.spreads = state.spreads.after(rewards)
    leases = tuple(rollout.lease.lease for rollout in group)
    number = state.ship(leases)
    useless, restores = _verdict(core, group, result)
    shipped = GroupShipped(
        number=number,
        update=update,
        leases=leases,
        staleness=staleness,
        rewards=tuple(rewards),
        advantages=None if useless or restores is not None or isinstance(result, Collapsed) else tuple(result),
        alpha=alpha,
        digest="",
        at=now,
        restores=restores,
        rate=state.health.rate,
    )
    if useless:
        state.reveal(*group)
        await core.record(shipped, _skipped(core, number, update, leases, useless))
        state.end_group(update, None)
        return False
    shipped = replace(shipped, digest=await _write(core, shipped))
    await core.record(shipped)
    return await finish_group(core, learner, shipped)


def _verdict(core: Core, group: tuple[Rollout, ...], result: Advantages) -> tuple[str, int | None]:
    """Why the group is not for the learner, empty if it is; and the version to go back to instead of training on it.
    Takes the group into what is known of the advisor's health."""
    state, update = core.state, core.state.learner
    useless = f"{result.branch} branch collapsed" if isinstance(result, Collapsed) else ""
    if not core.config.learner.rollback:
        return useless, None
    if any(state.health.is_void(rollout.oldest_version) for rollout in group):
        useless = "sampled by a version that the advisor went back from"
    state.health = state.health.after(update, counts_of(group))
    if not state.health.collapsed:
        return useless, None
    good = state.health.good
    state.health = state.health.back(update)
    return "", good


async def _write(core: Core, shipped: GroupShipped) -> str:
    """Write the file of the group in training; its digest. Tried again while the disk fails. Raises GaveUp."""
    path, outage = group_path(core.groups_folder, shipped.number), Outage(core, "learn", NOT_WRITTEN)
    while True:
        try:
            digest = await core.apart(lambda: write_group(path, _group_of(core, shipped)))
            break
        except InfrastructureFault as fault:
            await outage.failed(fault)
    await outage.over()
    return digest


def _group_of(core: Core, shipped: GroupShipped) -> Group:
    """What the learner gets of the group in training, which has not collapsed. Also in a thread: what it reads of the
    state, nothing but the learning loop changes."""
    if shipped.advantages is None and shipped.restores is None:
        raise PaceBug(f"group {shipped.number} has no advantages and is not for the learner")
    weights = shipped.advantages or (0.0,) * len(shipped.leases)
    rollouts = tuple(
        TrainedRollout(rollout.lease.lease, advantage, value, tuple(TrainedCall.of(call) for call in rollout.calls))
        for rollout, advantage, value in zip(core.state.training, weights, shipped.rewards, strict=True)
    )
    bound = max(core.state.bound, *shipped.staleness)
    needed = core.state.health.needed if core.config.learner.rollback else ()
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
    """See a shipped group to its end; whether it made a new version. A file that a disk has changed meanwhile, or
    lost, is written again from what the population holds. Raises GaveUp."""
    number, update, leases = shipped.number, shipped.update, shipped.leases
    core.show(LearnerStageChanged("learn"))
    outage = Outage(core, "learn", "The learner could not train")
    while True:
        try:
            step: Step = await learner.train(group_path(core.groups_folder, number))
            break
        except InfrastructureFault as fault:
            await outage.failed(fault)
            if fault.kind == GROUP_UNREADABLE:
                await _write(core, shipped)
    await outage.over()
    if step.version == update:
        discarded = _skipped(core, number, update, leases, step.reason or "step discarded")
        core.state.reveal(*core.state.training)
        await core.record(replace(discarded, metrics=step.metrics))
        core.state.end_group(update, None)
        _forget(step)
        return False
    if step.version != update + 1 or step.weights is None:
        raise PaceBug(f"update {update} came back as version {step.version} with weights {step.weights}")
    core.state.reveal(*core.state.training)
    await core.record(
        GroupEnded(
            number=number,
            update=update,
            leases=leases,
            closing="trained" if shipped.restores is None else "skipped",
            reason="" if shipped.restores is None else _went_back(core, step),
            version=step.version,
            weights=str(step.weights),
            metrics=step.metrics,
            seconds=step.seconds,
            at=core.stages.clock.now(),
            restored=None if shipped.restores is None else int(step.metrics[RESTORED]),
        )
    )
    core.state.end_group(step.version, str(step.weights))
    _forget(step)
    return True


def _went_back(core: Core, step: Step) -> str:
    group = core.state.training
    unparsed = sum(not rollout.parsed for rollout in group)
    return (
        f"{unparsed} of its {len(group)} answers cannot be parsed, clearly more than before: the advisor went back to "
        f"version {step.metrics[RESTORED]:.0f}, as version {step.version}"
    )


def _forget(step: Step) -> None:
    """Group files that no rebuilding will read again go, now that the step is recorded."""
    if step.oldest_group is not None:
        forget_before(step.oldest_group)


def rewards_for_training(core: Core, group: tuple[Rollout, ...]) -> list[float]:
    """The group's rewards, as floats; permuted within the group where the configuration asks for that control."""
    rewards = [float(rollout.reward) for rollout in group]
    if core.config.learner.shuffle_rewards:
        random.Random(derive(core.config.seed, core.state.groups, "shuffle")).shuffle(rewards)
    return rewards


def _skipped(core: Core, number: int, update: int, leases: tuple[int, ...], reason: str) -> GroupEnded:
    return GroupEnded(
        number=number,
        update=update,
        leases=leases,
        closing="skipped",
        reason=reason,
        version=update,
        weights=None,
        metrics={},
        seconds=0.0,
        at=core.stages.clock.now(),
    )


def _is_over(core: Core) -> bool:
    """No further group can come: the run is ending and nothing is in flight."""
    return _ends_now(core) or (core.stopping is not None and not core.state.running)


def _ends_now(core: Core) -> bool:
    return core.stopping is not None and not trains_leftovers(core.stopping)

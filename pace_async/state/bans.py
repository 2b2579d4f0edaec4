"""How the state of a run changes when a person bans a candidate, or takes that back, and when one is measured again.

A banned candidate is no member of an island, in no island's history and not the best, other islands do not see it, and
what is remembered of it has no score. Momentum stays as it was: the next gain is measured over the best program that is
left. So do rewards, also of rollouts that began on it. The task's own program cannot be banned, so an island always has
a member. A candidate that was measured again has its new score everywhere. One that gave none is taken out in the same
way. Pure except for the state that it is given.
"""

from collections.abc import Iterable
from dataclasses import replace

from pace_async.errors import PaceBug
from pace_async.events import MeasuredAgain
from pace_async.search.front import front_of
from pace_async.search.islands import with_score, without
from pace_async.search.parents import fitter, taken_in
from pace_async.search.state import Member
from pace_async.state.run_state import Rollout, RunState


def ban(state: RunState, candidate: int) -> None:
    """Take the candidate out. Raises PaceBug for the task's own program."""
    _stands(state, candidate, None)
    if state.memory.active:
        state.memory.ban(candidate)


def measured(state: RunState, fact: MeasuredAgain) -> None:
    """Give the candidate its new score. Raises PaceBug if the task's own program lost its score."""
    known = next((member for member in _kept_members(state) if member.candidate == fact.candidate), None)
    state.repeated[fact.candidate] = fact.scores
    if fact.score is None:
        _stands(state, fact.candidate, None)
    elif known is not None:
        _stands(state, fact.candidate, replace(known, score=fact.score))
    state.memory.measured(fact)


def _stands(state: RunState, candidate: int, new: Member | None) -> None:
    """Let the candidate stand with this score wherever it does, or take it out."""
    seed, fitness = state.seed_program, state.terms.rules.fitness
    if seed is None or not candidate:
        raise PaceBug("the task's own program cannot be taken out, and its score stays")
    state.islands = {
        number: without(island, candidate, seed) if new is None else with_score(island, new, fitness)
        for number, island in state.islands.items()
    }
    _set_program(state, candidate, new)
    visible, hidden = state.visible, {0, *_waiting(state)}
    visible_members = {
        number: [member for member in state.islands[number].members if member.candidate not in hidden]
        for number in visible.elites
    }
    for number, elite in list(visible.elites.items()):
        rivals = [*visible_members[number], elite if elite.candidate != candidate else new]
        visible.elites.pop(number)
        for rival in rivals:
            if rival is not None:
                visible.elites[number] = fitter(fitness, visible.elites.get(number), rival)
    if visible.front:
        front = {
            member.candidate: member for members in (visible.front, *visible_members.values()) for member in members
        }
        front.pop(candidate, None)
        visible.front = front_of(list(front.values()))
    if state.best is not None and (new is not None or state.best.candidate == candidate):
        state.best = seed if state.best.candidate == candidate else state.best
        for member in _kept_members(state):
            state.best = fitter(fitness, state.best, member)


def unban(state: RunState, candidate: int) -> None:
    """Let the candidate count again: it may be a member of its island, the best, and seen by others. A history without
    it stays as it is."""
    state.memory.unban(candidate)
    number, member = state.claimed.named.get(candidate, (0, None))
    if member is None:
        return  # a corrected evaluator gives it no score
    rules, island = state.terms.rules, state.islands[number]
    members = taken_in(island.members, member, rules.fitness, rules.members_kept, rules.room)
    state.islands[number] = replace(island, members=members)
    _set_program(state, candidate, member)
    if candidate not in _waiting(state):
        state.visible.show_program(number, member)
    state.best = fitter(rules.fitness, state.best, member)


def _waiting(state: RunState) -> set[int]:
    """Complete rollouts that other islands do not see yet."""
    return set() if state.bound > 0 else {*state.complete, *(rollout.lease.lease for rollout in state.training)}


def _set_program(state: RunState, candidate: int, member: Member | None) -> None:
    """What a rollout that is complete shows once it is trained or skipped."""

    def changed(rollout: Rollout) -> Rollout:
        return replace(rollout, member=member) if rollout.lease.lease == candidate else rollout

    state.complete = {lease: changed(rollout) for lease, rollout in state.complete.items()}
    state.training = tuple(changed(rollout) for rollout in state.training)


def _kept_members(state: RunState) -> Iterable[Member]:
    """Every program that is still kept somewhere."""
    for island in state.islands.values():
        yield from island.members
        yield from (snapshot.best for snapshot in island.course.history)
    yield from (*state.visible.elites.values(), *state.visible.front)
    yield from (rollout.member for rollout in (*state.complete.values(), *state.training) if rollout.member is not None)

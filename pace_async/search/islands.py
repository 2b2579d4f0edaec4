"""How an island changes when a rollout of its thread ends. The same fold rebuilds it from rows on resume."""

from dataclasses import replace

from pace_async.search.backtrack import one_step_of_stay, remembered
from pace_async.search.ideas import record_trial
from pace_async.search.momentum import gain, moved
from pace_async.search.parents import best_of, fitter, keep_best
from pace_async.search.puct import expanded
from pace_async.search.state import Course, Idea, Island, Member, Rules, SearchContext, Snapshot, Trial


def first_island(number: int, seed_program: Member) -> Island:
    """An island that knows only the task's initial program."""
    return Island(number=number, members=(seed_program,), course=Course(history=(Snapshot(seed_program, ()),)))


def context_of(island: Island, parent: Member, direction: str) -> SearchContext:
    """What the advisor is shown for one rollout. The parent may come from another island."""
    return SearchContext(parent=parent, best=best_of((*island.members, parent), direction), ideas=island.ideas)


def after_advice(island: Island, ideas: tuple[Idea, ...], next_idea: int) -> Island:
    """The island once the advisor's proposals are in its pool."""
    return replace(island, ideas=ideas, next_idea=next_idea)


def after_evaluation(
    island: Island, *, parent: int, idea: int | None, trial: Trial | None, member: Member | None, rules: Rules
) -> Island:
    """The island once a candidate has ended: the trial under its idea, the program among the members if it scored and
    is not there already, and everything that counts rollouts one further. `parent` is the candidate that was changed;
    it need not be a member."""
    ideas = record_trial(island.ideas, idea, trial) if idea is not None and trial is not None else island.ideas
    members = island.members
    before = best = best_of(members, rules.direction)
    if member is not None and member.program not in [known.program for known in members]:
        members = keep_best((*members, member), rules.direction, rules.members_kept)
        best = fitter(rules.direction, before, member)
    visits = expanded(island.visits, parent, member, members, rules.direction)
    after = replace(island, ideas=ideas, members=members, visits=visits)
    return one_step_of_stay(_moved_on(after, before, best, rules), rules.ideas_kept)


def _moved_on(island: Island, before: Member, best: Member, rules: Rules) -> Island:
    """Momentum and history, given the best member before this rollout and after it."""
    course = island.course
    gained = gain(before.score, best.score, rules.goal, rules.direction)
    history = remembered(course.history, Snapshot(best, island.ideas)) if gained > 0.0 else course.history
    return replace(
        island,
        course=replace(
            course,
            momentum=moved(course.momentum, gained, rules.decay),
            updates=course.updates + 1,
            since=course.since + 1,
            history=history,
        ),
    )

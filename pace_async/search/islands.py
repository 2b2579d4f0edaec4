"""How an island changes when a rollout of its thread ends. A resume rebuilds it from rows by the same fold."""

from pace_async.search.course import gain, moved, one_step_of_stay, remembered
from pace_async.search.ideas import Pool, record_trial
from pace_async.search.parents import fitter, taken_in
from pace_async.search.puct import expanded
from pace_async.search.state import Course, Idea, Island, Member, Rules, SearchContext, Snapshot, Trial


def first_island(number: int, seed_program: Member) -> Island:
    """An island that knows only the task's initial program."""
    return Island(number=number, members=(seed_program,), course=Course(history=(Snapshot(seed_program, ()),)))


def context_of(island: Island, parent: Member, direction: str) -> SearchContext:
    """What the advisor is shown for one rollout. The parent may come from another island."""
    return SearchContext(parent=parent, best=fitter(direction, island.members[0], parent), ideas=island.ideas)


def after_advice(island: Island, ideas: tuple[Idea, ...], next_idea: int) -> Island:
    """The island once the advisor's proposals are in its pool."""
    return Island(island.number, island.members, ideas, next_idea, island.visits, island.course)


def after_evaluation(
    island: Island, *, parent: int, idea: int | None, trial: Trial | None, member: Member | None, rules: Rules
) -> Island:
    """The island once a candidate has ended: the trial under its idea, the program among the members if it scored and
    is not there already, and everything that counts rollouts one further. `parent` is the candidate that was changed;
    it need not be a member."""
    ideas = record_trial(island.ideas, idea, trial) if idea is not None and trial is not None else island.ideas
    members = island.members
    if member is not None:
        members = taken_in(members, member, rules.direction, rules.members_kept, rules.room)
    after = Island(  # `replace` takes three times as long, and a resume does this for every candidate
        number=island.number,
        members=members,
        ideas=ideas,
        next_idea=island.next_idea,
        visits=expanded(island.visits, parent, member, members, rules.direction),
        course=_moved_on(island.course, island.members[0], members[0], ideas, rules),
    )
    return one_step_of_stay(after, rules.ideas_kept)


def _moved_on(course: Course, before: Member, best: Member, ideas: Pool, rules: Rules) -> Course:
    """Momentum and history, given the best member before this rollout and after it, and the ideas after it."""
    gained = gain(before.score, best.score, rules.goal, rules.direction)
    return Course(
        momentum=moved(course.momentum, gained, rules.decay),
        updates=course.updates + 1,
        since=course.since + 1,
        history=remembered(course.history, Snapshot(best, ideas), rules.room) if gained > 0.0 else course.history,
        stay=course.stay,
        aside=course.aside,
        acted=course.acted,
    )

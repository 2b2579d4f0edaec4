"""How an island changes when a rollout of its thread ends. The same fold rebuilds it from rows on resume."""

from dataclasses import replace

from pace_async.search.ideas import record_trial
from pace_async.search.parents import keep_best, ranked
from pace_async.search.state import Idea, Island, Member, SearchContext, Trial


def first_island(number: int, seed_program: Member) -> Island:
    """An island that knows only the task's initial program."""
    return Island(number=number, members=(seed_program,))


def context_of(island: Island, parent: Member, direction: str) -> SearchContext:
    """What the advisor is shown for one rollout. The parent may be a better one of another island."""
    return SearchContext(parent=parent, best=ranked((*island.members, parent), direction)[0], ideas=island.ideas)


def after_advice(island: Island, ideas: tuple[Idea, ...], next_idea: int) -> Island:
    """The island once the advisor's proposals are in its pool."""
    return replace(island, ideas=ideas, next_idea=next_idea)


def after_evaluation(
    island: Island, *, idea: int | None, trial: Trial | None, member: Member | None, direction: str, kept: int
) -> Island:
    """The island once a candidate has ended: the trial under its idea, and the program among the members if it scored
    and is not there already."""
    ideas = record_trial(island.ideas, idea, trial) if idea is not None and trial is not None else island.ideas
    members = island.members
    if member is not None and all(member.program != known.program for known in members):
        members = keep_best((*members, member), direction, kept)
    return replace(island, ideas=ideas, members=members)

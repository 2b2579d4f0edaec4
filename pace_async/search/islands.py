"""How an island changes when a rollout of its thread ends: its members, its visits, its momentum and its history.

A resume rebuilds an island from rows by the same fold.

A snapshot is taken whenever an island finds a new best. Number 0 is the task's own program with no idea. Snapshot k of
the history is drawn in proportion to (k + 1)^−1.5, so mostly an old one: of four, with probabilities 0.60, 0.21, 0.12
and 0.07. For `search.backtrack_stay` rollouts its program is the island's only member and its ideas are the pool. Then
the ideas set aside join the pool again. Programs do not: the island goes on from the older one. Nothing is lost: the
record keeps every program, and the other islands still see the best that this one ever had.

Momentum tells whether an island still improves, progress how far it has come. With s₀ the score of the task's own
program, r the goal (the better of the task's bounds) and b the island's best score:

    gain R = (b − s) / (b − r) for a rollout whose score s is a new best, else 0      (the share of what was left)
    momentum m ← 0.85·m + 0.15·R, from 0                                              (`search.momentum_decay`)
    progress A = (s₀ − b) / (s₀ − r), within [0, 1]

Numerator and denominator change sign together, so the same formulas hold whether a higher or a lower score is better.
Only the test for a new best depends on which. Worked example, maximising from 2.0 towards 3.0: a rollout of 2.5
gains (2.0 − 2.5) / (2.0 − 3.0) = 0.5, so m = 0.15 · 0.5 = 0.075 and A = 0.5. A rollout of 2.4 is not a new best, so
m = 0.85 · 0.075 = 0.06375. A rollout of 2.75 gains half of the rest, R = 0.5, so m = 0.85 · 0.06375 + 0.075 = 0.1291875
and A = 0.75. Minimising from 3.0 towards 2.0, the scores 2.5, 2.6 and 2.25 give the same numbers.
"""

import random
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from pace_async.fitness import Fitness
from pace_async.search.ideas import Pool, merge_pools, record_trial
from pace_async.search.parents import Members, fitter, taken_in, text_bytes
from pace_async.search.state import UNTRIED, Course, Idea, Island, Member, Rules, SearchContext, Snapshot, Trial, Visits

EXPONENT = -1.5
SNAPSHOTS_KEPT = 64


def first_island(number: int, seed_program: Member) -> Island:
    """An island that knows only the task's initial program."""
    return Island(number=number, members=(seed_program,), course=Course(history=(snapshot_of(seed_program, ()),)))


def context_of(island: Island, parent: Member, fitness: Fitness) -> SearchContext:
    """The advisor's view for one rollout. The parent may come from another island."""
    best = fitter(fitness, island.members[0], parent)
    return SearchContext(parent=parent, best=best, ideas=island.ideas, next_idea=island.next_idea)


def after_advice(island: Island, ideas: tuple[Idea, ...], next_idea: int) -> Island:
    """The island once the advisor's proposals are in its pool."""
    return Island(island.number, island.members, ideas, next_idea, island.visits, island.course)


def after_evaluation(
    island: Island, *, parent: int, idea: int | None, trial: Trial | None, member: Member | None, rules: Rules
) -> Island:
    """The island after a candidate has ended: with the trial under its idea, the program among the members if it scored
    and is new, and every count of rollouts increased by one. `parent` is the candidate that was changed. It need not be
    a member."""
    ideas = record_trial(island.ideas, idea, trial) if idea is not None and trial is not None else island.ideas
    members = island.members
    if member is not None:
        members = taken_in(members, member, rules.fitness, rules.members_kept, rules.room)
    after = Island(  # `replace` takes three times as long, and a resume does this for every candidate
        number=island.number,
        members=members,
        ideas=ideas,
        next_idea=island.next_idea,
        visits=expanded(island.visits, parent, member, members, rules.fitness),
        course=_moved_on(island.course, island.members[0], members[0], ideas, rules),
    )
    return one_step_of_stay(after, rules.ideas_kept)


def _moved_on(course: Course, before: Member, best: Member, ideas: Pool, rules: Rules) -> Course:
    """Momentum and history, given the best member before this rollout and after it, and the ideas after it."""
    gained = gain(before.score, best.score, rules.fitness)
    return Course(
        momentum=next_momentum(course.momentum, gained, rules.decay),
        updates=course.updates + 1,
        since=course.since + 1,
        history=remembered(course.history, snapshot_of(best, ideas), rules.room) if gained > 0.0 else course.history,
        stay=course.stay,
        aside=course.aside,
        acted=course.acted,
    )


def gain(old: float, new: float, fitness: Fitness) -> float:
    """R in [0, 1]: the share of the way from `old` to the goal that `new` covers, 0 unless `new` is better. A step to
    the goal or beyond it counts as the whole way, and so does any step from there."""
    return fitness.covered(old, new) if fitness.better(new, old) else 0.0


def next_momentum(momentum: float, gained: float, decay: float) -> float:
    """m after one more rollout, whatever its outcome."""
    return decay * momentum + (1.0 - decay) * gained


def choose_snapshot(length: int, draw: random.Random) -> int:
    """The number of a snapshot of a history of `length` ≥ 1. Draws one number."""
    return draw.choices(range(length), [(k + 1) ** EXPONENT for k in range(length)])[0]


def snapshot_of(best: Member, ideas: Pool) -> Snapshot:
    """The snapshot of an island with this new best and its present pool."""
    texts = [best.program]
    for idea in ideas:
        texts += [idea.description, *(trial.description for trial in idea.trials)]
    return Snapshot(best, ideas, sum(map(text_bytes, texts)))


def remembered(history: Sequence[Snapshot], new: Snapshot, room: int | None = None) -> tuple[Snapshot, ...]:
    """The history with one more snapshot. Beyond SNAPSHOTS_KEPT, or `room` bytes of text, the snapshot whose neighbours
    are closest in age is dropped, never the oldest or the newest. What stays therefore spans the whole search evenly.
    """
    longer = (*history, new)
    while len(longer) > 2 and (len(longer) > SNAPSHOTS_KEPT or _too_large(longer, room)):
        ages = [snapshot.best.candidate for snapshot in longer]
        dense = min(range(1, len(longer) - 1), key=lambda place: ages[place + 1] - ages[place - 1])
        longer = (*longer[:dense], *longer[dense + 1 :])
    return longer


def _too_large(history: Sequence[Snapshot], room: int | None) -> bool:
    return room is not None and sum(snapshot.bytes for snapshot in history) > room


def gone_back(island: Island, number: int, stay: int) -> Island:
    """The island at snapshot `number` of its history. Its present ideas are set aside for `stay` rollouts."""
    snapshot = island.course.history[number]
    course = replace(island.course, stay=stay, aside=island.ideas)
    return replace(island, members=(snapshot.best,), ideas=snapshot.ideas, visits={}, course=course)


def without(island: Island, candidate: int, seed: Member) -> Island:
    """The island without this program among its members and in its history. `seed`, the task's own, takes the place of
    the last one. Counts of visits begin again, because the best child of a member may be this one."""
    course = island.course
    history = tuple(snapshot for snapshot in course.history if snapshot.best.candidate != candidate)
    members = tuple(member for member in island.members if member.candidate != candidate) or (seed,)
    if len(members) == len(island.members) and members[0] is island.members[0] and len(history) == len(course.history):
        return island
    return replace(island, members=members, visits={}, course=replace(course, history=history))


def with_score(island: Island, new: Member, fitness: Fitness) -> Island:
    """The island with this program's new score, among its members and in its history."""

    def current(member: Member) -> Member:
        return new if member.candidate == new.candidate else member

    course = island.course
    history = tuple(replace(snapshot, best=current(snapshot.best)) for snapshot in course.history)
    members = tuple(fitness.ranked(map(current, island.members)))
    return replace(island, members=members, course=replace(course, history=history))


def one_step_of_stay(island: Island, cap: int) -> Island:
    """The island after another of its rollouts has ended. After the last rollout of its stay the ideas set aside are in
    its pool again."""
    course = island.course
    if course.stay == 0:
        return island
    if course.stay > 1:
        return replace(island, course=replace(course, stay=course.stay - 1))
    ideas: Pool = merge_pools(course.aside, island.ideas, cap)
    return replace(island, ideas=ideas, course=replace(course, stay=0, aside=()))


def expanded(
    visits: Mapping[int, Visits], parent: int, child: Member | None, members: Sequence[Member], fitness: Fitness
) -> Mapping[int, Visits]:
    """The visits after a rollout from `parent` has ended, over the present `members`. `child` is None if it has no
    score. Descendants of a program that is no longer a member count for its nearest ancestor that is one. A parent that
    is not a member (of another island, or dropped meanwhile) counts nothing."""
    present = Members.of(members).known.candidates
    after = dict(visits)
    step: int | None = parent if parent in present or parent in after else None
    descent = step
    while step is not None:
        record = after.get(step, UNTRIED)
        after[step] = Visits(record.parent, record.expansions + 1, record.best_child)
        step = record.parent
    if descent is not None and child is not None:
        record = after[descent]
        known = record.best_child
        if known is None or fitness.better(child.score, known):
            after[descent] = Visits(record.parent, record.expansions, child.score)
        if child.candidate in present:
            after[child.candidate] = Visits(parent=descent)
    return after if after.keys() <= present else _without(after, after.keys() - present)


def _without(visits: dict[int, Visits], removed: Set[int]) -> dict[int, Visits]:
    left = {candidate: record for candidate, record in visits.items() if candidate not in removed}
    for candidate, record in left.items():
        parent = record.parent
        while parent is not None and parent in removed:
            parent = visits[parent].parent
        if parent != record.parent:
            left[candidate] = replace(record, parent=parent)
    return left
